"""P1 finite-element operators of a mesh: stiffness, mass, gradient, smoothing, factorisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import SuperLU, splu

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, ParamError
from gsnobench.meshes.graphs import sparse_matrix
from gsnobench.meshes.simplices import FLAT, cell_measures, fullness, hat_gradients, volumes
from gsnobench.meshes.topology import cells_of, triangulation

COLUMNS = 16  # that are solved for at a time


@dataclass(frozen=True, eq=False)
class Elements:
    """P1 simplices: nodes, volumes and gradients of hat functions; also surfaces in space."""

    cells: Array  # (M, v)
    volumes: Array  # (M,)
    slopes: Array  # (M, v, d)


def elements(mesh: Mesh) -> Elements:
    """The finite elements of a mesh; a flat cell or a node in no cell is an error."""
    cells = triangulation(mesh)
    corners = mesh.points[cells]
    flat = np.flatnonzero(fullness(corners) <= FLAT)
    if flat.size:
        raise DataError(
            f"mesh: cell {flat[0]} (one of {flat.size}) has no volume; expected proper simplices; "
            "remove them"
        )
    orphans = np.flatnonzero(np.bincount(cells.ravel(), minlength=mesh.size) == 0)
    if orphans.size:
        raise DataError(
            f"mesh: node {orphans[0]} (one of {orphans.size}) is in no cell; expected none; drop "
            "such nodes"
        )
    return Elements(cells, volumes(corners), hat_gradients(corners))


def stiffness(mesh: Mesh) -> csr_array:
    """K_ij = integral of grad phi_i . grad phi_j, for triangles the cotangent Laplacian, (N, N)."""
    return stiffness_and_mass(mesh)[0]


def lumped_mass(mesh: Mesh) -> Array:
    """Row sums of the P1 mass matrix: each node's share of the volume, (N,)."""
    return stiffness_and_mass(mesh)[1]


def stiffness_and_mass(mesh: Mesh) -> tuple[csr_array, Array]:
    """`stiffness` and `lumped_mass` for the price of one."""
    parts = elements(mesh)
    products = parts.slopes @ parts.slopes.transpose(0, 2, 1)  # (M, v, v)
    local = parts.volumes[:, None, None] * products
    return assemble(parts.cells, local, mesh.size), _star_volumes(parts) / parts.cells.shape[1]


def gradient(mesh: Mesh) -> tuple[csr_array, ...]:
    """Nodal gradient, one (N, N) matrix per dimension: the mean over a node's cells by volume."""
    parts = elements(mesh)
    weights = parts.volumes[:, None] / _star_volumes(parts)[parts.cells]  # (M, v) of cell at node
    slopes = parts.slopes[:, None]  # (M, 1, v, d)
    return tuple(
        assemble(parts.cells, weights[:, :, None] * slopes[..., axis], mesh.size)
        for axis in range(mesh.dim)
    )


def smoother(mesh: Mesh, t: float) -> Callable[[Array], Array]:
    """x -> (M + tK)^-1 M x, one implicit step of the heat equation (Neumann), for x of (N, ...).

    The matrix is factorised once, for many x.
    """
    if t < 0:
        raise ParamError(f"smoother: t is {t!r}; expected a time >= 0 (length squared)")
    matrix, mass = stiffness_and_mass(mesh)
    solver = factorise(csr_array(diags_array(mass) + t * matrix))

    def apply(values: Array) -> Array:
        columns = np.asarray(values, dtype=float).reshape(mesh.size, -1)
        return solver.solve(mass[:, None] * columns).reshape(values.shape)

    return apply


def smooth(mesh: Mesh, t: float, values: Array) -> Array:
    """Values smoothed over the length sqrt(t); use `smoother` for several calls on one mesh."""
    return smoother(mesh, t)(values)


def factorise(matrix: csr_array | csc_array) -> SuperLU:
    """Sparse LU of a symmetric positive definite matrix, in an order that keeps the factors thin.

    A CSR matrix is read as the CSC form of its transpose, which costs nothing and equals it up to
    rounding; give CSC where the last bits must not depend on that.
    """
    columns = matrix if matrix.format == "csc" else matrix.T
    options = {"SymmetricMode": True}
    return splu(columns, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


def solver_of(matrix: csr_array | csc_array) -> Callable[[Array], Array]:
    """b -> the solution x of matrix @ x = b, for b of (N,) or (N, k); factorised once.

    SuperLU works on copies of all its columns: a few at a time take a third of the memory, and half
    of the time on a mesh that fits into a cache. The result is the same to the last bit, as long as
    no column is by itself.
    """
    whole = factorise(matrix).solve

    def solve(values: Array) -> Array:
        if values.ndim == 1 or values.shape[1] <= COLUMNS:
            return whole(values)
        solution = np.empty(values.shape, order="F")
        cuts = range(COLUMNS, values.shape[1] - 1, COLUMNS)  # the last two stay together
        for first, last in pairwise([0, *cuts, values.shape[1]]):
            solution[:, first:last] = whole(values[:, first:last])
        return solution

    return solve


def assemble(cells: Array, local: Array, size: int) -> csr_array:
    """Sum of cell matrices (M, v, v) over a mesh of `size` nodes, (size, size)."""
    vertices = cells.shape[1]
    rows, columns = np.repeat(cells, vertices, axis=1), np.tile(cells, vertices)
    return sparse_matrix(local.ravel(), rows.ravel(), columns.ravel(), size)


def _star_volumes(parts: Elements) -> Array:
    """Volume of all cells of each node, (N,)."""
    return np.bincount(parts.cells.ravel(), np.repeat(parts.volumes, parts.cells.shape[1]))


# ------------------------------------------------------------------------ as the solvers assemble
# The same matrices with a coefficient per cell. They round differently: inverses and determinants
# by LAPACK, cells weighted before they are summed. A change of order here would change every data
# file, a change above every cached mode and every recorded error.


def basis_gradients(points: Array, cells: Array) -> tuple[Array, Array]:
    """Gradients of the hat functions on each cell (M, v, d) and the measures of the cells (M,)."""
    sides = points[cells[:, 1:]] - points[cells[:, :1]]  # (M, d, d): row j is x_j+1 - x_0
    inverse = np.linalg.inv(sides)  # (M, d, d): column j is the gradient of hat j+1
    others = inverse.transpose(0, 2, 1)  # (M, d, d)
    gradients = np.concatenate([-others.sum(axis=1, keepdims=True), others], axis=1)  # (M, v, d)
    return gradients, np.abs(cell_measures(points, cells))


def diffusion_matrix(mesh: Mesh, coefficient: Array | float = 1.0) -> csr_array:
    """K_ij = integral of a grad phi_i . grad phi_j, with one coefficient per cell, (N, N)."""
    cells = cells_of(mesh)
    gradients, measures = basis_gradients(mesh.points, cells)
    local = np.einsum("m,mid,mjd->mij", measures * coefficient, gradients, gradients)
    return assemble(cells, local, mesh.size)


def mass_matrix(mesh: Mesh) -> csr_array:
    """Consistent mass matrix, exact for linear functions, (N, N)."""
    cells = cells_of(mesh)
    k = cells.shape[1]
    measures = np.abs(cell_measures(mesh.points, cells))
    local = measures[:, None, None] * (np.ones((k, k)) + np.eye(k)) / (k * (k + 1))
    return assemble(cells, local, mesh.size)


def node_volumes(mesh: Mesh) -> Array:
    """Share of the domain that belongs to each node, (N,); also the load of a unit source."""
    cells = cells_of(mesh)
    k = cells.shape[1]
    shares = np.repeat(np.abs(cell_measures(mesh.points, cells)) / k, k)
    return np.bincount(cells.ravel(), shares, mesh.size)
