"""Shallow water over a flat bed between reflective walls, by finite volumes.

They are node-centred and of second order, with Rusanov's flux.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

import gsnobench as gb
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh
from gsnobench_plugins.solvers.methods.integrate import Rhs

# Share of the central slope in the reconstruction (U-MUSCL): on a regular mesh 1/3 cancels the
# leading dispersion error.
KAPPA = 1.0 / 3.0
# Of ssp_rk3 over the spectral radius of still water; random waves blow up from 2.45 on every mesh
# tried.
LONGEST_STEP = 2.2
# The only licence given to the compiler is to fuse a product and a sum into one rounding, a fifth
# of the time.
_compiled = njit(cache=True, error_model="numpy", fastmath={"contract"})


@dataclass(frozen=True)
class Water:
    """The physics, and the share of Rusanov's dissipation: 1 is the textbook's, less is sharper."""

    gravity: float
    depth: float  # of the still water
    dissipation: float = 1.0


def shallow_water_rhs(dual: DualMesh, water: Water) -> Rhs:
    """The rate of change of (eta, hu, hv), (N, 3), where h = depth + eta.

    Heights are kept as their difference from the depth, and the pressure as its difference from
    that of still water, so that still water stays still to the last bit and small waves lose no
    digits.
    """
    gravity, depth = water.gravity, water.depth
    # eta, u, v, fastest wave, then the gradients of eta, u, v
    node = np.empty((dual.volume.size, 10))
    length = water.dissipation * np.hypot(*dual.normal.T)
    face = np.column_stack([dual.normal, length, 0.5 * (1.0 - KAPPA) * dual.offset])  # (E, 5)
    share = 1.0 / dual.volume

    def rhs(state: gb.Array, out: gb.Array) -> None:
        _primitives(state, gravity, depth, node)
        _gradients(node, dual.start, dual.neighbour, dual.slope)
        out[...] = 0.0
        _edge_fluxes(node, dual.edge, face, gravity, depth, out)
        _wall_fluxes(node, dual.wall, dual.wall_normal, gravity, depth, water.dissipation, out)
        _scale(out, share)

    return rhs


@_compiled
def _primitives(state, gravity, depth, node):  # type: ignore[no-untyped-def]
    for i in range(state.shape[0]):
        eta = state[i, 0]
        h = depth + eta
        u, v = state[i, 1] / h, state[i, 2] / h
        node[i, 0], node[i, 1], node[i, 2] = eta, u, v
        node[i, 3] = np.sqrt(u * u + v * v) + np.sqrt(gravity * h)


@_compiled
def _gradients(node, start, neighbour, slope):  # type: ignore[no-untyped-def]
    for i in range(start.shape[0] - 1):
        eta, u, v = node[i, 0], node[i, 1], node[i, 2]
        eta_x = eta_y = u_x = u_y = v_x = v_y = 0.0
        for k in range(start[i], start[i + 1]):
            j = neighbour[k]
            x, y = slope[k, 0], slope[k, 1]
            d_eta, d_u, d_v = node[j, 0] - eta, node[j, 1] - u, node[j, 2] - v
            eta_x += x * d_eta
            eta_y += y * d_eta
            u_x += x * d_u
            u_y += y * d_u
            v_x += x * d_v
            v_y += y * d_v
        node[i, 4], node[i, 5] = eta_x, eta_y
        node[i, 6], node[i, 7] = u_x, u_y
        node[i, 8], node[i, 9] = v_x, v_y


@_compiled
def _edge_fluxes(node, edge, face, gravity, depth, out):  # type: ignore[no-untyped-def]
    central = 0.5 * KAPPA
    for e in range(edge.shape[0]):
        i, j = edge[e, 0], edge[e, 1]
        nx, ny, length, dx, dy = face[e, 0], face[e, 1], face[e, 2], face[e, 3], face[e, 4]
        eta_i, u_i, v_i = node[i, 0], node[i, 1], node[i, 2]
        eta_j, u_j, v_j = node[j, 0], node[j, 1], node[j, 2]
        d_eta, d_u, d_v = central * (eta_j - eta_i), central * (u_j - u_i), central * (v_j - v_i)
        eta_l = eta_i + (d_eta + (node[i, 4] * dx + node[i, 5] * dy))
        u_l = u_i + (d_u + (node[i, 6] * dx + node[i, 7] * dy))
        v_l = v_i + (d_v + (node[i, 8] * dx + node[i, 9] * dy))
        eta_r = eta_j - (d_eta + (node[j, 4] * dx + node[j, 5] * dy))
        u_r = u_j - (d_u + (node[j, 6] * dx + node[j, 7] * dy))
        v_r = v_j - (d_v + (node[j, 8] * dx + node[j, 9] * dy))
        h_l, h_r = depth + eta_l, depth + eta_r
        flow_l, flow_r = u_l * nx + v_l * ny, u_r * nx + v_r * ny
        speed = max(node[i, 3], node[j, 3]) * length
        # g/2 (h^2 - depth^2), both sides
        pressure = 0.5 * gravity * (eta_l * (h_l + depth) + eta_r * (h_r + depth))
        from_l, from_r = h_l * (flow_l + speed), h_r * (flow_r - speed)
        f_eta = 0.5 * (h_l * flow_l + h_r * flow_r - speed * (eta_r - eta_l))
        f_u = 0.5 * (from_l * u_l + from_r * u_r + pressure * nx)
        f_v = 0.5 * (from_l * v_l + from_r * v_r + pressure * ny)
        out[i, 0] -= f_eta
        out[i, 1] -= f_u
        out[i, 2] -= f_v
        out[j, 0] += f_eta
        out[j, 1] += f_u
        out[j, 2] += f_v


@_compiled
def _wall_fluxes(node, wall, wall_normal, gravity, depth, dissipation, out):  # type: ignore[no-untyped-def]
    """Rusanov's flux against the mirrored state v - 2 (v.n) n.

    No mass passes; there is pressure, and a brake on flow through the wall. The half-face of node i
    sees 5/6 of its own pressure and 1/6 of its neighbour's: exact where pressure is linear.
    """
    for w in range(wall.shape[0]):
        nx, ny = wall_normal[w, 0], wall_normal[w, 1]
        length = np.sqrt(nx * nx + ny * ny)
        i, j = wall[w, 0], wall[w, 1]
        p_i = 0.5 * gravity * node[i, 0] * (node[i, 0] + 2.0 * depth)
        p_j = 0.5 * gravity * node[j, 0] * (node[j, 0] + 2.0 * depth)
        for side in range(2):
            k, p = (i, (5.0 * p_i + p_j) / 6.0) if side == 0 else (j, (p_i + 5.0 * p_j) / 6.0)
            h = depth + node[k, 0]
            through = (node[k, 1] * nx + node[k, 2] * ny) / length  # outward speed
            brake = h * through * (through + dissipation * node[k, 3])
            out[k, 1] -= (p + brake) * nx
            out[k, 2] -= (p + brake) * ny


@_compiled
def _scale(out, share):  # type: ignore[no-untyped-def]
    for i in range(share.shape[0]):
        for field in range(3):
            out[i, field] *= share[i]
