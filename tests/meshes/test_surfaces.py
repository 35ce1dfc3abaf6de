"""Areas of boundaries and bodies: the divergence theorem, scikit-fem, and shapes of known size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import skfem
from toy_meshes import box, sphere

from gsnobench.data import Array
from gsnobench.errors import DataError
from gsnobench.meshes.surfaces import boundary_areas, star_surface, surface_areas, triangle_areas
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.datasets.car import car_lattice, vertices
from gsnobench_plugins.solvers.meshing.surface_mesh import enclosed_volume, is_closed
from gsnobench_plugins.solvers.shapes.car_body import draw_shape

KINDS = {2: (skfem.MeshTri, skfem.ElementTriP1), 3: (skfem.MeshTet, skfem.ElementTetP1)}


@pytest.mark.parametrize("dim", [2, 3])
def test_boundary_areas_are_those_of_scikit_fem(dim: int) -> None:
    mesh = box(6, dim, jitter=0.25)
    kind, element = KINDS[dim]
    facets = skfem.FacetBasis(kind(mesh.points.T, cells_of(mesh).T), element())
    for axis in range(dim):

        @skfem.LinearForm
        def along_normal(v: Any, w: Any) -> Any:
            return v * w.n[axis]

        theirs = along_normal.assemble(facets)
        np.testing.assert_allclose(boundary_areas(mesh)[:, axis], theirs, atol=1e-14)


@pytest.mark.parametrize("dim", [2, 3])
def test_linear_fields_give_the_volume_and_constant_ones_nothing(dim: int) -> None:
    mesh = box(5, dim, jitter=0.25)
    areas = boundary_areas(mesh)
    np.testing.assert_allclose(areas.sum(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(mesh.points.T @ areas, np.eye(dim), atol=1e-13)
    np.testing.assert_allclose(areas[~mesh.tags["wall"]], 0.0, atol=1e-14)


def test_the_order_of_a_cells_corners_does_not_matter() -> None:
    mesh = box(5, jitter=0.25)
    turned = type(mesh)(mesh.points, cells_of(mesh)[:, ::-1], mesh.tags)
    np.testing.assert_allclose(boundary_areas(turned), boundary_areas(mesh), atol=1e-15)


def bumpy(count: int) -> Array:
    """Points of a star-shaped body that is not convex, far from the origin."""
    directions = sphere(count).points
    radius = 1 + 0.3 * np.cos(3 * np.arctan2(directions[:, 1], directions[:, 0]))
    return radius[:, None] * directions * [2.0, 1.0, 0.5] + [10.0, -3.0, 1.0]


def test_the_surface_of_a_body_is_closed_and_faces_outward() -> None:
    points = bumpy(300)
    triangles = star_surface(points)
    assert len(triangles) == 2 * len(points) - 4  # Euler's formula
    assert is_closed(triangles)
    areas = surface_areas(points, triangles)
    np.testing.assert_allclose(areas.sum(axis=0), 0.0, atol=1e-13)
    volume = enclosed_volume(points, triangles)
    np.testing.assert_allclose(points.T @ areas, volume * np.eye(3), atol=1e-12)
    assert volume > 0


def test_an_ellipsoid_has_its_volume_and_its_frontal_area() -> None:
    points = sphere(2000).points * [2.0, 1.0, 0.7]
    triangles = star_surface(points)
    frontal = 0.5 * np.abs(triangle_areas(points, triangles)[:, 0]).sum()
    assert enclosed_volume(points, triangles) == pytest.approx(4 / 3 * np.pi * 1.4, rel=5e-3)
    assert frontal == pytest.approx(np.pi * 0.7, rel=5e-3)


@pytest.mark.parametrize("tall", [False, True])
def test_car_bodies_are_closed_as_by_their_own_lattice(tall: bool) -> None:
    lattice, draw = car_lattice(4), np.random.default_rng(0)
    for _ in range(5):
        points = lattice.whole_vectors(vertices(draw_shape(draw, tall=tall), lattice))
        own = enclosed_volume(points, lattice.triangles)
        assert enclosed_volume(points, star_surface(points)) == pytest.approx(own, rel=1e-3)
        pressure = np.sin(points @ [1.0, 2.0, 3.0])
        forces = [
            pressure @ surface_areas(points, triangles)
            for triangles in (star_surface(points), lattice.triangles)
        ]
        load = np.linalg.norm(triangle_areas(points, lattice.triangles), axis=1).sum()
        np.testing.assert_allclose(*forces, atol=5e-3 * load)


def test_a_body_that_hides_a_point_is_refused() -> None:
    points = bumpy(50)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    behind = middle + 0.5 * (points[7] - middle)  # inside the bounding box, so the middle stays
    for hidden in (behind, middle):
        with pytest.raises(DataError, match="star-shaped"):
            star_surface(np.vstack([points, hidden]))
