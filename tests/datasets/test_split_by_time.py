"""Windows of one trajectory: refused in two splits, and cut cleanly in time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import command
from toy_samples import one_line

import gsnobench as gb
from gsnobench.data import Samples
from gsnobench.datasets import store
from gsnobench.datasets.split_by_time import split_by_time

POINTS = np.random.default_rng(0).uniform(size=(12, 2))
LONG = np.random.default_rng(1).normal(size=(2, 40, 12, 1)).astype("f4")
TASK = gb.Task("w", "w", fields=(gb.Field("u"),), dim=2, t_in=1, t_out=2)


def windows(starts: list[int], length: int = 3) -> Samples:
    frames = np.stack([LONG[0, start : start + length] for start in starts])
    task = replace(TASK, times=tuple(map(float, range(length))))
    empty = np.zeros((len(starts), 12, 0)), np.zeros((len(starts), 0))
    return Samples(task, (gb.Mesh(POINTS),), frames, *empty)


def test_windows_that_share_frames_across_splits_are_refused(tmp_path: Path) -> None:
    leaky = {"train": windows([0, 1, 2]), "valid": windows([10]), "test": windows([4])}
    with pytest.raises(gb.DataError) as caught:
        store.write(tmp_path / "w.nc", leaky, provenance={})
    one_line(caught, "frame 0 of test sample 0 is frame 2 of train sample 2", "--split-by-time")
    assert not (tmp_path / "w.nc").exists()
    clean = {"train": windows([0, 1, 2]), "valid": windows([10]), "test": windows([5])}
    store.write(tmp_path / "w.nc", clean, provenance={})


def test_a_common_start_and_a_constant_frame_are_no_leak(tmp_path: Path) -> None:
    parts = {"train": windows([0, 3]), "valid": windows([10]), "test": windows([20])}
    for samples in parts.values():
        np.asarray(samples.frames)[:, 0] = LONG[1, 0]  # the same start
    np.asarray(parts["train"].frames)[0, 2] = 0.0  # at rest in the end
    np.asarray(parts["test"].frames)[0, 1] = 0.0
    store.write(tmp_path / "w.nc", parts, provenance={})
    with store.open_file(tmp_path / "w.nc") as opened:
        assert dict(opened.task.sizes) == {"train": 2, "valid": 1, "test": 1}


def test_a_trajectory_is_cut_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scalars = np.array([[1.0], [2.0]])
    times = 5.0 + 0.5 * np.arange(40)
    np.savez(tmp_path / "long.npz", frames=LONG, points=POINTS, scalars=scalars, times=times)
    task = {"id": "w", "dim": 2, "fields": ["u"], "scalars": ["mu"], "t_in": 1, "t_out": 2}
    (tmp_path / "task.json").write_text(json.dumps(task))
    words = ("data", "import", tmp_path / "w.nc", "--from", tmp_path / "long.npz")
    assert "'split' is missing" in command(capsys, *words).mistake
    ended = command(capsys, *words, "--split-by-time", "--json")
    assert ended.json["samples"] == {"train": 22, "valid": 6, "test": 6}
    with store.open_file(tmp_path / "w.nc") as opened:
        assert opened.task.times == (0.0, 0.5, 1.0)
        parts = {split: opened.read(split) for split in ("train", "valid", "test")}
    for split, (first, last) in {"train": (0, 24), "valid": (24, 32), "test": (32, 40)}.items():
        inside = {frame.tobytes() for frame in LONG[:, first:last].reshape(-1, 12, 1)}
        frames = np.asarray(parts[split].frames)
        assert {frame.tobytes() for frame in frames.reshape(-1, 12, 1)} <= inside
        half = len(frames) // 2
        np.testing.assert_array_equal(np.asarray(parts[split].scalars)[[0, half], 0], [1.0, 2.0])
        np.testing.assert_array_equal(frames[half, 0], LONG[1, first])


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"frames": LONG[:, :8]}, "but a window has 3 frames"),
        ({"frames": LONG[0]}, "expected (trajectories, frames, nodes, fields)"),
        ({}, "expected (trajectories, frames, nodes, fields)"),
        ({"frames": LONG, "times": np.arange(40.0) ** 2}, "equal steps"),
        ({"frames": LONG, "times": np.arange(39.0)}, "39 times for 40 frames"),
    ],
)
def test_what_cannot_be_cut_is_one_line(arrays: dict[str, gb.Array], expected: str) -> None:
    with pytest.raises(gb.DataError) as caught:
        split_by_time(Path("long.npz"), arrays, TASK)
    one_line(caught, expected)
