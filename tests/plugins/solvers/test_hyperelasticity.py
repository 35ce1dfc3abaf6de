"""Rivlin-Saunders solids on Taylor-Hood elements: exact states, balances, convergence."""

from __future__ import annotations

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import boundary_edges, cell_edges, cells_of
from gsnobench_plugins.solvers.equations.hyperelasticity import (
    RivlinSaunders,
    deform,
    internal_forces,
    von_mises,
)
from gsnobench_plugins.solvers.equations.unit_cell import SQUARE, bent_space, mesh_cell, refine_cell
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.meshing.local_refinement import refine_where
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.methods.stress_recovery import mean_near, recover
from gsnobench_plugins.solvers.methods.taylor_hood import (
    QUADRATURE,
    WEIGHTS,
    TaylorHood,
    quadratic_shapes,
    quadratic_slopes,
)
from gsnobench_plugins.solvers.shapes.voids import Void, VoidLaw

RUBBER = RivlinSaunders(1.863e5, 9.79e3)


def square(nodes: int) -> TaylorHood:
    mesh = mesh_polygon(SQUARE, nodes=nodes)
    return TaylorHood.of(mesh.points, cells_of(mesh))


def unknowns(space: TaylorHood, is_chosen: Array, axis: int) -> Array:
    """Unknowns of one component at the chosen nodes."""
    chosen = np.zeros(space.dofs, dtype=bool)
    chosen[2 * np.flatnonzero(is_chosen) + axis] = True
    return chosen


def top_load(space: TaylorHood, traction: float) -> Array:
    top = np.flatnonzero((space.nodes[space.edges, 1] == 1.0).all(axis=1))
    return space.edge_load(top, np.array([0.0, traction]))


# ------------------------------------------------------------------------------------- exact states


@pytest.mark.parametrize("stretch", [1.001, 1.05, 1.3])
def test_uniaxial_plane_strain_stretch_is_exact(stretch: float) -> None:
    """A block that slides on two sides: P = 2 (C1 + C2) (l - l^-3)."""
    space = square(60)
    is_fixed = unknowns(space, space.nodes[:, 0] == 0.0, 0) | unknowns(
        space, space.nodes[:, 1] == 0.0, 1
    )
    computed = deform(
        space, RUBBER, top_load(space, RUBBER.shear * (stretch - stretch**-3)), is_fixed
    )
    expected = space.nodes * [1.0 / stretch - 1.0, stretch - 1.0]
    assert np.abs(computed.displacement - expected).max() <= 1e-9
    gradient = computed.stretch(space)
    # sxx = 0 fixes the pressure, hence syy and szz of 2 C1 B - 2 C2 B^-1 - p
    pressure = 2 * RUBBER.c1 * stretch**-2 - 2 * RUBBER.c2 * stretch**2
    yy = 2 * RUBBER.c1 * stretch**2 - 2 * RUBBER.c2 * stretch**-2 - pressure
    zz = 2 * RUBBER.c1 - 2 * RUBBER.c2 - pressure
    exact = np.sqrt(yy**2 + zz**2 - yy * zz)
    assert np.abs(von_mises(recover(space, RUBBER.deviator(gradient))) / exact - 1.0).max() <= 1e-9


def test_any_affine_map_that_keeps_areas_passes_the_patch_test() -> None:
    space = square(80)
    shear = np.array([[1.04, 0.03], [0.02, (1.0 + 0.03 * 0.02) / 1.04]])
    assert np.linalg.det(shear) == pytest.approx(1.0, abs=1e-15)
    on_rim = ((space.nodes == 0.0) | (space.nodes == 1.0)).any(axis=1)
    values = np.zeros(space.dofs)
    values[: 2 * len(space.nodes)] = (space.nodes @ (shear - np.eye(2)).T).ravel()
    is_fixed = unknowns(space, on_rim, 0) | unknowns(space, on_rim, 1)
    is_fixed[-1] = True  # the pressure is known up to a constant
    computed = deform(space, RUBBER, np.zeros(space.dofs), is_fixed, values)
    assert np.abs(computed.stretch(space) - shear).max() <= 1e-9
    assert np.abs(computed.pressure).max() <= 1e-9 * RUBBER.shear


def test_rotations_cost_no_stress_at_all() -> None:
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert von_mises(RUBBER.deviator(turn)) <= 1e-9 * RUBBER.shear
    assert von_mises(RUBBER.deviator(turn @ np.diag([1.1, 1 / 1.1]))) == pytest.approx(
        von_mises(RUBBER.deviator(np.diag([1.1, 1 / 1.1])))
    )


def test_deviator_is_that_of_the_three_dimensional_law() -> None:
    gradient = np.array([[1.2, 0.3], [0.1, (1.0 + 0.03) / 1.2]])
    whole = np.eye(3)
    whole[:2, :2] = gradient @ gradient.T
    cauchy = 2 * RUBBER.c1 * whole - 2 * RUBBER.c2 * np.linalg.inv(whole)
    cauchy -= np.trace(cauchy) / 3 * np.eye(3)
    computed = RUBBER.deviator(gradient)
    assert computed == pytest.approx([cauchy[0, 0], cauchy[1, 1], cauchy[0, 1]])
    assert von_mises(computed) == pytest.approx(np.sqrt(1.5 * np.sum(cauchy**2)))


# ------------------------------------------------------------------------ balance, volume, symmetry


@pytest.fixture(scope="module", params=[100.0, 3e4])
def pulled(request: pytest.FixtureRequest) -> tuple:
    """A cell with a void under a small and under a large load."""
    void = VoidLaw().draw(np.random.default_rng(5))
    space = bent_space(mesh_cell(void, 250), void)
    clamped = space.nodes[:, 1] == 0.0
    load = top_load(space, request.param)
    computed = deform(
        space, RUBBER, load, unknowns(space, clamped, 0) | unknowns(space, clamped, 1)
    )
    return space, computed, load, clamped, request.param


def test_reaction_at_the_clamp_balances_the_traction(pulled: tuple) -> None:
    space, computed, load, clamped, traction = pulled
    n = len(space.nodes)
    forces = internal_forces(space, RUBBER, computed)[: 2 * n].reshape(n, 2)
    reaction = forces[clamped].sum(axis=0)
    assert reaction == pytest.approx([0.0, -traction], abs=1e-9 * traction)
    assert np.abs(forces[~clamped] - load[: 2 * n].reshape(n, 2)[~clamped]).max() <= 1e-9 * traction
    positions = space.nodes + computed.displacement  # moments balance in the deformed cell
    moment = np.sum(positions[:, 0] * forces[:, 1] - positions[:, 1] * forces[:, 0])
    assert abs(moment) <= 1e-9 * traction


def test_volume_is_kept_in_the_weak_sense(pulled: tuple) -> None:
    space, computed, _load, _clamped, _traction = pulled
    growth = np.linalg.det(computed.stretch(space)) - 1.0
    tested = space.linear_load(growth[..., None])[:, 0]
    strain = np.abs(computed.stretch(space) - np.eye(2)).max()
    assert np.abs(tested).max() <= 1e-12 * strain
    area = space.weights.sum()
    assert abs(np.sum(space.weights * growth)) <= 1e-12 * strain * area
    # pointwise only as fine as the mesh
    assert np.sqrt(np.sum(space.weights * growth**2) / area) <= 0.05 * strain


def test_the_default_load_is_linear_and_needs_one_factorisation(pulled: tuple) -> None:
    _space, computed, _load, _clamped, traction = pulled
    assert (computed.factorisations == 1) == (traction == 100.0)
    assert computed.iterations <= (6 if traction == 100.0 else 40)


def test_a_load_beyond_bearing_is_one_line() -> None:
    space = square(30)
    clamped = space.nodes[:, 1] == 0.0
    with pytest.raises(gb.DataError, match="no equilibrium was found") as caught:
        deform(
            space,
            RUBBER,
            top_load(space, -0.9 * RUBBER.shear),
            unknowns(space, clamped, 0) | unknowns(space, clamped, 1),
        )
    assert "\n" not in str(caught.value)


# -------------------------------------------------------------------------------- spaces and orders


def test_shape_functions_and_quadrature_are_exact() -> None:
    assert quadratic_shapes(QUADRATURE).sum(axis=1) == pytest.approx(np.ones(6))
    assert quadratic_slopes(QUADRATURE).sum(axis=1) == pytest.approx(np.zeros((6, 2)))
    corners_and_middles = np.array(
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]
    )
    assert quadratic_shapes(corners_and_middles) == pytest.approx(np.eye(6))
    x, y = QUADRATURE[:, 1], QUADRATURE[:, 2]
    assert WEIGHTS @ (x**2 * y**2) == pytest.approx(1 / 180)  # 2! 2! / 6!
    assert WEIGHTS @ x**4 == pytest.approx(1 / 30)


DISC = Void(np.array([0.5, 0.5]), 0.2, 0.4, np.zeros(1), np.zeros(1))  # radius 0.3


def test_bent_edges_follow_the_void_to_fourth_order() -> None:
    areas = [bent_space(mesh_cell(DISC, nodes), DISC).weights.sum() for nodes in (100, 400)]
    errors = [abs(area - (1.0 - np.pi * 0.09)) for area in areas]
    assert errors[1] < 1e-6 and np.log2(errors[0] / errors[1]) > 3.5


def test_recovered_stress_is_of_second_order_up_to_the_boundary() -> None:
    """The gradient of sin(3x) cos(2y), interpolated, recovered at the vertices of nested meshes."""
    coarse = mesh_cell(DISC, 200)
    worst = []
    for times in (0, 1, 2):
        space = bent_space(refine_cell(coarse, DISC, times=times), DISC)
        x, y = space.nodes.T
        values = np.stack([np.sin(3 * x) * np.cos(2 * y), np.zeros(len(x))], axis=1)
        computed = recover(space, space.gradient(values)[:, :, 0])[: coarse.size]  # (200, 2)
        x, y = coarse.points.T
        exact = np.stack(
            [3 * np.cos(3 * x) * np.cos(2 * y), -2 * np.sin(3 * x) * np.sin(2 * y)], axis=1
        )
        worst.append(np.abs(computed - exact).max())
    assert worst[2] < 2e-3
    assert np.log2(worst[0] / worst[1]) > 1.8 and np.log2(worst[1] / worst[2]) > 1.8


def manufactured(space: TaylorHood) -> tuple[float, float]:
    """Errors of displacement and stress for the curl of a stream function, at small strain."""
    size = 1e-4

    def exact(points: Array) -> Array:
        x, y = np.pi * points[..., 0], np.pi * points[..., 1]
        return size * np.stack(
            [np.sin(x) ** 2 * np.sin(2 * y), -np.sin(2 * x) * np.sin(y) ** 2], axis=-1
        )

    positions = np.einsum("qa,mai->mqi", quadratic_shapes(QUADRATURE), space.nodes[space.cells])
    x, y = np.pi * positions[..., 0], np.pi * positions[..., 1]
    # -shear Laplace u, the pressure at rest being zero
    force = (
        size
        * np.pi**2
        * np.stack([(4 * np.sin(x) ** 2 - 2 * np.cos(2 * x)) * np.sin(2 * y), 0 * x], axis=-1)
    )
    force[..., 1] = -size * np.pi**2 * (4 * np.sin(y) ** 2 - 2 * np.cos(2 * y)) * np.sin(2 * x)
    local = np.einsum(
        "mq,qa,mqi->mai", RUBBER.shear * space.weights, quadratic_shapes(QUADRATURE), force
    )
    load = np.bincount(space.cell_dofs()[:, :12].ravel(), local.ravel(), space.dofs)
    on_rim = ((space.nodes == 0.0) | (space.nodes == 1.0)).any(axis=1)
    is_fixed = unknowns(space, on_rim, 0) | unknowns(space, on_rim, 1)
    is_fixed[-1] = True
    computed = deform(space, RUBBER, load, is_fixed)
    step = 1e-5
    slopes = [
        (exact(positions + step * axis) - exact(positions - step * axis)) / (2 * step)
        for axis in np.eye(2)
    ]
    gradient = np.stack(slopes, axis=-1)
    apart = space.gradient(computed.displacement) - gradient
    energy = np.sqrt(
        np.sum(space.weights[..., None, None] * apart**2)
        / np.sum(space.weights[..., None, None] * gradient**2)
    )
    rest = computed.displacement - exact(space.nodes)
    return float(np.linalg.norm(rest) / np.linalg.norm(exact(space.nodes))), float(energy)


def test_manufactured_solution_converges_to_third_and_second_order() -> None:
    coarse, fine = manufactured(square(81)), manufactured(square(289))
    refinement = np.log2(np.sqrt(289 / 81))
    assert fine[0] < 3e-4 and fine[1] < 1e-2
    assert np.log2(coarse[0] / fine[0]) / refinement > 2.8
    assert np.log2(coarse[1] / fine[1]) / refinement > 1.8


def test_mean_near_a_point_weighs_by_distance() -> None:
    space = square(400)
    positions = np.einsum("qa,mai->mqi", quadratic_shapes(QUADRATURE), space.nodes[space.cells])
    # int r (1 - r^2/R^2) r dr / int (1 - r^2/R^2) r dr = 8 R / 15
    distance = np.linalg.norm(positions, axis=2)
    assert mean_near(space, distance, np.zeros(2), 0.4) == pytest.approx(8 * 0.4 / 15, rel=2e-3)
    with pytest.raises(gb.DataError, match="no cell lies within"):
        mean_near(space, distance, np.array([3.0, 3.0]), 0.1)


def test_folded_cells_are_refused() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    middles = np.array([[0.5, 0.9], [0.0, 0.5], [0.5, 0.5]])
    with pytest.raises(gb.DataError, match="folded"):
        TaylorHood.of(points, np.array([[0, 1, 2]]), middles)


# --------------------------------------------------------------------------------- local refinement


def test_local_refinement_is_conforming_nested_and_keeps_tags() -> None:
    mesh = mesh_polygon(SQUARE, nodes=100)
    near = np.linalg.norm(mesh.points[cells_of(mesh)].mean(axis=1), axis=1) < 0.3
    finer, edges = refine_where(mesh, near)
    assert np.array_equal(finer.points[:100], mesh.points)
    assert np.array_equal(finer.points[100:], mesh.points[edges].mean(axis=1))
    areas = cell_measures(finer.points, cells_of(finer))
    assert (areas > 0).all() and areas.sum() == pytest.approx(1.0)
    on_rim = ((finer.points == 0.0) | (finer.points == 1.0)).any(axis=1)
    assert np.array_equal(finer.tags["boundary"], on_rim)  # no hanging node makes a rim inside
    assert set(np.unique(boundary_edges(finer))) == set(np.flatnonzero(on_rim))
    assert len(cell_edges(cells_of(finer))) == finer.size + len(areas) - 1  # Euler
    assert min_angle(finer) > 0.4 * min_angle(mesh)
    same, none = refine_where(mesh, np.zeros(len(near), dtype=bool))
    assert len(none) == 0 and np.array_equal(cells_of(same), cells_of(mesh))
