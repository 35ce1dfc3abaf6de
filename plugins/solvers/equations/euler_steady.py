"""Steady Euler flow by symmetric Gauss-Seidel sweeps over the cells, and its forces.

For verification: no dataset uses it, but its forces are known from the literature. The method is
LU-SGS (Yoon and Jameson 1988).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

import gsnobench as gb
from gsnobench_plugins.solvers.equations.euler import (
    GAMMA,
    PRESSURE,
    Stream,
    conserved,
    euler_rates,
    euler_rhs,
    primitives,
)
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh

RELAXATION = 1.05  # of the wave speeds in the sweeps: more is safer and slower
_compiled = njit(cache=True, error_model="numpy", fastmath={"contract"})


@dataclass(frozen=True, eq=False)
class Steady:
    """A nearly steady state and its residual."""

    primitive: gb.Array  # (N, 4)
    residual: float  # largest change of density in a unit of time over the fastest rate of its cell
    sweeps: int


def steady_state(
    dual: DualMesh, is_wall: gb.Array, stream: Stream, *, sweeps: int = 2000, residual: float = 1e-8
) -> Steady:
    """Sweep from the free stream until the residual is reached or the sweeps are used up."""
    rhs, rates = euler_rhs(dual, is_wall, stream), euler_rates(dual)
    state = np.tile(conserved(stream.primitive), (dual.volume.size, 1))
    change, rate = np.empty_like(state), np.empty_like(state)
    normal = _outward(dual)
    left, done = np.inf, 0
    for done in range(1, sweeps + 1):
        rhs(state, rate)
        fastest = rates(state)
        left = float(np.abs(rate[:, 0] / fastest).max())
        if left < residual:
            break
        courant = min(5.0 * 1.05**done, 1e6)
        diagonal = dual.volume * fastest * (1.0 / courant + 0.5 * RELAXATION)
        _sweep(state, rate, dual.volume, diagonal, dual.start, dual.neighbour, normal, change)
        state += change
    return Steady(primitives(state), left, done)


def _outward(dual: DualMesh) -> gb.Array:
    """Face normals in the order of `dual.neighbour`, pointing out of the cell, (2E, 2)."""
    first, second = dual.edge.astype(np.int64).T
    here, there = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort((there, here))
    return np.ascontiguousarray(np.concatenate([dual.normal, -dual.normal])[order])


@_compiled
def _flux(rho, m, n, energy, nx, ny):  # type: ignore[no-untyped-def]
    q = (m * nx + n * ny) / rho
    p = (GAMMA - 1.0) * (energy - 0.5 * (m * m + n * n) / rho)
    return rho * q, m * q + p * nx, n * q + p * ny, (energy + p) * q


@_compiled
def _push(state, change, j, nx, ny, total):  # type: ignore[no-untyped-def]
    """Add to `total` the effect of a change of cell j: half of (flux change - wave * change)."""
    r, m, n, e = state[j, 0], state[j, 1], state[j, 2], state[j, 3]
    p = (GAMMA - 1.0) * (e - 0.5 * (m * m + n * n) / r)
    wave = RELAXATION * (abs(m * nx + n * ny) / r + np.sqrt(GAMMA * p / r * (nx * nx + ny * ny)))
    before = _flux(r, m, n, e, nx, ny)
    after = _flux(r + change[j, 0], m + change[j, 1], n + change[j, 2], e + change[j, 3], nx, ny)
    for field in range(4):
        total[field] += 0.5 * (after[field] - before[field] - wave * change[j, field])


@_compiled
def _sweep(state, rate, volume, diagonal, start, neighbour, normal, change):  # type: ignore[no-untyped-def]
    total = np.empty(4)
    count = state.shape[0]
    for i in range(count):
        total[:] = 0.0
        for k in range(start[i], start[i + 1]):
            if neighbour[k] < i:
                _push(state, change, neighbour[k], normal[k, 0], normal[k, 1], total)
        for field in range(4):
            change[i, field] = (volume[i] * rate[i, field] - total[field]) / diagonal[i]
    for back in range(count):
        i = count - 1 - back
        total[:] = 0.0
        for k in range(start[i], start[i + 1]):
            if neighbour[k] > i:
                _push(state, change, neighbour[k], normal[k, 0], normal[k, 1], total)
        for field in range(4):
            change[i, field] -= total[field] / diagonal[i]


@dataclass(frozen=True)
class Forces:
    """Lift and drag coefficients of a body of unit chord, and the largest pressure coefficient."""

    lift: float
    drag: float
    peak: float


def forces(dual: DualMesh, is_wall: gb.Array, stream: Stream, primitive: gb.Array) -> Forces:
    """The pressure on the walls, integrated exactly where it is linear along an edge."""
    wall, normal = dual.wall[is_wall], dual.wall_normal[is_wall]
    pressure = (primitive[:, 3] - PRESSURE) / (0.5 * stream.mach**2)  # (N,)
    force = np.sum(normal * (pressure[wall[:, 0]] + pressure[wall[:, 1]])[:, None], axis=0)
    along = stream.primitive[1:3] / stream.mach
    return Forces(
        float(force[1] * along[0] - force[0] * along[1]),
        float(force @ along),
        float(pressure[wall].max()),
    )
