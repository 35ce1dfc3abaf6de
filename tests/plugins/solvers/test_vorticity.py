"""The vorticity solver and its corners: conservation to round-off, exact solutions, rates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from numpy.polynomial import Polynomial

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.meshes.operators import diffusion_matrix, node_volumes
from gsnobench_plugins.datasets import nse
from gsnobench_plugins.solvers.equations.vorticity import (
    VorticityScheme,
    vorticity_flow,
    vorticity_scheme,
)
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.methods.corners import corner_coefficient, reentrant_corners
from gsnobench_plugins.solvers.methods.fem import solve_dirichlet
from gsnobench_plugins.solvers.methods.random_fields import compute_eigenbasis

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
# a square without its lower left quarter
NOTCHED = np.array([[0, 0], [0, -1], [1, -1], [1, 1], [-1, 1], [-1, 0]], dtype=float)


def holed_ellipse(nodes: int) -> gb.Mesh:
    ellipse, hole = nse.outline()
    return mesh_polygon(ellipse, [hole], nodes=nodes)


@pytest.fixture(scope="module")
def holed() -> gb.Mesh:
    return refine(holed_ellipse(450))[0]


def relative(computed: Array, exact: Array, weights: Array | float = 1.0) -> float:
    return float(np.sqrt(np.sum(weights * (computed - exact) ** 2) / np.sum(weights * exact**2)))


def nested(outline: Array, nodes: int) -> list[gb.Mesh]:
    """A mesh and its refinement."""
    mesh = mesh_polygon(outline, nodes=nodes)
    return [mesh, refine(mesh)[0]]


# ------------------------------------------------------------------------------------- conservation


@pytest.mark.parametrize("seed", range(3))
def test_advection_keeps_total_vorticity_energy_and_enstrophy_to_round_off(holed, seed):
    scheme = vorticity_scheme(holed)
    w = np.random.default_rng(seed).standard_normal(holed.size)
    psi = scheme.stream_function(w)
    rate = scheme.advection(psi, w)
    assert np.abs(rate).max() > 1e-9
    for test_function in (np.ones_like(w), psi, w):
        assert abs(rate @ test_function) < 1e-12 * (np.abs(rate) @ np.abs(test_function))


def test_energy_is_the_one_of_the_discrete_velocity(holed):
    """The energy w . psi is that of the stiffness; the velocity is tangent to both loops."""
    scheme = vorticity_scheme(holed)
    w = np.random.default_rng(0).standard_normal(holed.size)
    psi = scheme.stream_function(w)
    energy = psi @ (diffusion_matrix(holed, corner_coefficient(holed)) @ psi)
    assert energy == pytest.approx(psi @ (scheme.mass * w), rel=1e-12)
    assert (psi[holed.tags["boundary"]] == 0.0).all()


@pytest.mark.parametrize("nu", [0.0, 1e-4, 1e-2])
def test_random_vorticity_never_gains_enstrophy(holed, nu):
    """The longest step is stable for all rates that the mesh allows, of flow or diffusion."""
    scheme = vorticity_scheme(holed)
    w = 20.0 * np.random.default_rng(0).standard_normal(holed.size)
    states = vorticity_flow(scheme, nu, np.zeros(holed.size)).march(w, np.linspace(0.0, 1.0, 6))
    enstrophy = np.array([scheme.mass @ state**2 for state in states])
    assert (np.diff(enstrophy) <= 1e-12 * enstrophy[0]).all()


# ---------------------------------------------------------------------------------- exact solutions


def test_small_eigenmode_decays_at_its_own_rate():
    mesh = holed_ellipse(300)
    basis = compute_eigenbasis(mesh, 8)
    flow = vorticity_flow(vorticity_scheme(mesh), 1e-2, np.zeros(mesh.size))
    for mode in (1, 4, 7):
        start = 1e-9 * basis.vectors[:, mode]  # so weak that it does not stir itself
        *_, last = flow.march(start, (0.0, 1.0, 2.0))
        # what RK4 leaves
        assert relative(last, start * np.exp(-1e-2 * basis.values[mode] * 2.0)) < 1e-6


def test_pattern_in_solid_rotation_turns_and_fades_as_it_should_to_second_order():
    """w = 1 + e J2(k r) cos 2(t - T/2) exp(-nu k^2 T) on a disk is exact for small e."""
    turns = 2 * np.pi * np.arange(400) / 400
    circle = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    k, nu, duration, weak = float(scipy.special.jnp_zeros(2, 1)[0]), 1e-2, 3.0, 1e-6
    errors = []
    for nodes in (250, 1000):
        mesh = mesh_polygon(circle, nodes=nodes)
        radius, angle = np.hypot(*mesh.points.T), np.arctan2(*mesh.points.T[::-1])
        pattern = scipy.special.jv(2, k * radius)
        start = 1.0 + weak * pattern * np.cos(2 * angle)
        *_, last = vorticity_flow(vorticity_scheme(mesh), nu, np.zeros(mesh.size)).march(
            start, (0.0, 1.0, 2.0, duration)
        )
        exact = pattern * np.cos(2 * (angle - 0.5 * duration)) * np.exp(-nu * k**2 * duration)
        errors.append(relative((last - 1.0) / weak, exact))
    assert errors[1] < 0.02
    assert np.log2(errors[0] / errors[1]) > 1.8


def test_manufactured_flow_stays_put_to_second_order():
    """psi = S a(x) b(y) with psi = 0 and dw/dn = 0 on the square; the source balances the rest."""
    x = Polynomial([0.0, 1.0])
    a = x**2 * (1 - x) ** 2 * (1 + 2 * x * (1 - x))
    b = a + 8 * x**5 * (1 - x) ** 4
    strength, nu = 60.0, 2e-3

    def term(i: int, j: int, points: Array) -> Array:
        return (
            strength
            * (a.deriv(i) if i else a)(points[:, 0])
            * (b.deriv(j) if j else b)(points[:, 1])
        )

    errors = []
    for mesh in nested(SQUARE, 300):
        at = mesh.points
        w = -(term(2, 0, at) + term(0, 2, at))
        w_x, w_y = -(term(3, 0, at) + term(1, 2, at)), -(term(2, 1, at) + term(0, 3, at))
        spread = -(term(4, 0, at) + 2 * term(2, 2, at) + term(0, 4, at))
        source = term(0, 1, at) * w_x - term(1, 0, at) * w_y - nu * spread
        *_, last = vorticity_flow(vorticity_scheme(mesh), nu, source).march(w, (0.0, 1.0, 2.0))
        errors.append(relative(last, w))
    assert errors[1] < 0.04
    assert np.log2(errors[0] / errors[1]) > 1.8


def test_stream_function_is_second_order_on_smooth_data():
    errors = []
    for mesh in nested(SQUARE, 200):
        exact = np.sin(np.pi * mesh.points[:, 0]) * np.sin(2 * np.pi * mesh.points[:, 1])
        errors.append(relative(vorticity_scheme(mesh).stream_function(5 * np.pi**2 * exact), exact))
    assert errors[1] < 6e-3 and np.log2(errors[0] / errors[1]) > 1.9


def notched_problem(points: Array) -> tuple[Array, Array]:
    """psi = (1 - x^2)(1 - y^2) r^(2/3) sin(2 t/3), t from the lower side; w = -Laplace psi."""
    x, y = points.T
    radius = np.maximum(np.hypot(x, y), 1e-100)
    turn = np.mod(np.arctan2(y, x) + 0.75 * np.pi, 2 * np.pi) - 0.25 * np.pi
    s = radius ** (2 / 3) * np.sin(2 * turn / 3)
    along, across = 2 / 3 * s, 2 / 3 * radius ** (2 / 3) * np.cos(2 * turn / 3)  # r ds/dr and ds/dt
    s_x, s_y = (x * along - y * across) / radius**2, (y * along + x * across) / radius**2
    w = 4 * x * (1 - y**2) * s_x + 4 * y * (1 - x**2) * s_y + 2 * s * (2 - x**2 - y**2)
    return (1 - x**2) * (1 - y**2) * s, w


def test_stream_function_is_second_order_at_a_reentrant_corner_and_plain_elements_are_not():
    corrected, plain = [], []
    for mesh in nested(NOTCHED, 300):
        exact, w = notched_problem(mesh.points)
        weights = node_volumes(mesh)
        corrected.append(relative(vorticity_scheme(mesh).stream_function(w), exact, weights))
        plain.append(
            relative(
                solve_dirichlet(diffusion_matrix(mesh), weights * w, mesh.tags["boundary"]),
                exact,
                weights,
            )
        )
    assert corrected[1] < 1.2e-3 and np.log2(corrected[0] / corrected[1]) > 1.8
    assert np.log2(plain[0] / plain[1]) < 1.6 and plain[1] > 3 * corrected[1]


def test_corners_of_the_hole_are_found_and_softened_alike_at_every_edge_length():
    mesh = holed_ellipse(450)
    _, hole = nse.outline()
    shares = []
    for pieces in (2, 4):
        fine = nse.refined(mesh, pieces)
        corners = reentrant_corners(fine)
        assert np.degrees([corner.angle for corner in corners]) == pytest.approx([300.0] * 3)
        assert sorted(corner.position.round(9).tolist() for corner in corners) == sorted(
            hole.round(9).tolist()
        )
        coefficient = corner_coefficient(fine)
        shares.append(
            [
                1.0 - coefficient[(fine.cells == corner.node).any(axis=1)].mean()
                for corner in corners
            ]
        )
        assert (coefficient < 1.0).sum() == sum(
            (fine.cells == corner.node).any(axis=1).sum() for corner in corners
        )
    assert np.allclose(shares[0], shares[1], rtol=0.03) and min(shares[1]) > 0.1


def test_mesh_too_coarse_for_its_corner_is_refused():
    points = np.array([[0, 0], [0, -1], [1, -1], [1, 1], [-1, 1], [-1, 0]], dtype=float)
    fan = np.array([[0, i, i + 1] for i in range(1, 5)])
    with pytest.raises(gb.DataError, match="edges are too long for the corner"):
        vorticity_scheme(gb.Mesh(points, fan))


def test_clockwise_cells_are_refused():
    mesh = mesh_polygon(SQUARE, nodes=40)
    with pytest.raises(gb.DataError, match="flat or clockwise"):
        vorticity_scheme(gb.Mesh(mesh.points, mesh.cells[:, ::-1]))


def matrix_of(scheme: VorticityScheme, psi: Array) -> Array:
    """Advection between nodes of unit mass, dense and antisymmetric."""
    scale = 1.0 / np.sqrt(scheme.mass)
    return np.stack(
        [scale * scheme.advection(psi, scale * unit) for unit in np.eye(scheme.mass.size)], axis=1
    )


def test_rates_that_set_the_step_are_those_of_the_matrices():
    mesh = holed_ellipse(300)
    scheme = vorticity_scheme(mesh)
    psi = scheme.stream_function(np.random.default_rng(0).standard_normal(mesh.size))
    advection = matrix_of(scheme, psi)
    assert np.abs(advection + advection.T).max() < 1e-12 * np.abs(advection).max()
    fastest = np.linalg.eigvalsh(1j * advection)[-1]
    assert fastest <= scheme.advective_rate(psi) < 2.0 * fastest
    diffusion = diffusion_matrix(mesh).toarray() / np.sqrt(scheme.mass[:, None] * scheme.mass)
    assert scheme.diffusive_rate() == pytest.approx(np.linalg.eigvalsh(diffusion)[-1], rel=0.02)
