"""Long trajectories cut in time: windows of the early part train, of the last part test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import SPLITS, Array, Task
from gsnobench.errors import DataError

SHARES = {"train": 0.6, "valid": 0.2, "test": 0.2}  # of the frames, in this order
PER_TRAJECTORY = ("static", "scalars", "node_count", "cell_count")


def split_by_time(path: Path, arrays: Mapping[str, Any], task: Task) -> tuple[dict[str, Any], Task]:
    """The arrays of an import with one sample per window, and their task.

    No frame is in two windows' answers, and none in two splits. Windows begin at time 0: a model
    cannot tell early ones from late ones.
    """
    frames: Array = np.asarray(arrays.get("frames", ()))
    if frames.ndim != 4:
        raise DataError(
            f"{path}: frames has the shape {frames.shape}; expected (trajectories, frames, nodes, "
            "fields)"
        )
    length = task.t_in + task.t_out
    starts, codes = _starts(path, frames.shape[1], task)
    times = _times(path, arrays, task, frames.shape[1])
    owner = np.repeat(np.arange(len(frames)), len(starts))
    first = np.tile(starts, len(frames))
    windows = np.stack(
        [frames[row, start : start + length] for row, start in zip(owner, first, strict=True)]
    )
    cut = {name: value for name, value in arrays.items() if name not in ("frames", "split")}
    for name, value in cut.items():
        is_own = name.startswith("tag_") and np.ndim(value) == 2
        is_own |= name in ("points", "cells") and np.ndim(value) == 3
        if name in PER_TRAJECTORY or is_own:
            cut[name] = np.asarray(value)[owner]
    cut |= {"frames": windows, "split": np.tile(codes, len(frames)), "times": times[:length]}
    return cut, replace(task, times=tuple(times[:length].tolist()), starts=(0,))


def _starts(path: Path, count: int, task: Task) -> tuple[Array, Array]:
    """First frame and split of every window of a trajectory of `count` frames."""
    length, begin = task.t_in + task.t_out, 0
    starts: list[int] = []
    codes: list[int] = []
    share = 0.0
    for split, part in SHARES.items():
        share += part
        end = round(share * count)
        own = range(begin, end - length + 1, task.t_out)
        if not len(own):
            raise DataError(
                f"{path}: {split} would have frames {begin} to {end - 1}, but a window has "
                f"{length} frames; lower t_in or t_out, or give a longer trajectory"
            )
        starts += own
        codes += [SPLITS.index(split)] * len(own)
        begin = end
    return np.array(starts), np.array(codes)


def _times(path: Path, arrays: Mapping[str, Any], task: Task, count: int) -> Array:
    """Times since the first frame; windows share them, so steps must be equal."""
    given = arrays.get("times", task.times if len(task.times) == count else np.arange(count))
    times = np.asarray(given, dtype=np.float64)
    steps = np.diff(times)
    if len(times) != count or not np.allclose(steps, steps[0]):
        raise DataError(
            f"{path}: {len(times)} times for {count} frames, or steps that differ; windows need "
            "equal steps"
        )
    return times - times[0]
