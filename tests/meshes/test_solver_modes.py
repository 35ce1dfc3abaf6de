"""Modes of the solvers: known spectra, orthonormal, the same spaces as `modes.eigenbasis`."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box

from gsnobench.data import Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.modes import eigenbasis
from gsnobench.meshes.operators import diffusion_matrix, node_volumes
from gsnobench.meshes.solver_modes import dirichlet_modes, neumann_modes


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return box(18, jitter=0.2)


def test_neumann_eigenvalues_of_the_square_are_the_known_ones() -> None:
    values, _ = neumann_modes(box(33), 9)
    known = np.pi**2 * np.array([0, 1, 1, 2, 4, 4, 5, 5, 8])
    assert values[0] == pytest.approx(0.0, abs=1e-8)
    assert np.allclose(values[1:], known[1:], rtol=0.02)


def test_neumann_modes_are_orthonormal_and_their_largest_entry_is_positive(mesh: Mesh) -> None:
    _, vectors = neumann_modes(mesh, 40)
    gram = vectors.T @ (node_volumes(mesh)[:, None] * vectors)
    assert np.allclose(gram, np.eye(40), atol=1e-10)
    assert np.array_equal(vectors.max(axis=0), np.abs(vectors).max(axis=0))


def test_neumann_modes_by_lanczos_and_by_a_dense_solver_agree(mesh: Mesh) -> None:
    few, complete = neumann_modes(mesh, 30), neumann_modes(mesh, mesh.size)
    assert np.allclose(few[0], complete[0][:30], rtol=1e-9, atol=1e-8)


def test_neumann_modes_span_the_space_of_the_eigenbasis(mesh: Mesh) -> None:
    basis, (values, vectors) = eigenbasis(mesh, 10, gap=True), neumann_modes(mesh, 10)
    kept = len(basis.values)
    assert np.allclose(basis.values, values[:kept], rtol=1e-8, atol=1e-8)
    overlap = np.linalg.svd(basis.analysis @ vectors[:, :kept], compute_uv=False)
    assert np.allclose(overlap, 1.0, atol=1e-8)


def test_more_modes_than_nodes_are_refused(mesh: Mesh) -> None:
    with pytest.raises(DataError, match="modes"):
        neumann_modes(mesh, mesh.size + 1)


def test_dirichlet_modes_are_those_of_the_eigenbasis_with_a_fixed_wall(mesh: Mesh) -> None:
    free = np.flatnonzero(~mesh.tags["wall"])
    mass = node_volumes(mesh)[free]
    values, vectors = dirichlet_modes(diffusion_matrix(mesh)[free][:, free], mass, 6)
    assert np.allclose(values, eigenbasis(mesh, 6, dirichlet=("wall",)).values, rtol=1e-8)
    assert np.allclose(vectors.T @ (mass[:, None] * vectors), np.eye(6), atol=1e-10)
    known = np.pi**2 * np.array([2, 5, 5, 8, 10, 10])
    assert np.allclose(values, known, rtol=0.06)
