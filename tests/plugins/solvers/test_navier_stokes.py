"""The pipe's solver: exact and manufactured solutions, conservation, Newton, linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from gsnobench.data import Array
from gsnobench.errors import ParamError
from gsnobench_plugins.solvers.equations.navier_stokes import ChannelFlow, ChannelSpace
from gsnobench_plugins.solvers.methods.continuation import TOLERANCE, continued, march, newton
from gsnobench_plugins.solvers.methods.direct import factoriser
from gsnobench_plugins.solvers.methods.nested_dissection import dissection_order
from gsnobench_plugins.solvers.methods.quadrilaterals import QuadGrid, interpolate

LENGTH = 2.0
SUPERLU = factoriser("superlu")


def space_of(along: int, across: int, length: float = LENGTH) -> ChannelSpace:
    return ChannelSpace(QuadGrid(along, across, length, 1.0))


def parabola(grid: QuadGrid) -> Array:
    state = np.zeros(grid.size)
    state[grid.velocity[:, :, 0]] = 1.0 - 4.0 * grid.coordinates[1] ** 2
    return state


# ---------------------------------------------------------------------------------------- exactness


def test_a_straight_pipe_has_poiseuille_flow_to_rounding():
    length, viscosity = 10.0, 0.005
    space = space_of(16, 8, length)
    grid = space.grid
    exact = parabola(grid)
    draw = np.random.default_rng(0).normal(scale=0.01, size=grid.size)
    start = exact + np.where(space.fixed, 0.0, draw)
    computed = newton(
        ChannelFlow.of(space, np.zeros_like, viscosity), start, SUPERLU, tolerance=1e-15
    )
    assert computed is not None
    assert np.abs(computed - exact)[grid.velocity].max() <= 1e-12
    pressure = computed[grid.pressure]
    drop = pressure[0] - pressure[-1]
    assert np.abs(drop - 8.0 * viscosity * length).max() <= 1e-12
    left = length - grid.coordinates[0][::2, None]
    assert np.abs(pressure - 8.0 * viscosity * left).max() <= 1e-12


# A stream function with f' = f'' = 0 at the outlet, and a pressure that vanishes there, satisfy the
# outlet condition exactly.
def manufactured(x: Array, y: Array) -> dict[str, Array]:
    """Velocity, pressure and their derivatives: psi = f(x) sin(2 y), p = (x - L) cos(y)."""
    s = x - LENGTH
    f, f1, f2, f3 = 1.0 + s**3, 3.0 * s**2, 6.0 * s, 6.0 + 0.0 * s
    g, g1, g2, g3 = np.sin(2 * y), 2 * np.cos(2 * y), -4 * np.sin(2 * y), -8 * np.cos(2 * y)
    return {
        "u": f * g1, "ux": f1 * g1, "uy": f * g2, "lap_u": f2 * g1 + f * g3,
        "v": -f1 * g, "vx": -f2 * g, "vy": -f1 * g1, "lap_v": -f3 * g - f1 * g2,
        "p": s * np.cos(y), "px": np.cos(y), "py": -s * np.sin(y),
    }  # fmt: skip


def centre(x: Array) -> Array:
    return 0.4 * np.sin(2.0 * x)


def centre_slope(x: Array) -> Array:
    return 0.8 * np.cos(2.0 * x)


def manufactured_errors(elements: int, viscosity: float) -> tuple[float, float]:
    """L2 errors of velocity and pressure on a curved channel."""
    space = space_of(2 * elements, elements)
    grid = space.grid
    along, across = grid.gauss_coordinates()
    x = np.broadcast_to(along[:, None, :, None], (grid.along, grid.across, 3, 3))
    y = centre(x) + across[None, :, None, :]
    # (M, Q^2)
    at = {name: value.reshape(len(grid.elements), -1) for name, value in manufactured(x, y).items()}
    force = np.stack(
        [
            at["u"] * at["ux"] + at["v"] * at["uy"] - viscosity * at["lap_u"] + at["px"],
            at["u"] * at["vx"] + at["v"] * at["vy"] - viscosity * at["lap_v"] + at["py"],
        ],
        axis=2,
    )
    nodes = np.broadcast_to(grid.coordinates[0][:, None], grid.shape)
    exact = manufactured(nodes, centre(nodes) + grid.coordinates[1])
    values = np.zeros(grid.size)
    values[grid.velocity] = np.stack([exact["u"], exact["v"]], axis=2)
    flow = replace(ChannelFlow.of(space, centre_slope, viscosity), force=force)
    computed = newton(flow, np.where(space.fixed, values, 0.9 * values), SUPERLU)
    assert computed is not None
    tables, local = grid.tables, computed[grid.elements]  # (M, 22)
    u, v, p = (
        local[:, :9] @ tables.value.T,
        local[:, 9:18] @ tables.value.T,
        local[:, 18:] @ tables.vertex.T,
    )
    velocity = np.sqrt(np.sum(tables.weight * ((u - at["u"]) ** 2 + (v - at["v"]) ** 2)))
    return float(velocity), float(np.sqrt(np.sum(tables.weight * (p - at["p"]) ** 2)))


def test_velocity_is_third_and_pressure_second_order_on_a_curved_channel():
    errors = np.array([manufactured_errors(elements, 0.05) for elements in (4, 8, 16)])  # (3, 2)
    orders = np.log2(errors[:-1] / errors[1:])
    assert (orders[:, 0] > 2.8).all() and (orders[:, 1] > 1.9).all()
    assert errors[-1, 0] < 3e-4 and errors[-1, 1] < 2e-3  # of norms 7.5 and 1.5


# ------------------------------------------------------------------------------------- conservation


@cache
def solved_bend(along: int, across: int, tolerance: float = TOLERANCE) -> tuple[ChannelFlow, Array]:
    space = space_of(along, across, 4.0)
    flow = ChannelFlow.of(space, centre_slope, 0.02)
    computed = continued(
        flow.at_viscosity, parabola(space.grid), flow.viscosity, SUPERLU, tolerance=tolerance
    )
    assert computed is not None
    return flow, computed


def fluxes(grid: QuadGrid, state: Array) -> Array:
    """Flux through every line of nodes, by Simpson's rule, which is exact there."""
    weights = np.ones(grid.shape[1])
    weights[1::2], weights[2:-1:2] = 4.0, 2.0
    return state[grid.velocity[:, :, 0]] @ weights * (grid.width / grid.across / 6.0)


def test_every_element_carries_the_inlet_flux_and_every_section_nearly():
    flow, state = solved_bend(32, 8, tolerance=1e-13)
    flux = fluxes(flow.space.grid, state)
    through_elements = (flux[:-1:2] + 4.0 * flux[1::2] + flux[2::2]) / 6.0
    assert np.abs(through_elements - 2.0 / 3.0).max() <= 1e-12
    assert np.abs(flux - 2.0 / 3.0).max() <= 2e-3
    finer, state = solved_bend(64, 8)
    fine_flux = fluxes(finer.space.grid, state)
    assert np.abs(fine_flux - 2.0 / 3.0).max() <= 0.25 * np.abs(flux - 2.0 / 3.0).max()


def test_a_mirrored_channel_has_the_mirrored_flow():
    flow, state = solved_bend(32, 8)
    grid = flow.space.grid
    mirrored = ChannelFlow.of(flow.space, lambda x: -centre_slope(x), flow.viscosity)
    computed = continued(mirrored.at_viscosity, parabola(grid), flow.viscosity, SUPERLU)
    assert computed is not None
    assert np.abs(computed[grid.velocity[:, ::-1, 0]] - state[grid.velocity[:, :, 0]]).max() < 1e-7
    assert np.abs(computed[grid.velocity[:, ::-1, 1]] + state[grid.velocity[:, :, 1]]).max() < 1e-7


# -------------------------------------------------------------------------- Newton and continuation


def test_the_jacobian_is_the_derivative_of_the_residual():
    space = space_of(6, 4)
    flow = ChannelFlow.of(space, centre_slope, 0.02)
    draw = np.random.default_rng(1)
    state, step = (
        draw.normal(size=space.grid.size),
        np.where(space.fixed, 0.0, draw.normal(size=space.grid.size)),
    )
    # exact: it is quadratic
    central = (flow.residual(state + 1e-3 * step) - flow.residual(state - 1e-3 * step)) / 2e-3
    assert np.abs(flow.jacobian(state) @ step - central).max() < 1e-11


def test_prescribed_unknowns_have_identity_rows():
    space = space_of(6, 4)
    state = np.random.default_rng(1).normal(size=space.grid.size)
    matrix = ChannelFlow.of(space, centre_slope, 0.02).jacobian(state).toarray()
    assert np.array_equal(matrix[space.fixed], np.eye(space.grid.size)[space.fixed])
    velocity = space.grid.velocity
    assert space.fixed[velocity[0]].all() and not space.fixed[velocity[-1, 1:-1]].any()
    assert not space.fixed[space.grid.pressure].any()


def test_newton_ends_below_its_tolerance_or_says_none():
    flow, state = solved_bend(32, 8)
    assert np.linalg.norm(flow.residual(state)) <= TOLERANCE <= 1e-9
    assert newton(flow.at_viscosity(1e-5), parabola(flow.space.grid), SUPERLU) is None


def test_continuation_reaches_a_flow_that_newton_alone_does_not():
    space = space_of(32, 8, 4.0)
    steep = ChannelFlow.of(space, lambda x: 3.0 * centre_slope(x), 0.005)
    start = parabola(space.grid)
    assert newton(steep, start, SUPERLU) is None
    computed = continued(steep.at_viscosity, start, 0.005, SUPERLU)
    assert computed is not None and np.linalg.norm(steep.residual(computed)) <= TOLERANCE


def test_a_march_in_time_comes_to_the_same_flow():
    flow, state = solved_bend(32, 8)
    computed = march(flow, parabola(flow.space.grid), SUPERLU)
    assert computed is not None and np.linalg.norm(flow.residual(computed)) <= TOLERANCE
    assert np.abs(computed - state)[flow.space.grid.velocity].max() < 1e-7


def test_a_singular_matrix_has_no_solution():
    assert np.isnan(SUPERLU(sp.csc_array((3, 3)))(np.ones(3))).all()


def test_continuation_without_a_solution_ends_with_none():
    class Hopeless:
        """x^2 + 1 = 0: whatever the viscosity."""

        def residual(self, state: Array) -> Array:
            return state**2 + 1.0

        def jacobian(self, state: Array, rate: float = 0.0) -> Array:
            return np.diag(2.0 * state + rate)

    def dense(matrix: Array) -> Callable[[Array], Array]:
        return lambda right: np.linalg.solve(matrix, right)

    assert continued(lambda viscosity: Hopeless(), np.array([0.5]), 0.005, dense) is None


# ------------------------------------------------------------------------- grids and linear algebra


def test_a_finer_grid_holds_the_same_flow_exactly():
    coarse, fine = QuadGrid(4, 2, LENGTH, 1.0), QuadGrid(8, 8, LENGTH, 1.0)
    state = np.random.default_rng(2).normal(size=coarse.size)
    computed = interpolate(coarse, state, fine)
    assert np.allclose(computed[fine.velocity[::2, ::4]], state[coarse.velocity], atol=1e-14)
    assert np.allclose(computed[fine.pressure[::2, ::4]], state[coarse.pressure], atol=1e-14)
    assert np.allclose(moments(coarse, state), moments(fine, computed), rtol=1e-12)


def moments(grid: QuadGrid, state: Array) -> list[float]:
    """Integrals of u, u^2 and p^2."""
    local = state[grid.elements]
    u, p = local[:, :9] @ grid.tables.value.T, local[:, 18:] @ grid.tables.vertex.T
    return [float(np.sum(grid.tables.weight * integrand)) for integrand in (u, u**2, p**2)]


@pytest.mark.parametrize("shape", [(3, 3), (9, 5), (33, 17), (17, 41)])
def test_dissection_takes_every_node_once(shape):
    groups = dissection_order(*shape)
    numbers = np.concatenate(groups)
    assert np.array_equal(np.sort(numbers), np.arange(shape[0] * shape[1]))


def test_dissection_makes_sparser_factors_than_the_usual_order():
    space = space_of(64, 16, 10.0)
    matrix = ChannelFlow.of(space, centre_slope, 0.005).jacobian(parabola(space.grid))
    ours = splu(
        matrix, permc_spec="NATURAL", diag_pivot_thresh=0.01, options={"SymmetricMode": True}
    )
    usual = splu(matrix, permc_spec="COLAMD")
    assert ours.nnz < 0.75 * usual.nnz
    right = np.random.default_rng(3).normal(size=space.grid.size)
    # single precision
    assert np.linalg.norm(matrix @ SUPERLU(matrix)(right) - right) < 1e-3 * np.linalg.norm(right)


@pytest.mark.skipif(find_spec("pypardiso") is not None, reason="pypardiso is installed")
def test_a_missing_pardiso_is_one_clear_line():
    with pytest.raises(
        ParamError, match="pardiso.*pypardiso.*not installed.*pip install"
    ) as caught:
        factoriser("pardiso")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(find_spec("pypardiso") is None, reason="pypardiso is not installed")
def test_pardiso_solves_the_same_systems():
    flow, state = solved_bend(32, 8)
    matrix, right = flow.jacobian(state), np.random.default_rng(3).normal(size=flow.space.grid.size)
    residual = matrix @ factoriser("pardiso")(matrix)(right) - right
    assert np.linalg.norm(residual) < 1e-9 * np.linalg.norm(right)
