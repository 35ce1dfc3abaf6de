"""Laplacian modes that the solvers draw random fields from and march heat in.

They stand beside `modes.eigenbasis`: its shift, start vector, refinement and signs give the same
spaces with other bits, and a change of bits here would change every data file.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, eigsh

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.operators import diffusion_matrix, factorise, node_volumes


def neumann_modes(mesh: Mesh, count: int) -> tuple[Array, Array]:
    """Lowest eigenvalues (K,) and vectors (N, K) of -Laplace, orthonormal in the lumped mass.

    Shift-invert Lanczos from a fixed start, or a dense solver for most of the spectrum. The largest
    entry of every vector is positive.
    """
    if not 1 <= count <= mesh.size:
        raise DataError(
            f"eigenbasis: {count} modes on {mesh.size} nodes; expected 1..{mesh.size}; use a finer "
            "mesh"
        )
    scale = 1.0 / np.sqrt(node_volumes(mesh))
    matrix = _symmetric_form(diffusion_matrix(mesh), scale)
    if 3 * count > mesh.size:
        values, vectors = scipy.linalg.eigh(matrix.toarray(), subset_by_index=(0, count - 1))
    else:
        shift = float(matrix.diagonal().mean()) / mesh.size
        values, vectors = eigsh(matrix, k=count, sigma=-shift, v0=_start(mesh.size))
    order = np.argsort(values, kind="stable")
    vectors = vectors[:, order] * scale[:, None]
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(count)])
    return np.maximum(values[order], 0.0), np.ascontiguousarray(vectors)


def dirichlet_modes(stiffness: csr_array, mass: Array, count: int) -> tuple[Array, Array]:
    """Lowest eigenvalues (K,) and vectors (n, K) of a definite stiffness, orthonormal in the mass.

    Stiffness and lumped mass are those between the free nodes. Shift-invert Lanczos from a fixed
    start.
    """
    scale = 1.0 / np.sqrt(mass)
    matrix = _symmetric_form(stiffness, scale)
    solve = factorise(matrix.tocsc()).solve
    inverse = LinearOperator(matrix.shape, matvec=solve, dtype=np.float64)
    values, vectors = eigsh(matrix, k=count, sigma=0.0, OPinv=inverse, v0=_start(len(scale)))
    order = np.argsort(values, kind="stable")
    return values[order], np.ascontiguousarray(vectors[:, order] * scale[:, None])


def _symmetric_form(stiffness: csr_array, scale: Array) -> csr_array:
    scaling = diags_array(scale)
    return (scaling @ stiffness @ scaling).tocsr()


def _start(size: int) -> Array:
    return np.random.default_rng(0).standard_normal(size)
