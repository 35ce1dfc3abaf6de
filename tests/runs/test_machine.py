"""A machine chooses its device, and its data are generated once and reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gsnobench as gb
from gsnobench.home import Home
from gsnobench.plugins import dataset_named
from gsnobench.runs.machine import Machine, Report, choose_device, devices_of
from gsnobench.runs.plan import Request, make_plan


def test_data_are_generated_once_and_named_in_the_progress(tmp_path: Path) -> None:
    stages: list[str] = []
    counts: list[tuple[int, int]] = []
    report = Report(stage=stages.append, data=lambda done, total: counts.append((done, total)))
    machine = Machine(Home(tmp_path), torch.device("cpu"), jobs=1, report=report)
    task = make_plan(Request("mean", "darcy", track="smoke")).task
    path = machine.ensure_data(dataset_named("darcy"), task)
    assert path.is_relative_to(tmp_path) and counts[-1][0] == counts[-1][1]
    del counts[:]
    assert machine.ensure_data(dataset_named("darcy"), task, label="darcy again") == path
    assert counts == []
    assert stages == ["data of darcy", "data of darcy again"]


def test_a_device_that_does_not_exist_is_one_line() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(gb.RunError, match="'toaster' is not a device; expected auto, cpu"):
        choose_device("toaster")


def test_cells_on_a_cpu_are_as_many_as_requested(tmp_path: Path) -> None:
    assert devices_of(gb.Limits(home=tmp_path, device="cpu", jobs=3)) == ["cpu"] * 3
