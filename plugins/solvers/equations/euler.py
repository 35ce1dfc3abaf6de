"""Compressible Euler equations in the plane: second-order node-centred finite volumes.

The flux is HLLC, walls slip, the far field is characteristic. Units: density and speed of sound of
the free stream, so that its pressure is 1 / gamma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

import gsnobench as gb
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh
from gsnobench_plugins.solvers.methods.integrate import Rhs, ssp_rk3

GAMMA = 1.4
PRESSURE = 1.0 / GAMMA  # of the free stream
# Share of the central slope in the reconstruction: on a regular mesh 1/3 cancels the leading
# dispersion error.
KAPPA = 1.0 / 3.0
# Of ssp_rk3 times the fastest rate of any cell (`euler_rates`); noise blows up from 5.2 in still
# and from 5.8 in fast air.
LONGEST_STEP = 3.5
TICK = np.array([1.0, 0.0, 0.0, 0.0])  # rate of the row that holds the time
RENEWAL = 0.05  # time after which the step is set anew
# Differences below (SMOOTH * edge)^1.5 times the free stream are taken for smooth and not limited
# (Venkatakrishnan 1995).
SMOOTH = 5.0
_compiled = njit(cache=True, error_model="numpy", fastmath={"contract"})
_inlined = njit(cache=True, error_model="numpy", fastmath={"contract"}, inline="always")


@dataclass(frozen=True)
class Stream:
    """The free stream: Mach number and angle of attack at first, and how its velocity changes.

    A foil that accelerates is at rest in its own frame, where all air feels a uniform force.
    """

    mach: float
    degrees: float = 0.0
    acceleration: tuple[float, float] = (0.0, 0.0)  # of the air, seen from the foil

    @property
    def primitive(self) -> gb.Array:
        """Density, velocity and pressure at first, (4,)."""
        return self.primitive_at(0.0)

    def primitive_at(self, time: float) -> gb.Array:
        """Density, velocity and pressure, (4,)."""
        angle = np.radians(self.degrees)
        u, v = self.mach * np.cos(angle), self.mach * np.sin(angle)
        return np.array(
            [1.0, u + time * self.acceleration[0], v + time * self.acceleration[1], PRESSURE]
        )


def conserved(primitive: gb.Array) -> gb.Array:
    """(rho, u, v, p) -> (rho, rho u, rho v, energy), along the last axis."""
    rho, u, v, p = np.moveaxis(np.asarray(primitive, dtype=float), -1, 0)
    energy = p / (GAMMA - 1.0) + 0.5 * rho * (u * u + v * v)
    return np.stack([rho, rho * u, rho * v, energy], axis=-1)


def primitives(state: gb.Array) -> gb.Array:
    """The inverse of `conserved`."""
    rho, m, n, energy = np.moveaxis(np.asarray(state, dtype=float), -1, 0)
    p = (GAMMA - 1.0) * (energy - 0.5 * (m * m + n * n) / rho)
    return np.stack([rho, m / rho, n / rho, p], axis=-1)


def euler_rhs(dual: DualMesh, is_wall: gb.Array, stream: Stream) -> Rhs:
    """The rate of change of (rho, rho u, rho v, energy), (N, 4), in the stream as it is at first.

    Boundary edges are slip walls if `is_wall` (W,); behind the others is air of the free stream.
    """
    timed = _timed_rhs(dual, is_wall, stream)

    def rhs(state: gb.Array, out: gb.Array) -> None:
        timed(state, out, 0.0)

    return rhs


def _timed_rhs(
    dual: DualMesh, is_wall: gb.Array, stream: Stream
) -> Callable[[gb.Array, gb.Array, float], None]:
    """As `euler_rhs`, with the time as a third argument."""
    node = np.empty((dual.volume.size, 12))  # rho, u, v, p, then the gradients of each
    length = np.hypot(*dual.normal.T)
    size = np.hypot(*dual.offset.T)
    normal = dual.normal / length[:, None]
    face = np.column_stack([normal, length, dual.offset, (SMOOTH * size) ** 3])  # (E, 6)
    share = 1.0 / dual.volume
    wall, wall_normal = dual.wall[is_wall], dual.wall_normal[is_wall]
    far, far_normal = dual.wall[~is_wall], dual.wall_normal[~is_wall]
    is_accelerated = any(stream.acceleration)

    def rhs(state: gb.Array, out: gb.Array, time: float) -> None:
        _primitives(state, node)
        _gradients(node, dual.start, dual.neighbour, dual.slope)
        out[...] = 0.0
        _edge_fluxes(node, dual.edge, face, out)
        _wall_fluxes(node, wall, wall_normal, out)
        _far_fluxes(node, far, far_normal, stream.primitive_at(time), out)
        _scale(out, share)
        if is_accelerated:
            _accelerate(state, *stream.acceleration, out)

    return rhs


def euler_rates(dual: DualMesh) -> Callable[[gb.Array], gb.Array]:
    """How fast waves of a state (N, 4) cross each cell: sum of |v.n| + c over faces, over area."""
    length, wall_length = np.hypot(*dual.normal.T), np.hypot(*dual.wall_normal.T)

    def rates(state: gb.Array) -> gb.Array:
        out = np.zeros(dual.volume.size)
        _crossing(state, dual.edge, dual.normal, length, out)
        _crossing(state, dual.wall, dual.wall_normal, wall_length, out)
        return out / dual.volume

    return rates


def evolve(
    dual: DualMesh, is_wall: gb.Array, stream: Stream, state: gb.Array, times: Sequence[float]
) -> Iterator[gb.Array]:
    """The state (N, 4) at each of the times, starting from the first; copy what is to be kept.

    The step follows the fastest wave of any cell and is set anew whenever `RENEWAL` has passed.
    """
    timed, rates = _timed_rhs(dual, is_wall, stream), euler_rates(dual)

    def rhs(clocked: gb.Array, out: gb.Array) -> None:
        timed(clocked[:-1], out[:-1], float(clocked[-1, 0]))
        out[-1] = TICK

    # one more row is the clock, so that every stage of the integrator knows its time
    clocked = np.concatenate([state, times[0] * TICK[None]])
    yield state
    for begin, end in zip(times[:-1], times[1:], strict=True):
        parts = max(1, math.ceil((end - begin) / RENEWAL - 1e-9))
        for _ in range(parts):
            interval, step = (0.0, (end - begin) / parts), LONGEST_STEP / rates(clocked[:-1]).max()
            *_, clocked = ssp_rk3(rhs, clocked, interval, float(step))
        yield clocked[:-1]


@_compiled
def _crossing(state, edge, normal, length, out):  # type: ignore[no-untyped-def]
    for e in range(edge.shape[0]):
        for side in range(2):
            i = edge[e, side]
            rho = state[i, 0]
            u, v = state[i, 1] / rho, state[i, 2] / rho
            p = (GAMMA - 1.0) * (state[i, 3] - 0.5 * rho * (u * u + v * v))
            out[i] += (
                abs(u * normal[e, 0] + v * normal[e, 1]) + np.sqrt(GAMMA * p / rho) * length[e]
            )


@_compiled
def _primitives(state, node):  # type: ignore[no-untyped-def]
    for i in range(state.shape[0]):
        rho = state[i, 0]
        u, v = state[i, 1] / rho, state[i, 2] / rho
        node[i, 0], node[i, 1], node[i, 2] = rho, u, v
        node[i, 3] = (GAMMA - 1.0) * (state[i, 3] - 0.5 * rho * (u * u + v * v))


@_compiled
def _gradients(node, start, neighbour, slope):  # type: ignore[no-untyped-def]
    for i in range(start.shape[0] - 1):
        rho, u, v, p = node[i, 0], node[i, 1], node[i, 2], node[i, 3]
        rho_x = rho_y = u_x = u_y = v_x = v_y = p_x = p_y = 0.0
        for k in range(start[i], start[i + 1]):
            j = neighbour[k]
            x, y = slope[k, 0], slope[k, 1]
            d_rho, d_u, d_v, d_p = node[j, 0] - rho, node[j, 1] - u, node[j, 2] - v, node[j, 3] - p
            rho_x += x * d_rho
            rho_y += y * d_rho
            u_x += x * d_u
            u_y += y * d_u
            v_x += x * d_v
            v_y += y * d_v
            p_x += x * d_p
            p_y += y * d_p
        node[i, 4], node[i, 5], node[i, 6], node[i, 7] = rho_x, rho_y, u_x, u_y
        node[i, 8], node[i, 9], node[i, 10], node[i, 11] = v_x, v_y, p_x, p_y


@_inlined
def _half_step(across, slope, smooth):  # type: ignore[no-untyped-def]
    """Change from a node to the middle of an edge, limited as by van Albada.

    The two differences are the one across the edge and the one that the node's own gradient expects
    behind it.
    """
    behind = 2.0 * slope - across
    s = max(0.0, (2.0 * across * behind + smooth) / (across * across + behind * behind + smooth))
    return 0.25 * s * ((1.0 - KAPPA * s) * behind + (1.0 + KAPPA * s) * across)


@_compiled
def _edge_fluxes(node, edge, face, out):  # type: ignore[no-untyped-def]
    for e in range(edge.shape[0]):
        i, j = edge[e, 0], edge[e, 1]
        nx, ny, length, dx, dy, smooth = (
            face[e, 0],
            face[e, 1],
            face[e, 2],
            face[e, 3],
            face[e, 4],
            face[e, 5],
        )
        d_rho, d_u, d_v, d_p = (
            node[j, 0] - node[i, 0],
            node[j, 1] - node[i, 1],
            node[j, 2] - node[i, 2],
            node[j, 3] - node[i, 3],
        )
        rho_l = node[i, 0] + _half_step(d_rho, node[i, 4] * dx + node[i, 5] * dy, smooth)
        u_l = node[i, 1] + _half_step(d_u, node[i, 6] * dx + node[i, 7] * dy, smooth)
        v_l = node[i, 2] + _half_step(d_v, node[i, 8] * dx + node[i, 9] * dy, smooth)
        p_l = node[i, 3] + _half_step(d_p, node[i, 10] * dx + node[i, 11] * dy, smooth)
        rho_r = node[j, 0] - _half_step(d_rho, node[j, 4] * dx + node[j, 5] * dy, smooth)
        u_r = node[j, 1] - _half_step(d_u, node[j, 6] * dx + node[j, 7] * dy, smooth)
        v_r = node[j, 2] - _half_step(d_v, node[j, 8] * dx + node[j, 9] * dy, smooth)
        p_r = node[j, 3] - _half_step(d_p, node[j, 10] * dx + node[j, 11] * dy, smooth)
        if min(rho_l, p_l) <= 0.0 or min(rho_r, p_r) <= 0.0:
            rho_l, u_l, v_l, p_l = node[i, 0], node[i, 1], node[i, 2], node[i, 3]
            rho_r, u_r, v_r, p_r = node[j, 0], node[j, 1], node[j, 2], node[j, 3]
        f0, f1, f2, f3 = _hllc(rho_l, u_l, v_l, p_l, rho_r, u_r, v_r, p_r, nx, ny)
        out[i, 0] -= length * f0
        out[i, 1] -= length * f1
        out[i, 2] -= length * f2
        out[i, 3] -= length * f3
        out[j, 0] += length * f0
        out[j, 1] += length * f1
        out[j, 2] += length * f2
        out[j, 3] += length * f3


@_inlined
def _hllc(rho_l, u_l, v_l, p_l, rho_r, u_r, v_r, p_r, nx, ny):  # type: ignore[no-untyped-def]
    """HLLC flux along the unit normal (Toro, Spruce and Speares 1994; wave speeds of Davis 1988).

    The pressure of the free stream is subtracted from the momentum: no closed cell notices it, and
    small differences keep their digits.
    """
    q_l, q_r = u_l * nx + v_l * ny, u_r * nx + v_r * ny
    e_l = p_l / (GAMMA - 1.0) + 0.5 * rho_l * (u_l * u_l + v_l * v_l)
    e_r = p_r / (GAMMA - 1.0) + 0.5 * rho_r * (u_r * u_r + v_r * v_r)
    c_l, c_r = np.sqrt(GAMMA * p_l / rho_l), np.sqrt(GAMMA * p_r / rho_r)
    s_l, s_r = min(q_l - c_l, q_r - c_r), max(q_l + c_l, q_r + c_r)
    m_l, m_r = rho_l * (s_l - q_l), rho_r * (s_r - q_r)
    s_m = (p_r - p_l + m_l * q_l - m_r * q_r) / (m_l - m_r)
    rho, u, v, p, q, energy, s = (
        (rho_l, u_l, v_l, p_l, q_l, e_l, s_l)
        if s_m >= 0.0
        else (rho_r, u_r, v_r, p_r, q_r, e_r, s_r)
    )
    if s_l >= 0.0 or s_r <= 0.0:
        flow = rho * q
        return (
            flow,
            flow * u + (p - PRESSURE) * nx,
            flow * v + (p - PRESSURE) * ny,
            q * (energy + p),
        )
    inside = p + rho * (s - q) * (s_m - q)  # pressure between the acoustic waves
    flow = s_m * rho * (s - q) / (s - s_m)
    return (
        flow,
        flow * (u + (s_m - q) * nx) + (inside - PRESSURE) * nx,
        flow * (v + (s_m - q) * ny) + (inside - PRESSURE) * ny,
        s_m * (((s - q) * energy - p * q + inside * s_m) / (s - s_m) + inside),
    )


@_compiled
def _wall_fluxes(node, wall, wall_normal, out):  # type: ignore[no-untyped-def]
    """Pressure alone, 5/6 of a node's own and 1/6 of its neighbour's: exact for linear pressure."""
    for w in range(wall.shape[0]):
        i, j = wall[w, 0], wall[w, 1]
        p_i, p_j = node[i, 3] - PRESSURE, node[j, 3] - PRESSURE
        for side in range(2):
            k, p = (i, (5.0 * p_i + p_j) / 6.0) if side == 0 else (j, (p_i + 5.0 * p_j) / 6.0)
            out[k, 1] -= p * wall_normal[w, 0]
            out[k, 2] -= p * wall_normal[w, 1]


@_compiled
def _far_fluxes(node, far, far_normal, outside, out):  # type: ignore[no-untyped-def]
    for w in range(far.shape[0]):
        length = np.sqrt(far_normal[w, 0] ** 2 + far_normal[w, 1] ** 2)
        nx, ny = far_normal[w, 0] / length, far_normal[w, 1] / length
        for side in range(2):
            k = far[w, side]
            f0, f1, f2, f3 = _hllc(
                node[k, 0],
                node[k, 1],
                node[k, 2],
                node[k, 3],
                outside[0],
                outside[1],
                outside[2],
                outside[3],
                nx,
                ny,
            )
            out[k, 0] -= length * f0
            out[k, 1] -= length * f1
            out[k, 2] -= length * f2
            out[k, 3] -= length * f3


@_compiled
def _scale(out, share):  # type: ignore[no-untyped-def]
    for i in range(share.shape[0]):
        for field in range(4):
            out[i, field] *= share[i]


@_compiled
def _accelerate(state, a, b, out):  # type: ignore[no-untyped-def]
    """The uniform force (a, b) per mass: momentum, and the work that it does."""
    for i in range(state.shape[0]):
        out[i, 1] += a * state[i, 0]
        out[i, 2] += b * state[i, 0]
        out[i, 3] += a * state[i, 1] + b * state[i, 2]
