"""Burgers' solver: exact energy balance, orders in space and time, decay of eigenmodes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Array, Mesh
from gsnobench.meshes.operators import node_volumes
from gsnobench_plugins.solvers.equations.burgers import (
    STEEP,
    Flow,
    burgers_rhs,
    energy,
    gradient_matrices,
    make_flow,
)
from gsnobench_plugins.solvers.equations.nested_burgers import nest, solve, to_nodes
from gsnobench_plugins.solvers.meshing.pyramid import mesh_pyramid
from gsnobench_plugins.solvers.meshing.red_refinement import refine, refine_tetrahedra
from gsnobench_plugins.solvers.methods.integrate import rk4


def relative(computed: Array, exact: Array) -> float:
    return math.sqrt(np.sum((computed - exact) ** 2) / np.sum(exact**2))


def box(parts: int, dim: int) -> Mesh:
    """The unit square or cube in equal boxes, each cut along its diagonal into dim! simplices."""
    axes = np.meshgrid(*[np.arange(parts + 1)] * dim, indexing="ij")
    lattice = np.stack([axis.ravel() for axis in axes], axis=1)
    number = np.arange(len(lattice)).reshape([parts + 1] * dim)
    corner = lattice[(lattice < parts).all(axis=1)]  # (boxes, dim)
    cells = []
    for path in itertools.permutations(range(dim)):
        steps = np.concatenate(
            [np.zeros((1, dim), int), np.cumsum(np.eye(dim, dtype=int)[list(path)], axis=0)]
        )
        nodes = number[tuple(np.moveaxis(corner[:, None] + steps, 2, 0))]  # (boxes, dim + 1)
        is_odd = np.linalg.det(np.eye(dim)[list(path)]) < 0
        cells.append(nodes[:, [1, 0, *range(2, dim + 1)]] if is_odd else nodes)
    rim = ((lattice == 0) | (lattice == parts)).any(axis=1)
    return Mesh(lattice / parts, np.concatenate(cells), {"boundary": rim})


# ------------------------------------------------------------------------------------ the operators


def test_gradients_of_linear_fields_are_exact():
    for mesh, slope in ((box(5, 2), [0.3, -1.7]), (mesh_pyramid(150), [0.3, -1.7, 2.1])):
        field = mesh.points @ slope + 0.4
        computed = (
            np.stack([matrix @ field for matrix in gradient_matrices(mesh)], axis=1)
            / node_volumes(mesh)[:, None]
        )
        assert np.abs(computed - slope).max() < 1e-12


@pytest.mark.parametrize("dim", [2, 3])
def test_energy_changes_exactly_as_the_equation_says(dim):
    """dE/dt = integral of |u|^2 div u / 2 - nu |grad u|^2, same quadrature, for a rough field."""
    mesh = box(7, 2) if dim == 2 else mesh_pyramid(300)
    flow = make_flow(mesh)
    state = np.random.default_rng(1).standard_normal((len(flow.free), dim))
    values, rate = to_nodes(flow, state), np.empty_like(state)
    # times mass
    divergence = sum(
        matrix @ values[:, axis] for axis, matrix in enumerate(gradient_matrices(mesh))
    )
    for viscosity in (0.0, 0.3):
        burgers_rhs(flow, viscosity, steep=0.0)(state, rate)
        change = float(np.sum(flow.mass[:, None] * state * rate))
        friction = viscosity * float(np.sum(state * (flow.stiffness() @ state)))
        work = 0.5 * float(np.sum(np.sum(values**2, axis=1) * divergence))
        assert abs(change - (work - friction)) < 1e-12 * (
            friction + np.sum(np.abs(state * rate) * flow.mass[:, None])
        )


def test_steep_fronts_lose_energy_and_resolved_flow_never_meets_the_brake():
    mesh = refine_tetrahedra(mesh_pyramid(150))
    flow = make_flow(mesh)
    rough = np.random.default_rng(1).standard_normal((len(flow.free), 3))
    nodes = mesh.points[flow.free]
    smooth = (
        0.5
        * (nodes[:, 2] * np.prod(1.0 - np.abs(2.0 * nodes[:, :2] - 1.0), axis=1))[:, None]
        * np.ones(3)
    )
    computed = {}
    for name, state in (("rough", rough), ("smooth", smooth)):
        plain, braked = np.empty_like(state), np.empty_like(state)
        burgers_rhs(flow, 0.1, steep=0.0)(state, plain)
        burgers_rhs(flow, 0.1)(state, braked)
        computed[name] = plain - braked
    assert np.sum(flow.mass[:, None] * rough * computed["rough"]) > 0.1 * energy(flow, rough)
    assert np.array_equal(computed["smooth"], np.zeros_like(smooth))


def test_steps_are_stable_up_to_the_measured_limit():
    """Random fields decay at the step in use and blow up a little above the limit of rk4."""
    flow = make_flow(refine_tetrahedra(mesh_pyramid(150)))
    start = 1e-6 * np.random.default_rng(0).standard_normal((len(flow.free), 3))
    for factor, is_stable in ((1.0, True), (1.12, False)):
        step = factor * flow.step(1.0, 0.0)
        *_, last = rk4(burgers_rhs(flow, 1.0), start, (0.0, 200 * step), step)
        assert (energy(flow, last) < energy(flow, start)) == is_stable


# ---------------------------------------------------------------------------------- exact solutions


def wave(points: Array, dim: int) -> tuple[Array, Array]:
    """s = product of sin(pi x_a), zero on the boundary, (N,), and its gradient (N, d)."""
    sines, cosines = np.sin(np.pi * points), np.cos(np.pi * points)
    gradient = [
        np.pi * cosines[:, a] * np.prod(np.delete(sines, a, axis=1), axis=1) for a in range(dim)
    ]
    return np.prod(sines, axis=1), np.stack(gradient, axis=1)


def manufactured(
    mesh: Mesh, viscosity: float, until: float, step: float, *, steep: float = STEEP
) -> tuple[Array, Array, Flow]:
    """Solved and exact states for u = cos(2 t) s(x) (1, -0.6, 0.8), forced by its source."""
    flow, dim = make_flow(mesh), mesh.dim
    direction = np.array([1.0, -0.6, 0.8])[:dim]
    s, gradient = wave(mesh.points[flow.free], dim)
    plain, along = burgers_rhs(flow, viscosity, steep=steep), s * (gradient @ direction)

    def rhs(state: Array, out: Array) -> None:
        """The last row is a clock, so that a source in time fits an autonomous integrator."""
        now = state[-1, 0]
        plain(state[:-1], out[:-1])
        change = (
            -2.0 * np.sin(2 * now) * s
            + np.cos(2 * now) * viscosity * dim * np.pi**2 * s
            + np.cos(2 * now) ** 2 * along
        )
        out[:-1] += change[:, None] * direction
        out[-1] = 1.0

    exact = s[:, None] * direction
    *_, last = rk4(rhs, np.concatenate([exact, np.zeros((1, dim))]), (0.0, until), step)
    return last[:-1].copy(), np.cos(2 * until) * exact, flow


@pytest.mark.parametrize(("dim", "parts", "bar"), [(2, (8, 16, 32), 2e-3), (3, (6, 12, 24), 5e-3)])
def test_manufactured_solution_converges_to_second_order(dim, parts, bar):
    errors = []
    for n in parts:
        mesh = box(n, dim)
        errors.append(relative(*manufactured(mesh, 0.1, 0.3, make_flow(mesh).step(0.1, 1.5))[:2]))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < bar and orders[-1] >= 1.9


def time_errors(viscosity: float, steep: float) -> Array:
    """Differences between runs with 2, 4 and 8 times the steps of stability, relative, (2,)."""
    mesh = box(6, 2)
    longest = make_flow(mesh).step(viscosity, 1.5)
    runs = [
        manufactured(mesh, viscosity, 0.4, 0.4 / round(0.4 / longest * k), steep=steep)[0]
        for k in (2, 4, 8)
    ]
    return np.array([relative(runs[0], runs[1]), relative(runs[1], runs[2])])


@pytest.mark.parametrize(("viscosity", "steep"), [(0.1, STEEP), (0.02, 0.0)])
def test_time_steps_converge_to_fourth_order(viscosity, steep):
    errors = time_errors(viscosity, steep)
    assert 3.8 < math.log2(errors[0] / errors[1]) < 4.3 and errors[0] < 1e-5


def test_the_brake_costs_order_in_time_but_no_accuracy_that_counts():
    """It sets in with a kink, so that steps converge more slowly; their error stays small."""
    errors = time_errors(0.02, STEEP)
    assert math.log2(errors[0] / errors[1]) < 3.8 and errors[0] < 1e-5


@pytest.mark.parametrize(("dim", "parts", "bar"), [(2, 10, 2e-3), (3, 6, 1e-2)])
@pytest.mark.parametrize("with_modes", [False, True])
def test_eigenmodes_decay_as_the_heat_equation_says(dim, parts, bar, with_modes):
    """A field too weak for advection decays as e^(-nu lambda t), lambda = d pi^2, both ways."""
    viscosity, times = 0.1, np.linspace(0.0, 1.0, 6).tolist()
    nested = nest(
        box(parts, dim),
        (lambda mesh: refine(mesh)[0]) if dim == 2 else refine_tetrahedra,
        refinements=1,
        with_modes=with_modes,
        cache=gb.Cache(),
    )
    initial = [1e-9 * wave(mesh.points, dim)[0][:, None] * np.ones(dim) for mesh in nested.meshes]
    frames = solve(nested, initial, times, viscosity=viscosity)
    for now, frame in zip(times, frames, strict=True):
        exact = math.exp(-viscosity * dim * np.pi**2 * now) * initial[0]
        assert relative(frame, exact) < bar
