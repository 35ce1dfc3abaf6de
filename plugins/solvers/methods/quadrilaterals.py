"""Q2-Q1 (Taylor-Hood) elements on a structured grid of rectangles.

Unknowns, element tables, sparsity, nested interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import gsnobench as gb
from gsnobench_plugins.solvers.methods.nested_dissection import dissection_order

GAUSS_POINTS = 3


@dataclass(frozen=True, eq=False)
class QuadGrid:
    """`along` x `across` equal rectangles over [0, length] x [-width/2, width/2].

    Unknowns are numbered by nested dissection, in a group of nodes the velocities first and then
    the pressures, so that a factorisation in this order stays sparse and meets no zero diagonal
    before it is filled.
    """

    along: int
    across: int
    length: float
    width: float

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes along and across."""
        return 2 * self.along + 1, 2 * self.across + 1

    @property
    def size(self) -> int:
        """Number of unknowns."""
        columns, rows = self.shape
        return 2 * columns * rows + (self.along + 1) * (self.across + 1)

    @cached_property
    def _numbers(self) -> gb.Array:
        """Unknowns u, v, p of each node, (2 along + 1, 2 across + 1, 3); -1 for no pressure."""
        columns, rows = self.shape
        has_pressure = np.zeros(self.shape, dtype=bool)
        has_pressure[::2, ::2] = True
        order = []
        for group in dissection_order(columns, rows):
            vertices = group[has_pressure.ravel()[group]]
            order += [(3 * group[:, None] + np.arange(2)).ravel(), 3 * vertices + 2]
        numbers = np.full(3 * columns * rows, -1)
        numbers[np.concatenate(order)] = np.arange(self.size)
        return numbers.reshape(columns, rows, 3)

    @property
    def velocity(self) -> gb.Array:
        """Unknowns of (u, v) at each node, (2 along + 1, 2 across + 1, 2)."""
        return self._numbers[:, :, :2]

    @property
    def pressure(self) -> gb.Array:
        """Unknowns of p at each vertex, (along + 1, across + 1)."""
        return self._numbers[::2, ::2, 2]

    @cached_property
    def coordinates(self) -> tuple[gb.Array, gb.Array]:
        """Of the nodes, along and across."""
        columns, rows = self.shape
        half = 0.5 * self.width
        return np.linspace(0.0, self.length, columns), np.linspace(-half, half, rows)

    @cached_property
    def elements(self) -> gb.Array:
        """Unknowns of each element, (M, 22): u at its nine nodes, v there, p at four vertices."""
        i, j = (index.ravel() for index in np.indices((self.along, self.across)))
        nine, four = np.ndindex(3, 3), np.ndindex(2, 2)
        nodes = np.array([self.velocity[2 * i + a, 2 * j + b] for a, b in nine])  # (9, M, 2)
        corners = np.array([self.pressure[i + a, j + b] for a, b in four])  # (4, M)
        return np.ascontiguousarray(np.concatenate([nodes[:, :, 0], nodes[:, :, 1], corners]).T)

    @cached_property
    def tables(self) -> ElementTables:
        """Shape functions of one element at its Gauss points."""
        return ElementTables.of(self.length / self.along, self.width / self.across)

    def gauss_coordinates(self) -> tuple[gb.Array, gb.Array]:
        """Of the Gauss points: along (along, Q) and across (across, Q)."""
        points, _weights = gauss()
        first = (np.arange(self.along)[:, None] + points) * (self.length / self.along)
        step = self.width / self.across
        second = (np.arange(self.across)[:, None] + points) * step - 0.5 * self.width
        return first, second


@dataclass(frozen=True, eq=False)
class ElementTables:
    """Values and derivatives at the Gauss points of an element.

    The point with index Q q + r is (q along, r across).
    """

    weight: gb.Array  # (Q^2,)
    value: gb.Array  # (Q^2, 9) biquadratic
    along: gb.Array  # (Q^2, 9) its derivative along
    across: gb.Array  # (Q^2, 9) and across
    vertex: gb.Array  # (Q^2, 4) bilinear

    @classmethod
    def of(cls, step_along: float, step_across: float) -> ElementTables:
        points, weights = gauss()
        value, slope = quadratic(points), quadratic_slope(points)
        linear = np.stack([1.0 - points, points], axis=1)
        return cls(
            weight=step_along * step_across * np.kron(weights, weights),
            value=np.kron(value, value),
            along=np.kron(slope, value) / step_along,
            across=np.kron(value, slope) / step_across,
            vertex=np.kron(linear, linear),
        )


def gauss() -> tuple[gb.Array, gb.Array]:
    """Points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(GAUSS_POINTS)
    return 0.5 * (points + 1.0), 0.5 * weights


def quadratic(t: gb.Array) -> gb.Array:
    """The three quadratic shape functions of [0, 1], (..., 3)."""
    return np.stack(
        [(1.0 - t) * (1.0 - 2.0 * t), 4.0 * t * (1.0 - t), t * (2.0 * t - 1.0)], axis=-1
    )


def quadratic_slope(t: gb.Array) -> gb.Array:
    """Their derivatives, (..., 3)."""
    return np.stack([4.0 * t - 3.0, 4.0 - 8.0 * t, 4.0 * t - 1.0], axis=-1)


@dataclass(frozen=True, eq=False)
class Sparsity:
    """The compressed-column pattern that all matrices of a grid share, and its element entries."""

    indices: gb.Array  # (nnz,) rows
    indptr: gb.Array  # (size + 1,)
    entry: gb.Array  # (M, 22, 22) of the matrix, for each [row, column] of an element matrix

    @classmethod
    def of(cls, grid: QuadGrid) -> Sparsity:
        elements = grid.elements
        keys = elements[:, None, :] * grid.size + elements[:, :, None]  # (M, row, column)
        entries, entry = np.unique(keys, return_inverse=True)
        columns, rows = np.divmod(entries, grid.size)
        indptr = np.searchsorted(columns, np.arange(grid.size + 1))
        entry = entry.reshape(keys.shape)
        return cls(*(part.astype(np.int32) for part in (rows, indptr, entry)))


def interpolate(coarse: QuadGrid, state: gb.Array, fine: QuadGrid) -> gb.Array:
    """The unknowns of `fine` for the same velocity and pressure; exact if the grids are nested."""
    result = np.empty(fine.size)
    for axis in range(2):
        values = state[coarse.velocity[:, :, axis]]
        along = _quadratic_matrix(coarse.along, fine.shape[0])
        across = _quadratic_matrix(coarse.across, fine.shape[1])
        result[fine.velocity[:, :, axis]] = along @ values @ across.T
    pressure = state[coarse.pressure]
    along = _linear_matrix(coarse.along, fine.along + 1)
    across = _linear_matrix(coarse.across, fine.across + 1)
    result[fine.pressure] = along @ pressure @ across.T
    return result


def _quadratic_matrix(elements: int, points: int) -> gb.Array:
    """Values of a piecewise quadratic at equally spaced points, (points, 2 elements + 1)."""
    element, t = _places(elements, points)
    matrix = np.zeros((points, 2 * elements + 1))
    matrix[np.arange(points)[:, None], 2 * element[:, None] + np.arange(3)] = quadratic(t)
    return matrix


def _linear_matrix(elements: int, points: int) -> gb.Array:
    element, t = _places(elements, points)
    matrix = np.zeros((points, elements + 1))
    columns = element[:, None] + np.arange(2)
    matrix[np.arange(points)[:, None], columns] = np.stack([1.0 - t, t], axis=1)
    return matrix


def _places(elements: int, points: int) -> tuple[gb.Array, gb.Array]:
    """The element of each point and its position in it, in [0, 1]."""
    position = np.arange(points) * elements / (points - 1)
    element = np.minimum(position.astype(np.int64), elements - 1)
    return element, position - element
