"""P1 interpolation from the nodes of a mesh to points, as sparse matrices.

Two ways stand side by side. `interpolation` is exact: a point outside gets the value at the nearest
place of the mesh. `evaluation_matrix` looks at cells with near centres only; the data files were
made with it, and its roundings and its choice outside the mesh are part of their content.
"""

from __future__ import annotations

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second
from scipy.sparse import coo_array, csr_array

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.operators import basis_gradients
from gsnobench.meshes.simplices import FLAT, fullness, nearest
from gsnobench.meshes.topology import cells_of, triangulation


def interpolation(source: Mesh, points: Array) -> csr_array:
    """Node values -> values at points, (P, N); outside the mesh those at its nearest place."""
    cells = triangulation(source)
    cells = cells[fullness(source.points[cells]) > FLAT]  # neighbours hold all that flat cells hold
    index, weights, _ = nearest(points, source.points[cells])
    rows = np.repeat(np.arange(len(points)), cells.shape[1])
    columns = cells[index].ravel()
    shape = (len(points), source.size)
    matrix = coo_array((weights.ravel(), (rows, columns)), shape=shape).tocsr()
    matrix.eliminate_zeros()
    return matrix


def evaluation_matrix(mesh: Mesh, points: Array) -> csr_array:
    """Node values -> values at points, (P, N), with v stored entries per point."""
    if points.ndim != 2 or points.shape[1] != mesh.dim:
        raise DataError(
            f"points: shape {points.shape} does not fit a mesh in {mesh.dim} dimensions; expected "
            f"(m, {mesh.dim})"
        )
    cell, shares = locate(mesh, points)
    nodes = cells_of(mesh)[cell]  # (P, v)
    indptr = np.arange(len(points) + 1) * nodes.shape[1]
    return csr_array((shares.ravel(), nodes.ravel(), indptr), shape=(len(points), mesh.size))


def locate(mesh: Mesh, points: Array) -> tuple[Array, Array]:
    """The cell that holds each point and its barycentric coordinates there, (P,) and (P, v).

    Points outside (a curved rim seen from another mesh) get the nearest cell, with coordinates cut
    to it.
    """
    cells = cells_of(mesh)
    gradients, _ = basis_gradients(mesh.points, cells)
    tree = scipy.spatial.cKDTree(mesh.points[cells].mean(axis=1))
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


def _barycentric(mesh: Mesh, gradients: Array, cell: Array, points: Array) -> Array:
    """Barycentric coordinates of points (..., d) in cells (...), (..., v)."""
    origin = mesh.points[cells_of(mesh)[cell][..., 0]]
    shares = np.einsum("...kd,...d->...k", gradients[cell], points - origin)
    shares[..., 0] += 1.0
    return np.asarray(shares)
