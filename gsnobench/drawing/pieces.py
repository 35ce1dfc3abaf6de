"""Triangles on paper: how long and high they are, and smaller ones cut from them."""

from __future__ import annotations

import numpy as np

from gsnobench.data import Array

FLAT = 1e-6  # of the longest side: a slice through nodes leaves triangles without an area


def in_pieces(corners: Array, values: Array, finest: tuple[float, float]) -> tuple[Array, Array]:
    """Triangles cut at their longest side until it is short or their values are nearly equal.

    Gouraud shading mixes colours, not values: a mixture of far colours is on no colour map. And a
    triangle that is thinner than a dot gets a single colour. (m, 3, 2) and (m, 3).
    """
    length, difference = finest
    has_area = heights(corners) > FLAT * lengths(corners).max()
    corners, values = corners[has_area], values[has_area]
    done = [(corners[:0], values[:0])]
    while len(corners):
        is_coarse = (lengths(corners).max(1) > length) & (np.ptp(values, axis=1) > difference)
        done.append((corners[~is_coarse], values[~is_coarse]))
        corners, values = _halved(corners[is_coarse], values[is_coarse])
    return np.concatenate([part for part, _ in done]), np.concatenate([part for _, part in done])


def _halved(corners: Array, values: Array) -> tuple[Array, Array]:
    """Triangles cut in two from the middle of their longest side."""
    order = (lengths(corners).argmax(1)[:, None] + np.arange(3)) % 3  # the longest side first
    rows = np.arange(len(corners))[:, None]

    def halves(whole: Array) -> Array:
        a, b, c = np.moveaxis(whole[rows, order], 1, 0)
        middle = 0.5 * (a + b)
        return np.concatenate(
            [np.stack(three, axis=1) for three in ((a, middle, c), (middle, b, c))]
        )

    return halves(corners), halves(values)


def lengths(corners: Array) -> Array:
    """Of the sides 01, 12, 20 of triangles (m, 3, 2): (m, 3)."""
    sides: Array = np.linalg.norm(corners - corners[:, [1, 2, 0]], axis=2)
    return sides


def heights(corners: Array) -> Array:
    """Of triangles (m, 3, 2) above their longest side, (m,)."""
    (ux, uy), (vx, vy) = (corners[:, 1] - corners[:, 0]).T, (corners[:, 2] - corners[:, 0]).T
    longest = np.maximum(lengths(corners).max(1), 1e-300)
    height: Array = np.abs(ux * vy - uy * vx) / longest
    return height


def quarters(whole: Array) -> list[Array]:
    """The four quarters of triangles (m, 3, ...), each (m, 3, ...)."""
    half = 0.5 * (whole + whole[:, [1, 2, 0]])  # at the middle of the sides 01, 12, 20
    a, b, c = (whole[:, corner] for corner in range(3))
    ab, bc, ca = (half[:, side] for side in range(3))
    four = ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
    return [np.stack(three, axis=1) for three in four]
