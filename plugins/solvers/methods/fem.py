"""Linear finite elements on triangles and tetrahedra: stiffness, mass, load, Dirichlet problems,
point evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu
from scipy.spatial import cKDTree

import gsnobench as gb
from gsnobench_plugins.solvers.meshing.topology import cell_measures, cells_of

FACTORIAL = {3: 2.0, 4: 6.0}  # nodes of a cell -> (parallelepiped / cell)


def basis_gradients(points: gb.Array, cells: gb.Array) -> tuple[gb.Array, gb.Array]:
    """Gradients of the hat functions on each cell (M, k, d) and the measures of the cells (M,)."""
    sides = points[cells[:, 1:]] - points[cells[:, :1]]  # (M, d, d): row j is x_j+1 - x_0
    inverse = np.linalg.inv(sides)  # (M, d, d): column j is the gradient of hat j+1
    others = inverse.transpose(0, 2, 1)  # (M, d, d)
    gradients = np.concatenate([-others.sum(axis=1, keepdims=True), others], axis=1)  # (M, k, d)
    return gradients, np.abs(np.linalg.det(sides)) / FACTORIAL[cells.shape[1]]


def _scatter(cells: gb.Array, local: gb.Array, size: int) -> sp.csr_array:
    """Sum of cell matrices (M, k, k) over a mesh of `size` nodes."""
    k = cells.shape[1]
    rows, columns = np.repeat(cells, k, axis=1).ravel(), np.tile(cells, (1, k)).ravel()
    return sp.coo_array((local.ravel(), (rows, columns)), shape=(size, size)).tocsr()


def stiffness(mesh: gb.Mesh, coefficient: gb.Array | float = 1.0) -> sp.csr_array:
    """K_ij = integral of a grad phi_i . grad phi_j, with one coefficient a cell, (N, N)."""
    gradients, measures = basis_gradients(mesh.points, cells_of(mesh))
    local = np.einsum("m,mid,mjd->mij", measures * coefficient, gradients, gradients)
    return _scatter(cells_of(mesh), local, mesh.size)


def mass(mesh: gb.Mesh) -> sp.csr_array:
    """Consistent mass matrix, exact for linear functions, (N, N)."""
    cells = cells_of(mesh)
    k = cells.shape[1]
    measures = np.abs(cell_measures(mesh.points, cells))
    local = measures[:, None, None] * (np.ones((k, k)) + np.eye(k)) / (k * (k + 1))
    return _scatter(cells, local, mesh.size)


def lumped_mass(mesh: gb.Mesh) -> gb.Array:
    """Share of the domain that belongs to each node, (N,); also the load of a unit source."""
    cells = cells_of(mesh)
    k = cells.shape[1]
    shares = np.repeat(np.abs(cell_measures(mesh.points, cells)) / k, k)
    return np.bincount(cells.ravel(), shares, mesh.size)


def load(mesh: gb.Mesh, source: gb.Array) -> gb.Array:
    """b_i = integral of f phi_i for a source given at the nodes (N,)."""
    return np.asarray(mass(mesh) @ source)


def factorise(matrix: sp.csr_array) -> SuperLU:
    """Sparse LU of a symmetric positive definite matrix, without pivoting away from its symmetry."""
    options = {"SymmetricMode": True}
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


def solve_dirichlet(
    matrix: sp.csr_array, rhs: gb.Array, is_fixed: gb.Array, values: gb.Array | float = 0.0
) -> gb.Array:
    """Solve A u = b for the free nodes, with u given where `is_fixed`, (N,)."""
    solution = np.where(is_fixed, values, 0.0)
    free = np.flatnonzero(~is_fixed)
    rest = (rhs - matrix @ solution)[free]
    solution[free] = factorise(matrix[free][:, free]).solve(rest)
    return solution


@dataclass(frozen=True, eq=False)
class DiffusionForm:
    """The stiffness matrix between free nodes as a linear map of the coefficient: pattern and map
    are made once.

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
        rows, columns = (
            number[np.repeat(cells, k, axis=1).ravel()],
            number[np.tile(cells, (1, k)).ravel()],
        )
        cell_of = np.repeat(np.arange(len(cells)), k * k)
        kept = (rows >= 0) & (columns >= 0)
        place = rows[kept] * len(free) + columns[kept]
        stored, entry = np.unique(place, return_inverse=True)
        weights = sp.coo_array(
            (local.ravel()[kept], (entry, cell_of[kept])), shape=(len(stored), len(cells))
        ).tocsr()
        indptr = np.concatenate(
            [[0], np.cumsum(np.bincount(stored // len(free), minlength=len(free)))]
        )
        return cls(free, indptr.astype(np.int32), (stored % len(free)).astype(np.int32), weights)

    def matrix(self, coefficient: gb.Array) -> sp.csr_array:
        """The stiffness matrix between free nodes for one coefficient a cell, (n, n)."""
        shape = (len(self.free), len(self.free))
        return sp.csr_array((self.weights @ coefficient, self.indices, self.indptr), shape=shape)


def locate(mesh: gb.Mesh, points: gb.Array) -> tuple[gb.Array, gb.Array]:
    """The cell that holds each point and its barycentric coordinates there, (m,) and (m, k).

    Points outside (a curved rim seen from another mesh) take the nearest cell, with coordinates cut
    to it.
    """
    cells = cells_of(mesh)
    gradients, _ = basis_gradients(mesh.points, cells)
    tree = cKDTree(mesh.points[cells].mean(axis=1))
    best = np.full(len(points), -np.inf)
    chosen = np.zeros(len(points), dtype=np.int64)
    open_points = np.arange(len(points))
    for neighbours in (4, 16, 64):
        neighbours = min(neighbours, len(cells))
        candidates = tree.query(points[open_points], k=neighbours)[1].reshape(len(open_points), -1)
        inner = _barycentric(mesh, gradients, candidates, points[open_points][:, None]).min(axis=2)
        winner = np.argmax(inner, axis=1)
        reached = np.take_along_axis(inner, winner[:, None], axis=1)[:, 0]
        best[open_points] = reached
        chosen[open_points] = np.take_along_axis(candidates, winner[:, None], axis=1)[:, 0]
        open_points = open_points[reached < -1e-10]
        if not len(open_points):
            break
    shares = np.clip(_barycentric(mesh, gradients, chosen, points), 0.0, None)
    return chosen, shares / shares.sum(axis=1, keepdims=True)


def _barycentric(mesh: gb.Mesh, gradients: gb.Array, cell: gb.Array, points: gb.Array) -> gb.Array:
    """Barycentric coordinates of points (..., d) in cells (...), (..., k)."""
    origin = mesh.points[cells_of(mesh)[cell][..., 0]]
    shares = np.einsum("...kd,...d->...k", gradients[cell], points - origin)
    shares[..., 0] += 1.0
    return np.asarray(shares)


def evaluation_matrix(mesh: gb.Mesh, points: gb.Array) -> sp.csr_array:
    """Values at points of the piecewise linear function with given node values, (m, N)."""
    if points.ndim != 2 or points.shape[1] != mesh.dim:
        raise gb.DataError(
            f"points: shape {points.shape} does not fit a mesh in {mesh.dim} dimensions; expected "
            f"(m, {mesh.dim})"
        )
    cell, shares = locate(mesh, points)
    nodes = cells_of(mesh)[cell]  # (m, k)
    indptr = np.arange(len(points) + 1) * nodes.shape[1]
    return sp.csr_array((shares.ravel(), nodes.ravel(), indptr), shape=(len(points), mesh.size))
