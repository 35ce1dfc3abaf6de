"""Meshes: exact count, conforming, well shaped, graded, deterministic; refinement is nested."""

from __future__ import annotations

import numpy as np
import pytest

from gsnobench.data import Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import boundary_edges, boundary_loops, cell_edges
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.shapes.geometry import contains, simplify_loop

TURN = np.linspace(0.0, 2 * np.pi, 400, endpoint=False)
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
NOTCHED = np.array(
    [[0, 0], [0.49, 0], [0.49, 0.4], [0.51, 0.4], [0.51, 0], [1, 0], [0.5, np.sqrt(0.75)]]
)
ELLIPSE = np.stack([np.cos(TURN), 0.6 * np.sin(TURN)], axis=1)
WEDGE = np.array([[-0.2, -0.15], [0.2, -0.15], [0.0, 0.2]])
FLOWER = 0.5 + (0.35 + 0.1 * np.cos(6 * TURN))[:, None] * np.stack(
    [np.cos(TURN), np.sin(TURN)], axis=1
)


def disc(x: float, y: float, radius: float) -> np.ndarray:
    return np.array([x, y]) + radius * np.stack([np.cos(TURN), np.sin(TURN)], axis=1)


def lake() -> np.ndarray:
    """A shore with arms far narrower than the body and wiggles smaller than any mesh edge."""
    east = [[0, 0], [3, 0], [3, 1], [2.5, 1], [2.6, 3], [2.52, 3], [2.4, 1], [1.2, 1], [1, 2.5]]
    north = [[0.7, 3.5], [0.6, 3.45], [0.9, 2.4], [1, 1], [0.4, 1]]
    corners = np.array([*east, *north, [-1.5, 1.4], [-1.52, 1.3], [0, 0.6]])
    rng = np.random.default_rng(3)
    shore = []
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        steps = max(int(np.linalg.norm(b - a) / 0.07), 1)
        along = a + (b - a) * (np.arange(steps) / steps)[:, None]
        along[1:] += rng.normal(0.0, 0.006, (steps - 1, 2))
        shore.append(along)
    return np.concatenate(shore)


DOMAINS = {
    "notched-298": (NOTCHED, (), 298),
    "notched-1184": (NOTCHED, (), 1184),
    "ellipse-421": (ELLIPSE, (WEDGE,), 421),
    "ellipse-1244": (ELLIPSE, (WEDGE,), 1244),
    "flower-1168": (FLOWER, (disc(0.5, 0.5, 0.1),), 1168),
    "two-holes-700": (SQUARE, (disc(0.3, 0.3, 0.12), disc(0.7, 0.6, 0.2)), 700),
    "lake-450": (lake(), (), 450),
    "lake-1000": (lake(), (), 1000),
    "lake-1830": (lake(), (), 1830),
    "lake-3663": (lake(), (), 3663),
}


@pytest.fixture(scope="module", params=DOMAINS, ids=str)
def meshed(request: pytest.FixtureRequest) -> tuple[Mesh, int, int]:
    outer, holes, nodes = DOMAINS[request.param]
    return mesh_polygon(outer, holes, nodes=nodes), nodes, len(holes)


def test_the_node_count_is_exact_and_every_node_is_used(meshed: tuple[Mesh, int, int]) -> None:
    mesh, nodes, _ = meshed
    assert mesh.size == nodes
    assert np.array_equal(np.unique(mesh.cells), np.arange(nodes))


def test_no_angle_is_below_25_degrees(meshed: tuple[Mesh, int, int]) -> None:
    assert min_angle(meshed[0]) >= 25.0


def test_triangles_are_counter_clockwise_and_fill_the_boundary_loops(
    meshed: tuple[Mesh, int, int],
) -> None:
    mesh, _, holes = meshed
    areas = cell_measures(mesh.points, mesh.cells)
    loops = [mesh.points[loop] for loop in boundary_loops(mesh)]
    enclosed = sum(
        0.5 * np.sum(p[:, 0] * np.roll(p[:, 1], -1) - np.roll(p[:, 0], -1) * p[:, 1]) for p in loops
    )
    assert (areas > 0).all()
    assert len(loops) == 1 + holes
    assert areas.sum() == pytest.approx(enclosed, rel=1e-12)


def test_the_boundary_tag_is_exactly_the_rim(meshed: tuple[Mesh, int, int]) -> None:
    mesh, _, holes = meshed
    rim = np.zeros(mesh.size, dtype=bool)
    rim[boundary_edges(mesh).ravel()] = True
    assert np.array_equal(mesh.tags["boundary"], rim)
    assert len(mesh.cells) == 2 * mesh.size - rim.sum() - 2 + 2 * holes  # Euler


def test_holes_have_their_own_tags() -> None:
    single = mesh_polygon(SQUARE, (disc(0.5, 0.5, 0.2),), nodes=200)
    assert set(single.tags) == {"boundary", "outer", "hole"}
    away = np.linalg.norm(single.points[single.tags["hole"]] - 0.5, axis=1)
    assert np.allclose(away, 0.2, atol=1e-4)
    two = mesh_polygon(SQUARE, (disc(0.3, 0.3, 0.12), disc(0.7, 0.6, 0.2)), nodes=300)
    assert set(two.tags) == {"boundary", "outer", "hole_0", "hole_1"}
    assert np.array_equal(
        two.tags["boundary"], two.tags["outer"] | two.tags["hole_0"] | two.tags["hole_1"]
    )


def test_corners_are_nodes_and_straight_sides_are_exact() -> None:
    mesh = mesh_polygon(NOTCHED, nodes=298)
    for corner in NOTCHED:
        assert np.min(np.linalg.norm(mesh.points - corner, axis=1)) == 0.0
    assert cell_measures(mesh.points, mesh.cells).sum() == pytest.approx(
        np.sqrt(3) / 4 - 0.008, rel=1e-12
    )


def test_edge_lengths_follow_the_size_function() -> None:
    def size(points: np.ndarray) -> np.ndarray:
        return 0.1 + np.linalg.norm(points - 0.5, axis=1)

    mesh = mesh_polygon(SQUARE, (disc(0.5, 0.5, 0.05),), nodes=800, size=size)
    edges = cell_edges(mesh.cells)
    ends = mesh.points[edges]
    ratio = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) / size(ends.mean(axis=1))
    assert np.quantile(ratio, 0.95) / np.quantile(ratio, 0.05) < 1.9
    assert min_angle(mesh) >= 25.0


def test_a_hundredfold_grading_keeps_its_quality() -> None:
    def size(points: np.ndarray) -> np.ndarray:
        return 0.02 + 0.2 * np.maximum(np.linalg.norm(points, axis=1) - 0.5, 0.0)

    mesh = mesh_polygon(disc(0, 0, 10), (disc(0, 0, 0.5),), nodes=1500, size=size)
    assert mesh.size == 1500 and min_angle(mesh) >= 25.0


def test_the_same_arguments_give_the_same_mesh_and_another_seed_another() -> None:
    first, again = (mesh_polygon(ELLIPSE, (WEDGE,), nodes=300) for _ in range(2))
    other = mesh_polygon(ELLIPSE, (WEDGE,), nodes=300, seed=1)
    assert first.key == again.key != other.key


def test_orientation_and_start_of_the_outline_do_not_matter_for_validity() -> None:
    mesh = mesh_polygon(np.roll(NOTCHED, 3, axis=0)[::-1], nodes=250)
    assert mesh.size == 250 and (cell_measures(mesh.points, mesh.cells) > 0).all()


@pytest.mark.parametrize(
    ("outer", "holes", "nodes", "message"),
    [
        (SQUARE[:2], (), 100, "enclose no area"),
        (np.zeros((4, 3)), (), 100, "not a loop"),
        (SQUARE[[0, 2, 1, 3]] + [[0, 0], [0, 0], [0, 0], [0, 0.5]], (), 100, "cross"),
        (SQUARE, (disc(1.0, 0.5, 0.2),), 200, "cross"),
        (SQUARE, (disc(3.0, 0.5, 0.2),), 200, "outside the outline"),
        (lake(), (), 60, "request more nodes"),
    ],
)
def test_an_impossible_wish_is_refused_in_one_line(
    outer: np.ndarray, holes: tuple, nodes: int, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        mesh_polygon(outer, holes, nodes=nodes)
    assert "\n" not in str(caught.value)


def test_a_size_function_must_be_positive() -> None:
    with pytest.raises(DataError, match="positive"):
        mesh_polygon(SQUARE, nodes=100, size=lambda points: points[:, 0] - 0.5)


def test_refinement_is_nested_and_splits_into_four() -> None:
    mesh = mesh_polygon(ELLIPSE, (WEDGE,), nodes=200)
    finer, edges = refine(mesh)
    assert np.array_equal(finer.points[: mesh.size], mesh.points)
    assert np.array_equal(finer.points[mesh.size :], mesh.points[edges].mean(axis=1))
    areas = cell_measures(mesh.points, mesh.cells)
    assert np.allclose(cell_measures(finer.points, finer.cells).reshape(-1, 4), areas[:, None] / 4)
    assert min_angle(finer) == pytest.approx(min_angle(mesh))
    rim = np.zeros(finer.size, dtype=bool)
    rim[boundary_edges(finer).ravel()] = True
    assert np.array_equal(finer.tags["boundary"], rim)
    assert np.array_equal(finer.tags["boundary"], finer.tags["outer"] | finer.tags["hole"])


def test_the_middle_of_a_chord_between_boundary_nodes_is_inside() -> None:
    pair = Mesh(SQUARE, np.array([[0, 1, 2], [0, 2, 3]]), {"boundary": np.ones(4, dtype=bool)})
    finer, edges = refine(pair)
    chord = 4 + int(np.flatnonzero((edges == [0, 2]).all(axis=1))[0])
    assert not finer.tags["boundary"][chord]
    assert finer.tags["boundary"].sum() == 8


def test_containment_counts_holes_as_outside() -> None:
    points = np.array([[0.5, 0.5], [0.1, 0.1], [1.5, 0.5]])
    assert contains([SQUARE, disc(0.5, 0.5, 0.2)], points).tolist() == [False, True, False]


def test_a_simplified_outline_stays_within_the_tolerance() -> None:
    shore = lake()
    coarse = simplify_loop(shore, 0.05)
    assert 10 < len(coarse) < len(shore) / 2
    assert np.isin(coarse, shore).all()
