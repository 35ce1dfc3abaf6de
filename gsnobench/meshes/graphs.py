"""Graphs on the nodes of a mesh: nearest neighbours and the normalised Gaussian Laplacian."""

from __future__ import annotations

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second
from scipy.sparse import coo_array, csr_array

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, ParamError
from gsnobench.meshes import topology


def knn_edges(points: Array, k: int) -> Array:
    """Unique undirected edges from each point to its k nearest others, (E, 2) int64 with i < j."""
    topology.check_points(points)
    if not 1 <= k < len(points):
        raise ParamError(
            f"knn_edges: {k} neighbours of {len(points)} points; expected 1..{len(points) - 1}; "
            "lower k"
        )
    tree = scipy.spatial.KDTree(points)
    _, closest = tree.query(points, k + 1)  # (N, k+1), the point itself comes first
    starts = np.repeat(np.arange(len(points)), k)
    return topology.unique_pairs(np.stack([starts, closest[:, 1:].ravel()], axis=1))


def gaussian_laplacian(mesh: Mesh, sigma: float = 1.0, edges: Array | None = None) -> csr_array:
    """I - D^-1/2 A D^-1/2 with A_ij = exp(-|x_i - x_j|^2 / (sigma l)^2) on the edges, (N, N).

    l is the mean length of the edges, so an infinite sigma makes all weights 1. Without `edges`
    those of the cells are used.
    """
    if not sigma > 0:
        raise ParamError(
            f"gaussian_laplacian: sigma is {sigma!r}; expected a positive number of mean edge "
            "lengths"
        )
    pairs = topology.edges(mesh) if edges is None else edges
    if len(pairs) == 0:
        raise DataError(
            f"gaussian_laplacian: {mesh.size} nodes and no edge; expected some; give the mesh cells"
        )
    i, j = pairs[:, 0], pairs[:, 1]
    squared = np.sum((mesh.points[i] - mesh.points[j]) ** 2, axis=1)  # (E,)
    scale = sigma * float(np.sqrt(squared).mean())
    weights = np.exp(-squared / scale**2)
    degree = np.bincount(i, weights, mesh.size) + np.bincount(j, weights, mesh.size)
    has_edge = np.bincount(pairs.ravel(), minlength=mesh.size) > 0
    if np.any(degree[has_edge] == 0):
        raise DataError(
            f"gaussian_laplacian: all weights of a node vanish at sigma {sigma:g}; expected about "
            "one mean edge length; raise it"
        )
    root = np.sqrt(np.where(has_edge, degree, 1.0))
    offdiagonal = -weights / (root[i] * root[j])
    nodes = np.arange(mesh.size)  # an isolated node is a component of its own: its diagonal is 0
    rows, columns = np.concatenate([i, j, nodes]), np.concatenate([j, i, nodes])
    entries = np.concatenate([offdiagonal, offdiagonal, has_edge.astype(float)])
    return sparse_matrix(entries, rows, columns, mesh.size)


def sparse_matrix(entries: Array, rows: Array, columns: Array, size: int) -> csr_array:
    """The (size, size) matrix with these entries; those at the same row and column are added."""
    indices = (rows.astype(np.int32), columns.astype(np.int32))  # SuperLU needs 32-bit indices
    return coo_array((entries, indices), shape=(size, size)).tocsr()
