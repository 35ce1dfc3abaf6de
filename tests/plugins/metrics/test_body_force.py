"""drag and lift: closed bodies, the divergence theorem, exact flows, the forces of the solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_meshes import sphere

import gsnobench as gb
from gsnobench.meshes.topology import boundary_loops
from gsnobench_plugins.datasets.airfoil import ORDER, air_of
from gsnobench_plugins.metrics import drag, lift
from gsnobench_plugins.metrics.body_force import applies, body_of, coefficient_errors, stream_of
from gsnobench_plugins.solvers.equations.euler import PRESSURE, Stream
from gsnobench_plugins.solvers.equations.euler_steady import forces
from gsnobench_plugins.solvers.meshing.foil_mesh import foil_mesh
from gsnobench_plugins.solvers.shapes.naca import Section

WING = gb.Task(
    id="wing",
    dataset="wing",
    fields=(
        gb.Field("density", reference=1.0),
        gb.Field("pressure", reference=PRESSURE),
        gb.Field("velocity_x", reference=0.5, vector="velocity"),
        gb.Field("velocity_y", vector="velocity"),
    ),
    dim=2,
)
CAR = gb.Task(
    id="car",
    dataset="car",
    fields=(
        gb.Field("pressure", "Pa", support="surface"),
        gb.Field("velocity_x", reference=20.0, vector="velocity"),
        gb.Field("velocity_y", vector="velocity"),
        gb.Field("velocity_z", vector="velocity"),
    ),
    dim=3,
    data={"density": 1.2},
)
Q = 0.5 * 1.2 * 20.0**2  # dynamic pressure of CAR


@pytest.fixture(scope="module")
def foil() -> gb.Mesh:
    return foil_mesh(Section.of("2412"), nodes=600, radius=20.0)


@pytest.fixture(scope="module")
def ball() -> gb.Mesh:
    """A unit sphere as a cloud: 1500 points on it, 200 around it."""
    points = np.concatenate([sphere(1500).points, 3 * sphere(200).points])
    return gb.Mesh(points, None, {"surface": np.arange(len(points)) < 1500})


def streaming(mesh: gb.Mesh, stream: Stream) -> gb.Array:
    """A uniform stream minus the references of WING, (1, n, 4)."""
    references = [field.reference for field in WING.fields]
    return np.tile(stream.primitive[ORDER] - references, (1, mesh.size, 1))


def with_pressure(u: gb.Array, added: gb.Array, channel: int) -> gb.Array:
    p = u.copy()
    p[..., channel] += added
    return p


def test_a_constant_pressure_gives_no_force(foil: gb.Mesh, ball: gb.Mesh) -> None:
    u = streaming(foil, Stream(0.5, 3.0))
    p = with_pressure(u, np.float64(7.0), 1)
    assert np.abs(coefficient_errors(p, u, foil, WING)).max() < 1e-12
    still = np.zeros((1, ball.size, 4))
    p = with_pressure(still, np.float64(7.0), 0)
    assert np.abs(coefficient_errors(p, still, ball, CAR)).max() < 1e-12


def test_a_linear_pressure_gives_the_area_of_the_foil(foil: gb.Mesh) -> None:
    loop = next(loop for loop in boundary_loops(foil) if foil.tags["foil"][loop].all())
    x, y = foil.points[loop].T
    area = 0.5 * abs(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))
    u = streaming(foil, Stream(0.5))  # along x
    q = 0.5 * 0.5**2
    for axis, metric in enumerate((drag, lift)):
        p = with_pressure(u, foil.points[:, axis], 1)
        chord = np.ptp(x)
        assert metric.score(p, u, foil, WING) == pytest.approx(area / (q * chord), rel=1e-10)
        errors = coefficient_errors(p, u, foil, WING)
        assert errors[axis][0] < 0  # pressure that grows along an axis pushes against it
        assert abs(errors[1 - axis][0]) < 1e-12


def test_the_coefficients_are_those_of_the_solver(foil: gb.Mesh) -> None:
    air, stream = air_of(foil), Stream(0.6, 4.0)
    pressure = 0.1 * np.sin(foil.points @ [3.0, 5.0])
    u = streaming(foil, stream)
    primitive = np.tile(stream.primitive, (foil.size, 1))
    primitive[air.published, 3] += pressure
    theirs = forces(air.dual, air.is_wall, stream, primitive)
    drags, lifts = coefficient_errors(with_pressure(u, pressure, 1), u, foil, WING)
    chord = body_of(foil).size
    assert drags[0] * chord == pytest.approx(theirs.drag, rel=1e-10)
    assert lifts[0] * chord == pytest.approx(theirs.lift, rel=1e-10)
    assert chord == pytest.approx(1.0, abs=1e-3)


def test_drag_is_along_the_stream_and_lift_across(foil: gb.Mesh) -> None:
    for degrees in (-6.0, 0.0, 6.0):
        stream = stream_of(streaming(foil, Stream(0.7, degrees)), foil, WING)
        angle = np.radians(degrees)
        np.testing.assert_allclose(stream.direction, [[np.cos(angle), np.sin(angle)]], rtol=1e-12)
        np.testing.assert_allclose(stream.pressure, [0.5 * 0.7**2], rtol=1e-12)


def test_a_linear_pressure_gives_the_volume_of_a_body_in_a_cloud(ball: gb.Mesh) -> None:
    u = np.zeros((1, ball.size, 4))
    for axis, metric in ((0, drag), (2, lift)):
        p = with_pressure(u, ball.points[:, axis], 0)
        exact = 4 / 3 * np.pi / (Q * np.pi)  # volume over frontal area
        assert metric.score(p, u, ball, CAR) == pytest.approx(exact, rel=5e-3)


def test_the_exact_flow_past_a_sphere_has_no_drag_and_half_of_it_has(ball: gb.Mesh) -> None:
    cosine = ball.points[:, 0] / np.linalg.norm(ball.points, axis=1)
    pressure = Q * (1 - 9 / 4 * (1 - cosine**2))  # Bernoulli's on the sphere
    u = np.zeros((1, ball.size, 4))
    front = np.where(cosine < 0, pressure, 0.0)
    assert drag.score(with_pressure(u, pressure, 0), u, ball, CAR) < 1e-3
    # integral of (1 - 9/4 sin^2) cos over the half, by hand: -1/8 of the frontal area
    assert coefficient_errors(with_pressure(u, front, 0), u, ball, CAR)[0][0] == pytest.approx(
        -1 / 8, abs=0.02
    )


def test_air_around_a_body_does_not_push_it(ball: gb.Mesh) -> None:
    u = np.zeros((1, ball.size, 4))
    p = with_pressure(u, np.where(ball.tags["surface"], 0.0, ball.points[:, 0]), 0)
    assert drag.score(p, u, ball, CAR) == 0.0


def test_it_needs_a_body_its_pressure_and_a_stream(foil: gb.Mesh, ball: gb.Mesh) -> None:
    assert applies(WING, foil)
    assert applies(CAR, ball)
    assert not applies(WING, gb.Mesh(foil.points, None, foil.tags))
    assert not applies(WING, gb.Mesh(foil.points, foil.cells, {"foil": foil.tags["foil"]}))
    assert not applies(replace(WING, fields=WING.fields[1:]), foil)
    assert not applies(replace(CAR, data={}), ball)
    assert not applies(replace(CAR, fields=CAR.fields[1:]), ball)
