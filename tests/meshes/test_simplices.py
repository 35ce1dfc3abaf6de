"""Volumes, gradients and nearest simplices against closed formulas."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box

from gsnobench.meshes.simplices import cell_measures, fullness, hat_gradients, nearest, volumes
from gsnobench.meshes.topology import cells_of


@pytest.mark.parametrize("dim", [2, 3])
def test_measures_are_volumes_with_the_sign_of_the_orientation(dim: int) -> None:
    mesh = box(4, dim, jitter=0.2)
    cells = cells_of(mesh)
    signed = cell_measures(mesh.points, cells)
    assert np.allclose(np.abs(signed), volumes(mesh.points[cells]), rtol=1e-12)
    turned = cells[:, [1, 0, *range(2, dim + 1)]]
    assert np.allclose(cell_measures(mesh.points, turned), -signed, rtol=1e-12)


def test_a_flat_simplex_is_not_full() -> None:
    corners = np.array([[[0.0, 0], [1, 0], [0, 1]], [[0, 0], [1, 0], [2, 0]]])
    assert fullness(corners).tolist() == [0.5, 0.0]


@pytest.mark.parametrize("dim", [2, 3])
def test_gradients_of_the_hat_functions_reproduce_the_coordinates(dim: int) -> None:
    corners = np.random.default_rng(0).random((20, dim + 1, dim))
    slopes = hat_gradients(corners)  # (20, dim + 1, dim)
    assert np.allclose(np.einsum("mvi,mvj->mij", corners, slopes), np.eye(dim), atol=1e-9)
    assert np.allclose(slopes.sum(axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("vertices", [2, 3, 4])
def test_the_nearest_simplex_is_that_of_a_dense_search(vertices: int) -> None:
    random = np.random.default_rng(vertices)
    corners, points = random.random((40, vertices, 3)), random.uniform(-0.5, 1.5, (60, 3))
    index, weights, distance = nearest(points, corners)
    feet = np.einsum("pv,pvd->pd", weights, corners[index])
    assert np.all(weights >= 0) and np.allclose(weights.sum(axis=1), 1.0)
    assert np.allclose(np.linalg.norm(points - feet, axis=1), distance, atol=1e-12)
    drawn = random.dirichlet(np.ones(vertices), 500)  # (500, v) points of every simplex
    inner = np.einsum("qv,mvd->mqd", drawn, corners).reshape(-1, 3)
    to_inner = np.linalg.norm(points[:, None] - inner, axis=2).min(axis=1)
    assert np.all(distance <= to_inner + 1e-12)
