"""Cells, edges and boundary facets against hand values."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box, grid_points

from gsnobench.data import Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.operators import elements, lumped_mass, stiffness
from gsnobench.meshes.topology import (
    boundary_facets,
    boundary_loops,
    cell_edges,
    cells_of,
    directed_facets,
    edges,
    triangulation,
)


def test_edges_of_two_triangles_are_their_five_sides() -> None:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), np.array([[2, 1, 0], [3, 1, 2]]))
    computed = edges(mesh)
    assert computed.dtype == np.int64
    assert computed.tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]


def test_tetrahedra_have_six_edges() -> None:
    mesh = Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), np.array([[0, 1, 2, 3]]))
    assert len(edges(mesh)) == 6


@pytest.mark.parametrize("dim", [2, 3])
def test_points_without_cells_are_triangulated_over_their_hull(dim: int) -> None:
    cloud = Mesh(np.random.default_rng(1).random((120, dim)))
    assert np.array_equal(np.unique(edges(cloud)), np.arange(120))
    assert np.array_equal(edges(cloud), edges(Mesh(cloud.points, triangulation(cloud))))


def test_slivers_of_a_cloud_are_dropped_and_no_node_is_lost() -> None:
    lattice = Mesh(grid_points(5, 3))  # cospherical points: Qhull returns cells of no volume
    parts = elements(lattice)
    assert parts.volumes.min() > 1e-6
    assert np.isclose(lumped_mass(lattice).sum(), 1.0)


def test_a_thin_cloud_keeps_the_only_cells_of_its_nodes() -> None:
    strip = Mesh(np.array([[0.0, 0], [1, 1e-5], [2, 0], [3, 1e-5]]))
    assert np.array_equal(np.unique(triangulation(strip)), np.arange(4))


def test_boundary_facets_of_the_cube_cover_its_surface() -> None:
    mesh = box(4, 3)
    corners = mesh.points[boundary_facets(mesh)]
    areas = (
        np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        )
        / 2
    )
    assert np.isclose(areas.sum(), 6.0)


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (Mesh(np.array([[0.0, 0], [np.nan, 0], [0, 1]]), np.array([[0, 1, 2]])), "not finite"),
        (
            Mesh(np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]), np.array([[0, 1, 2, 3]])),
            "expected simplices",
        ),
        (Mesh(np.array([[0.0, 0], [1, 0], [1, 1]]), np.array([[0, 1, 3]])), r"expected 0\.\.2"),
        (Mesh(np.array([[0.0, 0], [1, 0], [2, 0]]), np.array([[0, 1, 2]])), "has no volume"),
        (
            Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [2, 2]]), np.array([[0, 1, 2]])),
            "node 3 .* is in no cell",
        ),
        (Mesh(np.array([[0.0, 0], [1, 0], [2, 0], [3, 0]])), "no Delaunay cells"),
    ],
)
def test_a_broken_mesh_is_refused_in_one_line(mesh: Mesh, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        stiffness(mesh)
    assert "\n" not in str(caught.value)


def test_cell_edges_ignore_order_and_repetition() -> None:
    cells = np.array([[4, 0, 2], [0, 2, 4]])
    assert cell_edges(cells).tolist() == [[0, 2], [0, 4], [2, 4]]
    assert cell_edges(cells.astype(np.int32)).dtype == np.int64
    assert cell_edges(np.zeros((0, 3), dtype=np.int64)).shape == (0, 2)


@pytest.mark.parametrize("dim", [2, 3])
def test_both_lists_of_facets_name_the_same_ones(dim: int) -> None:
    mesh = box(4, dim)
    both = boundary_facets(mesh), directed_facets(triangulation(mesh))
    first, second = (sorted(map(sorted, facets.tolist())) for facets in both)
    assert first == second


def test_directed_edges_have_the_domain_on_their_left() -> None:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]), np.array([[0, 1, 2], [0, 2, 3]]))
    assert sorted(directed_facets(cells_of(mesh)).tolist()) == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert [loop.tolist() for loop in boundary_loops(mesh)] == [[0, 1, 2, 3]]


def test_a_mesh_that_needs_cells_and_has_none_is_refused() -> None:
    with pytest.raises(DataError, match="it has no cells"):
        cells_of(Mesh(np.eye(2)))
