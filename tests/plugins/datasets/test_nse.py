"""Navier-Stokes in the ellipse: cost and error of the defaults, what a sample depends on."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

import gsnobench as gb
from gsnobench.data import SPLITS, Array, Split
from gsnobench.datasets import tasks
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.operators import node_volumes
from gsnobench_plugins.datasets import nse
from gsnobench_plugins.solvers.equations.vorticity import vorticity_rhs
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.methods.integrate import rk4

Make = Callable[..., nse.Setup]
QUICK = {"duration": 1.0, "pieces": 1}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    cache = gb.Cache(tmp_path_factory.mktemp("cache"))
    return lambda resolution=450, **knobs: nse.setup(nse.Params(**knobs), resolution, cache)


def frames(setup: nse.Setup, split: Split, index: int) -> Array:
    return next(nse.generate(setup, 0, split, [index])).frames[:, :, 0]


def relative(computed: Array, exact: Array, weights: Array | float = 1.0) -> float:
    return float(np.sqrt(np.sum(weights * (computed - exact) ** 2) / np.sum(weights * exact**2)))


# ---------------------------------------------------------------------------------- the declaration


def test_declaration_is_the_papers_problem():
    dataset = nse.gsnobench_dataset()
    assert (dataset.name, dataset.dim, dataset.t_in, len(dataset.times)) == ("nse", 2, 5, 51)
    assert dataset.times[0] == 0.0 and dataset.times[-1] == 10.0
    assert [field.name for field in dataset.fields] == ["vorticity"]
    assert dataset.sizes["paper"] == gb.Sizes(
        train=600, valid=200, test=200, test_ood=100, resolution=1244
    )
    assert dataset.resolutions == (450, 972, 1244, 1903)
    assert nse.Params().nu == 1e-3
    points = np.array([[0.3, 0.6]])
    assert nse.force(points, 0.1)[0] == pytest.approx(
        0.1 * (np.sin(2 * np.pi * 0.9) + np.cos(-2 * np.pi * 0.3))
    )


def test_printed_law_is_a_variant_and_knobs_of_time_reach_the_task():
    dataset = nse.gsnobench_dataset()
    assert tasks.resolve(dataset, "nse_printed", track="laptop").data["vorticity_std"] == 0.0
    printed = tasks.resolve(dataset, "nse", track="laptop", knobs={"vorticity_std": 0.0})
    assert printed.id == "nse_printed@5-46"
    longer = tasks.resolve(dataset, "nse", track="laptop", knobs={"duration": 20.0})
    assert longer.times[-1] == 20.0


@pytest.mark.parametrize("nodes", [450, 972, 1244])
def test_meshes_have_the_published_counts_good_angles_and_nodes_on_the_outline(make, nodes):
    setup = make(nodes, pieces=2)
    mesh = setup.mesh
    assert mesh.size == nodes and min_angle(mesh) > 25.0
    assert np.array_equal(setup.points[setup.published], mesh.points)
    _, hole = nse.outline()
    assert np.linalg.norm(mesh.points[:, None] - hole, axis=2).min(axis=0).max() < 1e-12
    fine = nse.refined(mesh, 2)
    assert min_angle(fine) > 25.0
    away = np.linalg.norm((fine.points[fine.tags["boundary"]] - nse.CENTRE) / nse.HALF_AXES, axis=1)
    assert np.abs(away[away > 0.7] - 1.0).max() < 1e-12 and away[away < 0.7].max() < 0.41
    area = np.pi * np.prod(nse.HALF_AXES) - 0.75 * np.sqrt(3.0) * nse.CIRCUMRADIUS**2
    assert node_volumes(fine).sum() == pytest.approx(area, rel=2e-3)


# ----------------------------------------------------------------------------------------- accuracy


def test_error_of_the_default_is_small_after_two_seconds(make):
    default, fine = make(450, duration=2.0), make(450, duration=2.0, pieces=5)
    assert len(fine.points) > 6 * len(default.points)
    assert relative(frames(default, "test", 0)[-1], frames(fine, "test", 0)[-1]) < 0.012


@pytest.mark.slow
def test_error_at_the_published_mesh_is_within_the_bar(make):
    """0.5 % at t = 5 s against edges of half the length."""
    default, fine = make(1244, duration=5.0), make(1244, duration=5.0, pieces=4)
    errors = [
        relative(frames(default, "test", index)[-1], frames(fine, "test", index)[-1])
        for index in range(2)
    ]
    assert np.mean(errors) < 0.005


# ------------------------------------------------------------------------- what a sample depends on


def test_first_frame_is_the_drawn_field(make):
    setup = make(**QUICK)
    field = nse.draw_field(setup, 0, "train", 3)
    at_nodes = evaluation_matrix(setup.basis.mesh, setup.mesh.points) @ field
    assert np.allclose(frames(setup, "train", 3)[0], at_nodes, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("deviation", "expected"), [(0.0, 0.0179), (1.0, 1.0), (0.3, 0.3)])
def test_initial_vorticity_has_the_given_deviation(make, deviation, expected):
    setup = make(**QUICK, vorticity_std=deviation)
    share = node_volumes(setup.basis.mesh)
    share = share / share.sum()
    for split in ("train", "test_ood"):
        drawn = np.stack([nse.draw_field(setup, 0, split, index) for index in range(300)])
        assert np.sqrt(np.mean(drawn**2 @ share)) == pytest.approx(expected, rel=0.05)


def test_ood_fields_are_rougher_at_the_same_variance(make):
    setup = make(**QUICK)
    usual, rough = setup.spectra["test"], setup.spectra["test_ood"]
    assert setup.basis.mean_variance(rough) == pytest.approx(setup.basis.mean_variance(usual))
    slopes = [float(np.sum(spectrum**2 * setup.basis.values)) for spectrum in (usual, rough)]
    assert slopes[1] > 2.0 * slopes[0]


def test_same_sample_on_two_meshes_is_the_same_flow(make):
    coarse, fine = make(450, duration=2.0, pieces=3), make(972, duration=2.0)
    drawn = nse.draw_field(coarse, 0, "test", 1)
    assert np.array_equal(drawn, nse.draw_field(fine, 0, "test", 1))
    ends = []
    for setup in (coarse, fine):
        *_, state = setup.flow.march(setup.at_points @ drawn, nse.frame_times(2.0))
        mesh = nse.refined(setup.mesh, setup.params.pieces)
        # the solver numbers the nodes in its own order
        number = cKDTree(setup.points).query(mesh.points)[1]
        ends.append((mesh, state[number]))
    (mesh, value), (finer, exact) = ends
    assert 1e-6 < relative(evaluation_matrix(mesh, finer.points) @ value, exact) < 0.003


def test_sample_does_not_depend_on_its_neighbours_in_the_chunk(make):
    setup = make(**QUICK)
    together = [sample.frames.tobytes() for sample in nse.generate(setup, 0, "valid", [0, 1, 2])]
    alone = [
        next(nse.generate(make(**QUICK), 0, "valid", [index])).frames.tobytes()
        for index in (2, 1, 0)
    ]
    assert together == alone[::-1]
    assert len(set(together)) == 3


def test_seed_split_and_index_each_change_the_sample(make):
    setup = make(**QUICK)
    drawn = [
        nse.draw_field(setup, seed, split, index)
        for seed in (0, 1)
        for split in SPLITS
        for index in (0, 1)
    ]
    assert len({field.tobytes() for field in drawn}) == len(drawn)


def test_another_process_and_a_cached_setup_give_the_same_bytes(make, tmp_path):
    program = (
        "import sys, hashlib, gsnobench as gb; from pathlib import Path; from "
        "gsnobench_plugins.datasets import nse;"
        "setup = nse.setup(nse.Params(duration=1.0, pieces=1), 450, gb.Cache(Path(sys.argv[1])));"
        "sample = next(nse.generate(setup, 0, 'train', [5]));"
        "print(hashlib.sha256(sample.frames.tobytes()).hexdigest())"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert len(list(Path(tmp_path).rglob("*.safetensors"))) == 2
    read = nse.setup(nse.Params(**QUICK), 450, gb.Cache(tmp_path))  # what it wrote
    for setup in (make(**QUICK), read):
        here = next(nse.generate(setup, 0, "train", [5])).frames
        assert hashlib.sha256(here.tobytes()).hexdigest() == there


def test_flow_that_leaves_the_finite_numbers_is_one_line(make):
    setup = make(**QUICK)
    broken = replace(setup, flow=replace(setup.flow, source=np.full(len(setup.points), 1e300)))
    with pytest.raises(gb.DataError, match=r"vorticity: it is not finite at t = 0.02") as caught:
        list(nse.generate(broken, 0, "train", [0]))
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------------------------- time


def test_total_vorticity_changes_by_the_force_alone(make):
    setup = make(duration=2.0)
    mass, force = setup.flow.scheme.mass, setup.flow.source
    initial = setup.at_points @ nse.draw_field(setup, 0, "train", 0)
    *_, last = setup.flow.march(initial, nse.frame_times(2.0))
    assert mass @ last == pytest.approx(mass @ initial + 2.0 * (mass @ force), abs=1e-12)


def test_halving_the_step_changes_nothing_that_counts(make):
    setup = make(duration=5.0)
    initial = setup.at_points @ nse.draw_field(setup, 0, "test", 0)
    (*_, usual), (*_, halved) = (
        setup.flow.march(initial, nse.frame_times(5.0), step=step) for step in (2.4, 1.2)
    )
    assert 0.0 < relative(usual, halved) < 1e-5


def test_time_integration_is_of_fourth_order(make):
    setup = make(**QUICK)
    initial = setup.at_points @ nse.draw_field(setup, 0, "test", 0)
    rhs = vorticity_rhs(setup.flow.scheme, setup.params.nu, setup.flow.source)
    ends = []
    for steps in (20, 40, 80):
        *_, last = rk4(rhs, initial, (0.0, 2.0), 2.0 / steps)
        ends.append(last.copy())
    assert np.linalg.norm(ends[0] - ends[1]) > 12 * np.linalg.norm(ends[1] - ends[2])
