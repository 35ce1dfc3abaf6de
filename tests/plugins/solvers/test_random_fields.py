"""Random fields: the stated law by two routes; a draw depends on (seed, split, index) alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gsnobench.data import Mesh
from gsnobench.errors import DataError
from gsnobench.files import Cache
from gsnobench.meshes.operators import node_volumes
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.methods.random_fields import (
    cached_eigenbasis,
    compute_eigenbasis,
    sample_rng,
    spde_draws,
)

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return mesh_polygon(SQUARE, nodes=300)


def test_eigenvalues_of_the_square_are_the_known_ones() -> None:
    basis = compute_eigenbasis(mesh_polygon(SQUARE, nodes=1200), 9)
    known = np.pi**2 * np.array([0, 1, 1, 2, 4, 4, 5, 5, 8])
    assert basis.values[0] == pytest.approx(0.0, abs=1e-8)
    assert np.allclose(basis.values[1:], known[1:], rtol=0.01)


def test_eigenvectors_are_orthonormal_in_the_lumped_mass(mesh: Mesh) -> None:
    basis = compute_eigenbasis(mesh, 40)
    gram = basis.vectors.T @ (node_volumes(mesh)[:, None] * basis.vectors)
    assert np.allclose(gram, np.eye(40), atol=1e-10)


def test_lanczos_and_the_dense_solver_agree(mesh: Mesh) -> None:
    few, all_of_them = compute_eigenbasis(mesh, 30), compute_eigenbasis(mesh, mesh.size)
    assert np.allclose(few.values, all_of_them.values[:30], rtol=1e-9, atol=1e-8)
    # the first 22 modes of the square end in a wide gap, so their span does not depend on the
    # solver
    ours, theirs = (basis.vectors[:, :22] @ basis.vectors[:, :22].T for basis in (few, all_of_them))
    assert few.values[22] - few.values[21] > 30.0
    assert np.allclose(ours, theirs, atol=1e-7)


def test_the_expansion_and_the_stochastic_equation_have_one_covariance(mesh: Mesh) -> None:
    basis = compute_eigenbasis(mesh, mesh.size)
    expected = basis.covariance(basis.spectrum(3.0, 2.0))
    columns = spde_draws(mesh, 3.0, np.eye(mesh.size))
    assert np.abs(columns @ columns.T - expected).max() < 1e-11 * np.abs(expected).max()


def test_draws_have_the_stated_variance(mesh: Mesh) -> None:
    basis = compute_eigenbasis(mesh, 60)
    spectrum = basis.spectrum(3.0, 2.0)
    weights = node_volumes(mesh)
    squares = [weights @ basis.draw(sample_rng(0, "train", i), spectrum) ** 2 for i in range(2000)]
    assert np.mean(squares) / weights.sum() == pytest.approx(basis.mean_variance(spectrum), rel=0.1)
    assert basis.mean_variance(spectrum) == pytest.approx(
        weights @ np.diag(basis.covariance(spectrum)), rel=1e-10
    )


def test_a_larger_alpha_is_smoother_and_a_larger_tau_shorter(mesh: Mesh) -> None:
    basis = compute_eigenbasis(mesh, 60)

    def roughness(tau: float, alpha: float) -> float:
        power = basis.spectrum(tau, alpha) ** 2
        return float(np.sum(power * basis.values) / np.sum(power))

    assert roughness(3.0, 3.0) < roughness(3.0, 2.0) < roughness(6.0, 2.0)


def test_random_numbers_depend_on_seed_split_and_index_alone() -> None:
    base = sample_rng(1, "train", 5).standard_normal(8)
    assert np.array_equal(base, sample_rng(1, "train", 5).standard_normal(8))
    others = [sample_rng(2, "train", 5), sample_rng(1, "valid", 5), sample_rng(1, "train", 6)]
    assert all(not np.allclose(base, other.standard_normal(8)) for other in others)


def test_the_basis_comes_back_from_disk_unchanged(mesh: Mesh, tmp_path: Path) -> None:
    first = cached_eigenbasis(mesh, 12, Cache(tmp_path))
    again = cached_eigenbasis(mesh, 12, Cache(tmp_path))
    assert np.array_equal(first.vectors, again.vectors)
    assert np.array_equal(first.values, again.values)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1


def test_more_modes_than_nodes_are_refused(mesh: Mesh) -> None:
    with pytest.raises(DataError, match="modes"):
        compute_eigenbasis(mesh, mesh.size + 1)
