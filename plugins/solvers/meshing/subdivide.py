"""Nested subdivision of triangles into any square number of similar ones."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges


def subdivide(points: gb.Array, cells: gb.Array, pieces: int) -> tuple[gb.Array, gb.Array]:
    """Points and cells of the mesh whose edges are cut into `pieces` equal parts.

    Old nodes keep their numbers. Every triangle becomes pieces^2 triangles of its own shape, so
    that angles and orientation are kept.
    """
    edges = cell_edges(cells)  # (E, 2)
    share = np.arange(1, pieces) / pieces
    starts, ends = points[edges[:, :1]], points[edges[:, 1:]]
    on_edge = starts + share[:, None] * (ends - starts)  # (E, pieces-1, 2)
    i, j = _lattice(pieces)
    is_inner = (i > 0) & (j > 0) & (i + j < pieces)
    a, b, c = (points[cells[:, corner], None, :] for corner in range(3))
    along, across = i[is_inner, None] * (b - a), j[is_inner, None] * (c - a)
    inner = a + (along + across) / pieces  # (M, inner, 2)
    table = _number(cells, edges, pieces, nodes=len(points))  # (M, lattice)
    small = table[:, _triangles(pieces)]  # (M, pieces^2, 3)
    finer = np.concatenate([points, on_edge.reshape(-1, 2), inner.reshape(-1, 2)])
    return finer, small.reshape(-1, 3)


def _lattice(pieces: int) -> tuple[gb.Array, gb.Array]:
    """Steps along the first and the last side of a triangle, for each of its lattice points."""
    i, j = np.meshgrid(np.arange(pieces + 1), np.arange(pieces + 1), indexing="ij")
    inside = i + j <= pieces
    return i[inside], j[inside]


def _number(cells: gb.Array, edges: gb.Array, pieces: int, *, nodes: int) -> gb.Array:
    """The global number of every lattice point of every triangle, (M, lattice)."""
    i, j = _lattice(pieces)
    table = np.empty((len(cells), len(i)), dtype=np.int64)
    sides = ((0, 1, j == 0, i), (0, 2, i == 0, j), (1, 2, i + j == pieces, j))
    for start, end, on_side, steps in sides:  # steps count from the start
        low, high = np.sort(cells[:, [start, end]], axis=1).T
        edge = np.searchsorted(edges[:, 0] * nodes + edges[:, 1], low * nodes + high)  # (M,)
        is_forward = cells[:, start] == low
        steps = steps[on_side]
        along = np.where(is_forward[:, None], steps, pieces - steps)  # (M, pieces + 1)
        table[:, on_side] = nodes + edge[:, None] * (pieces - 1) + along - 1  # ends: overwritten
    is_inner = (i > 0) & (j > 0) & (i + j < pieces)
    first = nodes + len(edges) * (pieces - 1)
    table[:, is_inner] = first + np.arange(len(cells) * is_inner.sum()).reshape(len(cells), -1)
    corners = ((i == 0) & (j == 0), i == pieces, j == pieces)
    for corner, here in enumerate(corners):
        table[:, here] = cells[:, [corner]]
    return table


def _triangles(pieces: int) -> gb.Array:
    """The small triangles of one lattice, (pieces^2, 3), counter-clockwise as their parent."""
    i, j = _lattice(pieces)
    number = np.full((pieces + 2, pieces + 2), -1)
    number[i, j] = np.arange(len(i))
    upright = np.stack([number[i, j], number[i + 1, j], number[i, j + 1]], axis=1)[i + j < pieces]
    k, l = i[i + j < pieces - 1], j[i + j < pieces - 1]
    inverted = np.stack([number[k + 1, l], number[k + 1, l + 1], number[k, l + 1]], axis=1)
    return np.concatenate([upright, inverted])
