"""Graphs, finite-element operators, distances and interpolation against hand values and exactness
on linear functions.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, ParamError
from gsnobench.meshes.distances import boundary_distance
from gsnobench.meshes.graphs import gaussian_laplacian, knn_edges
from gsnobench.meshes.interpolation import interpolation
from gsnobench.meshes.operators import elements, gradient, lumped_mass, smooth, smoother, stiffness
from gsnobench.meshes.topology import boundary_facets, edges, triangulation


def grid_points(side: int, dim: int) -> Array:
    axis = np.linspace(0.0, 1.0, side)
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


def box(side: int, dim: int = 2, jitter: float = 0.0) -> Mesh:
    """The unit square or cube, each small box cut into dim! simplices; inner nodes may be moved."""
    points = grid_points(side, dim)
    strides = side ** np.arange(dim - 1, -1, -1)
    origins = np.array([i for i in np.ndindex(*[side - 1] * dim)]) @ strides
    paths = [
        np.cumsum([0, *(strides[axis] for axis in order)]) for order in permutations(range(dim))
    ]
    cells = np.concatenate([origins[:, None] + path for path in paths])
    rim = np.any((points == 0) | (points == 1), axis=1)
    moved = points + jitter / side * np.where(
        rim[:, None], 0, np.random.default_rng(0).uniform(-1, 1, points.shape)
    )
    return Mesh(moved, cells, {"wall": rim, "left": points[:, 0] == 0})


def notched(side: int = 13) -> Mesh:
    """The square without the wedge |y - 1/2| < 0.1 for x > 1/2: not convex."""
    mesh = box(side)
    cells = triangulation(mesh)
    centres = mesh.points[cells].mean(axis=1)
    cells = cells[~((centres[:, 0] > 0.5) & (np.abs(centres[:, 1] - 0.5) < 0.1))]
    used, inverse = np.unique(cells, return_inverse=True)
    return Mesh(mesh.points[used], inverse.reshape(cells.shape))


def sphere(count: int = 200) -> Mesh:
    """Points of the unit sphere and the triangles of their convex hull: a closed surface in space."""
    from scipy.spatial import ConvexHull

    turns = np.arange(count) + 0.5
    height, angle = 1 - 2 * turns / count, np.pi * (1 + 5**0.5) * turns
    ring = np.sqrt(1 - height**2)
    points = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)
    return Mesh(points, ConvexHull(points).simplices.astype(np.int64))


# ------------------------------------------------------------------------------------------- graphs


def test_edges_of_two_triangles_are_their_five_sides() -> None:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), np.array([[2, 1, 0], [3, 1, 2]]))
    found = edges(mesh)
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]


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


def test_every_node_has_its_nearest_neighbours() -> None:
    points = np.random.default_rng(0).random((60, 3))
    found = {tuple(pair) for pair in knn_edges(points, 4).tolist()}
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    nearest = np.argsort(distance, axis=1)[:, 1:5]
    assert found == {(min(i, int(j)), max(i, int(j))) for i in range(60) for j in nearest[i]}
    assert all(i < j for i, j in found)


def test_more_neighbours_than_points_is_refused() -> None:
    with pytest.raises(ParamError, match="5 neighbours of 5 points"):
        knn_edges(np.random.default_rng(0).random((5, 2)), 5)


def test_gaussian_laplacian_of_a_path_by_hand() -> None:
    path = Mesh(np.array([[0.0, 0], [1, 0], [3, 0]]), np.array([[0, 1], [1, 2]]))
    a, b = np.exp(-1 / 4), np.exp(-4 / 4)
    expected = np.eye(3)
    expected[0, 1] = expected[1, 0] = -a / np.sqrt(a * (a + b))
    expected[1, 2] = expected[2, 1] = -b / np.sqrt(b * (a + b))
    assert np.allclose(gaussian_laplacian(path, sigma=2.0).toarray(), expected, atol=1e-15)
    assert np.allclose(
        gaussian_laplacian(path).toarray(),
        gaussian_laplacian(path, sigma=1.5).toarray(),
        atol=1e-15,
    )


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
        gaussian_laplacian(box(4), sigma=1e-3)
    with pytest.raises(ParamError, match="sigma is -1"):
        gaussian_laplacian(box(4), sigma=-1.0)


# ---------------------------------------------------------------------------------- finite elements


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
    found = np.stack([matrix @ (mesh.points @ slope - 3) for matrix in gradient(mesh)], axis=1)
    assert np.allclose(found, slope)


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
    import scipy.linalg

    mesh = box(7, jitter=0.3)
    values, vectors = scipy.linalg.eigh(stiffness(mesh).toarray(), np.diag(lumped_mass(mesh)))
    apply = smoother(mesh, 0.05)
    for mode in (0, 3, 20):
        assert np.allclose(apply(vectors[:, mode]), vectors[:, mode] / (1 + 0.05 * values[mode]))


def test_negative_smoothing_time_is_refused() -> None:
    with pytest.raises(ParamError, match="t is -0.1"):
        smoother(box(3), -0.1)


# -------------------------------------------------------------------------- distance, interpolation


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


@pytest.mark.parametrize(("dim", "side"), [(2, 9), (3, 5)])
def test_distance_is_to_the_sides_and_not_to_their_nodes(dim: int, side: int) -> None:
    mesh = box(side, dim, jitter=0.4)
    exact = np.minimum(mesh.points, 1 - mesh.points).min(axis=1)
    assert np.allclose(boundary_distance(mesh, "wall"), exact, atol=1e-13)
    assert np.allclose(boundary_distance(mesh, "left"), mesh.points[:, 0], atol=1e-13)
    cloud = Mesh(mesh.points, None, mesh.tags)
    to_nodes = np.linalg.norm(mesh.points[:, None] - mesh.points[mesh.tags["wall"]], axis=2).min(
        axis=1
    )
    assert np.allclose(boundary_distance(cloud, "wall"), to_nodes)


def test_distance_to_a_tag_nobody_has_is_refused() -> None:
    with pytest.raises(DataError, match="no node has the tag 'wal'; did you mean 'wall'"):
        boundary_distance(box(3), "wal")


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
    found = interpolation(mesh, points) @ mesh.points
    # every side of every cell
    corners = mesh.points[triangulation(mesh)[:, [0, 1, 1, 2, 2, 0]]].reshape(-1, 2, 2)
    start, side = corners[:, 0], corners[:, 1] - corners[:, 0]
    share = np.einsum("psd,sd->ps", points[:, None] - start, side) / np.sum(side**2, axis=1)
    places = start + np.clip(share, 0, 1)[:, :, None] * side
    to_sides = np.linalg.norm(points[:, None] - places, axis=2).min(axis=1)
    apart = np.linalg.norm(found - points, axis=1)
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
    found = interpolation(mesh, outside) @ mesh.points
    assert np.all(np.linalg.norm(found, axis=1) > 0.97)
    assert np.all(np.sum(found * outside, axis=1) > 0.97 * 1.3)


# ------------------------------------------------------------------------------------------- errors


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
