"""Plane incompressible flow as vorticity and stream function, by linear elements.

They conserve what the equations conserve.

    dw/dt + u . grad w = nu Laplace w + f,  -Laplace psi = w,  u = (psi_y, -psi_x);  psi = 0 and
    dw/dn = 0 on the boundary.

The velocity is that of the piecewise linear psi, one vector per cell. Advection is then an
antisymmetric matrix between neighbours, (psi_left - psi_right) / 6 for each edge: it keeps total
vorticity, energy and enstrophy to round-off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

import gsnobench as gb
from gsnobench.meshes.operators import diffusion_matrix, factorise, node_volumes
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import boundary_edges, cells_of
from gsnobench_plugins.solvers.methods.corners import corner_coefficient
from gsnobench_plugins.solvers.methods.integrate import Rhs, rk4, spectral_radius

# Of rk4 over the modulus of the fastest rate: the half-disk of stability reaches 2.61.
LONGEST_STEP = 2.4
# The only licence given to the compiler is to fuse a product and a sum into one rounding.
_compiled = njit(cache=True, error_model="numpy", fastmath={"contract"})


@dataclass(frozen=True, eq=False)
class Elimination:
    """L D L^T of a symmetric matrix between some nodes of a mesh.

    Indices are unsigned, which spares compiled loops the test for negative ones.
    """

    nodes: gb.Array  # (n,) uint32, in the order of elimination
    start: gb.Array  # (n + 1,) uint32
    row: gb.Array  # (nnz,) uint32: the columns of L below its unit diagonal
    value: gb.Array  # (nnz,)
    share: gb.Array  # (n,) 1 / D


@dataclass(frozen=True, eq=False)
class VorticityScheme:
    """What the scheme knows of a mesh."""

    mass: gb.Array  # (N,) lumped
    edge: gb.Array  # (E, 2) uint32
    # (E, 2) uint32: the nodes opposite the edge, on its left and on its right; on the rim a rim
    # node
    across: gb.Array
    stiffness: gb.Array  # (E,) integral of grad phi_i . grad phi_j
    poisson: Elimination

    def stream_function(self, vorticity: gb.Array) -> gb.Array:
        """psi with -Laplace psi = w, zero on the whole boundary, (N,)."""
        psi = np.zeros(self.mass.size)
        _solve(self.poisson, self.mass, vorticity, np.empty(self.poisson.nodes.size), psi)
        return psi

    def advection(self, psi: gb.Array, vorticity: gb.Array) -> gb.Array:
        """Integrals of -(u . grad w) phi_i, (N,)."""
        out = np.zeros(self.mass.size)
        _exchange(self.edge, self.across, np.zeros(len(self.edge)), psi, vorticity, out)
        return out

    def advective_rate(self, psi: gb.Array) -> float:
        """A bound on the frequencies of the advection by psi, 1/s.

        It is the largest row sum of its matrix between unit-mass nodes.
        """
        return float(_row_sums(self.edge, self.across, psi, 1.0 / np.sqrt(self.mass)).max())

    def diffusive_rate(self) -> float:
        """The fastest decay at unit viscosity, 1/s; the worst cell decides."""

        def rhs(state: gb.Array, out: gb.Array) -> None:
            out[...] = 0.0
            _exchange(self.edge, self.across, self.stiffness, still, state, out)
            out /= self.mass

        still = np.zeros(self.mass.size)
        return spectral_radius(rhs, self.mass.shape)


def vorticity_scheme(mesh: gb.Mesh) -> VorticityScheme:
    """The scheme on a mesh of counter-clockwise triangles; psi is zero on all boundary loops."""
    cells = cells_of(mesh)
    if cell_measures(mesh.points, cells).min() <= 0:
        raise gb.DataError(
            "mesh: some cells are flat or clockwise; expected positive areas; reorder them"
        )
    edge, across = _edges(cells, mesh.size)
    plain = diffusion_matrix(mesh).tocsr()
    is_free = ~np.isin(np.arange(mesh.size), boundary_edges(mesh))
    free = np.flatnonzero(is_free)
    corrected = diffusion_matrix(mesh, corner_coefficient(mesh))
    return VorticityScheme(
        mass=node_volumes(mesh),
        edge=edge.astype(np.uint32),
        across=across.astype(np.uint32),
        stiffness=np.asarray(plain[edge[:, 0], edge[:, 1]]).ravel(),
        poisson=_eliminate(corrected[free][:, free], free),
    )


def _edges(cells: gb.Array, count: int) -> tuple[gb.Array, gb.Array]:
    """Every edge once, first < second, and the nodes opposite, left and right, (E, 2) each."""
    first, second, third = (np.roll(cells, -turn, axis=1).ravel() for turn in range(3))
    is_forward = first < second
    key = np.where(is_forward, first * count + second, second * count + first)
    unique, entry = np.unique(key, return_inverse=True)
    edge = np.stack([unique // count, unique % count], axis=1)
    across = edge.copy()  # without a cell on a side both ends lie on the rim, where psi = 0
    across[entry[is_forward], 0] = third[is_forward]
    across[entry[~is_forward], 1] = third[~is_forward]
    return edge, across


def _eliminate(matrix: sp.csr_array, nodes: gb.Array) -> Elimination:
    factors = factorise(matrix.tocsc())
    assert np.array_equal(factors.perm_r, factors.perm_c)  # no pivoting, so U = D L^T
    below = sp.tril(factors.L, k=-1).tocsc()
    below.sort_indices()
    order = np.argsort(factors.perm_c)
    return Elimination(
        nodes=nodes[order].astype(np.uint32),
        start=below.indptr.astype(np.uint32),
        row=below.indices.astype(np.uint32),
        value=below.data,
        share=1.0 / factors.U.diagonal(),
    )


def vorticity_rhs(scheme: VorticityScheme, viscosity: float, source: gb.Array) -> Rhs:
    """The rate of change of the vorticity (N,) under a source (N,)."""
    psi, unknowns = np.zeros(scheme.mass.size), np.empty(scheme.poisson.nodes.size)
    diffusion, share = viscosity * scheme.stiffness, 1.0 / scheme.mass

    def rhs(state: gb.Array, out: gb.Array) -> None:
        _solve(scheme.poisson, scheme.mass, state, unknowns, psi)
        out[...] = 0.0
        _exchange(scheme.edge, scheme.across, diffusion, psi, state, out)
        _finish(share, source, out)

    return rhs


@dataclass(frozen=True, eq=False)
class VorticityFlow:
    """A scheme with its physics, and the fastest decay that its steps must follow."""

    scheme: VorticityScheme
    viscosity: float
    source: gb.Array  # (N,)
    decay: float  # 1/s

    def march(
        self, vorticity: gb.Array, times: Sequence[float], *, step: float = LONGEST_STEP
    ) -> Iterator[gb.Array]:
        """The vorticity at each of the times, (N,), from that at the first.

        Before each interval the step is set anew, to `step` over the fastest rate of the flow as it
        is then.
        """
        rhs = vorticity_rhs(self.scheme, self.viscosity, self.source)
        state = np.array(vorticity, dtype=np.float64)
        yield state
        for interval in zip(times[:-1], times[1:], strict=True):
            frequency = self.scheme.advective_rate(self.scheme.stream_function(state))
            if not math.isfinite(frequency):
                raise gb.DataError(
                    f"vorticity: it is not finite at t = {interval[0]:g}; expected a bounded flow; "
                    "weaken the source or the start"
                )
            longest = step / max(math.hypot(self.decay, frequency), 1e-300)
            *_, state = rk4(rhs, state, interval, longest)
            yield state


def vorticity_flow(scheme: VorticityScheme, viscosity: float, source: gb.Array) -> VorticityFlow:
    """The flow of a viscous fluid under a steady source of vorticity."""
    return VorticityFlow(scheme, viscosity, source, viscosity * scheme.diffusive_rate())


# ----------------------------------------------------------------------------------- compiled loops


def _solve(
    poisson: Elimination, mass: gb.Array, vorticity: gb.Array, unknowns: gb.Array, psi: gb.Array
) -> None:
    factors = (poisson.nodes, poisson.start, poisson.row, poisson.value, poisson.share)
    _substitute(*factors, mass, vorticity, unknowns, psi)


@_compiled
def _substitute(nodes, start, row, value, share, mass, vorticity, x, psi):  # type: ignore[no-untyped-def]
    for k in range(nodes.shape[0]):
        x[k] = mass[nodes[k]] * vorticity[nodes[k]]
    for k in range(nodes.shape[0]):
        here = x[k]
        for m in range(start[k], start[k + 1]):
            x[row[m]] -= value[m] * here
    for k in range(nodes.shape[0] - 1, -1, -1):
        here = x[k] * share[k]
        for m in range(start[k], start[k + 1]):
            here -= value[m] * x[row[m]]
        x[k] = here
        psi[nodes[k]] = here


@_compiled
def _exchange(edge, across, diffusion, psi, vorticity, out):  # type: ignore[no-untyped-def]
    """Add what the ends of each edge exchange: antisymmetric by flow, symmetric by diffusion."""
    for e in range(edge.shape[0]):
        i, j = edge[e, 0], edge[e, 1]
        flow = (psi[across[e, 0]] - psi[across[e, 1]]) * (1.0 / 6.0)
        w_i, w_j = vorticity[i], vorticity[j]
        spread = diffusion[e] * (w_j - w_i)
        out[i] -= spread + flow * w_j
        out[j] += spread + flow * w_i


@_compiled
def _finish(share, source, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = share[i] * out[i] + source[i]


@_compiled
def _row_sums(edge, across, psi, scale):  # type: ignore[no-untyped-def]
    sums = np.zeros(scale.shape[0])
    for e in range(edge.shape[0]):
        i, j = edge[e, 0], edge[e, 1]
        size = abs(psi[across[e, 0]] - psi[across[e, 1]]) * (1.0 / 6.0) * scale[i] * scale[j]
        sums[i] += size
        sums[j] += size
    return sums
