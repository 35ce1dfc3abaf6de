"""Closed triangle meshes: a lattice on a box, and what makes a mesh a proper body.

The lattice is alike on both sides of y = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import gsnobench as gb


@dataclass(frozen=True, eq=False)
class BoxLattice:
    """Lattice points on the surface of a box: first the H with y >= 0, then mirror images.

    Mirrored are those with y > 0.
    """

    positions: gb.Array  # (H, 3) from (-1, 0, -1) to (1, 1, 1), evenly spaced
    numbers: gb.Array  # (H, 3) the same as lattice numbers from 0
    mirrored: gb.Array  # (V - H,) which of the H is mirrored to point H, H+1, ...
    half: gb.Array  # (M/2, 3) triangles of the side y >= 0, outward
    triangles: gb.Array  # (M, 3) of the whole, the half first

    def whole(self, values: gb.Array) -> gb.Array:
        """Values at the H points continued evenly to all, (V, ...)."""
        return np.concatenate([values, values[self.mirrored]])

    def whole_vectors(self, vectors: gb.Array) -> gb.Array:
        """Vectors at the H points continued to all as in a mirror, (V, 3)."""
        return np.concatenate([vectors, vectors[self.mirrored] * [1.0, -1.0, 1.0]])


def box_lattice(along: int, across: int, up: int) -> BoxLattice:
    """The lattice with so many steps along x, across one half, and up.

    It has 4 (2 along across + 2 across up + along up) triangles.
    """
    quads = np.concatenate(_quads(along, across, up))  # (Q, 4, 3) lattice numbers
    counts = (along + 1, across + 1, up + 1)
    codes = np.ravel_multi_index(tuple(quads.reshape(-1, 3).T), counts)
    codes, corners = np.unique(codes, return_inverse=True)
    numbers = np.stack(np.unravel_index(codes, counts), axis=1)
    corners = corners.reshape(-1, 4)
    half = _cut(quads, corners, np.array([along / 2, 0.0, up / 2]))
    mirrored = np.flatnonzero(numbers[:, 1] > 0)
    image = np.arange(len(numbers))
    image[mirrored] = len(numbers) + np.arange(len(mirrored))
    positions = numbers / np.array([along / 2, across, up / 2]) - [1.0, 0.0, 1.0]
    return BoxLattice(
        positions, numbers, mirrored, half, np.concatenate([half, image[half][:, ::-1]])
    )


def _cut(quads: gb.Array, corners: gb.Array, middle: gb.Array) -> gb.Array:
    """Two triangles per square, (2 Q, 3).

    A square is cut along the diagonal that points away from the middle of its face: at a corner of
    the box it halves the angle that opens when the box is rounded.
    """
    outward = quads.mean(axis=1) - middle  # (Q, 3)
    diagonal = quads[:, 2] - quads[:, 0]
    is_radial = np.prod(np.where(diagonal == 0, 1.0, outward * diagonal), axis=1) > 0
    turned = np.where(is_radial[:, None], corners, np.roll(corners, 1, axis=1))
    return turned[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def _quads(along: int, across: int, up: int) -> list[gb.Array]:
    """Squares of the five faces with y >= 0, each (Q, 4, 3), outward."""

    def face(first: int, second: int, fixed: int, at: int) -> gb.Array:
        """Squares that turn from axis `first` to axis `second`."""
        steps = (along, across, up)
        a, b = np.indices((steps[first], steps[second])).reshape(2, -1)
        square = np.full((len(a), 4, 3), at)
        square[:, :, first] = a[:, None] + np.array([0, 1, 1, 0])
        square[:, :, second] = b[:, None] + np.array([0, 0, 1, 1])
        return square

    top, bottom, side = face(0, 1, 2, up), face(1, 0, 2, 0), face(2, 0, 1, across)
    front, back = face(2, 1, 0, 0), face(1, 2, 0, along)
    return [top, bottom, side, front, back]


def rings(triangles: gb.Array, count: int, reach: int) -> tuple[gb.Array, gb.Array]:
    """Neighbours of every vertex within `reach` edges, (V, K), and how many are real, (V,).

    Rows are padded with the vertex itself.
    """
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    ends = np.concatenate([ends, ends[:, ::-1]])
    links = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    adjacent = links + sp.eye_array(count)
    within = adjacent
    for _ in range(reach - 1):
        within = within @ adjacent
    within = sp.csr_array(within)
    within.setdiag(0)
    within.eliminate_zeros()
    within.sort_indices()
    counts = np.diff(within.indptr)
    table = np.repeat(np.arange(count)[:, None], counts.max(), axis=1)
    table[np.arange(counts.max()) < counts[:, None]] = within.indices
    return table, counts


def enclosed_volume(points: gb.Array, triangles: gb.Array) -> float:
    """Volume inside a closed mesh, positive if its triangles face outward; for verification."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return float(np.sum(a * np.cross(b, c)) / 6)


def is_closed(triangles: gb.Array) -> bool:
    """Whether every edge belongs to two triangles of opposite direction; for verification."""
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    directed, counts = np.unique(ends, axis=0, return_counts=True)
    return bool(np.all(counts == 1) and np.array_equal(directed, np.unique(ends[:, ::-1], axis=0)))


def triangle_angles(points: gb.Array, triangles: gb.Array) -> gb.Array:
    """The three angles of every triangle in space in degrees, (M, 3); for verification."""
    corners = points[triangles]
    after, before = (np.roll(corners, turn, axis=1) - corners for turn in (-1, 1))
    cross = np.linalg.norm(np.cross(after, before), axis=2)
    return np.asarray(np.degrees(np.arctan2(cross, np.sum(after * before, axis=2))))
