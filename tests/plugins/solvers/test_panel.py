"""Source panels: exact integrals, images, known potential flows, and distances from a body."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gsnobench.data import Array
from gsnobench.meshes.simplices import nearest
from gsnobench_plugins.solvers.equations.potential_flow import (
    force_coefficients,
    pressure_coefficient,
    solve_flow,
    surface_velocity,
    volume_velocity,
)
from gsnobench_plugins.solvers.meshing.surface_mesh import (
    BoxLattice,
    box_lattice,
    enclosed_volume,
    is_closed,
)
from gsnobench_plugins.solvers.methods.panel import make_panels, normal_matrix, source_field
from gsnobench_plugins.solvers.methods.surface_distance import nearest_points, winding_number

TRIANGLE = np.array([[[0.1, -0.2, 0.3], [1.2, 0.1, 0.2], [0.4, 0.9, 0.7]]])


def round_lattice(steps: int) -> tuple[BoxLattice, Array]:
    """A lattice of 48 steps^2 triangles and the points of its half on the unit sphere."""
    lattice = box_lattice(2 * steps, steps, 2 * steps)
    directions = np.tan(np.pi / 4 * lattice.positions)
    return lattice, directions / np.linalg.norm(directions, axis=1, keepdims=True)


def relative(computed: Array, exact: Array) -> float:
    return float(np.linalg.norm(computed - exact) / np.linalg.norm(exact))


def quadrature(triangle: Array, pieces: int) -> tuple[Array, float]:
    """Centres of pieces^2 equal parts of a triangle and the area of each."""
    a, b, c = triangle
    inner = [(3 * i + 1, 3 * j + 1) for i in range(pieces) for j in range(pieces - i)]
    inner += [(3 * i + 2, 3 * j + 2) for i in range(pieces - 1) for j in range(pieces - 1 - i)]
    shares = np.array(inner) / (3 * pieces)
    area = float(np.linalg.norm(np.cross(b - a, c - a))) / 2
    return a + shares[:, :1] * (b - a) + shares[:, 1:] * (c - a), area / pieces**2


# ---------------------------------------------------------------------------------------- one panel


def test_panel_near_by_is_the_integral_over_it():
    points, area = quadrature(TRIANGLE[0], 400)
    targets = np.array([[0.5, 0.3, 0.9], [1.5, 1.0, 0.3], [-0.4, 0.2, -0.3], [2.0, -1.0, 0.5]])
    potential, velocity = source_field(make_panels(TRIANGLE), np.ones(1), targets)
    apart = targets[:, None] - points
    distance = np.linalg.norm(apart, axis=2)
    assert np.abs(potential + np.sum(area / (4 * np.pi * distance), axis=1)).max() < 1e-6
    expected = np.sum(area * apart / (4 * np.pi * distance[..., None] ** 3), axis=1)
    assert np.abs(velocity - expected).max() < 3e-6


def test_normal_velocity_jumps_by_one_and_air_leaves_along_the_plane():
    panels = make_panels(TRIANGLE)
    normal, centre = panels.normals[0], panels.centres[0]
    _, (above, below) = source_field(
        panels, np.ones(1), np.array([centre + 1e-9 * normal, centre - 1e-9 * normal])
    )
    assert above @ normal == pytest.approx(0.5, abs=1e-6)
    assert below @ normal == pytest.approx(-0.5, abs=1e-6)
    for corner in TRIANGLE[0]:  # beyond a corner, in the plane of the panel
        _, (outside,) = source_field(panels, np.ones(1), (centre + 2 * (corner - centre))[None])
        assert outside @ (corner - centre) > 0.02 * np.linalg.norm(corner - centre)
        assert abs(outside @ normal) < 1e-9


def test_far_panel_is_a_point_source():
    panels = make_panels(TRIANGLE)
    target = panels.centres + np.array([[30.0, -20.0, 10.0]])
    potential, velocity = source_field(panels, np.ones(1), target)
    apart = target - panels.centres
    distance = np.linalg.norm(apart)
    assert potential[0] == pytest.approx(-panels.areas[0] / (4 * np.pi * distance), rel=1e-3)
    assert relative(velocity, panels.areas[0] * apart / (4 * np.pi * distance**3)) < 1e-3


def test_blocks_of_panels_stand_for_their_panels():
    """Moments of blocks against every panel on its own, each integrated exactly."""
    lattice, half = round_lattice(6)
    corners = half[lattice.half]
    panels = make_panels(corners)
    density = panels.centres @ [1.0, 2.0, -0.5] + panels.centres[:, 0] ** 2
    targets = np.random.default_rng(0).normal(size=(200, 3))
    targets *= (np.linspace(1.05, 6.0, 200) / np.linalg.norm(targets, axis=1))[:, None]
    potential, velocity = source_field(panels, density, targets)
    exact_potential, exact_velocity = np.zeros(200), np.zeros((200, 3))
    order = [
        int(np.argmin(np.linalg.norm(panels.centres - triangle.mean(axis=0), axis=1)))
        for triangle in corners
    ]
    for triangle, number in zip(corners, order, strict=True):
        near = make_panels(triangle[None])
        wide = type(near)(
            **{
                **vars(near),
                "reach": np.array([1e9]),
                "blocks": np.array([[*near.centres[0], 1e9, 1e9]]),
            }
        )
        phi, v = source_field(wide, density[[number]], targets)
        exact_potential += phi
        exact_velocity += v
    assert relative(potential, exact_potential) < 1e-4
    assert relative(velocity, exact_velocity) < 1e-3


def test_images_are_the_mirrored_panels():
    lattice, half = round_lattice(3)
    half = half * 0.5 + [0.3, 0.8, 0.9]
    corners = half[lattice.half]
    targets = np.array([[1.5, 0.2, 0.4], [-0.6, 1.2, 2.0], [0.3, -1.4, 0.1]])
    computed = source_field(make_panels(corners, ("y", "z")), np.ones(len(corners)), targets)
    exact = [np.zeros(3), np.zeros((3, 3))]
    for signs in ([1, 1, 1], [1, -1, 1], [1, 1, -1], [1, -1, -1]):
        mirrored = corners * signs if np.prod(signs) > 0 else (corners * signs)[:, ::-1]
        potential, velocity = source_field(make_panels(mirrored), np.ones(len(corners)), targets)
        exact[0] += potential
        exact[1] += velocity
    assert np.abs(computed[0] - exact[0]).max() < 1e-4  # blocks differ
    assert np.abs(computed[1] - exact[1]).max() < 1e-4


def test_flux_of_every_panel_and_its_images_leaves_the_body_once():
    lattice, half = round_lattice(4)
    panels = make_panels((half * [1.5, 0.8, 0.5] + [0.0, 0.0, 0.7])[lattice.half], ("y", "z"))
    matrix = normal_matrix(panels)
    assert matrix.dtype == np.float32
    assert np.abs(panels.areas @ matrix.astype(float) / panels.areas - 1).max() < 1e-5
    # a flat panel's own 1/2, and the curvature
    assert 0.45 < matrix.diagonal().min() < matrix.diagonal().max() < 0.65


# -------------------------------------------------------------------------------------- known flows


def sphere_errors(steps: int) -> tuple[float, float, float]:
    """Errors of pressure at the vertices and of velocity outside, and the largest of pressure."""
    lattice, half = round_lattice(steps)
    flow = solve_flow(lattice, half, ground=False)
    pressure = pressure_coefficient(surface_velocity(flow, half, half))
    exact = 1 - 2.25 * (1 - half[:, 0] ** 2)
    targets = np.random.default_rng(1).normal(size=(300, 3))
    distance = np.linspace(1.1, 3.0, 300)[:, None]
    targets *= distance / np.linalg.norm(targets, axis=1, keepdims=True)
    change = 0.5 * (
        np.array([1.0, 0.0, 0.0]) / distance**3 - 3 * targets[:, :1] * targets / distance**5
    )
    computed = volume_velocity(flow, targets) - [1.0, 0.0, 0.0]
    return (
        relative(pressure, exact),
        relative(computed, change),
        float(np.abs(pressure - exact).max()),
    )


def test_sphere_is_within_the_bars_and_of_second_order():
    coarse, fine = sphere_errors(5), sphere_errors(10)  # 1200 and 4800 panels
    assert fine[0] < 3e-3 and fine[1] < 3e-3 and fine[2] < 1e-2
    for of_coarse, of_fine in zip(coarse[:2], fine[:2], strict=True):
        assert math.log2(of_coarse / of_fine) > 1.7


def test_spheroid_has_the_velocity_of_the_closed_form():
    """On an ellipsoid the velocity is (1 + k) times the tangential stream, k its added mass."""
    lattice, sphere = round_lattice(10)
    half = sphere * [2.0, 1.0, 1.0]
    normals = half / np.array([4.0, 1.0, 1.0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    eccentricity = math.sqrt(3) / 2
    alpha = 2 * (1 - eccentricity**2) / eccentricity**3 * (math.atanh(eccentricity) - eccentricity)
    exact = 2 / (2 - alpha) * (np.array([1.0, 0.0, 0.0]) - normals[:, :1] * normals)
    flow = solve_flow(lattice, half, ground=False)
    computed = surface_velocity(flow, half, normals)
    # Lamb, Hydrodynamics, section 114: k = 0.209
    assert 2 / (2 - alpha) == pytest.approx(1.210, abs=1e-3)
    assert relative(computed, exact) < 3e-3
    forces = force_coefficients(
        flow.vertices, lattice.triangles, lattice.whole(pressure_coefficient(computed))
    )
    assert np.abs(forces).max() < 2e-3


def test_no_air_passes_the_ground_or_the_body():
    lattice, half = round_lattice(8)
    half = half * [1.5, 0.8, 0.5] + [0.0, 0.0, 0.65]
    flow = solve_flow(lattice, half)
    ground = np.column_stack([np.random.default_rng(2).uniform(-3, 3, (200, 2)), np.zeros(200)])
    velocity = volume_velocity(flow, ground)
    assert np.abs(velocity[:, 2]).max() < 1e-12
    assert velocity[:, 0].max() > 1.2  # the air below the body is the faster
    through = np.sum(
        volume_velocity(flow, flow.panels.centres + 1e-7 * flow.panels.normals)
        * flow.panels.normals,
        axis=1,
    )
    assert np.sqrt(np.mean(through**2)) < 0.02
    assert abs(flow.density @ flow.panels.areas) < 1e-4 * np.abs(flow.density) @ flow.panels.areas


def test_sphere_far_from_the_ground_does_not_feel_it():
    lattice, half = round_lattice(5)
    targets = np.array([[1.3, 0.0, 20.0], [0.0, 1.5, 20.0], [0.5, 0.5, 21.2]])
    near = volume_velocity(solve_flow(lattice, half + [0, 0, 20.0]), targets)
    free = volume_velocity(solve_flow(lattice, half, ground=False), targets - [0, 0, 20.0])
    assert np.abs(near - free).max() < 1e-4


# ----------------------------------------------------------------------------- meshes and distances


@pytest.mark.parametrize("steps", [(6, 1, 2), (12, 2, 4), (5, 3, 4)])
def test_box_lattice_is_a_closed_surface_that_faces_outward(steps):
    along, across, up = steps
    lattice = box_lattice(along, across, up)
    points = lattice.whole_vectors(lattice.positions)
    assert len(lattice.triangles) == 4 * (2 * along * across + 2 * across * up + along * up)
    assert len(points) == len(lattice.triangles) // 2 + 2
    assert is_closed(lattice.triangles)
    assert enclosed_volume(points, lattice.triangles) == pytest.approx(8.0)
    assert not is_closed(lattice.triangles[1:])
    assert not is_closed(np.concatenate([lattice.triangles[1:], lattice.triangles[:1, ::-1]]))


def test_nearest_place_is_the_nearest_of_all_triangles():
    rng = np.random.default_rng(3)
    corners = rng.normal(size=(150, 1, 3)) + 0.3 * rng.normal(size=(150, 3, 3))
    targets = 2 * rng.normal(size=(400, 3))
    index, weights, distance = nearest(targets, corners)
    nearest_on = nearest_points(make_panels(corners), targets)
    assert np.abs(np.linalg.norm(targets - nearest_on, axis=1) - distance).max() < 1e-9
    assert np.abs(nearest_on - np.einsum("pv,pvd->pd", weights, corners[index])).max() < 1e-6


def test_distance_and_winding_of_a_sphere():
    lattice, half = round_lattice(12)
    corners = lattice.whole_vectors(half)[lattice.triangles]
    rng = np.random.default_rng(4)
    targets = rng.normal(size=(300, 3))
    radius = np.concatenate([rng.uniform(0.1, 0.97, 150), rng.uniform(1.01, 3.0, 150)])
    targets *= (radius / np.linalg.norm(targets, axis=1))[:, None]
    distance = np.linalg.norm(targets - nearest_points(make_panels(corners), targets), axis=1)
    # how far the flat triangles lie inside the sphere
    assert np.abs(distance - np.abs(radius - 1)).max() < 4e-3
    winding = winding_number(corners, targets)
    assert np.abs(winding - (radius < 1)).max() < 1e-9


def test_flow_keeps_the_symmetry_of_the_body():
    lattice, half = round_lattice(4)
    flow = solve_flow(lattice, half * [1.2, 0.7, 0.5] + [0.0, 0.0, 0.8])
    targets = np.random.default_rng(5).uniform([-2, 1, 0.1], [2, 2, 2], (50, 3))
    left, right = volume_velocity(flow, targets), volume_velocity(flow, targets * [1, -1, 1])
    assert np.abs(left - right * [1, -1, 1]).max() < 1e-6
