"""The airfoil dataset: mesh, steady forces, cost, and what a trajectory depends on."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.datasets import tasks
from gsnobench.meshes.topology import boundary_loops
from gsnobench_plugins.datasets import airfoil
from gsnobench_plugins.solvers.equations.euler import PRESSURE, Stream
from gsnobench_plugins.solvers.equations.euler_steady import Forces, forces, steady_state
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.meshing.foil_mesh import foil_mesh
from gsnobench_plugins.solvers.meshing.red_refinement import refine

ORDER = [0, 3, 1, 2]  # of density, pressure and velocity in a primitive state
QUICK = {"interval": 0.02}


def setup_of(resolution: int, **knobs: float | str) -> airfoil.Setup:
    return airfoil.setup(airfoil.Params(**knobs), resolution, gb.Cache())


@pytest.fixture(scope="module")
def coarse() -> airfoil.Setup:
    return setup_of(600, **QUICK)


@pytest.fixture(scope="module")
def published() -> airfoil.Air:
    air = setup_of(5233).air
    assert air is not None
    return air


def steady_forces(air: airfoil.Air, stream: Stream) -> tuple[Forces, Array]:
    computed = steady_state(air.dual, air.is_wall, stream, residual=1e-6)
    assert computed.residual < 1e-6
    return forces(air.dual, air.is_wall, stream, computed.primitive), computed.primitive


# ---------------------------------------------------------------------------------- the declaration


def test_declaration_is_the_papers_problem():
    dataset = airfoil.gsnobench_dataset()
    names = ["density", "pressure", "velocity_x", "velocity_y"]
    assert [field.name for field in dataset.fields] == names
    assert (dataset.t_in, len(dataset.times), dataset.starts) == (1, 11, tuple(range(10)))
    sizes = dataset.sizes["paper"]
    assert (10 * sizes.train, 10 * sizes.valid, 10 * sizes.test, sizes.resolution) == (
        10_000,
        1_000,
        1_000,
        5233,
    )
    task = tasks.resolve(dataset, "airfoil", track="paper")
    assert (task.id, task.t_out, len(task.starts)) == ("airfoil@1-1", 1, 10)
    assert task.scored == {"density": (0,), "pressure": (1,), "velocity": (2, 3)}


def test_knobs_reach_the_task():
    dataset = airfoil.gsnobench_dataset()
    task = tasks.resolve(
        dataset, "airfoil", track="smoke", knobs={"interval": 0.5, "mach_low": 0.5}
    )
    assert task.times[-1] == 5.0
    assert [field.reference for field in task.fields] == [1.0, PRESSURE, 0.6, 0.0]
    assert task.fixed_mesh and task.corresponds
    family = tasks.resolve(dataset, "airfoil_family", track="smoke")
    assert (family.id, family.fixed_mesh, family.corresponds) == (
        "airfoil_family@1-1",
        False,
        False,
    )


def test_wrong_knobs_are_one_line():
    with pytest.raises(
        gb.ParamError, match=r"data.mach_low: 0.8 is above mach_high 0.5; swap them"
    ):
        setup_of(600, mach_low=0.8, mach_high=0.5)
    with pytest.raises(gb.ParamError, match=r"data.naca: '12' is not a four-digit section"):
        setup_of(600, naca="12")


# -------------------------------------------------------------------------------- accuracy and cost


def test_published_mesh_has_the_public_counts(published):
    mesh = published.mesh
    assert (mesh.size, len(mesh.cells), int(mesh.tags["boundary"].sum())) == (5233, 10216, 250)
    assert sorted(len(loop) for loop in boundary_loops(mesh)) == [50, 200]
    assert min_angle(mesh) > 20.0
    assert np.linalg.norm(mesh.points[mesh.tags["far"]] - [0.5, 0.0], axis=1) == pytest.approx(50.0)


def test_symmetric_flow_has_no_lift_and_hardly_any_drag_or_entropy(published):
    """Mach 0.5 at 0 degrees: the exact flow has no lift, no drag and constant entropy."""
    computed, primitive = steady_forces(published, Stream(0.5))
    assert abs(computed.lift) < 2e-3
    assert 0.0 <= computed.drag < 0.005
    assert computed.peak == pytest.approx(
        ((1.0 + 0.2 * 0.5**2) ** 3.5 - 1.0) / (0.7 * 0.5**2), abs=0.05
    )
    entropy = primitive[:, 3] / (PRESSURE * primitive[:, 0] ** 1.4) - 1.0
    assert np.abs(entropy).max() < 0.01


@pytest.mark.slow
def test_transonic_lift_is_within_the_published_range(published):
    """AGARD-AR-211, case 01: Mach 0.8 at 1.25 degrees."""
    computed, _ = steady_forces(published, Stream(0.8, 1.25))
    assert 0.34 < computed.lift < 0.37
    assert 0.020 < computed.drag < 0.026


def test_transonic_lift_on_the_laptop_mesh_is_within_the_published_range():
    computed, _ = steady_forces(setup_of(1800).air, Stream(0.8, 1.25))
    assert 0.34 < computed.lift < 0.37


@pytest.mark.slow
def test_trajectories_on_two_meshes_approach_each_other():
    """The pressure force on the foil: 1800 nodes are nearer to 5233 than 600 are."""
    stream, times = Stream(0.5, 4.0), airfoil.frame_times(0.25)
    histories = []
    for nodes in (600, 1800, 5233):
        air = setup_of(nodes).air
        frames = airfoil.solve(air, stream, times)[:, np.argsort(air.published)][..., [0, 2, 3, 1]]
        histories.append(
            np.array([forces(air.dual, air.is_wall, stream, frame).lift for frame in frames[1:]])
        )
    far, near = (
        np.abs(history - histories[2]).max() / np.abs(histories[2]).max()
        for history in histories[:2]
    )
    assert near < far
    assert near < 0.03


# ------------------------------------------------------------------------- what a sample depends on


def test_first_frame_is_the_uniform_stream_and_later_ones_are_not(coarse):
    stream, _ = airfoil.draw(coarse.params, 0, "train", 3)
    frames = next(airfoil.generate(coarse, 0, "train", [3])).frames
    expected = stream.primitive[[0, 3, 1, 2]]
    assert np.abs(frames[0] - expected).max() < 1e-15
    assert np.abs(frames[1] - expected).max() > 0.05
    assert frames[..., :2].min() > 0


def test_streams_are_in_their_ranges_and_ood_is_faster():
    params = airfoil.Params()
    drawn = [airfoil.draw(params, 0, "train", index)[0] for index in range(400)]
    machs, angles = (
        np.array([stream.mach for stream in drawn]),
        np.array([stream.degrees for stream in drawn]),
    )
    assert (machs.min() >= 0.3, machs.max() <= 0.7) == (True, True)
    assert np.abs(angles).max() <= 6.0
    assert (machs.mean(), angles.mean()) == (
        pytest.approx(0.5, abs=0.02),
        pytest.approx(0.0, abs=0.6),
    )
    faster = [airfoil.draw(params, 0, "test_ood", index)[0].mach for index in range(100)]
    assert min(faster) >= 0.749
    assert max(faster) <= 0.848


def test_sample_does_not_depend_on_its_neighbours_in_the_chunk(coarse):
    together = [
        sample.frames.tobytes() for sample in airfoil.generate(coarse, 0, "valid", [0, 1, 2])
    ]
    alone = [
        next(airfoil.generate(coarse, 0, "valid", [index])).frames.tobytes() for index in (2, 1, 0)
    ]
    assert together == alone[::-1]
    assert len(set(together)) == 3


def test_seed_split_and_index_each_change_the_sample():
    params = airfoil.Params()
    drawn = [(0, "train", 0), (1, "train", 0), (0, "test", 0), (0, "train", 1)]
    streams = {airfoil.draw(params, seed, split, index)[0] for seed, split, index in drawn}
    assert len(streams) == len(drawn)


def test_another_process_and_a_cached_setup_give_the_same_bytes(coarse, tmp_path):
    program = (
        "import sys, hashlib, gsnobench as gb; from pathlib import Path; from "
        "gsnobench_plugins.datasets import airfoil;"
        "made = airfoil.setup(airfoil.Params(interval=0.02), 600, gb.Cache(Path(sys.argv[1])));"
        "sample = next(airfoil.generate(made, 0, 'train', [5]));"
        "print(hashlib.sha256(sample.frames.tobytes()).hexdigest())"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert list((tmp_path / "airfoil-mesh-v1").glob("*.safetensors"))
    read = airfoil.setup(airfoil.Params(**QUICK), 600, gb.Cache(tmp_path))  # what it wrote
    for setup in (coarse, read):
        frames = next(airfoil.generate(setup, 0, "train", [5])).frames
        assert hashlib.sha256(frames.tobytes()).hexdigest() == there


def test_family_gives_every_sample_a_section_and_a_mesh_of_its_own():
    family = setup_of(600, shapes="family", **QUICK)
    assert airfoil.shared_mesh(family) is None
    samples = list(airfoil.generate(family, 0, "train", [0, 1]))
    assert len({sample.mesh.key for sample in samples}) == 2
    for index, sample in enumerate(samples):
        _, section = airfoil.draw(family.params, 0, "train", index)
        foil = sample.mesh.points[sample.mesh.tags["foil"]]
        assert np.ptp(foil[:, 1]) == pytest.approx(section.thickness, abs=0.02)
        assert sample.frames.shape == (11, 600, 4)


def test_family_and_single_section_fly_in_the_same_stream():
    single, family = airfoil.Params(), airfoil.Params(shapes="family")
    assert airfoil.draw(single, 0, "test", 4)[0] == airfoil.draw(family, 0, "test", 4)[0]


def test_persistence_is_far_from_trivial(coarse):
    """The score of repeating the last frame, on differences from the free stream.

    The first pairs are hard, the last easier.
    """
    frames = airfoil.solve(coarse.air, Stream(0.5, 3.0), airfoil.frame_times(0.25))
    density = frames[..., 0] - 1.0
    scores = np.linalg.norm(np.diff(density, axis=0), axis=1) / np.linalg.norm(density[1:], axis=1)
    assert scores.mean() > 0.1
    assert scores[-1] > 0.02


# -------------------------------------------------------------------------------------- the family


@pytest.fixture(scope="module")
def ramps() -> airfoil.Setup:
    return setup_of(600, **airfoil.gsnobench_dataset().variants["family"])


def test_only_a_ramp_has_its_rate_as_an_input():
    dataset = airfoil.gsnobench_dataset()
    steady, ramp = (
        tasks.resolve(dataset, name, track="smoke") for name in ("airfoil", "airfoil_family")
    )
    assert steady.scalars == ()
    assert [field.name for field in ramp.scalars] == ["acceleration_x", "acceleration_y"]
    assert (ramp.fixed_mesh, ramp.corresponds, ramp.times[-1]) == (False, False, 10.0)
    assert ramp.fields[2].reference == pytest.approx(0.55)


def test_ramps_run_from_one_stream_of_the_range_to_another(ramps):
    for split, low, high in (("train", 0.3, 0.8), ("test_ood", 0.856, 0.968)):
        for index in range(50):
            stream, _ = airfoil.draw(ramps.params, 0, split, index)
            velocity = stream.primitive_at(10.0)[1:3]
            assert low <= stream.mach <= high and low - 1e-9 <= np.hypot(*velocity) <= high + 1e-9
            assert abs(np.degrees(np.arctan2(*velocity[::-1]))) <= 8.0 + 1e-9
            assert np.hypot(*stream.acceleration) > 0.0


def test_the_far_field_of_a_ramp_follows_the_stream_and_the_flow_at_the_foil_lags(ramps):
    sample = next(airfoil.generate(ramps, 0, "train", [2]))
    stream, _ = airfoil.draw(ramps.params, 0, "train", 2)
    assert tuple(sample.scalars) == stream.acceleration
    exact = np.array([stream.primitive_at(time)[ORDER] for time in airfoil.frame_times(1.0)])
    far, foil = (sample.frames[:, sample.mesh.tags[tag]] for tag in ("far", "foil"))
    assert np.abs(far - exact[:, None]).max() < 1e-3
    assert np.abs(foil - exact[:, None])[1:].max(axis=(1, 2)).min() > 0.1
    density = sample.frames[..., 0] - 1.0
    repeated = np.linalg.norm(np.diff(density, axis=0), axis=1) / np.linalg.norm(
        density[1:], axis=1
    )
    assert repeated.min() > 0.05  # no pair is at rest


def test_data_of_the_family_are_near_those_of_a_finer_mesh(ramps):
    """The short form of `benchmarks/airfoil.py --family`: one trajectory, two frames, 600 nodes."""
    stream, section = airfoil.draw(ramps.params, 0, "test", 0)
    mesh = foil_mesh(section, nodes=600, radius=50.0)
    coarse, fine = (
        airfoil.solve(airfoil.air_of(level), stream, (0.0, 1.0, 2.0))[1:, :600]
        for level in (mesh, refine(mesh)[0])
    )
    apart = np.linalg.norm(coarse - fine, axis=1)  # (2, 4)
    size = np.linalg.norm(fine - stream.primitive[ORDER], axis=1)
    assert (apart[:, :2] / size[:, :2]).max() < 0.25
