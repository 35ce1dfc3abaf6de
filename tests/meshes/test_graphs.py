"""Graphs on nodes against hand values."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box

from gsnobench.data import Mesh
from gsnobench.errors import DataError, ParamError
from gsnobench.meshes.graphs import gaussian_laplacian, knn_edges
from gsnobench.meshes.topology import edges


def test_every_node_has_its_nearest_neighbours() -> None:
    points = np.random.default_rng(0).random((60, 3))
    computed = {tuple(pair) for pair in knn_edges(points, 4).tolist()}
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    nearest = np.argsort(distance, axis=1)[:, 1:5]
    assert computed == {(min(i, int(j)), max(i, int(j))) for i in range(60) for j in nearest[i]}
    assert all(i < j for i, j in computed)


def test_more_neighbours_than_points_is_refused() -> None:
    with pytest.raises(ParamError, match="5 neighbours of 5 points"):
        knn_edges(np.random.default_rng(0).random((5, 2)), 5)


def test_gaussian_laplacian_of_a_path_by_hand() -> None:
    path = Mesh(np.array([[0.0, 0], [1, 0], [3, 0]]), np.array([[0, 1], [1, 2]]))
    a, b = np.exp(-1 / 4), np.exp(-4 / 4)
    expected = np.eye(3)
    expected[0, 1] = expected[1, 0] = -a / np.sqrt(a * (a + b))
    expected[1, 2] = expected[2, 1] = -b / np.sqrt(b * (a + b))
    # the mean edge is 1.5 long
    assert np.allclose(gaussian_laplacian(path, sigma=2 / 1.5).toarray(), expected, atol=1e-15)


def test_sigma_counts_mean_edge_lengths_and_an_infinite_one_makes_all_weights_equal() -> None:
    mesh = box(4)
    larger = Mesh(7 * mesh.points, mesh.cells)
    left, right = (gaussian_laplacian(size, sigma=0.8).toarray() for size in (mesh, larger))
    assert np.allclose(left, right, atol=1e-14)
    adjacency = np.zeros((mesh.size, mesh.size))
    for i, j in edges(mesh):
        adjacency[i, j] = adjacency[j, i] = 1
    root = np.sqrt(adjacency.sum(0))
    expected = np.eye(mesh.size) - adjacency / np.outer(root, root)
    assert np.allclose(gaussian_laplacian(mesh, sigma=np.inf).toarray(), expected, atol=1e-15)


def test_an_isolated_node_is_a_component_of_its_own() -> None:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [5, 5]]), np.array([[0, 1, 2]]))
    laplacian = gaussian_laplacian(mesh).toarray()
    assert np.all(laplacian[3] == 0)
    assert np.allclose(np.linalg.eigvalsh(laplacian)[:2], 0, atol=1e-14)


def test_a_graph_without_edges_is_refused() -> None:
    with pytest.raises(DataError, match="2 nodes and no edge"):
        gaussian_laplacian(Mesh(np.eye(2)), edges=np.zeros((0, 2), dtype=np.int64))


def test_a_width_that_kills_all_weights_is_refused() -> None:
    with pytest.raises(DataError, match="all weights of a node vanish"):
        gaussian_laplacian(box(4), sigma=1e-2)
    with pytest.raises(ParamError, match="sigma is -1"):
        gaussian_laplacian(box(4), sigma=-1.0)
