"""The pipe dataset: geometry, accuracy, convergence, what a sample depends on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline

import gsnobench as gb
from gsnobench.data import SPLITS, Array, Split
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.datasets import pipe
from gsnobench_plugins.solvers.equations.navier_stokes import ChannelFlow

STRAIGHT = CubicHermiteSpline([0.0, pipe.LENGTH], [0.7, 0.7], [0.0, 0.0])


def setup_of(resolution: int, **knobs: float | int | str) -> pipe.Setup:
    return pipe.setup(pipe.Params(**knobs), resolution, gb.Cache())


@pytest.fixture(scope="module")
def small() -> pipe.Setup:
    return setup_of(33**2)


def sample_of(setup: pipe.Setup, split: Split, index: int, seed: int = 0) -> gb.Sample:
    return next(pipe.generate(setup, seed, split, [index]))


def velocity(setup: pipe.Setup, split: Split, index: int) -> Array:
    return sample_of(setup, split, index).frames[0, :, 0].reshape(setup.side, setup.side)


def relative(computed: Array, exact: Array) -> float:
    return float(np.linalg.norm(computed - exact) / np.linalg.norm(exact))


def cell_areas(mesh: gb.Mesh) -> Array:
    a, b, c = (mesh.points[cells_of(mesh)[:, k]] for k in range(3))
    return 0.5 * ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])


# ---------------------------------------------------------------------------------- the declaration


def test_declaration_is_the_papers_problem():
    dataset = pipe.gsnobench_dataset()
    assert [field.name for field in dataset.fields] == ["velocity_x"]
    assert dataset.fields[0].boundary == {"wall": "dirichlet"}
    assert (dataset.t_in, dataset.times, dataset.static, dataset.scalars) == (0, (0.0,), (), ())
    assert not dataset.fixed_mesh and dataset.corresponds
    paper = dataset.sizes["paper"]
    assert (paper.train, paper.test, paper.resolution) == (1000, 200, 4225)
    assert dataset.resolutions == (1089, 4225, 16641)
    defaults = pipe.Params()
    assert (defaults.viscosity, defaults.height, defaults.slope, defaults.linear_solver) == (
        0.005,
        2.0,
        1.0,
        "superlu",
    )


@pytest.mark.parametrize("side", [33, 65, 129])
def test_meshes_have_the_published_counts_and_tags(side):
    mesh = pipe.straight_mesh(side)
    assert mesh.size == side**2 and len(mesh.cells) == 2 * (side - 1) ** 2
    x, y = mesh.points.T
    assert np.array_equal(mesh.tags["inlet"], x == 0.0)
    assert np.array_equal(mesh.tags["outlet"], x == pipe.LENGTH)
    assert np.array_equal(mesh.tags["wall"], np.abs(y) == 0.5)


def test_output_nodes_must_be_solver_nodes():
    with pytest.raises(gb.ParamError, match="data.along.*multiples of 32"):
        setup_of(65**2, along=80)
    with pytest.raises(gb.ParamError, match="data.across.*multiples of 32"):
        setup_of(65**2, across=16)
    with pytest.raises(gb.ParamError, match="4000.*square"):
        setup_of(4000)


# ----------------------------------------------------------------------------------------- geometry


def test_no_pipe_folds_and_all_have_the_same_areas():
    straight = pipe.straight_mesh(33)
    area = pipe.LENGTH * pipe.WIDTH / len(straight.cells)
    for split in SPLITS:
        for index in range(50):
            line = pipe.draw_centreline(pipe.Params(), 0, split, index)
            points = straight.points + np.stack(
                [np.zeros(straight.size), line(straight.points[:, 0])], axis=1
            )
            assert np.allclose(cell_areas(gb.Mesh(points, straight.cells)), area, rtol=1e-10)


def test_centrelines_pass_the_drawn_control_nodes_and_keep_to_their_ranges():
    nodes = np.linspace(0.0, pipe.LENGTH, 5)
    for split, wider in (("train", 1.0), ("test_ood", pipe.STEEPER)):
        lines = [pipe.draw_centreline(pipe.Params(), 0, split, index) for index in range(200)]
        heights, slopes = (
            np.array([line(nodes) for line in lines]),
            np.array([line(nodes, 1) for line in lines]),
        )
        for values, most in ((heights, 2.0 * wider), (slopes, 1.0 * wider)):
            assert 0.97 * most < values.max() <= most and 0.97 * most < -values.min() <= most
            assert values.std() == pytest.approx(most / np.sqrt(3.0), rel=0.08)
        x = np.linspace(0.0, pipe.LENGTH, 400)
        bent = np.array([np.abs(np.diff(line(x, 1))).max() for line in lines])
        assert bent.max() < 0.6 * wider  # slopes are continuous


# -------------------------------------------------------------------------------- accuracy and cost


def test_a_straight_pipe_has_poiseuille_flow(small):
    grid = small.levels[-1].grid
    state = pipe.solve(small, STRAIGHT)
    assert state is not None
    exact = np.broadcast_to(1.0 - 4.0 * grid.coordinates[1] ** 2, grid.shape)
    assert np.abs(state[grid.velocity[:, :, 0]] - exact).max() <= 1e-12
    assert np.abs(state[grid.velocity[:, :, 1]]).max() <= 1e-12
    drop = state[grid.pressure[0]] - state[grid.pressure[-1]]
    assert np.abs(drop - 8.0 * 0.005 * pipe.LENGTH).max() <= 1e-11


def test_the_residual_is_below_the_bar_and_every_section_carries_the_same_flux(small):
    space = small.levels[-1]
    line = pipe.draw_centreline(small.params, 0, "test", 0)
    state = pipe.solve(small, line)
    assert state is not None
    assert np.linalg.norm(ChannelFlow.of(space, line.derivative(), 0.005).residual(state)) <= 1e-9
    weights = np.ones(space.grid.shape[1])
    weights[1::2], weights[2:-1:2] = 4.0, 2.0
    flux = state[space.grid.velocity[:, :, 0]] @ weights / (6.0 * space.grid.across)
    assert np.abs(flux - 2.0 / 3.0).max() < 2e-3


def test_error_at_the_papers_mesh_is_within_the_bar():
    """2 % of the velocity against twice as many elements both ways."""
    default, finer = setup_of(65**2), setup_of(65**2, along=256, across=64)
    assert relative(velocity(default, "test", 1), velocity(finer, "test", 1)) < 0.004


def test_the_small_mesh_is_nearly_as_accurate(small):
    large = setup_of(65**2)
    for index in range(3):
        coarse, fine = velocity(small, "test", index), velocity(large, "test", index)
        assert relative(coarse, fine[::2, ::2]) < 0.008


def test_a_pipe_whose_bubble_opens_at_the_outlet_has_its_flow_too(small):
    """Its branch of solutions ends before the viscosity is reached."""
    space, line = small.levels[-1], pipe.draw_centreline(small.params, 0, "test", 158)
    state = pipe.solve(small, line)
    assert state is not None
    assert np.linalg.norm(ChannelFlow.of(space, line.derivative(), 0.005).residual(state)) <= 1e-9
    assert state[space.grid.velocity[-1, :, 0]].min() < -0.05


@pytest.mark.slow
@pytest.mark.parametrize(("split", "count"), [("train", 150), ("test_ood", 50)])
def test_two_hundred_draws_all_converge(small, split, count):
    for sample in pipe.generate(small, 7, split, range(count)):
        assert np.isfinite(sample.frames).all()
        assert sample.frames.max() < 6.0


# ------------------------------------------------------------------------- what a sample depends on


def test_a_sample_has_its_own_mesh_and_keeps_its_boundary_values(small):
    for split in SPLITS:
        sample = sample_of(small, split, 0)
        assert sample.frames.shape == (1, 1089, 1)
        assert sample.static.shape == (1089, 0)
        assert sample.scalars.shape == (0,)
        mesh, u = sample.mesh, sample.frames[0, :, 0]
        assert mesh is not None and (u[mesh.tags["wall"]] == 0.0).all()
        line = pipe.draw_centreline(small.params, 0, split, 0)
        offset = mesh.points[:, 1] - line(mesh.points[:, 0])
        assert np.abs(offset).max() == pytest.approx(0.5)
        inlet = mesh.tags["inlet"]
        assert np.allclose(u[inlet], 1.0 - 4.0 * offset[inlet] ** 2, atol=1e-12)


def test_a_sample_does_not_depend_on_its_chunk(small):
    together = list(pipe.generate(small, 3, "valid", range(3)))
    fresh = setup_of(33**2)
    for index in (2, 0):
        alone = sample_of(fresh, "valid", index, seed=3)
        assert alone.frames.tobytes() == together[index].frames.tobytes()
        assert alone.mesh.key == together[index].mesh.key


def test_seeds_splits_and_indices_give_different_pipes():
    x = np.linspace(0.0, pipe.LENGTH, 9)
    keys = [(seed, split, index) for seed in (0, 1) for split in SPLITS for index in range(5)]
    lines = {pipe.draw_centreline(pipe.Params(), *key)(x).tobytes() for key in keys}
    assert len(lines) == len(keys)


def test_a_viscosity_without_a_steady_flow_is_one_line_that_names_the_sample():
    setup = setup_of(33**2, viscosity=0.0025, height=4.0, slope=4.0, along=16)
    with pytest.raises(
        gb.DataError, match="pipe: train sample 0 of seed 0 .*raise data.viscosity"
    ) as caught:
        sample_of(setup, "train", 0)
    assert "\n" not in str(caught.value)
