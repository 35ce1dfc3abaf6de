"""What ParaView and a browser get: files that read back as the numbers of the run, and a small
animation.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import meshio
import numpy as np
import pytest
import torch
from command_line import command, run_folder
from PIL import Image
from problems import square
from toy_samples import TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.data import Field, Mesh, Samples, Task
from gsnobench.datasets.store import open_file
from gsnobench.declare import Horizon
from gsnobench.home import Home
from gsnobench.runs.animation import animate, check_animable
from gsnobench.runs.cases import case_of
from gsnobench.runs.gallery import Case
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Request, make_plan
from gsnobench.runs.stages import make_loader, prepare
from gsnobench.runs.vtu import export_vtu

FLOW = replace(
    TASK,
    fields=(
        gb.Field("p", support="wall"),
        gb.Field("u", vector="velocity"),
        gb.Field("v", vector="velocity"),
    ),
)


def predicted_for(truth: Samples) -> np.ndarray:
    wanted = np.asarray(truth.frames)[:, list(truth.task.predicted_frames())]
    return wanted + np.random.default_rng(1).normal(size=wanted.shape).astype("f4")


def test_every_frame_reads_back_as_the_numbers_of_the_sample(tmp_path: Path) -> None:
    truth = fixed(task=FLOW)["test"]
    predicted, frames = predicted_for(truth), np.asarray(truth.frames)
    (pvd,) = export_vtu(tmp_path, truth, predicted, [2])
    listed = ElementTree.parse(pvd).getroot().findall("./Collection/DataSet")
    assert [float(one.attrib["timestep"]) for one in listed] == [0.5, 1.5]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "sample0002.pvd",
        *(one.attrib["file"] for one in listed),
    ]
    mesh, wall = truth.meshes[0], truth.meshes[0].tags["wall"]
    for number, one in enumerate(listed):
        read = meshio.read(tmp_path / one.attrib["file"])
        np.testing.assert_allclose(read.points[:, :2], mesh.points)
        np.testing.assert_array_equal(read.cells_dict["triangle"], mesh.cells)
        data = read.point_data
        assert data["truth_velocity"].shape == (16, 3)
        np.testing.assert_array_equal(data["truth_velocity"][:, :2], frames[2, number + 1, :, 1:])
        np.testing.assert_array_equal(
            data["prediction_velocity"][:, :2], predicted[2, number, :, 1:]
        )
        np.testing.assert_array_equal(data["error_velocity"][:, 2], 0)
        np.testing.assert_array_equal(
            data["error_p"][wall], (predicted[2, number] - frames[2, number + 1])[wall, 0]
        )
        assert np.isnan(data["truth_p"][~wall]).all()  # pressure lives on the wall only
        np.testing.assert_array_equal(data["given_velocity"][:, :2], frames[2, 0, :, 1:])
        np.testing.assert_array_equal(data["input_bed"], np.asarray(truth.static)[2, :, 0])
        np.testing.assert_array_equal(
            data["input_inflow"], np.full(16, np.asarray(truth.scalars)[2, 0])
        )


def test_each_window_is_given_its_own_last_frame(tmp_path: Path) -> None:
    truth = fixed(task=replace(TASK, id="toy@1-1", t_out=1, starts=(0, 1)))["test"]
    export_vtu(tmp_path, truth, predicted_for(truth), [0])
    for number in range(2):
        data = meshio.read(tmp_path / f"sample0000_frame000{number}.vtu").point_data
        np.testing.assert_array_equal(data["given_h"], np.asarray(truth.frames)[0, number, :, 0])
        np.testing.assert_array_equal(
            data["truth_h"], np.asarray(truth.frames)[0, number + 1, :, 0]
        )


def test_padding_is_left_out_and_clouds_and_solids_are_written(tmp_path: Path) -> None:
    truth = ragged()["test"]  # 16 and 9 nodes
    export_vtu(tmp_path / "ragged", truth, predicted_for(truth), [0, 1])
    assert [
        len(meshio.read(tmp_path / "ragged" / f"sample000{i}_frame0000.vtu").points) for i in (0, 1)
    ] == [16, 9]
    points = np.random.default_rng(0).normal(size=(5, 3))
    tetrahedra = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    for kind, cells, expected in (
        ("vertex", None, np.arange(5)[:, None]),
        ("tetra", tetrahedra, tetrahedra),
    ):
        space = fixed(task=replace(TASK, dim=3, tags=()), mesh=Mesh(points, cells))["test"]
        export_vtu(tmp_path / kind, space, predicted_for(space), [1])
        read = meshio.read(tmp_path / kind / "sample0001_frame0001.vtu")
        np.testing.assert_allclose(read.points, points)
        np.testing.assert_array_equal(read.cells_dict[kind], expected)
    with pytest.raises(gb.ParamError) as caught:
        export_vtu(tmp_path / "none", truth, predicted_for(truth), [0, 2])
    one_line(caught, "samples: 2 is out of range; expected 0 to 1")
    assert not (tmp_path / "none").exists()


def test_a_run_and_its_bundle_export_the_same(
    unsteady_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    folder = run_folder("gsno", unsteady_file, home, "--train.steps", "5", "--gif")
    options = (
        "--format",
        "vtu",
        "--samples",
        "0,5",
        "--data",
        unsteady_file,
        "--device",
        "cpu",
        "--home",
        home,
    )
    ended = command(capsys, "export", folder, *options, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["folder"] == f"{folder.name}-vtu"
    assert (
        command(capsys, "export", folder / "bundle.zip", *options, "--out", tmp_path / "b").code
        == 0
    )
    files = sorted((tmp_path / "b").glob("*.vtu"))
    assert len(files) == 14
    for path in files:
        mine, other = (
            meshio.read(place / path.name).point_data
            for place in (tmp_path / "b", tmp_path / f"{folder.name}-vtu")
        )
        assert set(mine) == {"given_height", "truth_height", "prediction_height", "error_height"}
        for name, values in mine.items():
            np.testing.assert_array_equal(values, other[name])
    assert "--data FILE.nc" in command(capsys, "export", folder, "--home", home).mistake
    far = command(capsys, "export", folder, *options, "--samples", "99")
    assert "samples: 99 is out of range; expected 0 to 7" in far.mistake
    _look_at(folder / "figures" / "frames.gif", frames=7)


def _look_at(path: Path, frames: int) -> None:
    assert path.stat().st_size < 2_000_000
    with Image.open(path) as picture:
        assert (picture.n_frames, picture.info["loop"]) == (frames, 0)
        seen = []
        for number in (0, frames - 1):
            picture.seek(number)
            seen.append(np.asarray(picture.convert("RGB")).astype(int))
    assert np.ptp(seen[0], axis=-1).max() > 80  # there is colour
    assert np.abs(seen[0] - seen[1]).max() > 80  # and it moves


def test_a_floor_and_a_finished_run_are_animated_too(
    unsteady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        "run",
        "--model",
        "persistence",
        "--dataset",
        unsteady_file,
        "--track",
        "smoke",
        "--no-floors",
    )
    assert command(capsys, *arguments, "--home", tmp_path).code == 0
    ended = command(capsys, *arguments, "--home", tmp_path, "--gif", "--json")
    _look_at(Path(ended.json["gif"]), frames=7)


def test_a_case_shows_the_frames_that_are_asked_for_also_of_a_model_that_sees_less(
    unsteady_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(Request("persistence", str(unsteady_file), track="smoke"))
    plan = replace(plan, horizon=Horizon(window=1, steps=1))  # two frames are given
    machine = Machine(Home(tmp_path), torch.device("cpu"))
    with open_file(unsteady_file, plan.task) as opened:
        setup, test = prepare(plan, machine, opened.split("train")), opened.split("test")
        case = case_of(
            plan, setup.module, make_loader(plan, machine, setup, test), "median", 3, 0.1
        )
        frames = test.frames[3]
    np.testing.assert_allclose(case.truth, frames[2:], rtol=1e-6)
    np.testing.assert_allclose(
        case.prediction, np.broadcast_to(frames[1], case.truth.shape), rtol=1e-6
    )
    assert case.times == plan.task.times[2:]


def test_one_frame_is_not_animated_and_nothing_is_started(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--track", "smoke", "--home", tmp_path, "--gif")
    ended = command(capsys, "run", "--model", "gsno", "--dataset", steady_file, *options)
    assert "poisson has one frame to find; nothing to animate" in ended.mistake
    assert not list(tmp_path.iterdir())
    # one frame a window
    check_animable(
        Task(id="a@1-1", dataset="a", fields=(Field("u"),), dim=2, t_in=1, starts=(0, 1))
    )


def test_a_rich_animation_drops_frames_to_stay_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = Mesh(square().points)
    times = tuple(np.linspace(0, 1, 8).tolist())
    # (T, N, 1)
    waves = np.stack([np.sin(9 * mesh.points[:, 0] + 6 * time) for time in times])[..., None]
    task = Task(id="waves@0-8", dataset="waves", fields=(Field("u"),), dim=2, t_out=8, times=times)
    case = Case("median", 0.1, mesh, {}, waves, 1.1 * waves, times)
    whole = animate(tmp_path / "whole.gif", task, case, title="all").stat().st_size
    monkeypatch.setattr("gsnobench.runs.animation.MOST_BYTES", whole // 2)
    assert animate(tmp_path / "half.gif", task, case, title="all").stat().st_size < whole // 2
    with Image.open(tmp_path / "half.gif") as picture:
        assert 2 <= picture.n_frames < 5
