"""Clouds of points around a body, evenly spread in nested boxes, and tetrahedra between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import triangulation

# of x^4 = x + 1: its inverse powers are the steps of an evenly spread sequence (Roberts 2018)
ROOT = 1.2207440846057596
STEPS = ROOT ** -np.arange(1.0, 4.0)


def spread(boxes: gb.Array, turns: gb.Array, start: int, stop: int, shifts: gb.Array) -> gb.Array:
    """Points `start` to `stop` of an endless sequence that fills the boxes (B, 2, 3).

    Point n lies in box turns[n % len(turns)]; in each box they are an additive recurrence from its
    shift (3,), which leaves no holes and no clumps however many are taken.
    """
    number = np.arange(start, stop)
    round_, turn = np.divmod(number, len(turns))
    which = turns[turn]
    before = np.array([np.count_nonzero(turns[:i] == box) for i, box in enumerate(turns)])
    per_round = np.bincount(turns, minlength=len(boxes))
    order = round_ * per_round[which] + before[turn]  # points before this one in its box
    share = (shifts[which] + (order[:, None] + 1) * STEPS) % 1.0
    return np.asarray(boxes[which, 0] + share * (boxes[which, 1] - boxes[which, 0]))


def take_allowed(
    sequence: Callable[[int, int], gb.Array], allowed: Callable[[gb.Array], gb.Array], count: int
) -> gb.Array:
    """The first `count` allowed points of a sequence, (count, 3): fewer are a part of more."""
    kept: list[gb.Array] = []
    start, taken = 0, 0
    while taken < count:
        block = sequence(start, start + 4096)
        block = block[allowed(block)]
        kept.append(block)
        start, taken = start + 4096, taken + len(block)
    return np.concatenate(kept)[:count]


def cells_between(
    points: gb.Array, is_surface: gb.Array, inside: Callable[[gb.Array], gb.Array]
) -> gb.Array:
    """Delaunay tetrahedra of points on and around a body, without those inside it, (M, 4).

    Every point keeps a cell.
    """
    cells = triangulation(gb.Mesh(points))
    among = np.flatnonzero(is_surface[cells].all(axis=1))  # only these can lie inside
    is_inside = np.zeros(len(cells), dtype=bool)
    is_inside[among] = inside(points[cells[among]].mean(axis=1))
    bare = np.bincount(cells[~is_inside].ravel(), minlength=len(points)) == 0
    return np.asarray(cells[~is_inside | bare[cells].any(axis=1)])
