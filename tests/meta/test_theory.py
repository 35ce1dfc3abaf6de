"""The paper's propositions as properties of our bases on random meshes and graphs.

Pure linear algebra, no training.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gsnobench.data import Array, Mesh
from gsnobench.meshes.graphs import gaussian_laplacian, knn_edges
from gsnobench.meshes.modes import Basis, Kind, eigenbasis
from gsnobench.meshes.operators import stiffness
from gsnobench.meshes.topology import triangulation

few = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
seeds = st.integers(0, 10_000)
sizes = st.integers(12, 40)
kinds = st.sampled_from(["fem", "gaussian", "knn"])
dims = st.sampled_from([2, 3])


def random_mesh(size: int, dim: int, seed: int) -> Mesh:
    points = np.random.default_rng(seed).random((size, dim))
    tags = {"wall": points[:, 0] < 0.3}
    return Mesh(points, triangulation(Mesh(points)), tags)


def complete_basis(mesh: Mesh, kind: Kind) -> Basis:
    return eigenbasis(mesh, mesh.size, kind=kind, neighbours=5)


def first_modes(basis: Basis, k: int) -> Basis:
    return Basis(basis.values[:k], basis.vectors[:, :k], basis.mass, basis.residual)


def spectral_layer(basis: Basis, kernel: Array, v: Array) -> Array:
    """sum_p phi_p phi_p^T M v R_p with (k, C, C) kernels: (N, C) -> (N, C)."""
    result: Array = basis.vectors @ np.einsum("kc,kcd->kd", basis.analysis @ v, kernel)
    return result


def norm(mass: Array, v: Array) -> float:
    return float(np.sqrt(np.sum(mass[:, None] * v.reshape(len(mass), -1) ** 2)))


@few
@given(seeds, sizes, kinds, dims)
def test_bases_are_orthonormal_in_their_mass_and_complete(
    seed: int, size: int, kind: Kind, dim: int
) -> None:
    basis = complete_basis(random_mesh(size, dim, seed), kind)
    assert np.allclose(basis.analysis @ basis.vectors, np.eye(size), atol=1e-9)
    assert np.allclose(basis.vectors @ basis.analysis, np.eye(size), atol=1e-8)
    assert np.all(np.diff(basis.values) >= 0) and basis.values[0] >= 0


@few
@given(seeds, sizes, kinds, st.floats(0.05, 0.95))
def test_truncation_error_is_bounded_by_energy_over_the_next_eigenvalue(
    seed: int, size: int, kind: Kind, part: float
) -> None:
    basis = complete_basis(random_mesh(size, 2, seed), kind)
    k = max(1, int(part * size))
    f = np.random.default_rng(seed + 1).standard_normal(size)
    coefficients = basis.analysis @ f
    energy = float(np.sum(basis.values * coefficients**2))
    rest = norm(basis.mass, f - basis.vectors[:, :k] @ coefficients[:k]) ** 2
    assert np.isclose(rest, np.sum(coefficients[k:] ** 2), rtol=1e-8)
    assert rest <= energy / basis.values[k] * (1 + 1e-9)


@few
@given(seeds, sizes, kinds, st.floats(0.1, 4.0), st.floats(0.05, 0.95))
def test_truncation_error_is_bounded_by_the_sobolev_norm(
    seed: int, size: int, kind: Kind, beta: float, part: float
) -> None:
    basis = complete_basis(random_mesh(size, 2, seed), kind)
    k = max(1, int(part * size))
    f = np.random.default_rng(seed + 1).standard_normal(size)
    coefficients = basis.analysis @ f
    sobolev = np.sum((1 + basis.values) ** beta * coefficients**2)
    rest = norm(basis.mass, f - basis.vectors[:, :k] @ coefficients[:k]) ** 2
    assert rest <= (1 + basis.values[k]) ** -beta * sobolev * (1 + 1e-9)


@few
@given(seeds, sizes, kinds)
def test_energy_in_modes_is_the_energy_of_the_operator(seed: int, size: int, kind: Kind) -> None:
    mesh = random_mesh(size, 2, seed)
    pairs = knn_edges(mesh.points, 5) if kind == "knn" else None
    operator = stiffness(mesh) if kind == "fem" else gaussian_laplacian(mesh, edges=pairs)
    basis = complete_basis(mesh, kind)
    f = np.random.default_rng(seed + 1).standard_normal(size)
    assert np.isclose(
        f @ (operator @ f), np.sum(basis.values * (basis.analysis @ f) ** 2), rtol=1e-8
    )


@few
@given(seeds, sizes, kinds)
def test_all_modes_realise_any_operator_diagonal_in_the_basis(
    seed: int, size: int, kind: Kind
) -> None:
    basis = complete_basis(random_mesh(size, 2, seed), kind)
    random = np.random.default_rng(seed + 1)
    multiplier, v = random.standard_normal(size), random.standard_normal((size, 1))
    root = np.sqrt(basis.mass)[:, None]
    # commutes with the scaled Laplacian
    symmetric = (root * basis.vectors) * multiplier @ (root * basis.vectors).T
    expected = symmetric @ (root * v) / root
    assert np.allclose(
        spectral_layer(basis, multiplier[:, None, None], v),
        expected,
        atol=1e-9 * np.abs(expected).max(),
    )


@few
@given(seeds, sizes, st.integers(2, 7))
def test_all_modes_and_all_frequencies_realise_any_joint_multiplier(
    seed: int, size: int, frames: int
) -> None:
    basis = complete_basis(random_mesh(size, 2, seed), "gaussian")
    random = np.random.default_rng(seed + 1)
    v = random.standard_normal((size, frames))
    kernels = random.standard_normal((size, frames))  # one temporal convolution per mode
    joint = np.fft.irfft(
        np.fft.rfft(kernels, axis=1) * np.fft.rfft(basis.analysis @ v, axis=1), n=frames, axis=1
    )
    shift = (np.arange(frames)[:, None] - np.arange(frames)) % frames
    circulant = kernels[:, shift]  # (k, T, T)
    direct = np.einsum(
        "nk,kts,km,ms->nt", basis.vectors, circulant, basis.analysis, v, optimize=True
    )
    assert np.allclose(basis.vectors @ joint, direct, atol=1e-10 * np.abs(direct).max())


@few
@given(seeds, sizes, kinds, st.floats(0.05, 0.95))
def test_truncating_the_input_costs_no_more_than_its_tail(
    seed: int, size: int, kind: Kind, part: float
) -> None:
    basis = complete_basis(random_mesh(size, 2, seed), kind)
    k = max(1, int(part * size))
    random = np.random.default_rng(seed + 1)
    v, kernel = random.standard_normal((size, 3)), random.standard_normal((size, 3, 3))
    low = basis.vectors[:, :k] @ (basis.analysis[:k] @ v)
    difference = norm(
        basis.mass, spectral_layer(basis, kernel, v) - spectral_layer(basis, kernel, low)
    )
    largest = max(np.linalg.norm(matrix, 2) for matrix in kernel)
    assert difference <= largest * norm(basis.mass, v - low) * (1 + 1e-9)


@few
@given(seeds, sizes, kinds)
def test_the_layer_commutes_with_a_permutation_of_nodes_and_basis(
    seed: int, size: int, kind: Kind
) -> None:
    basis = first_modes(complete_basis(random_mesh(size, 2, seed), kind), 6)
    random = np.random.default_rng(seed + 1)
    order = random.permutation(size)
    moved = Basis(basis.values, basis.vectors[order], basis.mass[order], basis.residual)
    v, kernel = random.standard_normal((size, 3)), random.standard_normal((6, 3, 3))
    assert np.allclose(
        spectral_layer(moved, kernel, v[order]), spectral_layer(basis, kernel, v)[order], atol=1e-10
    )


@few
@given(seeds, sizes, kinds, st.booleans())
def test_the_projector_of_a_recomputed_basis_is_the_permuted_one(
    seed: int, size: int, kind: Kind, walled: bool
) -> None:
    mesh = random_mesh(size, 2, seed)
    order = np.random.default_rng(seed + 1).permutation(size)
    new_number = np.argsort(order)  # old node -> new node
    tags = {tag: nodes[order] for tag, nodes in mesh.tags.items()}
    moved = Mesh(mesh.points[order], new_number[triangulation(mesh)], tags)
    walls, k = ("wall",) if walled else (), 4
    wide = eigenbasis(mesh, k + 1, kind=kind, neighbours=5, dirichlet=walls)
    narrow = eigenbasis(moved, k, kind=kind, neighbours=5, dirichlet=walls)
    # a cut cluster has no unique projector
    assume(wide.values[k] - wide.values[k - 1] > 1e-6 * wide.values[k])
    projector = wide.vectors[:, :k] @ wide.analysis[:k]
    assert np.allclose(narrow.vectors @ narrow.analysis, projector[np.ix_(order, order)], atol=1e-7)


@few
@given(seeds, sizes, kinds)
def test_signs_of_the_modes_do_not_change_the_layer(seed: int, size: int, kind: Kind) -> None:
    basis = first_modes(complete_basis(random_mesh(size, 2, seed), kind), 8)
    random = np.random.default_rng(seed + 1)
    signs = random.choice([-1.0, 1.0], 8)
    flipped = Basis(basis.values, basis.vectors * signs, basis.mass, basis.residual)
    v, kernel = random.standard_normal((size, 3)), random.standard_normal((8, 3, 3))
    assert np.array_equal(spectral_layer(flipped, kernel, v), spectral_layer(basis, kernel, v))


def test_a_rotation_inside_a_pair_does_change_the_layer_unless_its_kernels_are_equal() -> None:
    """Differs: the paper's equivariance needs equal kernels for modes of one eigenspace."""
    angle = 2 * np.pi * np.arange(12) / 12
    ring = Mesh(
        np.stack([np.cos(angle), np.sin(angle)], 1),
        np.stack([np.arange(12), (np.arange(12) + 1) % 12], 1),
    )
    basis = eigenbasis(ring, 3, kind="gaussian")
    assert basis.values[1] == pytest.approx(basis.values[2])
    turn = np.eye(3)
    turn[1:, 1:] = [[0.6, 0.8], [-0.8, 0.6]]
    rotated = Basis(basis.values, basis.vectors @ turn, basis.mass, basis.residual)
    random = np.random.default_rng(0)
    v, kernel = random.standard_normal((12, 2)), random.standard_normal((3, 2, 2))
    assert not np.allclose(
        spectral_layer(rotated, kernel, v), spectral_layer(basis, kernel, v), atol=1e-2
    )
    kernel[2] = kernel[1]
    assert np.allclose(spectral_layer(rotated, kernel, v), spectral_layer(basis, kernel, v))
