"""Steady incompressible Navier-Stokes equations on Q2-Q1 elements: residual and Jacobian.

The grid is sheared vertically.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numba import njit

import gsnobench as gb
from gsnobench_plugins.solvers.methods.quadrilaterals import QuadGrid, Sparsity

# The only licence given to the compiler is to fuse a product and a sum into one rounding.
_compiled = njit(cache=True, error_model="numpy", fastmath={"contract"})


@dataclass(frozen=True, eq=False)
class ChannelSpace:
    """A grid, its sparsity, and which unknowns are prescribed.

    These are the velocity at inlet and walls; none at the outlet.
    """

    grid: QuadGrid

    @cached_property
    def sparsity(self) -> Sparsity:
        return Sparsity.of(self.grid)

    @cached_property
    def fixed(self) -> gb.Array:
        """Prescribed unknowns, (size,) bool."""
        fixed = np.zeros(self.grid.size, dtype=bool)
        velocity = self.grid.velocity
        for part in (velocity[0], velocity[:, 0], velocity[:, -1]):
            fixed[part] = True
        return fixed

    @cached_property
    def fixed_entries(self) -> tuple[gb.Array, gb.Array]:
        """Where the matrix has rows of prescribed unknowns, and where their diagonal is."""
        pattern = self.sparsity
        columns = np.repeat(np.arange(self.grid.size), np.diff(pattern.indptr))
        rows = np.flatnonzero(self.fixed[pattern.indices])
        return rows, rows[pattern.indices[rows] == columns[rows]]


@dataclass(frozen=True, eq=False)
class ChannelFlow:
    """(u.grad)u - nu div grad u + grad p = f, div u = 0 in y = centre(x) + Y, |Y| <= width/2.

    x is the first grid coordinate and Y the second, so that d/dx = d/dX - slope d/dY with
    determinant 1. At the outlet nu du/dn = p n holds weakly. A state satisfies the prescribed
    values; residual and Jacobian are in the other unknowns.
    """

    space: ChannelSpace
    slope: gb.Array  # (along, Q) d centre / dx at the Gauss points
    viscosity: float
    force: gb.Array  # (M, Q^2, 2) f at the Gauss points

    @classmethod
    def of(
        cls, space: ChannelSpace, slope: Callable[[gb.Array], gb.Array], viscosity: float
    ) -> ChannelFlow:
        """Without a force."""
        along, _across = space.grid.gauss_coordinates()
        force = np.zeros((len(space.grid.elements), space.grid.tables.weight.size, 2))
        return cls(space, np.ascontiguousarray(slope(along)), viscosity, force)

    def at_viscosity(self, viscosity: float) -> ChannelFlow:
        """The same flow with another viscosity."""
        return replace(self, viscosity=viscosity)

    def residual(self, state: gb.Array) -> gb.Array:
        """Weak residual of momentum and continuity, (size,); zero for prescribed unknowns."""
        grid, tables = self.space.grid, self.space.grid.tables
        out = np.zeros(grid.size)
        shapes = (tables.weight, tables.value, tables.along, tables.across, tables.vertex)
        _add_residual(state, grid.elements, self.slope, self.viscosity, *shapes, self.force, out)
        out[self.space.fixed] = 0.0
        return out

    def jacobian(self, state: gb.Array, rate: float = 0.0) -> sp.csc_array:
        """Derivative of the residual, plus `rate` times the mass of the velocity.

        Rows of prescribed unknowns are those of the identity.
        """
        grid, tables, pattern = self.space.grid, self.space.grid.tables, self.space.sparsity
        data = np.zeros(len(pattern.indices))
        shapes = (tables.weight, tables.value, tables.along, tables.across, tables.vertex)
        given = (state, grid.elements, self.slope, self.viscosity, rate)
        _add_jacobian(*given, *shapes, pattern.entry, data)
        rows, diagonal = self.space.fixed_entries
        data[rows] = 0.0
        data[diagonal] = 1.0
        return sp.csc_array((data, pattern.indices, pattern.indptr), shape=(grid.size, grid.size))


@_compiled
def _add_residual(state, elements, slope, nu, weight, value, along, across, vertex, force, out):  # type: ignore[no-untyped-def]
    columns, points = slope.shape
    rows = elements.shape[0] // columns
    local = np.empty(22)
    for m in range(elements.shape[0]):
        local[:] = 0.0
        unknowns = elements[m]
        for q in range(weight.size):
            tilt = slope[m // rows, q // points]
            u = v = ux = uy = vx = vy = p = 0.0
            for a in range(9):
                gy = across[q, a]
                gx = along[q, a] - tilt * gy
                ua, va = state[unknowns[a]], state[unknowns[9 + a]]
                u += value[q, a] * ua
                v += value[q, a] * va
                ux += gx * ua
                uy += gy * ua
                vx += gx * va
                vy += gy * va
            for c in range(4):
                p += vertex[q, c] * state[unknowns[18 + c]]
            fu = u * ux + v * uy - force[m, q, 0]
            fv = u * vx + v * vy - force[m, q, 1]
            w = weight[q]
            for a in range(9):
                gy = across[q, a]
                gx = along[q, a] - tilt * gy
                local[a] += w * (value[q, a] * fu + gx * (nu * ux - p) + gy * nu * uy)
                local[9 + a] += w * (value[q, a] * fv + gx * nu * vx + gy * (nu * vy - p))
            for c in range(4):
                local[18 + c] -= w * vertex[q, c] * (ux + vy)
        for a in range(22):
            out[unknowns[a]] += local[a]


@_compiled
def _add_jacobian(
    state, elements, slope, nu, rate, weight, value, along, across, vertex, entry, data
):  # type: ignore[no-untyped-def]
    columns, points = slope.shape
    rows = elements.shape[0] // columns
    local = np.empty((22, 22))
    gx, gy, carried = np.empty(9), np.empty(9), np.empty(9)
    for m in range(elements.shape[0]):
        local[:] = 0.0
        unknowns = elements[m]
        for q in range(weight.size):
            tilt = slope[m // rows, q // points]
            u = v = ux = uy = vx = vy = 0.0
            for a in range(9):
                gy[a] = across[q, a]
                gx[a] = along[q, a] - tilt * gy[a]
                ua, va = state[unknowns[a]], state[unknowns[9 + a]]
                u += value[q, a] * ua
                v += value[q, a] * va
                ux += gx[a] * ua
                uy += gy[a] * ua
                vx += gx[a] * va
                vy += gy[a] * va
            for b in range(9):
                carried[b] = u * gx[b] + v * gy[b] + rate * value[q, b]
            w = weight[q]
            for a in range(9):
                test, dx, dy = w * value[q, a], w * nu * gx[a], w * nu * gy[a]
                for b in range(9):
                    both = test * carried[b] + dx * gx[b] + dy * gy[b]
                    product = test * value[q, b]
                    local[a, b] += both + product * ux
                    local[a, 9 + b] += product * uy
                    local[9 + a, b] += product * vx
                    local[9 + a, 9 + b] += both + product * vy
                for c in range(4):
                    local[a, 18 + c] -= w * vertex[q, c] * gx[a]
                    local[9 + a, 18 + c] -= w * vertex[q, c] * gy[a]
        for a in range(18):
            for c in range(4):
                local[18 + c, a] = local[a, 18 + c]
        for a in range(22):
            for b in range(22):
                data[entry[m, a, b]] += local[a, b]
