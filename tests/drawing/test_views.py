"""Views: outlines, slices and surfaces are those of exact bodies; the right part is in view."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.spatial

from gsnobench.data import Array, Mesh
from gsnobench.drawing import space
from gsnobench.drawing.views import outside_of, view_of


def ring(inner: float = 0.5, outer: float = 1.0, circles: int = 2) -> Mesh:
    """Circles of 24 nodes with triangles between them."""
    angle = np.arange(24) * math.pi / 12
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    points = np.concatenate([size * circle for size in np.geomspace(inner, outer, circles)])
    here, after = np.arange(24), (np.arange(24) + 1) % 24
    band = [
        np.column_stack([here, here + 24, after]),
        np.column_stack([after, here + 24, after + 24]),
    ]
    cells = np.concatenate([one + 24 * circle for circle in range(circles - 1) for one in band])
    return Mesh(points, cells, {"hull": np.arange(24 * circles) >= 24 * (circles - 1)})


def sphere(count: int = 3000) -> Array:
    points = np.random.default_rng(0).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def box(side: int = 5) -> Mesh:
    """A unit cube of Delaunay tetrahedra between jittered nodes."""
    axis = np.linspace(0, 1, side)
    points = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
    inside = ((points > 0) & (points < 1)).all(1)
    points[inside] += np.random.default_rng(1).uniform(-0.05, 0.05, (inside.sum(), 3))
    cells = scipy.spatial.Delaunay(points, qhull_options="QJ").simplices.astype(np.int64)
    return Mesh(points, cells)


def area(points: Array, triangles: Array) -> float:
    first, second, third = (points[triangles[:, corner]] for corner in range(3))
    (ax, ay), (bx, by) = (second - first).T, (third - first).T
    return float(0.5 * np.abs(ax * by - ay * bx).sum())


def everywhere(mesh: Mesh) -> Array:
    return np.ones(mesh.size, dtype=bool)


def test_the_outline_of_a_ring_is_two_circles() -> None:
    mesh = ring()
    view = view_of(mesh, everywhere(mesh))
    assert len(view.outline) == 48
    assert set(np.round(np.linalg.norm(view.outline.reshape(-1, 2), axis=1), 6)) == {0.5, 1.0}


def test_nodes_outside_the_support_are_not_drawn() -> None:
    mesh = ring()
    view = view_of(mesh, mesh.tags["hull"])
    assert view.nodes.tolist() == list(range(24, 48))
    assert view.triangles is None


def test_a_small_body_in_a_wide_domain_is_shown_large_and_the_whole_is_kept() -> None:
    wide = ring(0.5, 50.0, circles=12)
    view = view_of(wide, everywhere(wide))
    assert view.box[:2] == pytest.approx((-1.5, 1.5))  # one and a half sizes on each side
    assert view.whole is not None and view.whole[1] > 50
    assert view.zoomed_out().box == view.whole
    near = view_of(ring(), everywhere(ring()))
    assert near.whole is None and near.box[1] > 1


def test_a_crowd_of_points_without_cells_is_shown_large() -> None:
    draw = np.random.default_rng(0)
    crowd = np.concatenate([draw.normal(0, 0.1, (1000, 2)), draw.uniform(-20, 20, (50, 2))])
    x0, x1, _, _ = view_of(Mesh(crowd), np.ones(1050, dtype=bool)).box
    assert x1 - x0 < 2
    even = draw.uniform(-20, 20, (1000, 2))
    x0, x1, _, _ = view_of(Mesh(even), np.ones(1000, dtype=bool)).box
    assert x1 - x0 > 39


@pytest.mark.parametrize("level", [0.5, 0.37])
def test_a_slice_of_a_cube_is_a_square_with_linear_values(level: float) -> None:
    mesh = box()
    assert mesh.cells is not None
    ends, shares, triangles = space.slice_of(mesh.points, mesh.cells, level)
    cut = (1 - shares)[:, None] * mesh.points[ends[:, 0]] + shares[:, None] * mesh.points[
        ends[:, 1]
    ]
    assert np.allclose(cut[:, space.ACROSS], level)
    assert area(cut[:, [0, 2]], triangles) == pytest.approx(1.0, rel=1e-6)


def test_a_slice_shows_the_values_of_its_place() -> None:
    mesh = box()
    view = view_of(mesh, everywhere(mesh))
    assert view.note == "slice at y = 0.5" and view.triangles is not None
    assert area(view.points, view.triangles) == pytest.approx(1.0, rel=1e-6)
    linear = mesh.points @ np.array([2.0, 0.0, -3.0]) + 1
    assert np.allclose(view.shown(linear), view.points @ np.array([2.0, -3.0]) + 1)


def test_a_surface_cut_by_a_plane_is_a_circle() -> None:
    points = sphere()
    triangles = space.surface_of_cloud(points)
    assert triangles is not None
    curve = space.ring_of(points, triangles, 0.6)
    assert np.linalg.norm(curve, axis=1) == pytest.approx(0.8, abs=0.02)


def test_points_of_a_volume_have_no_surface() -> None:
    draw = np.random.default_rng(0)
    assert space.surface_of_cloud(draw.uniform(size=(2000, 3))) is None
    assert space.surface_of_cloud(np.concatenate([sphere(600), 2 + sphere(600)])) is None


def test_the_far_side_of_a_body_in_space_is_hidden_and_the_near_one_lit() -> None:
    points = sphere()
    view = view_of(Mesh(points), np.ones(len(points), dtype=bool))
    towards = points @ space.towards_onlooker()
    assert np.isin(np.flatnonzero(towards > 0.2), view.nodes).all()
    assert not np.isin(np.flatnonzero(towards < -0.2), view.nodes).any()
    assert view.light is not None and view.light.min() >= space.DARKEST and view.light.max() <= 1
    assert view.light.max() - view.light.min() > 0.3


def test_the_onlooker_sees_positions_and_depths_at_right_angles() -> None:
    """The three directions of the picture are an orthonormal frame."""
    flat, depth = space.seen(np.concatenate([np.eye(3), -np.eye(3)]))  # about their middle
    frame = np.column_stack([flat, depth])[:3]
    assert np.allclose(frame @ frame.T, np.eye(3))
    assert np.allclose(frame[:, 2], -space.towards_onlooker())


def test_the_outside_of_a_volume_is_its_surface_and_of_a_cloud_its_tagged_body() -> None:
    mesh = box()
    assert outside_of(mesh).light is not None
    assert len(outside_of(mesh).nodes) < mesh.size
    body = sphere(800)
    air = np.random.default_rng(1).uniform(-4, 4, (1500, 3))
    air = air[np.linalg.norm(air, axis=1) > 1.1]
    tagged = np.arange(len(body) + len(air)) < len(body)
    cloud = Mesh(np.concatenate([body, air]), None, {"skin": tagged})
    assert tagged[outside_of(cloud).nodes].all()
    volume = view_of(cloud, ~tagged)
    assert volume.body is not None and volume.light is None
    assert np.linalg.norm(volume.body, axis=1) == pytest.approx(1.0, abs=0.05)
