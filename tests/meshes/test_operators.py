"""P1 operators against hand values and exactness on linear functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from toy_meshes import box

from gsnobench.data import Mesh
from gsnobench.errors import DataError, ParamError
from gsnobench.meshes.graphs import gaussian_laplacian, knn_edges
from gsnobench.meshes.operators import (
    basis_gradients,
    diffusion_matrix,
    elements,
    factorise,
    gradient,
    lumped_mass,
    mass_matrix,
    node_volumes,
    smooth,
    smoother,
    solver_of,
    stiffness,
)
from gsnobench.meshes.topology import cells_of, edges, triangulation


def test_stiffness_of_the_right_triangle_by_hand() -> None:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1]]), np.array([[0, 1, 2]]))
    assert np.allclose(stiffness(mesh).toarray(), [[1, -0.5, -0.5], [-0.5, 0.5, 0], [-0.5, 0, 0.5]])
    assert np.allclose(lumped_mass(mesh), 1 / 6)


@pytest.mark.parametrize("dim", [2, 3])
def test_energy_of_a_linear_function_is_its_slope_squared_times_the_volume(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    slope = np.arange(1.0, dim + 1)
    values = mesh.points @ slope + 7
    flux = stiffness(mesh) @ values
    assert np.isclose(values @ flux, slope @ slope)
    assert np.allclose(flux[~mesh.tags["wall"]], 0, atol=1e-13)
    assert np.isclose(lumped_mass(mesh).sum(), 1.0)


def test_a_surface_in_space_has_its_area_and_tangential_gradient() -> None:
    tilt = np.array([[1.0, 0, 0.75], [0, 1, 0]])  # the plane z = 0.75 x: area 1.25
    flat = box(5, 2, jitter=0.2)
    mesh = Mesh(flat.points @ tilt, flat.cells)
    assert np.isclose(lumped_mass(mesh).sum(), 1.25)
    values = mesh.points[:, 2]
    slopes = np.stack([matrix @ values for matrix in gradient(mesh)], axis=1)
    assert np.allclose(slopes, [0.48, 0, 0.36])  # (0,0,1) projected on the plane
    assert np.isclose(values @ (stiffness(mesh) @ values), 1.25 * 0.36)


@pytest.mark.parametrize("dim", [2, 3])
def test_gradient_is_exact_for_linear_functions(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    slope = np.arange(1.0, dim + 1)
    computed = np.stack([matrix @ (mesh.points @ slope - 3) for matrix in gradient(mesh)], axis=1)
    assert np.allclose(computed, slope)


def test_gradient_weighs_cells_by_volume() -> None:
    # areas 1/2 and 3/2
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [-3, 0]]), np.array([[0, 1, 2], [0, 2, 3]]))
    along_x, _ = gradient(mesh)
    assert np.allclose(along_x @ np.array([0.0, 1, 0, 0]), [0.25, 1, 0.25, 0])


def test_smoothing_conserves_mass_and_constants() -> None:
    mesh = box(9, jitter=0.3)
    mass = lumped_mass(mesh)
    values = np.random.default_rng(0).standard_normal((mesh.size, 3))
    smoothed = smooth(mesh, 0.01, values)
    assert np.allclose(mass @ smoothed, mass @ values)
    assert np.allclose(smooth(mesh, 0.3, np.full(mesh.size, 2.0)), 2.0)
    assert np.all(smoothed.std(axis=0) < 0.7 * values.std(axis=0))
    assert np.allclose(smooth(mesh, 0.0, values), values)


def test_smoothing_divides_a_mode_by_one_plus_t_lambda() -> None:
    mesh = box(7, jitter=0.3)
    values, vectors = scipy.linalg.eigh(stiffness(mesh).toarray(), np.diag(lumped_mass(mesh)))
    apply = smoother(mesh, 0.05)
    for mode in (0, 3, 20):
        assert np.allclose(apply(vectors[:, mode]), vectors[:, mode] / (1 + 0.05 * values[mode]))


def test_negative_smoothing_time_is_refused() -> None:
    with pytest.raises(ParamError, match="t is -0.1"):
        smoother(box(3), -0.1)


def test_duplicate_nodes_are_one_clear_error() -> None:
    mesh = box(4)
    points = mesh.points.copy()
    points[7] = points[2]
    for broken in (Mesh(points, mesh.cells), Mesh(points)):
        for operation in (edges, gaussian_laplacian, stiffness, gradient):
            with pytest.raises(DataError, match="nodes 2 and 7 are at one place"):
                operation(broken)
    with pytest.raises(DataError, match="nodes 2 and 7 are at one place"):
        knn_edges(points, 3)


def test_a_disconnected_mesh_has_the_operators_of_its_parts() -> None:
    part = box(4, jitter=0.2)
    cells = triangulation(part)
    both = Mesh(
        np.concatenate([part.points, part.points + 5]), np.concatenate([cells, cells + part.size])
    )
    joined = stiffness(both).toarray()
    assert np.allclose(joined[: part.size, : part.size], stiffness(part).toarray())
    assert np.all(joined[: part.size, part.size :] == 0)
    assert np.isclose(lumped_mass(both).sum(), 2.0)


@pytest.mark.parametrize("dim", [2, 3])
def test_both_ways_of_assembly_agree_to_rounding(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    parts = elements(mesh)
    gradients, measures = basis_gradients(mesh.points, cells_of(mesh))
    assert np.allclose(gradients, parts.slopes, atol=1e-12)
    assert np.allclose(measures, parts.volumes, rtol=1e-12)
    assert abs(diffusion_matrix(mesh) - stiffness(mesh)).max() < 1e-13
    assert np.allclose(node_volumes(mesh), lumped_mass(mesh), rtol=1e-13)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_stiffness_with_a_coefficient_is_symmetric_and_blind_to_constants(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    matrix = diffusion_matrix(mesh, np.linspace(1.0, 2.0, len(cells_of(mesh))))
    assert abs(matrix - matrix.T).max() < 1e-13
    assert np.abs(matrix @ np.ones(mesh.size)).max() < 1e-12


@pytest.mark.parametrize("dim", [2, 3])
def test_both_masses_integrate(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    ones, x = np.ones(mesh.size), mesh.points[:, 0]
    assert node_volumes(mesh).sum() == pytest.approx(1.0, rel=1e-12)
    assert np.allclose(mass_matrix(mesh) @ ones, node_volumes(mesh))
    assert ones @ (mass_matrix(mesh) @ ones) == pytest.approx(1.0, rel=1e-12)
    assert x @ (mass_matrix(mesh) @ x) == pytest.approx(1 / 3, rel=1e-12)


def test_rows_and_columns_of_a_symmetric_matrix_have_the_same_factors() -> None:
    matrix = diffusion_matrix(box(5, jitter=0.2)) + scipy.sparse.eye_array(25, format="csr")
    right = np.arange(25.0)
    by_row, by_column = (factorise(form).solve(right) for form in (matrix, matrix.tocsc()))
    assert np.allclose(by_row, by_column, rtol=1e-12)
    assert np.allclose(matrix @ by_row, right)


@pytest.mark.parametrize("count", [1, 2, 16, 17, 18, 33, 49])
def test_columns_are_solved_for_by_groups_with_the_same_bits(count: int) -> None:
    mesh = box(20, jitter=0.2)
    matrix = diffusion_matrix(mesh) + scipy.sparse.eye_array(mesh.size, format="csr")
    right = np.random.default_rng(0).standard_normal((mesh.size, count))
    assert np.array_equal(solver_of(matrix)(right), factorise(matrix).solve(right))
    assert np.array_equal(solver_of(matrix)(right[:, 0]), factorise(matrix).solve(right[:, 0]))
