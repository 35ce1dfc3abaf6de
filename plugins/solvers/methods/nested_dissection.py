"""An order of the nodes of a rectangular grid that keeps the factors of its matrices sparse.

Halves come first, then their border.
"""

from __future__ import annotations

import numpy as np

import gsnobench as gb

LEAF = 3  # a box with this many nodes per side is not cut: one element and its neighbours' edges


def dissection_order(columns: int, rows: int) -> list[gb.Array]:
    """Groups of node numbers (column * rows + row) in the order of elimination.

    Cuts are lines of even index. A node couples to those of the two-interval elements around it, so
    that an even line parts what lies on its two sides.
    """
    numbers = np.arange(columns * rows).reshape(columns, rows)
    groups: list[gb.Array] = []
    _dissect(numbers, (0, 0), groups)
    return groups


def _dissect(box: gb.Array, corner: tuple[int, int], groups: list[gb.Array]) -> None:
    """Append the groups of a box whose first node has the index `corner` in the grid."""
    if box.size == 0:
        return
    if max(box.shape) <= LEAF:
        groups.append(box.ravel())
        return
    axis = 0 if box.shape[0] >= box.shape[1] else 1
    cut = box.shape[axis] // 2
    cut -= (corner[axis] + cut) % 2
    first, middle, second = np.split(box, [cut, cut + 1], axis=axis)
    beyond = (corner[0] + cut + 1, corner[1]) if axis == 0 else (corner[0], corner[1] + cut + 1)
    _dissect(first, corner, groups)
    _dissect(second, beyond, groups)
    groups.append(middle.ravel())
