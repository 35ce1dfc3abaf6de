"""A machine chooses its device, and its data are generated once and reported."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gsnobench as gb
from gsnobench.home import Home
from gsnobench.plugins import dataset_named
from gsnobench.runs.machine import (
    MALLOC_VARIABLES,
    Machine,
    Report,
    choose_device,
    devices_of,
    threads_for,
    with_threads,
)
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request


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


def test_small_steps_have_one_thread_and_large_ones_as_many_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert [threads_for(work) for work in (1, 600 * 4, 10**9)] == [1, 1, 4]


def test_threads_are_set_for_a_block_and_given_back() -> None:
    before = torch.get_num_threads()
    with with_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_waiting_threads_sleep_unless_a_user_wants_otherwise() -> None:
    program = "import os, gsnobench; print(os.environ['OMP_WAIT_POLICY'])"
    plain = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for own, expected in (({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")):
        environment = {**plain, **own}
        ended = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        assert ended.stdout.strip() == expected


FAULTS = """
import resource
import torch
from gsnobench.runs.machine import keep_freed_memory

def faults():  # of steps that allocate and free what a training step does
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [torch.ones(1_000_000 + 50_000 * index) for index in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

returned = faults()
does_keep = keep_freed_memory()
faults()  # the memory is requested for the last time
print(does_keep, returned, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_the_memory_of_a_step_is_kept_for_the_next_one() -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in MALLOC_VARIABLES
    }
    said = [
        subprocess.run(
            [sys.executable, "-c", FAULTS],
            env={**environment, **own},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for own in ({}, {"MALLOC_TRIM_THRESHOLD_": "100000"})
    ]
    (does_keep, returned, kept), (respects, _, own_faults) = said
    assert does_keep == "True" and int(kept) < 100 < 10_000 < int(returned)
    assert respects == "False" and int(own_faults) > 10_000  # a person's own setting wins
