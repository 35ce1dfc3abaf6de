"""Signed distance of points from the boundary of a mesh: what a shape is for a closed form."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

import gsnobench as gb
from gsnobench.meshes.topology import boundary_facets


def boundary_distances(mesh: gb.Mesh, probes: gb.Array) -> gb.Array:
    """Distance of each probe to the boundary, negative inside, (G,).

    For a mesh without plane cells: unsigned, to the tagged nodes, or to all if none is tagged.
    """
    if mesh.cells is not None and mesh.dim == 2:
        ends = mesh.points[boundary_facets(mesh)]  # (E, 2, 2)
        return np.where(_inside(probes, ends), -1.0, 1.0) * _to_segments(probes, ends)
    tagged = mesh.tag_matrix(sorted(mesh.tags)).any(axis=1)
    nodes = mesh.points[tagged] if tagged.any() else mesh.points
    distance: gb.Array = cKDTree(nodes).query(probes)[0]
    return distance


def _inside(probes: gb.Array, ends: gb.Array) -> gb.Array:
    """Even-odd rule: a ray to the right crosses the boundary an odd number of times, (G,) bool."""
    a, b = ends[None, :, 0], ends[None, :, 1]  # (1, E, 2)
    x, y = probes[:, None, 0], probes[:, None, 1]  # (G, 1)
    spans = (a[..., 1] > y) != (b[..., 1] > y)  # (G, E)
    rise = np.where(spans, b[..., 1] - a[..., 1], 1.0)
    crossing = a[..., 0] + (y - a[..., 1]) * (b[..., 0] - a[..., 0]) / rise
    is_inside: gb.Array = (spans & (crossing > x)).sum(axis=1) % 2 == 1
    return is_inside


def _to_segments(probes: gb.Array, ends: gb.Array) -> gb.Array:
    """Distance to the nearest of the segments, (G,)."""
    a, along = ends[:, 0], ends[:, 1] - ends[:, 0]  # (E, 2)
    offset = probes[:, None] - a  # (G, E, 2)
    share = (offset * along).sum(axis=-1) / np.square(along).sum(axis=-1)  # (G, E), of the segment
    share = np.clip(share, 0.0, 1.0)
    distance: gb.Array = np.linalg.norm(offset - share[..., None] * along, axis=-1).min(axis=1)
    return distance
