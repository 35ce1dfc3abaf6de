"""The shallow-water solver and its parts against exact solutions.

Dual mesh, subdivision, integrator, fluxes and walls.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from gsnobench.data import Array
from gsnobench.errors import DataError
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import cell_edges
from gsnobench_plugins.solvers.equations import shallow_water
from gsnobench_plugins.solvers.equations.shallow_water import LONGEST_STEP, Water, shallow_water_rhs
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.meshing.subdivide import subdivide
from gsnobench_plugins.solvers.methods import integrate
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh, compact_order, dual_mesh
from gsnobench_plugins.solvers.methods.integrate import rk4, spectral_radius, ssp_rk3
from gsnobench_plugins.solvers.shapes.lake_union import lake_union_outline

WATER = Water(gravity=8.81, depth=5.0, dissipation=0.5)
SPEED = math.sqrt(WATER.gravity * WATER.depth)


def rectangle(
    columns: int, rows: int, width: float, height: float, shake: float = 0.0
) -> tuple[Array, Array]:
    """A triangulated rectangle, mirror-symmetric for even counts; inner nodes may be shaken."""
    x, y = np.meshgrid(
        np.linspace(0, width, columns + 1), np.linspace(0, height, rows + 1), indexing="ij"
    )
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    inside = (x > 0) & (x < width) & (y > 0) & (y < height)
    edge = np.array([width / columns, height / rows])
    points[inside.ravel()] += (
        shake * edge * np.random.default_rng(0).uniform(-1, 1, (int(inside.sum()), 2))
    )
    number = np.arange(len(points)).reshape(columns + 1, rows + 1)
    a, b, c, d = (
        part.ravel()
        for part in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])
    )
    i, j = np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij")
    falls = ((i < columns / 2) == (j < rows / 2)).ravel()[:, None]
    first = np.where(falls, np.stack([a, b, d], axis=1), np.stack([a, b, c], axis=1))
    second = np.where(falls, np.stack([b, c, d], axis=1), np.stack([a, c, d], axis=1))
    return points, np.concatenate([first, second])


@pytest.fixture(scope="module")
def lake() -> tuple[Array, Array]:
    mesh = mesh_polygon(lake_union_outline(), nodes=450)
    return subdivide(mesh.points, mesh.cells, 2)


def run(
    points: Array, dual: DualMesh, state: Array, times: list[float], water: Water = WATER
) -> list[Array]:
    rhs = shallow_water_rhs(dual, water)
    highest = water.depth + max(0.0, state[:, 0].max())
    step = LONGEST_STEP / (spectral_radius(rhs, state.shape) * math.sqrt(highest / water.depth))
    return [frame.copy() for frame in ssp_rk3(rhs, state, times, step)]


def bump(
    points: Array, centre: tuple[float, float], amplitude: float = 1.0, sigma: float = 20.0
) -> Array:
    state = np.zeros((len(points), 3))
    state[:, 0] = amplitude * np.exp(-np.sum((points - centre) ** 2, axis=1) / (2 * sigma**2))
    return state


def error(volume: Array, computed: Array, exact: Array) -> float:
    return math.sqrt(np.sum(volume * (computed - exact) ** 2) / np.sum(volume * exact**2))


# ----------------------------------------------------------------------------------------- geometry


def test_dual_cells_are_closed_and_fill_the_domain(lake):
    points, cells = lake
    dual = dual_mesh(points, cells)
    outward = np.zeros((len(points), 2))
    for end, sign in ((0, 1.0), (1, -1.0)):
        np.add.at(outward, dual.edge[:, end], sign * dual.normal)
        np.add.at(outward, dual.wall[:, end], dual.wall_normal)
    assert np.abs(outward).max() < 1e-12
    assert dual.volume.sum() == pytest.approx(cell_measures(points, cells).sum(), rel=1e-13)
    assert (dual.volume > 0).all()


def test_face_normals_point_from_the_first_node_to_the_second(lake):
    dual = dual_mesh(*lake)
    assert (np.sum(dual.normal * dual.offset, axis=1) > 0).all()


def test_gradients_of_linear_fields_are_exact_up_to_the_walls(lake):
    points, cells = lake
    dual = dual_mesh(points, cells)
    values = 3.0 - 2.0 * points[:, 0] + 0.7 * points[:, 1]
    here = np.repeat(np.arange(len(points)), np.diff(dual.start.astype(int)))
    steps = dual.slope * (values[dual.neighbour] - values[here])[:, None]
    gradient = np.stack([np.bincount(here, steps[:, axis], len(points)) for axis in (0, 1)], axis=1)
    assert np.abs(gradient - [-2.0, 0.7]).max() < 1e-12


def test_clockwise_cells_are_refused():
    points, cells = rectangle(2, 2, 1.0, 1.0)
    with pytest.raises(DataError, match="8 cells are flat or clockwise"):
        dual_mesh(points, cells[:, ::-1])


@pytest.mark.parametrize("pieces", [1, 2, 3, 5])
def test_subdivision_keeps_nodes_area_shape_and_conformity(pieces):
    mesh = mesh_polygon(lake_union_outline(), nodes=120)
    points, cells = subdivide(mesh.points, mesh.cells, pieces)
    assert np.array_equal(points[: mesh.size], mesh.points)
    assert len(cells) == len(mesh.cells) * pieces**2
    assert len(points) - len(cell_edges(cells)) + len(cells) == 1  # Euler: no crack, no double node
    areas = cell_measures(points, cells).reshape(len(mesh.cells), -1)
    assert np.allclose(
        areas * pieces**2, cell_measures(mesh.points, mesh.cells)[:, None], rtol=1e-10
    )


def test_subdivision_in_two_is_red_refinement():
    mesh = mesh_polygon(lake_union_outline(), nodes=120)
    points, _ = subdivide(mesh.points, mesh.cells, 2)
    fine, _ = refine(mesh)
    assert np.allclose(
        np.sort(points.view("f8,f8").ravel()).view(float),
        np.sort(fine.points.view("f8,f8").ravel()).view(float),
    )


def test_compact_order_is_a_permutation_that_brings_neighbours_together(lake):
    points, cells = lake
    edge = cell_edges(cells)
    order = compact_order(edge, len(points))
    assert np.array_equal(np.sort(order), np.arange(len(points)))
    new_number = np.argsort(order)
    after, before = (np.abs(np.diff(ends, axis=1)).max() for ends in (new_number[edge], edge))
    assert after < 0.1 * before


# --------------------------------------------------------------------------------------------- time


@pytest.mark.parametrize(("method", "order", "bar"), [(ssp_rk3, 2.8, 4e-5), (rk4, 3.8, 4e-7)])
def test_integrators_have_their_order_and_meet_the_times(method, order, bar):
    def rhs(state: Array, out: Array) -> None:
        out[:] = [state[1], -state[0], 0.0]
        out[2] = state[2] ** 2  # u' = u^2: u = 1 / (1 - t)

    times = [0.0, 0.31, 0.5]
    errors = []
    for step in (0.05, 0.025):
        computed = [state.copy() for state in method(rhs, np.array([0.0, 1.0, 1.0]), times, step)]
        exact = [[math.sin(t), math.cos(t), 1 / (1 - t)] for t in times]
        errors.append(np.abs(np.array(computed) - exact).max())
    assert math.log2(errors[0] / errors[1]) > order
    assert errors[1] < bar


def test_spectral_radius_finds_damped_and_oscillating_modes():
    def damped(state: Array, out: Array) -> None:
        out[:] = -np.array([1.0, 7.0, 3.0]) * state

    def oscillating(state: Array, out: Array) -> None:
        out[:] = [11.0 * state[1], -11.0 * state[0], -2.0 * state[2]]

    assert spectral_radius(damped, (3,)) == pytest.approx(7.0, rel=1e-6)
    assert spectral_radius(oscillating, (3,)) == pytest.approx(11.0, rel=1e-6)


@pytest.mark.parametrize("dissipation", [0.4, 0.5, 1.0])
def test_longest_step_is_stable_for_rough_waves(dissipation):
    points, cells = rectangle(20, 20, 60.0, 60.0, shake=0.2)
    water = Water(WATER.gravity, WATER.depth, dissipation)
    state = np.zeros((len(points), 3))
    state[:, 0] = 1e-3 * np.random.default_rng(0).standard_normal(len(points))
    last = run(points, dual_mesh(points, cells), state, [0.0, 60.0], water)[-1]
    assert np.abs(last).max() < 1e-2


# ------------------------------------------------------------------------------------------ physics


def test_compiled_kernels_agree_with_the_same_python(monkeypatch):
    points, cells = rectangle(6, 5, 30.0, 20.0, shake=0.2)
    dual = dual_mesh(points, cells)
    state = np.random.default_rng(1).normal(size=(len(points), 3)) * [0.5, 2.0, 2.0]
    compiled, plain = np.empty_like(state), np.empty_like(state)
    shallow_water_rhs(dual, WATER)(state, compiled)
    for name in ("_primitives", "_gradients", "_edge_fluxes", "_wall_fluxes", "_scale"):
        monkeypatch.setattr(shallow_water, name, getattr(shallow_water, name).py_func)
    shallow_water_rhs(dual, WATER)(state, plain)
    assert np.abs(compiled - plain).max() < 1e-13 * np.abs(plain).max()
    monkeypatch.setattr(integrate, "_mix", integrate._mix.py_func)
    *_, last = ssp_rk3(shallow_water_rhs(dual, WATER), state, [0.0, 0.1], 0.05)
    assert np.isfinite(last).all()


def test_still_water_stays_still_at_any_level(lake):
    points, cells = lake
    dual = dual_mesh(points, cells)
    state = np.zeros((len(points), 3))
    assert not np.any(run(points, dual, state, [0.0, 5.0])[-1])
    state[:, 0] = 0.7
    last = run(points, dual, state, [0.0, 30.0])[-1]
    assert np.abs(last[:, 0] - 0.7).max() < 1e-11
    assert np.abs(last[:, 1:]).max() < 1e-11


def test_mass_is_conserved_to_round_off_and_energy_never_grows(lake):
    points, cells = lake
    dual = dual_mesh(points, cells)
    frames = run(points, dual, bump(points, (110.0, 120.0)), [3.0 * k for k in range(11)])
    mass = np.array([np.sum(dual.volume * (WATER.depth + frame[:, 0])) for frame in frames])
    assert np.abs(mass / mass[0] - 1).max() < 1e-12

    def energy(frame: Array) -> float:
        h = WATER.depth + frame[:, 0]
        return float(
            np.sum(
                dual.volume
                * 0.5
                * (WATER.gravity * frame[:, 0] ** 2 + (frame[:, 1] ** 2 + frame[:, 2] ** 2) / h)
            )
        )

    energies = [energy(frame) for frame in frames]
    assert all(later < earlier for earlier, later in zip(energies[:-1], energies[1:], strict=True))
    assert energies[-1] > 0.9 * energies[0]  # a first-order scheme loses most of it


@pytest.mark.parametrize(("shake", "bar"), [(0.0, 8e-4), (0.15, 1.2e-3)])
def test_small_standing_wave_has_the_exact_frequency(shake, bar):
    """cos(pi x) cos(pi y) cos(w t), w = pi sqrt(2 g H), solves the linear equations in a square."""
    errors = []
    for rows in (24, 48):
        points, cells = rectangle(2 * rows, rows, 2.0, 1.0, shake)
        dual = dual_mesh(points, cells)
        mode = np.cos(np.pi * points[:, 0]) * np.cos(np.pi * points[:, 1])
        state = np.zeros((len(points), 3))
        state[:, 0] = 1e-7 * mode
        frequency = SPEED * math.pi * math.sqrt(2)
        end = 2 * math.pi / frequency  # one period
        last = run(points, dual, state, [0.0, end])[-1]
        errors.append(error(dual.volume, last[:, 0] * 1e7, mode))
    assert math.log2(errors[0] / errors[1]) > 1.8
    assert errors[1] < bar


def test_nonlinear_simple_wave_steepens_as_the_characteristics_say():
    """u = 2 (c - c0) running right: c is constant along dx/dt = 3 c - 2 c0 until it breaks."""

    def exact(x: Array, time: float) -> Array:
        c = np.full(len(x), SPEED)
        for _ in range(200):  # fixed point of c = c(x - (3 c - 2 c0) t, 0)
            c = SPEED + 0.4 * np.exp(
                -((x - (3 * c - 2 * SPEED) * time - 60.0) ** 2) / (2 * 12.0**2)
            )
        return c

    errors, end = [], 6.0
    for columns in (90, 180):
        points, cells = rectangle(columns, 4, 180.0, 8.0 * 90 / columns)
        dual = dual_mesh(points, cells)
        c = exact(points[:, 0], 0.0)
        height, flow = c**2 / WATER.gravity, 2 * (c - SPEED)
        state = np.stack([height - WATER.depth, height * flow, np.zeros(len(c))], axis=1)
        last = run(points, dual, state, [0.0, end])[-1]
        expected = exact(points[:, 0], end) ** 2 / WATER.gravity - WATER.depth
        errors.append(error(dual.volume, last[:, 0], expected))
    assert math.log2(errors[0] / errors[1]) > 1.8
    assert errors[1] < 2e-3


def test_mirrored_problem_has_the_mirrored_solution():
    points, cells = rectangle(30, 20, 90.0, 60.0)
    dual = dual_mesh(points, cells)
    last = run(points, dual, bump(points, (30.0, 30.0), sigma=10.0), [0.0, 8.0])[-1]
    mirrored = run(points, dual, bump(points, (60.0, 30.0), sigma=10.0), [0.0, 8.0])[-1]
    order = np.arange(len(points)).reshape(31, 21)
    assert np.abs(last[order[::-1, :].ravel()] * [1, -1, 1] - mirrored).max() < 1e-11
    assert np.abs(last[order[:, ::-1].ravel()] * [1, 1, -1] - last).max() < 1e-11


def test_wall_reflects_like_a_mirror_image():
    points, cells = rectangle(80, 40, 80.0, 40.0)
    whole = bump(points, (25.0, 20.0), sigma=8.0) + bump(points, (55.0, 20.0), sigma=8.0)
    half_points, half_cells = rectangle(40, 40, 40.0, 40.0)
    half = bump(half_points, (25.0, 20.0), sigma=8.0) + bump(half_points, (55.0, 20.0), sigma=8.0)
    last = run(points, dual_mesh(points, cells), whole, [0.0, 5.0])[-1][: len(half_points)]
    computed = run(half_points, dual_mesh(half_points, half_cells), half, [0.0, 5.0])[-1]
    assert error(np.ones(len(computed)), computed[:, 0], last[:, 0]) < 5e-3
    on_wall = half_points[:, 0] == 40.0
    assert np.abs(computed[on_wall, 1]).max() < 0.02 * np.abs(computed[:, 1]).max()


def test_depth_stays_positive_for_a_bump_of_the_highest_kind(lake):
    points, cells = lake
    frames = run(
        points,
        dual_mesh(points, cells),
        bump(points, (190.0, 280.0), 3.0, 15.0),
        [1.5 * k for k in range(21)],
    )
    assert min(frame[:, 0].min() for frame in frames) > -0.8 * WATER.depth
    assert np.isfinite(frames[-1]).all()
