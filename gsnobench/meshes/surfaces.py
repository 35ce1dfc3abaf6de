"""Surfaces: outward areas of a mesh's boundary, and the closed surface of a star-shaped body."""

from __future__ import annotations

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.operators import elements


def boundary_areas(mesh: Mesh) -> Array:
    """Integral of each hat function times the outward normal over the boundary, (N, d).

    By the divergence theorem it is the integral of the hat's gradient over the cells, so it is zero
    at inner nodes. The sum of p_i times area i is the integral of a P1 field p along the normal.
    """
    parts = elements(mesh)
    return _node_sums(parts.cells, parts.volumes[:, None, None] * parts.slopes, mesh.size)


def star_surface(points: Array) -> Array:
    """Triangles (M, 3) of the closed surface through the points of a body, facing outward.

    Every point of the body must be seen from the middle of its bounding box. The points are moved
    along their lines of sight to a sphere, where their convex hull connects them.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    sight = (points - 0.5 * (low + high)) / np.where(high > low, high - low, 1.0)
    distance = np.linalg.norm(sight, axis=1)
    hull = None
    if distance.min() > 0:
        hull = scipy.spatial.ConvexHull(sight / distance[:, None])
    if hull is None or len(hull.vertices) < len(points):
        raise DataError(
            "mesh: a point of the body lies in its middle or behind another one; expected a "
            "star-shaped body; give the mesh cells"
        )
    triangles = hull.simplices.astype(np.int64)
    faces_inward = np.linalg.det(sight[triangles]) < 0
    triangles[faces_inward] = triangles[faces_inward][:, ::-1]
    return triangles


def triangle_areas(points: Array, triangles: Array) -> Array:
    """Normal times area of triangles in space, (M, 3)."""
    first, second, third = (points[triangles[:, corner]] for corner in range(3))
    return 0.5 * np.cross(second - first, third - first)


def surface_areas(points: Array, triangles: Array) -> Array:
    """Integral of each hat function times the normal over a surface of triangles, (N, 3)."""
    shares = np.repeat(triangle_areas(points, triangles)[:, None] / 3, 3, axis=1)  # (M, 3, 3)
    return _node_sums(triangles, shares, len(points))


def _node_sums(cells: Array, values: Array, size: int) -> Array:
    """Sum of the corners' values (M, v, d) at each of `size` nodes, (size, d)."""
    columns = values.reshape(-1, values.shape[2]).T
    return np.stack([np.bincount(cells.ravel(), column, size) for column in columns], axis=1)
