"""Diffusion on nested meshes: conjugate gradients preconditioned by a multigrid cycle.

All patterns are made once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU

import gsnobench as gb
from gsnobench.meshes.operators import factorise, node_volumes
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.methods.fem import DiffusionForm


@dataclass(frozen=True, eq=False)
class NestedDiffusion:
    """-div(a grad u) = f, u = 0 on a tag, on nested meshes; level 0 is the given mesh.

    Cells of a refined mesh come in fours, and the coarse hat functions have constant gradients on
    them: the exact Galerkin operator of a coarser level is therefore its own stiffness matrix with
    the mean coefficient of the four.
    """

    meshes: tuple[gb.Mesh, ...]
    forms: tuple[DiffusionForm, ...]
    prolongations: tuple[sp.csr_array, ...]  # level l -> l+1, between free nodes
    restrictions: tuple[sp.csr_array, ...]
    unit_load: gb.Array  # (n,) of the finest level

    @classmethod
    def of(cls, mesh: gb.Mesh, *, refinements: int, fixed_tag: str = "boundary") -> NestedDiffusion:
        """Refine a mesh and prepare every level."""
        meshes, prolongations = [mesh], []
        forms = [DiffusionForm.of(mesh, mesh.tags[fixed_tag])]
        for _ in range(refinements):
            finer, edges = refine(meshes[-1])
            form = DiffusionForm.of(finer, finer.tags[fixed_tag])
            prolongations.append(
                _prolongation(meshes[-1].size, edges)[form.free][:, forms[-1].free].tocsr()
            )
            meshes.append(finer)
            forms.append(form)
        restrictions = tuple(matrix.T.tocsr() for matrix in prolongations)
        unit_load = node_volumes(meshes[-1])[forms[-1].free]
        return cls(tuple(meshes), tuple(forms), tuple(prolongations), restrictions, unit_load)

    @property
    def finest(self) -> gb.Mesh:
        return self.meshes[-1]

    def solve(
        self,
        coefficient: gb.Array,
        rhs: gb.Array | None = None,
        *,
        tolerance: float = 1e-10,
        limit: int = 200,
    ) -> gb.Array:
        """Node values (N,) on the finest mesh for one coefficient per finest cell.

        The source is 1 unless a load is given.
        """
        if not (np.isfinite(coefficient).all() and (coefficient > 0).all()):
            raise gb.DataError(
                "diffusion: the coefficient is not positive everywhere; expected finite values > "
                "0; check its law"
            )
        load = self.unit_load if rhs is None else rhs[self.forms[-1].free]
        cycle = _Cycle.of(self, coefficient)
        solution = np.zeros(self.finest.size)
        solution[self.forms[-1].free] = cycle.conjugate_gradients(load, tolerance, limit)
        return solution


@dataclass(frozen=True, eq=False)
class _Cycle:
    """The matrices of one coefficient on every level, and the symmetric V-cycle made of them."""

    matrices: tuple[sp.csr_array, ...]
    dampings: tuple[gb.Array, ...]  # relaxation over diagonal, per level
    coarse: SuperLU
    nested: NestedDiffusion

    @classmethod
    def of(cls, nested: NestedDiffusion, coefficient: gb.Array) -> _Cycle:
        coefficients = [coefficient]
        for _ in nested.prolongations:
            coefficients.append(coefficients[-1].reshape(-1, 4).mean(axis=1))
        matrices = tuple(
            form.matrix(a) for form, a in zip(nested.forms, reversed(coefficients), strict=True)
        )
        dampings = tuple(0.7 / matrix.diagonal() for matrix in matrices)
        return cls(matrices, dampings, factorise(matrices[0].tocsc()), nested)

    def apply(self, residual: gb.Array, level: int) -> gb.Array:
        """An approximate solution of A x = r on a level."""
        if level == 0:
            return np.asarray(self.coarse.solve(residual))
        matrix, damping = self.matrices[level], self.dampings[level]
        x = damping * residual
        x += damping * (residual - matrix @ x)
        down = self.nested.restrictions[level - 1] @ (residual - matrix @ x)
        x += self.nested.prolongations[level - 1] @ self.apply(down, level - 1)
        x += damping * (residual - matrix @ x)
        x += damping * (residual - matrix @ x)
        return x

    def conjugate_gradients(self, load: gb.Array, tolerance: float, limit: int) -> gb.Array:
        """Solve to a residual of `tolerance` times the load."""
        top, matrix = len(self.matrices) - 1, self.matrices[-1]
        x = self.apply(load, top)
        residual = load - matrix @ x
        goal = tolerance * np.linalg.norm(load)
        direction, previous = np.zeros_like(load), 1.0
        for _ in range(limit):
            if np.linalg.norm(residual) <= goal:
                return x
            z = self.apply(residual, top)
            product = residual @ z
            direction = z + (product / previous) * direction
            image = matrix @ direction
            step = product / (direction @ image)
            x += step * direction
            residual -= step * image
            previous = product
        raise gb.DataError(
            f"diffusion: conjugate gradients did not reach {tolerance:g} in {limit} steps; "
            "expected a coefficient "
            "of moderate contrast; refine the mesh or soften the contrast"
        )


def _prolongation(size: int, edges: gb.Array) -> sp.csr_array:
    """Linear interpolation to a refined mesh: midpoints get the mean of their edge."""
    half = sp.csr_array(
        (np.full(2 * len(edges), 0.5), edges.ravel(), np.arange(len(edges) + 1) * 2),
        shape=(len(edges), size),
    )
    return sp.vstack([sp.eye_array(size, format="csr"), half], format="csr")
