"""Linear finite-element problems: loads, Dirichlet values, a stiffness for many coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench.meshes.operators import basis_gradients, factorise, mass_matrix
from gsnobench.meshes.topology import cells_of


def load(mesh: gb.Mesh, source: gb.Array) -> gb.Array:
    """b_i = integral of f phi_i for a source given at the nodes (N,)."""
    return np.asarray(mass_matrix(mesh) @ source)


def solve_dirichlet(
    matrix: sp.csr_array, rhs: gb.Array, is_fixed: gb.Array, values: gb.Array | float = 0.0
) -> gb.Array:
    """The u of A u = b at the free nodes, with values given where `is_fixed`, (N,)."""
    solution = np.where(is_fixed, values, 0.0)
    free = np.flatnonzero(~is_fixed)
    rest = (rhs - matrix @ solution)[free]
    solution[free] = factorise(matrix[free][:, free].tocsc()).solve(rest)
    return solution


@dataclass(frozen=True, eq=False)
class DiffusionForm:
    """The stiffness between free nodes as a linear map of the coefficient, prepared once.

    Row e of `weights` says how the stored entry e is summed from the cells, so a new coefficient
    costs one product.
    """

    free: gb.Array  # (n,) node numbers
    indptr: gb.Array
    indices: gb.Array
    weights: sp.csr_array  # (stored entries, M)

    @classmethod
    def of(cls, mesh: gb.Mesh, is_fixed: gb.Array) -> DiffusionForm:
        """Prepare for a mesh whose fixed nodes (N,) bool are left out."""
        cells = cells_of(mesh)
        k = cells.shape[1]
        gradients, measures = basis_gradients(mesh.points, cells)
        local = np.einsum("m,mid,mjd->mij", measures, gradients, gradients)
        free = np.flatnonzero(~is_fixed)
        number = np.full(mesh.size, -1)
        number[free] = np.arange(len(free))
        rows = number[np.repeat(cells, k, axis=1).ravel()]
        columns = number[np.tile(cells, (1, k)).ravel()]
        cell_of = np.repeat(np.arange(len(cells)), k * k)
        kept = (rows >= 0) & (columns >= 0)
        codes = rows[kept] * len(free) + columns[kept]
        stored, entry = np.unique(codes, return_inverse=True)
        parts = (local.ravel()[kept], (entry, cell_of[kept]))
        weights = sp.coo_array(parts, shape=(len(stored), len(cells))).tocsr()
        per_row = np.bincount(stored // len(free), minlength=len(free))
        indptr = np.concatenate([[0], np.cumsum(per_row)]).astype(np.int32)
        return cls(free, indptr, (stored % len(free)).astype(np.int32), weights)

    def matrix(self, coefficient: gb.Array) -> sp.csr_array:
        """The stiffness matrix between free nodes for one coefficient per cell, (n, n)."""
        shape = (len(self.free), len(self.free))
        return sp.csr_array((self.weights @ coefficient, self.indices, self.indptr), shape=shape)
