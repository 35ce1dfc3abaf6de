"""Interpolation: exact on linear functions, nearest place outside the mesh."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import eye_array
from toy_meshes import box, notched, sphere

from gsnobench.data import Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.interpolation import evaluation_matrix, interpolation
from gsnobench.meshes.topology import cells_of, triangulation


@pytest.mark.parametrize("dim", [2, 3])
def test_interpolation_is_exact_for_linear_functions(dim: int) -> None:
    mesh = box(5, dim, jitter=0.3)
    points = np.random.default_rng(2).random((300, dim))
    matrix = interpolation(mesh, points)
    assert matrix.shape == (300, mesh.size)
    assert np.allclose(matrix @ mesh.points, points, atol=1e-12)
    assert np.allclose(matrix.sum(axis=1), 1.0)
    assert matrix.data.min() >= 0


def test_interpolation_to_the_own_nodes_is_the_identity() -> None:
    mesh = box(6, jitter=0.3)
    assert np.allclose(interpolation(mesh, mesh.points).toarray(), np.eye(mesh.size), atol=1e-9)


def test_a_point_outside_takes_the_nearest_place_of_the_mesh() -> None:
    mesh = notched()
    points = np.random.default_rng(3).uniform(-0.3, 1.3, (200, 2))
    computed = interpolation(mesh, points) @ mesh.points
    # every side of every cell
    corners = mesh.points[triangulation(mesh)[:, [0, 1, 1, 2, 2, 0]]].reshape(-1, 2, 2)
    start, side = corners[:, 0], corners[:, 1] - corners[:, 0]
    share = np.einsum("psd,sd->ps", points[:, None] - start, side) / np.sum(side**2, axis=1)
    feet = start + np.clip(share, 0, 1)[:, :, None] * side
    to_sides = np.linalg.norm(points[:, None] - feet, axis=2).min(axis=1)
    apart = np.linalg.norm(computed - points, axis=1)
    inside = apart < 1e-9
    assert 20 < inside.sum() < 180
    assert np.allclose(apart[~inside], to_sides[~inside])
    in_notch = (points[:, 0] > 0.6) & (points[:, 0] < 1) & (np.abs(points[:, 1] - 0.5) < 0.05)
    assert in_notch.any() and not inside[in_notch].any()


@pytest.mark.parametrize("dim", [2, 3])
def test_the_nearest_place_of_the_unit_box_is_the_clipped_point(dim: int) -> None:
    mesh = box(4, dim, jitter=0.3)
    points = np.random.default_rng(4).uniform(-0.5, 1.5, (200, dim))
    assert np.allclose(interpolation(mesh, points) @ mesh.points, np.clip(points, 0, 1), atol=1e-12)


def test_flat_cells_do_not_disturb_interpolation() -> None:
    mesh = box(4)
    flat = np.concatenate([triangulation(mesh), [[0, 1, 2]]])  # three nodes of one side
    points = np.random.default_rng(5).random((50, 2))
    assert np.allclose(
        interpolation(Mesh(mesh.points, flat), points) @ mesh.points, points, atol=1e-12
    )


def test_interpolation_finds_the_nearest_cell_of_a_strongly_graded_mesh() -> None:
    rings = 0.5 * 1.3 ** (-np.arange(14.0))
    angles = np.arange(12) * np.pi / 6
    points = np.concatenate(
        [
            np.stack([r * np.cos(angles + 0.2 * i), r * np.sin(angles + 0.2 * i)], 1)
            for i, r in enumerate(rings)
        ]
    )
    mesh = Mesh(points, triangulation(Mesh(points)))
    targets = np.random.default_rng(0).uniform(-0.3, 0.3, (400, 2))
    assert np.allclose(interpolation(mesh, targets) @ points, targets, atol=1e-12)


def test_points_beside_a_surface_are_projected_on_it() -> None:
    mesh = sphere()
    outside = 1.3 * sphere(77).points
    computed = interpolation(mesh, outside) @ mesh.points
    assert np.all(np.linalg.norm(computed, axis=1) > 0.97)
    assert np.all(np.sum(computed * outside, axis=1) > 0.97 * 1.3)


@pytest.mark.parametrize("dim", [2, 3])
def test_point_evaluation_is_exact_for_linear_functions_and_local(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    rng = np.random.default_rng(5)
    shares = rng.dirichlet(np.ones(dim + 1), 200)
    cell = rng.integers(len(cells_of(mesh)), size=200)
    points = np.einsum("mk,mkd->md", shares, mesh.points[cells_of(mesh)[cell]])
    matrix = evaluation_matrix(mesh, points)
    assert np.allclose(matrix @ mesh.points, points, atol=1e-12)
    assert np.allclose(matrix.sum(axis=1), 1.0)
    assert abs(evaluation_matrix(mesh, mesh.points) - eye_array(mesh.size)).max() < 1e-9


@pytest.mark.parametrize("dim", [2, 3])
def test_both_ways_agree_to_rounding_inside_the_mesh(dim: int) -> None:
    mesh = box(5, dim, jitter=0.2)
    points = np.random.default_rng(6).random((300, dim))
    values = np.random.default_rng(7).standard_normal(mesh.size)
    first, second = (way(mesh, points) @ values for way in (interpolation, evaluation_matrix))
    assert np.allclose(first, second, atol=1e-11)


def test_evaluation_outside_gives_a_value_of_the_nearest_cell() -> None:
    mesh = notched()
    values = evaluation_matrix(mesh, np.array([[0.3, -0.01]])) @ mesh.points
    assert np.linalg.norm(values[0] - [0.3, 0.0]) < 0.03
    with pytest.raises(DataError, match="does not fit"):
        evaluation_matrix(mesh, np.zeros((3, 3)))
