"""Incompressible Rivlin-Saunders solids in plane strain: Newton's method, and the stress.

The elements are those of Taylor and Hood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU

import gsnobench as gb
from gsnobench.meshes.operators import factorise
from gsnobench_plugins.solvers.methods.taylor_hood import QUADRATURE, TaylorHood, scatter

TOLERANCE = 1e-11  # of the residual, relative to the first one of an increment
ITERATIONS = 40  # in an increment
SLOW = 0.05  # a step that leaves more of the residual needs a new factorisation
LARGEST_INCREMENT = 0.02  # of the load, in units of the shear modulus
# share of a pressure mass in the factorised matrix, which makes it factorisable in any order
QUASI_DEFINITE = 1e-8


@dataclass(frozen=True)
class RivlinSaunders:
    """W = c1 (I1 - 3) + c2 (I2 - 3), det F = 1.

    In plane strain I1 = I2, so that P = 2 (c1 + c2) F - p cof F.
    """

    c1: float
    c2: float

    @property
    def shear(self) -> float:
        """Shear modulus at rest."""
        return 2.0 * (self.c1 + self.c2)

    def deviator(self, stretch: gb.Array) -> gb.Array:
        """Deviatoric Cauchy stress xx, yy, xy (zz = -xx - yy) for gradients F (..., 2, 2)."""
        squared = stretch @ np.swapaxes(stretch, -1, -2)
        xx, yy, xy = squared[..., 0, 0], squared[..., 1, 1], squared[..., 0, 1]
        # in the plane B^-1 = tr(B) - B, which turns 2 c1 B - 2 c2 B^-1 into shear B and a pressure
        zz = 2.0 * (self.c1 - self.c2 + self.c2 * (xx + yy))
        mean = (self.shear * (xx + yy) + zz) / 3.0
        return np.stack([self.shear * xx - mean, self.shear * yy - mean, self.shear * xy], axis=-1)


def von_mises(deviator: gb.Array) -> gb.Array:
    """sqrt(3/2 s : s) of deviators (..., 3): xx, yy, xy with zz = -xx - yy."""
    xx, yy, xy = (deviator[..., k] for k in range(3))
    return np.asarray(np.sqrt(3.0 * (xx**2 + yy**2 + xx * yy + xy**2)))


@dataclass(frozen=True, eq=False)
class Deformation:
    """A solution: displacement (n, 2), pressure above that at rest (v,), and what it took."""

    displacement: gb.Array
    pressure: gb.Array
    iterations: int
    factorisations: int

    def stretch(self, space: TaylorHood) -> gb.Array:
        """F = 1 + grad u at the quadrature points, (M, Q, 2, 2)."""
        return np.asarray(space.gradient(self.displacement) + np.eye(2))


def deform(
    space: TaylorHood,
    material: RivlinSaunders,
    load: gb.Array,
    is_fixed: gb.Array,
    values: gb.Array | None = None,
) -> Deformation:
    """Equilibrium under a dead load (dofs,); unknowns `is_fixed` keep their values (default 0).

    Loads that are large beside the shear modulus come in equal increments. A factorisation is kept
    for as long as it reduces the residual well: the default problem is all but linear and needs
    one.
    """
    scaled = load / material.shear  # only lengths and strains: P / shear = F - cof F - q cof F
    largest = float(np.abs(_resultant(space, scaled)).max())
    increments = max(1, math.ceil(largest / LARGEST_INCREMENT))
    state = np.zeros(space.dofs) if values is None else np.where(is_fixed, values, 0.0)
    free = np.flatnonzero(~is_fixed)
    factors: SuperLU | None = None
    steps = made = 0
    for part in range(1, increments + 1):
        residual = _forces(space, state)[free] - scaled[free] * (part / increments)
        first = norm = float(np.linalg.norm(residual))
        for _ in range(ITERATIONS):
            if norm <= TOLERANCE * first:
                break
            if factors is None:
                factors, made = _factorise(space, state, free), made + 1
            state[free] -= factors.solve(residual)
            residual = _forces(space, state)[free] - scaled[free] * (part / increments)
            before, norm, steps = norm, float(np.linalg.norm(residual)), steps + 1
            factors = factors if norm <= SLOW * before or norm <= TOLERANCE * first else None
        if not norm <= TOLERANCE * first:
            raise gb.DataError(
                f"solid: no equilibrium was found (residual {norm / first:.1e} after {ITERATIONS} "
                "steps of Newton's method); "
                "expected a load that the solid can bear; lower the traction"
            )
    n = len(space.nodes)
    return Deformation(state[: 2 * n].reshape(n, 2), material.shear * state[2 * n :], steps, made)


def internal_forces(space: TaylorHood, material: RivlinSaunders, deformed: Deformation) -> gb.Array:
    """Forces of the stress on the unknowns, then -int (J - 1), (dofs,); for verification.

    They equal the load at free unknowns, load and reaction at fixed ones.
    """
    state = np.concatenate([deformed.displacement.ravel(), deformed.pressure / material.shear])
    forces = _forces(space, state)
    forces[: deformed.displacement.size] *= material.shear
    return forces


def _resultant(space: TaylorHood, load: gb.Array) -> gb.Array:
    return np.asarray(load[: 2 * len(space.nodes)].reshape(-1, 2).sum(axis=0))


def _cofactor(matrices: gb.Array) -> gb.Array:
    """cof F = det F F^-T of (..., 2, 2)."""
    a, b, c, d = (matrices[..., i, j] for i in (0, 1) for j in (0, 1))
    return np.stack([np.stack([d, -c], axis=-1), np.stack([-b, a], axis=-1)], axis=-2)


def _split(space: TaylorHood, state: gb.Array) -> tuple[gb.Array, gb.Array]:
    """Displacement gradient (M, Q, 2, 2) and pressure (M, Q)."""
    n = len(space.nodes)
    return space.gradient(state[: 2 * n].reshape(n, 2)), space.linear(state[2 * n :])


def _forces(space: TaylorHood, state: gb.Array) -> gb.Array:
    """int P : grad v and -int (J - 1) r per shape function, over the shear modulus, (dofs,)."""
    slope, pressure = _split(space, state)
    cofactor = _cofactor(slope)
    # written with grad u instead of F, so that nothing large cancels at small strain
    stress = slope - cofactor - pressure[..., None, None] * (np.eye(2) + cofactor)
    growth = (
        slope[..., 0, 0]
        + slope[..., 1, 1]
        + slope[..., 0, 0] * slope[..., 1, 1]
        - slope[..., 0, 1] * slope[..., 1, 0]
    )
    weighted = space.weights[..., None, None] * stress
    momentum = np.einsum("mqaj,mqij->mai", space.gradients, weighted, optimize=True).reshape(-1, 12)
    volume = -(space.weights * growth) @ QUADRATURE
    local = np.concatenate([momentum, volume], axis=1)
    return np.bincount(space.cell_dofs().ravel(), local.ravel(), space.dofs)


def _factorise(space: TaylorHood, state: gb.Array, free: gb.Array) -> SuperLU:
    """Sparse factors of the derivative of `_forces`: symmetric, and quasi-definite.

    A touch of compressibility makes it so.
    """
    number = np.full(space.dofs, -1)
    number[free] = np.arange(len(free))
    matrix = scatter(number[space.cell_dofs()], _tangent(space, state), len(free))
    shares = np.zeros(space.dofs)
    ones = np.ones((*space.weights.shape, 1))
    shares[2 * len(space.nodes) :] = -QUASI_DEFINITE * space.linear_load(ones)[:, 0]
    matrix = (matrix + sp.diags_array(shares[free])).tocsc()
    return factorise(matrix)


def _tangent(space: TaylorHood, state: gb.Array) -> gb.Array:
    """Derivative of the forces of every cell by its unknowns, (M, 15, 15)."""
    slope, pressure = _split(space, state)
    g, w = space.gradients, space.weights
    stiff = np.einsum("mqai,mqbi->mab", g * w[..., None, None], g, optimize=True)
    pressed = g[..., 0] * (w * (1.0 + pressure))[..., None]
    turn = np.einsum("mqa,mqb->mab", pressed, g[..., 1], optimize=True)
    turn = turn - turn.transpose(0, 2, 1)  # cofactors are linear in F: cross products are left
    cofactor = (np.eye(2) + _cofactor(slope)) * w[..., None, None]
    along = np.einsum("mqaj,mqij->mqai", g, cofactor, optimize=True)  # (M, Q, 6, 2)
    coupling = np.einsum("mqk,qp->mkp", along.reshape(*w.shape, 12), QUADRATURE, optimize=True)
    local = np.zeros((len(g), 15, 15))
    local[:, 0:12:2, 0:12:2] = local[:, 1:12:2, 1:12:2] = stiff
    local[:, 0:12:2, 1:12:2], local[:, 1:12:2, 0:12:2] = -turn, turn
    local[:, :12, 12:], local[:, 12:, :12] = -coupling, -coupling.transpose(0, 2, 1)
    return local
