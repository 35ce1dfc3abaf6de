"""The Euler solver and its parts against exact solutions.

Fluxes, free stream, vortex, shock, vacuum, walls, symmetry.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from gsnobench.data import Array
from gsnobench.errors import DataError, ParamError
from gsnobench.meshes.simplices import cell_measures
from gsnobench_plugins.solvers.equations.euler import (
    GAMMA,
    LONGEST_STEP,
    PRESSURE,
    Stream,
    conserved,
    euler_rates,
    euler_rhs,
    evolve,
    primitives,
)
from gsnobench_plugins.solvers.equations.euler_steady import forces, steady_state
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.meshing.foil_mesh import boundary_counts, foil_mesh
from gsnobench_plugins.solvers.meshing.polygon import mesh_inside, mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh, dual_mesh
from gsnobench_plugins.solvers.methods.integrate import ssp_rk3
from gsnobench_plugins.solvers.shapes.geometry import signed_area
from gsnobench_plugins.solvers.shapes.naca import Section

SQUARE = np.array([[0.0, 0.0], [1.2, 0.0], [1.2, 1.2], [0.0, 1.2]])
STILL = Stream(0.0)


@pytest.fixture(scope="module")
def foil():
    """A coarse mesh around NACA 0012 and its finite volumes."""
    mesh = foil_mesh(Section.of("0012"), nodes=600, radius=50.0)
    dual = dual_mesh(mesh.points, mesh.cells)
    return mesh, dual, mesh.tags["foil"][dual.wall].all(axis=1)


@pytest.fixture(scope="module")
def square():
    mesh = mesh_polygon(SQUARE, nodes=400)
    return mesh, dual_mesh(mesh.points, mesh.cells)


def strip(columns: int, rows: int = 4, length: float = 1.0) -> tuple[Array, DualMesh]:
    """A narrow rectangle of right triangles."""
    edge = length / columns
    x, y = np.meshgrid(edge * np.arange(columns + 1), edge * np.arange(rows + 1), indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    number = np.arange(len(points)).reshape(columns + 1, rows + 1)
    a, b, c, d = (
        part.ravel()
        for part in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])
    )
    return points, dual_mesh(
        points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    )


def last(dual: DualMesh, is_wall: Array, stream: Stream, primitive: Array, time: float) -> Array:
    *_, state = evolve(dual, is_wall, stream, conserved(primitive), (0.0, time))
    return primitives(state)


def uniform(dual: DualMesh, stream: Stream) -> Array:
    return np.tile(stream.primitive, (dual.volume.size, 1))


# -------------------------------------------------------------------------------- states and fluxes


def test_conserved_and_primitive_variables_are_inverse():
    values = np.random.default_rng(0).uniform(0.5, 2.0, (50, 4))
    assert np.abs(primitives(conserved(values)) - values).max() < 1e-14


def test_free_stream_drifts_by_no_more_than_rounding(foil):
    _, dual, is_wall = foil
    stream = Stream(0.7, 5.0)
    computed = last(dual, np.zeros_like(is_wall), stream, uniform(dual, stream), 2.5)
    assert np.abs(computed - stream.primitive).max() < 1e-12


def test_an_accelerated_free_stream_stays_uniform(foil):
    _, dual, is_wall = foil
    stream = Stream(0.3, 5.0, acceleration=(0.05, -0.02))
    computed = last(dual, np.zeros_like(is_wall), stream, uniform(dual, stream), 2.5)
    assert np.abs(computed - stream.primitive_at(2.5)).max() < 1e-6
    assert np.abs(stream.primitive_at(2.5) - stream.primitive).max() > 0.1


def test_flux_of_a_smooth_state_is_the_exact_one(square):
    """For linear density, velocity and pressure the rate of mass is -div(rho v), second order."""
    mesh, _ = square
    errors = []
    for _ in range(2):
        mesh, _ = refine(mesh)
        dual = dual_mesh(mesh.points, mesh.cells)
        x, y = mesh.points.T
        primitive = np.stack(
            [1.0 + 0.1 * x, 0.3 + 0.2 * y, 0.1 - 0.1 * x, PRESSURE + 0.05 * y], axis=1
        )
        rate = np.empty_like(primitive)
        euler_rhs(dual, np.ones(len(dual.wall), dtype=bool), STILL)(conserved(primitive), rate)
        inside = ~mesh.tags["boundary"]
        exact = -0.1 * primitive[:, 1]  # div(rho v) = v.grad rho, as div v = 0
        errors.append(math.sqrt(np.sum((dual.volume * (rate[:, 0] - exact) ** 2)[inside])))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 1e-3


def test_stationary_contact_is_kept_exactly(square):
    mesh, dual = square
    primitive = np.tile([1.0, 0.0, 0.0, PRESSURE], (mesh.size, 1))
    primitive[mesh.points[:, 0] > 0.6, 0] = 0.2
    computed = last(dual, np.ones(len(dual.wall), dtype=bool), STILL, primitive, 0.5)
    assert np.abs(computed - primitive).max() < 1e-13


def test_mass_and_energy_in_a_closed_box_are_kept(square):
    mesh, dual = square
    primitive = np.tile([1.0, 0.0, 0.0, PRESSURE], (mesh.size, 1))
    primitive[:, 3] *= 1.0 + np.exp(-np.sum((mesh.points - 0.4) ** 2, axis=1) / 0.02)
    before = dual.volume @ conserved(primitive)
    after = dual.volume @ conserved(
        last(dual, np.ones(len(dual.wall), dtype=bool), STILL, primitive, 1.0)
    )
    assert np.abs(after[[0, 3]] / before[[0, 3]] - 1).max() < 1e-12


# ---------------------------------------------------------------------------------- exact solutions


def vortex(
    points: Array, centre: Array, stream: Stream, *, speed: float = 0.2, width: float = 0.1
) -> Array:
    """An isentropic vortex that the stream carries along unchanged."""
    away = (points - centre) / width
    bell = np.exp(0.5 * (1.0 - np.sum(away**2, axis=1)))
    sound = 1.0 - 0.5 * (GAMMA - 1.0) * (speed * bell) ** 2  # squared
    rho = sound ** (1.0 / (GAMMA - 1.0))
    _, u, v, _ = stream.primitive
    return np.stack(
        [rho, u - speed * away[:, 1] * bell, v + speed * away[:, 0] * bell, PRESSURE * rho**GAMMA],
        axis=1,
    )


def test_isentropic_vortex_is_carried_with_second_order():
    stream, time = Stream(0.5, 20.0), 0.5
    mesh, errors = mesh_polygon(SQUARE, nodes=1200), []
    for level in range(2):
        if level:
            mesh, _ = refine(mesh)
        dual = dual_mesh(mesh.points, mesh.cells)
        start = np.array([0.45, 0.5])
        computed = last(
            dual,
            np.zeros(len(dual.wall), dtype=bool),
            stream,
            vortex(mesh.points, start, stream),
            time,
        )
        exact = vortex(mesh.points, start + time * stream.primitive[1:3], stream)
        misses = dual.volume @ (computed - exact) ** 2
        errors.append(
            math.sqrt(misses.sum() / (dual.volume @ (exact - stream.primitive) ** 2).sum())
        )
    assert errors[1] < 0.03
    assert math.log2(errors[0] / errors[1]) > 1.8


def test_shock_runs_with_the_speed_of_rankine_and_hugoniot():
    mach, columns = 1.5, 200
    points, dual = strip(columns)
    jump = 1.0 + 2.0 * GAMMA / (GAMMA + 1.0) * (mach**2 - 1.0)
    dense = (GAMMA + 1.0) * mach**2 / ((GAMMA - 1.0) * mach**2 + 2.0)
    behind = np.array([dense, 2.0 * (mach - 1.0 / mach) / (GAMMA + 1.0), 0.0, jump * PRESSURE])
    primitive = np.tile([1.0, 0.0, 0.0, PRESSURE], (len(points), 1))
    primitive[points[:, 0] < 0.2] = behind
    is_wall = np.ones(len(dual.wall), dtype=bool)
    # the gas of the right side would rush in there
    is_wall[(points[dual.wall][:, :, 0] == 0.0).all(axis=1)] = False
    computed = last(dual, is_wall, STILL, primitive, 0.2)
    line = points[:, 1] == points[:, 1].max() / 2
    x, rho = points[line, 0], computed[line, 0]
    assert abs(x[rho > 0.5 * (1.0 + dense)].max() - (0.2 + 0.2 * mach)) < 2.5 / columns
    # behind the shock, ahead of the rarefaction from the open end
    plateau = (x > 0.43) & (x < 0.48)
    assert np.abs(computed[line][plateau] - behind).max() < 0.02
    assert rho.max() < 1.02 * dense
    assert np.abs(computed[x.size :, 2]).max() < 0.05


def test_air_behind_an_accelerating_piston_expands_in_an_exact_simple_wave():
    """Seen from the piston, at x = 0, all air accelerates away from it."""
    rate, time = 0.5, 0.6
    points, dual = strip(150)
    is_wall = (points[dual.wall][:, :, 0] < 1.0).any(axis=1)  # but the open end
    stream = Stream(0.0, acceleration=(rate, 0.0))
    computed = last(dual, is_wall, stream, uniform(dual, stream), time)
    sound = 1.0 - 0.5 * (GAMMA - 1.0) * rate * time  # at the piston (Landau and Lifshitz, 101)
    exact = np.array(
        [sound ** (2.0 / (GAMMA - 1.0)), PRESSURE * sound ** (2 * GAMMA / (GAMMA - 1))]
    )
    at_piston = points[:, 0] == 0.0
    assert np.abs(computed[at_piston][:, [0, 3]] / exact - 1.0).max() < 2e-3
    ahead = points[:, 0] > time + 0.5 * rate * time**2 + 0.08  # the wave has not come here
    assert ahead.any() and np.abs(computed[ahead] - stream.primitive_at(time)).max() < 1e-4
    assert np.abs(computed[at_piston, 1]).max() < 2e-3


def test_near_vacuum_keeps_density_and_pressure_positive():
    """Two halves that fly apart at twice the speed of sound each (Einfeldt's problem)."""
    points, dual = strip(100)
    primitive = np.tile([1.0, 0.0, 0.0, PRESSURE], (len(points), 1))
    primitive[:, 1] = np.where(points[:, 0] < 0.5, -2.0, 2.0)
    is_wall = np.abs(dual.wall_normal[:, 1]) > 0
    computed = last(dual, is_wall, STILL, primitive, 0.1)
    assert np.isfinite(computed).all()
    assert computed[:, [0, 3]].min() > 0
    assert computed[:, 0].min() < 0.1


def test_step_is_stable_with_a_margin(square):
    """In nearly still air noise decays at the step in use and blows up at 1.6 times it."""
    mesh, dual = square
    stream = Stream(0.05)
    rhs, rates = euler_rhs(dual, np.zeros(len(dual.wall), dtype=bool), stream), euler_rates(dual)
    noise = 1e-7 * np.random.default_rng(0).standard_normal((mesh.size, 4))
    state = conserved(uniform(dual, stream) + noise)
    share = (LONGEST_STEP / rates(state))[:, None]

    def left(factor: float) -> float:
        def local(state: Array, out: Array) -> None:
            rhs(state, out)
            out *= factor * share

        with np.errstate(all="ignore"):
            *_, after = ssp_rk3(local, state, (0.0, 300.0), 1.0)
            return float(
                np.nan_to_num(np.abs(primitives(after) - stream.primitive).max(), nan=np.inf)
            )

    assert left(1.0) < 0.5 * np.abs(noise).max()
    assert left(1.6) > 1e-3


# ----------------------------------------------------------------------------------- bodies in flow


def test_dual_cells_around_the_foil_are_closed(foil):
    mesh, dual, is_wall = foil
    outward = np.zeros((mesh.size, 2))
    for end, sign in ((0, 1.0), (1, -1.0)):
        np.add.at(outward, dual.edge[:, end], sign * dual.normal)
        np.add.at(outward, dual.wall[:, end], dual.wall_normal)
    assert np.abs(outward).max() < 1e-12
    assert np.abs(dual.wall_normal[is_wall].sum(axis=0)).max() < 1e-14
    assert dual.volume.sum() == pytest.approx(
        cell_measures(mesh.points, mesh.cells).sum(), rel=1e-13
    )


def test_mirrored_mesh_and_angle_give_the_mirrored_flow(foil):
    mesh, dual, is_wall = foil
    flip = np.array([1.0, -1.0])
    mirrored = dual_mesh(mesh.points * flip, mesh.cells[:, ::-1])
    walls = mesh.tags["foil"][mirrored.wall].all(axis=1)
    up, down = Stream(0.6, 4.0), Stream(0.6, -4.0)
    computed = last(mirrored, walls, down, uniform(mirrored, down), 0.5)
    expected = last(dual, is_wall, up, uniform(dual, up), 0.5)
    assert np.abs(computed * [1, 1, -1, 1] - expected).max() < 1e-9
    assert np.abs(expected - up.primitive).max() > 0.1


def test_steady_state_stays_when_it_evolves(foil):
    _, dual, is_wall = foil
    stream = Stream(0.5, 2.0)
    steady = steady_state(dual, is_wall, stream, residual=1e-8)
    assert steady.residual < 1e-8
    later = last(dual, is_wall, stream, steady.primitive, 0.5)
    assert np.abs(later - steady.primitive).max() < 1e-5


def test_lift_grows_with_the_angle_and_follows_thin_foils_roughly(foil):
    _, dual, is_wall = foil
    lift = []
    for degrees in (0.0, 2.0):
        stream = Stream(0.3, degrees)
        lift.append(
            forces(
                dual, is_wall, stream, steady_state(dual, is_wall, stream, residual=1e-6).primitive
            ).lift
        )
    slope = 2.0 * math.pi / math.sqrt(1.0 - 0.3**2)  # Prandtl-Glauert, per radian
    assert abs(lift[0]) < 5e-3
    assert lift[1] - lift[0] == pytest.approx(slope * math.radians(2.0), rel=0.15)


# ------------------------------------------------------------------------------ sections and meshes


def test_section_is_naca_0012():
    nodes = Section.of("0012").nodes(200, nose=0.25, tail=0.2)
    assert np.abs(nodes[0] - [1.0, 0.0]).max() < 1e-12
    assert np.abs(nodes[100]).max() < 1e-12
    assert np.abs(nodes[1:100] - nodes[:100:-1] * [1, -1]).max() < 1e-12
    assert 2 * nodes[:, 1].max() == pytest.approx(0.12, abs=2e-4)
    assert signed_area(nodes) == pytest.approx(0.0817, abs=5e-4)


def test_cambered_section_has_its_camber_where_the_code_says():
    section = Section.of("2412")
    turn = np.linspace(0.0, np.pi, 401)
    middle = 0.5 * (section.outline(turn) + section.outline(2.0 * np.pi - turn))
    highest = middle[np.argmax(middle[:, 1])]
    assert highest == pytest.approx([0.4, 0.02], abs=2e-3)


@pytest.mark.parametrize("code", ["12", "00120", "abcd", "0000", "0412", "2012"])
def test_wrong_code_is_one_line(code):
    with pytest.raises(ParamError, match="is not a four-digit section") as caught:
        Section.of(code)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "section", [Section(0.04, 0.3, 0.09), Section(0.04, 0.5, 0.15), Section(0.0, 0.4, 0.09)]
)
def test_mesh_of_any_section_has_the_wanted_counts_and_angles(section):
    mesh = foil_mesh(section, nodes=600, radius=50.0)
    on_foil, on_far = boundary_counts(600)
    assert (mesh.size, int(mesh.tags["foil"].sum()), int(mesh.tags["far"].sum())) == (
        600,
        on_foil,
        on_far,
    )
    assert len(mesh.cells) == 2 * 600 - on_foil - on_far
    assert min_angle(mesh) > 25.0
    assert (mesh.tags["boundary"] == mesh.tags["foil"] | mesh.tags["far"]).all()


def test_given_boundary_nodes_are_kept_and_impossible_angles_are_refused():
    rim = np.array(
        [
            [0.0, 0.0],
            [0.5, 0.0],
            [1.0, 0.0],
            [1.0, 0.5],
            [1.0, 1.0],
            [0.5, 1.0],
            [0.0, 1.0],
            [0.0, 0.5],
        ]
    )
    mesh = mesh_inside([rim], nodes=13, size=lambda points: np.full(len(points), 0.45))
    assert np.array_equal(mesh.points[:8], rim)
    assert mesh.size == 13
    with pytest.raises(DataError, match="angles of 59 degrees was found"):
        mesh_inside([rim], nodes=13, size=lambda points: np.full(len(points), 0.45), angle=59.0)
