"""Refinement of part of a triangle mesh, which stays conforming.

Marked cells are split into four, their neighbours into two or four.
"""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges, cells_of
from gsnobench_plugins.solvers.meshing.red_refinement import midpoint_tags


def refine_where(mesh: gb.Mesh, is_marked: gb.Array) -> tuple[gb.Mesh, gb.Array]:
    """Split marked triangles (M,) into four; also the edges (K, 2) whose midpoints are new nodes.

    New nodes are N, N+1, ... A cell with two split sides is split into four too, a cell with one
    split side into two. Old nodes keep their numbers; a midpoint carries a tag if its edge lies on
    the boundary and both ends carry the tag.
    """
    triangles = cells_of(mesh)
    edges, sides = _sides(triangles, mesh.size)
    is_split = _closure(sides, is_marked, len(edges))
    middle = np.full(len(edges), -1)
    middle[is_split] = mesh.size + np.arange(is_split.sum())
    chosen = edges[is_split]
    points = np.concatenate([mesh.points, mesh.points[chosen].mean(axis=1)])
    tags = midpoint_tags(mesh, chosen)
    return gb.Mesh(points, _split(triangles, middle[sides]), tags), chosen


def _sides(triangles: gb.Array, size: int) -> tuple[gb.Array, gb.Array]:
    """All edges (E, 2), and for every triangle the numbers of its sides 01, 12, 20, (M, 3)."""
    edges = cell_edges(triangles)
    number = edges[:, 0] * size + edges[:, 1]
    after = np.roll(triangles, -1, axis=1)
    low, high = np.minimum(triangles, after), np.maximum(triangles, after)
    return edges, np.searchsorted(number, low * size + high)


def _closure(sides: gb.Array, is_marked: gb.Array, count: int) -> gb.Array:
    """Which edges are split, (E,) bool: those of marked cells and of cells with two split sides."""
    is_split = np.zeros(count, dtype=bool)
    whole = is_marked
    while whole.any():
        is_split[sides[whole]] = True
        whole = is_split[sides].sum(axis=1) == 2
    return is_split


def _split(triangles: gb.Array, middles: gb.Array) -> gb.Array:
    """New triangles (M', 3), oriented as their parents; `middles` (M, 3) is -1 for a whole side."""
    parts = (middles >= 0).sum(axis=1)
    a, b, c = triangles[parts == 3].T
    ab, bc, ca = middles[parts == 3].T
    four = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)
    single = np.flatnonzero(parts == 1)
    split_side = np.argmax(middles[single] >= 0, axis=1)
    turn = (split_side[:, None] + np.arange(3)) % 3  # the split side becomes the side 01
    a, b, c = np.take_along_axis(triangles[single], turn, axis=1).T
    half = middles[single].max(axis=1)
    two = np.stack([a, half, c, half, b, c], axis=1).reshape(-1, 3)
    return np.concatenate([triangles[parts == 0], four, two])
