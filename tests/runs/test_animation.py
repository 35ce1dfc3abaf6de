"""A run with several frames is animated: small, coloured, moving; one frame is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import command, run_folder
from PIL import Image
from problems import square

from gsnobench.data import Field, Mesh, Task
from gsnobench.declare import Horizon
from gsnobench.home import Home, RunFolder
from gsnobench.runs.animation import animate, check_animable
from gsnobench.runs.gallery import Case, case_of
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.stages import Run

Capture = pytest.CaptureFixture[str]


def look_at(path: Path, frames: int) -> None:
    assert path.stat().st_size < 2_000_000
    with Image.open(path) as picture:
        assert (picture.n_frames, picture.info["loop"]) == (frames, 0)
        seen = []
        for number in (0, frames - 1):
            picture.seek(number)
            seen.append(np.asarray(picture.convert("RGB")).astype(int))
    assert np.ptp(seen[0], axis=-1).max() > 80  # there is colour
    assert np.abs(seen[0] - seen[1]).max() > 80  # and it moves


def test_a_new_run_is_animated_on_request(unsteady_file: Path, tmp_path: Path) -> None:
    folder = run_folder("gsno", unsteady_file, tmp_path, "--train.steps", "5", "--gif")
    look_at(RunFolder(folder).gif, frames=7)


def test_a_floor_and_a_finished_run_are_animated_too(
    unsteady_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = ("run", "--model", "persistence", "--dataset", unsteady_file, "--home", tmp_path)
    arguments += ("--track", "smoke", "--no-floors")
    assert command(capsys, *arguments).code == 0
    ended = command(capsys, *arguments, "--gif", "--json")
    look_at(Path(ended.json["gif"]), frames=7)


def test_a_case_shows_the_requested_frames_also_of_a_model_that_sees_less(
    unsteady_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(Request("persistence", str(unsteady_file), track="smoke"))
    plan = replace(plan, horizon=Horizon(window=1, steps=1))  # two frames are given
    run = Run.at_home(plan, Machine(Home(tmp_path), torch.device("cpu")))
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        loader = run.loader(setup, data, "test")
        case = case_of(plan.task, setup.module, loader, 3, label="median", score=0.1)
        frames = data.split("test").frames[3]
    np.testing.assert_allclose(case.truth, frames[2:], rtol=1e-6)
    expected = np.broadcast_to(frames[1], case.truth.shape)
    np.testing.assert_allclose(case.prediction, expected, rtol=1e-6)
    assert case.times == plan.task.times[2:]


def test_one_frame_is_not_animated_and_nothing_is_started(
    steady_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    options = ("--track", "smoke", "--home", tmp_path, "--gif")
    ended = command(capsys, "run", "--model", "gsno", "--dataset", steady_file, *options)
    assert "poisson has one frame to predict; nothing to animate" in ended.mistake
    assert not list(tmp_path.iterdir())
    # two windows of one frame each
    check_animable(
        Task(id="a@1-1", dataset="a", fields=(Field("u"),), dim=2, t_in=1, starts=(0, 1))
    )


def test_a_rich_animation_drops_frames_to_stay_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = Mesh(square().points)
    times = tuple(np.linspace(0, 1, 8).tolist())
    x = mesh.points[:, 0]
    waves = np.stack([np.sin(9 * x + 6 * time) for time in times])[..., None]  # (T, N, 1)
    task = Task(id="waves@0-8", dataset="waves", fields=(Field("u"),), dim=2, t_out=8, times=times)
    case = Case("median", 0.1, mesh, {}, waves, 1.1 * waves, times)
    whole = animate(tmp_path / "whole.gif", task, case, title="all").stat().st_size
    monkeypatch.setattr("gsnobench.runs.animation.MOST_BYTES", whole // 2)
    assert animate(tmp_path / "half.gif", task, case, title="all").stat().st_size < whole // 2
    with Image.open(tmp_path / "half.gif") as picture:
        assert 2 <= picture.n_frames < 5
