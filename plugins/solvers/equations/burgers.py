"""Burgers' equation du/dt + u.grad u = nu Laplace u, u = 0 on the boundary: linear elements.

The discrete form is consistent with the energy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numba import njit

import gsnobench as gb
from gsnobench.meshes.operators import assemble, basis_gradients, diffusion_matrix, node_volumes
from gsnobench.meshes.topology import cell_edges, cells_of
from gsnobench_plugins.solvers.methods.finite_volume import compact_order
from gsnobench_plugins.solvers.methods.integrate import Rhs, spectral_radius

# Of rk4 over the sum of decay rate and advection bound; random fields blow up from 2.78 on.
LONGEST_STEP = 2.6
# Share of von Neumann and Richtmyer's viscosity, which follows the jump of the velocity along an
# edge. It acts where that jump times the edge is more than 2 nu, and not at all elsewhere: resolved
# flow never meets it.
STEEP = 1.0
# Products and sums may be fused and reordered: a third of the time, and the same bits on every run.
_compiled = njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})


@dataclass(frozen=True, eq=False)
class Flow:
    """The operators of one mesh between its free nodes, in an order that keeps neighbours close.

    Entries start[i]:start[i+1] are the edges from row i to later rows, each with K_ij, integral of
    grad phi_i . grad phi_j, and B_ij, integral of phi_i grad phi_j. Between free nodes K_ji = K_ij
    and B_ji = -B_ij: one entry serves both ends, and the antisymmetry that the energy balance rests
    on holds to the last bit.
    """

    free: gb.Array  # (n,) node number of each row
    nodes: int  # of the mesh, boundary included
    mass: gb.Array  # (n,) lumped
    start: gb.Array  # (n + 1,) uint32
    neighbour: gb.Array  # (E,) uint32
    weight: gb.Array  # (E, 2 + d): -K_ij, B_ij, |B_ij| over the length of the edge
    diagonal: gb.Array  # (n,) -K_ii
    decay: float  # spectral radius of the Laplacian
    advection: float  # bound on the spectral radius of u.grad for |u| <= 1

    @property
    def dim(self) -> int:
        return int(self.weight.shape[1]) - 2

    def step(self, viscosity: float, speed: float) -> float:
        """The longest safe step of rk4 for a field of at most this speed."""
        return LONGEST_STEP / (viscosity * self.decay + speed * self.advection)

    def stiffness(self) -> sp.csr_array:
        """K between free nodes, (n, n)."""
        size = len(self.free)
        indices, indptr = self.neighbour.astype(np.int32), self.start.astype(np.int32)
        upper = sp.csr_array((-self.weight[:, 0], indices, indptr), shape=(size, size))
        return (upper + upper.T - sp.diags_array(self.diagonal)).tocsr()


def make_flow(mesh: gb.Mesh) -> Flow:
    """Assemble the operators; nodes tagged `boundary` are kept at zero and left out."""
    order = compact_order(cell_edges(cells_of(mesh)), mesh.size)
    free = order[~mesh.tags["boundary"][order]]
    mass = node_volumes(mesh)[free]
    laplacian = -diffusion_matrix(mesh)[free][:, free]
    gradients = [matrix[free][:, free] for matrix in gradient_matrices(mesh)]
    parts = [_upper(matrix) for matrix in (laplacian, *gradients)]
    pattern = parts[0]
    rows = np.repeat(np.arange(len(free)), np.diff(pattern.indptr))
    assert all(np.array_equal(part.indices, pattern.indices) for part in parts)
    pull = np.linalg.norm([part.data for part in parts[1:]], axis=0)  # (E,) |B_ij|
    edge = np.linalg.norm(mesh.points[free[pattern.indices]] - mesh.points[free[rows]], axis=1)
    weight = np.stack([*(part.data for part in parts), pull / edge], axis=1)  # (E, 2 + d)
    reach = np.bincount(rows, pull, len(free)) + np.bincount(pattern.indices, pull, len(free))
    flow = Flow(
        free=free,
        nodes=mesh.size,
        mass=mass,
        start=pattern.indptr.astype(np.uint32),
        neighbour=pattern.indices.astype(np.uint32),
        weight=weight,
        diagonal=np.asarray(laplacian.diagonal()),
        decay=0.0,
        advection=float(np.max(reach / mass)),
    )
    shape = (len(free), mesh.dim)
    return replace(flow, decay=spectral_radius(burgers_rhs(flow, 1.0), shape, size=1e-9))


def _upper(matrix: sp.csr_array) -> sp.csr_array:
    """The entries right of the diagonal, sorted."""
    upper = sp.triu(matrix, k=1, format="csr")
    upper.sort_indices()
    return upper


def gradient_matrices(mesh: gb.Mesh) -> list[sp.csr_array]:
    """B_ij = integral of phi_i d phi_j / dx_a, one (N, N) matrix per axis."""
    cells = cells_of(mesh)
    k = cells.shape[1]
    slopes, measures = basis_gradients(mesh.points, cells)
    matrices = []
    for axis in range(mesh.dim):
        local = np.tile(measures[:, None] / k * slopes[:, :, axis], (1, k))  # (M, k^2)
        matrices.append(assemble(cells, local, mesh.size))
    return matrices


def burgers_rhs(flow: Flow, viscosity: float, *, steep: float = STEEP) -> Rhs:
    """The rate of change of the velocity at the free nodes, (n, d).

    Advection is split as u.grad u = (u.grad u + div(u u)) / 2 - u div(u) / 2: the first part keeps
    the discrete energy to the last bit, the second changes it as the equation does. Where the mesh
    cannot hold a front, what `steep` times its jump exceeds the viscosity by is added to it on that
    edge, which only takes energy away.
    """
    weight = flow.weight * np.array([viscosity, *[1.0] * flow.dim, viscosity])
    own, share = viscosity * flow.diagonal, 1.0 / flow.mass
    factor = np.empty_like(own)
    rates = _rates_2d if flow.dim == 2 else _rates_3d

    def rhs(state: gb.Array, out: gb.Array) -> None:
        out[...] = 0.0
        np.copyto(factor, own)
        rates(state, flow.start, flow.neighbour, weight, factor, share, steep, out)

    return rhs


def energy(flow: Flow, state: gb.Array) -> float:
    """Half the integral of |u|^2, by lumped mass."""
    return 0.5 * float(np.sum(flow.mass[:, None] * state**2))


def top_speed(state: gb.Array) -> float:
    """The largest |u|."""
    return float(np.sqrt(np.max(np.sum(state**2, axis=1))))


@_compiled
def _rates_2d(u, start, neighbour, weight, factor, share, steep, out):  # type: ignore[no-untyped-def]
    """Each edge adds to both of its ends.

    `factor` collects what multiplies a node's own value: diffusion and half the divergence.
    """
    for i in range(u.shape[0]):
        a, b = u[i, 0], u[i, 1]
        rate_a, rate_b, own = out[i, 0], out[i, 1], factor[i]
        for k in range(start[i], start[i + 1]):
            j = neighbour[k]
            p, q = u[j, 0], u[j, 1]
            x, y = weight[k, 1], weight[k, 2]
            here, there = 0.5 * (a * x + b * y), 0.5 * (p * x + q * y)
            extra = max(0.0, steep * abs(there - here) - weight[k, 3])
            spread = weight[k, 0] + extra
            forth, back = spread - (here + there), spread + (here + there)
            rate_a += forth * p
            rate_b += forth * q
            own += there - extra
            out[j, 0] += back * a
            out[j, 1] += back * b
            factor[j] -= here + extra
        out[i, 0] = (rate_a + own * a) * share[i]
        out[i, 1] = (rate_b + own * b) * share[i]


@_compiled
def _rates_3d(u, start, neighbour, weight, factor, share, steep, out):  # type: ignore[no-untyped-def]
    """As `_rates_2d`, with a third component."""
    for i in range(u.shape[0]):
        a, b, c = u[i, 0], u[i, 1], u[i, 2]
        rate_a, rate_b, rate_c, own = out[i, 0], out[i, 1], out[i, 2], factor[i]
        for k in range(start[i], start[i + 1]):
            j = neighbour[k]
            p, q, r = u[j, 0], u[j, 1], u[j, 2]
            x, y, z = weight[k, 1], weight[k, 2], weight[k, 3]
            here, there = 0.5 * (a * x + b * y + c * z), 0.5 * (p * x + q * y + r * z)
            extra = max(0.0, steep * abs(there - here) - weight[k, 4])
            spread = weight[k, 0] + extra
            forth, back = spread - (here + there), spread + (here + there)
            rate_a += forth * p
            rate_b += forth * q
            rate_c += forth * r
            own += there - extra
            out[j, 0] += back * a
            out[j, 1] += back * b
            out[j, 2] += back * c
            factor[j] -= here + extra
        out[i, 0] = (rate_a + own * a) * share[i]
        out[i, 1] = (rate_b + own * b) * share[i]
        out[i, 2] = (rate_c + own * c) * share[i]
