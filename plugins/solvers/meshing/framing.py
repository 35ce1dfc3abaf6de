"""The fixed rim of a mesh in the making, and the Delaunay triangles inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import Delaunay

import gsnobench as gb
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import boundary_edges
from gsnobench_plugins.solvers.meshing.angles import corner_angles
from gsnobench_plugins.solvers.meshing.sizing import Sizing
from gsnobench_plugins.solvers.shapes.geometry import contains


@dataclass(frozen=True, eq=False)
class Frame:
    """What stays fixed while the interior nodes move."""

    rim: tuple[gb.Array, ...]  # boundary nodes of each loop
    boundary: gb.Array  # (Nb, 2) the same, in one array
    segments: gb.Array  # (Nb, 2) node pairs, the domain on their left
    sizing: Sizing


def make_frame(rim: Sequence[gb.Array], sizing: Sizing) -> Frame:
    """The frame of the boundary nodes of each loop, the outline first."""
    first, segments = 0, []
    for loop in rim:
        index = first + np.arange(len(loop))
        segments.append(np.stack([index, np.roll(index, -1)], axis=1))
        first += len(loop)
    return Frame(tuple(rim), np.concatenate(rim), np.concatenate(segments), sizing)


def triangulate(frame: Frame, points: gb.Array) -> gb.Array:
    """Delaunay triangles inside the domain, counter-clockwise, (M, 3)."""
    triangles = Delaunay(points).simplices.astype(np.int64)
    is_clockwise = cell_measures(points, triangles) < 0
    triangles[is_clockwise] = triangles[is_clockwise][:, ::-1]
    # once all boundary segments are edges, only triangles between boundary nodes can lie outside
    doubtful = np.flatnonzero((triangles < len(frame.boundary)).all(axis=1))
    inside = contains(frame.rim, points[triangles[doubtful]].mean(axis=1))
    # nodes in line on a straight side make triangles of no area
    inside &= corner_angles(points, triangles[doubtful]).min(axis=1) > 0.01
    return np.delete(triangles, doubtful[~inside], axis=0)


def is_conforming(frame: Frame, triangles: gb.Array, nodes: int) -> bool:
    """Whether the boundary segments are all edges of one cell, and every node is used.

    They are then the only edges of one cell.
    """
    rim = boundary_edges(gb.Mesh(frame.boundary, triangles))
    pairs = (rim, frame.segments)
    edges, expected = (np.sort(ends[:, 0] * nodes + ends[:, 1]) for ends in pairs)
    return np.array_equal(edges, expected) and len(np.unique(triangles)) == nodes


def sharpest_corner(frame: Frame) -> float:
    """The smallest interior angle of the outline, which no mesh can beat, in degrees."""
    smallest = 180.0
    for loop in frame.rim:
        before, after = np.roll(loop, 1, axis=0) - loop, np.roll(loop, -1, axis=0) - loop
        cross = after[:, 0] * before[:, 1] - after[:, 1] * before[:, 0]
        inner = np.degrees(np.arctan2(cross, np.sum(before * after, axis=1)))
        smallest = min(smallest, float(np.where(inner < 0, 360.0, inner).min()))
    return smallest


def loop_tags(frame: Frame, nodes: int) -> dict[str, gb.Array]:
    """Tags of all nodes: boundary, and with holes also outer, hole or hole_0, hole_1, ..."""
    loop_of = np.full(nodes, -1)
    counts = [len(loop) for loop in frame.rim]
    loop_of[: len(frame.boundary)] = np.repeat(np.arange(len(frame.rim)), counts)
    tags = {"boundary": loop_of >= 0}
    if len(frame.rim) > 1:
        tags["outer"] = loop_of == 0
    if len(frame.rim) == 2:
        tags["hole"] = loop_of == 1
    if len(frame.rim) > 2:
        tags |= {f"hole_{i}": loop_of == i + 1 for i in range(len(frame.rim) - 1)}
    return tags
