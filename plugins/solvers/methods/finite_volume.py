"""Node-centred finite volumes on triangles: dual cells, edge normals, least-squares gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

import gsnobench as gb


@dataclass(frozen=True, eq=False)
class DualMesh:
    """Median-dual cells of a triangulation: one cell per node, one face per edge.

    A boundary edge has two half-faces. The gradient at node i is the sum over k in
    start[i]:start[i+1] of slope[k] * (u[neighbour[k]] - u[i]). Indices are unsigned, which spares
    compiled loops the test for negative ones.
    """

    volume: gb.Array  # (N,)
    edge: gb.Array  # (E, 2) uint32, first < second
    normal: gb.Array  # (E, 2) from the first node to the second, length of the face
    offset: gb.Array  # (E, 2) second point minus first
    wall: gb.Array  # (W, 2) uint32, boundary edges with the domain on the left
    wall_normal: gb.Array  # (W, 2) outward, length of half the boundary edge
    start: gb.Array  # (N + 1,) uint32
    neighbour: gb.Array  # (2E,) uint32
    slope: gb.Array  # (2E, 2)

    def to_arrays(self) -> dict[str, gb.Array]:
        """The parts by name, as a cache keeps them."""
        return {f"dual_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, gb.Array]) -> DualMesh:
        """The inverse of `to_arrays`; other arrays are ignored."""
        return cls(**{field.name: arrays[f"dual_{field.name}"] for field in fields(cls)})


def dual_mesh(points: gb.Array, cells: gb.Array) -> DualMesh:
    """The median dual of a triangulation with counter-clockwise cells."""
    corner = points[cells]  # (M, 3, 2)
    area = 0.5 * _cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])  # (M,)
    if area.min() <= 0:
        raise gb.DataError(
            f"dual mesh: {int((area <= 0).sum())} cells are flat or clockwise; expected positive "
            "areas; reorder them"
        )
    count = len(points)
    volume = np.bincount(cells.ravel(), np.repeat(area / 3, 3), count)
    centre = corner.mean(axis=1)  # (M, 2)
    first, second = cells.ravel(), np.roll(cells, -1, axis=1).ravel()  # directed edges, (3M,)
    middle = 0.5 * (points[first] + points[second])
    face = np.repeat(centre, 3, axis=0) - middle  # to the cell's centre, which lies on the left
    normal = np.stack([face[:, 1], -face[:, 0]], axis=1)  # points from first to second
    is_forward = first < second
    key = np.where(is_forward, first * count + second, second * count + first)
    unique, entry, uses = np.unique(key, return_inverse=True, return_counts=True)
    sign = np.where(is_forward, 1.0, -1.0)
    sums = [np.bincount(entry, sign * normal[:, axis], len(unique)) for axis in (0, 1)]
    total = np.stack(sums, axis=1)  # (E, 2)
    edge = np.stack([unique // count, unique % count], axis=1)  # (E, 2)
    on_wall = uses[entry] == 1
    wall = np.stack([first[on_wall], second[on_wall]], axis=1)  # (W, 2)
    along = points[wall[:, 1]] - points[wall[:, 0]]
    start, neighbour, slope = _gradient(points, edge)
    return DualMesh(
        volume=volume,
        edge=edge.astype(np.uint32),
        normal=total,
        offset=points[edge[:, 1]] - points[edge[:, 0]],
        wall=wall.astype(np.uint32),
        wall_normal=0.5 * np.stack([along[:, 1], -along[:, 0]], axis=1),
        start=start,
        neighbour=neighbour,
        slope=slope,
    )


def compact_order(edge: gb.Array, count: int) -> gb.Array:
    """Old node numbers in an order that keeps neighbours close (reverse Cuthill-McKee), (N,)."""
    ones = np.ones(len(edge), dtype=np.int8)
    graph = scipy.sparse.csr_array((ones, (edge[:, 0], edge[:, 1])), shape=(count, count))
    return reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True).astype(np.int64)


def _cross(a: gb.Array, b: gb.Array) -> gb.Array:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _gradient(points: gb.Array, edge: gb.Array) -> tuple[gb.Array, gb.Array, gb.Array]:
    """Unweighted least squares over the neighbours: exact for linear fields on any mesh."""
    count = len(points)
    here = np.concatenate([edge[:, 0], edge[:, 1]])
    there = np.concatenate([edge[:, 1], edge[:, 0]])
    order = np.lexsort((there, here))
    here, there = here[order], there[order]  # (2E,)
    step = points[there] - points[here]
    moment = np.zeros((count, 2, 2))
    for a in (0, 1):
        for b in (0, 1):
            moment[:, a, b] = np.bincount(here, step[:, a] * step[:, b], count)
    slope = np.einsum("kab,kb->ka", np.linalg.inv(moment)[here], step)  # (2E, 2)
    start = np.concatenate([[0], np.cumsum(np.bincount(here, minlength=count))])
    return start.astype(np.uint32), there.astype(np.uint32), slope
