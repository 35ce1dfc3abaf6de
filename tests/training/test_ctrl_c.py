"""Ctrl-C ends a training after a step, with a checkpoint from which it goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from problems import steady
from training_jobs import make_job

from gsnobench.errors import Interrupted
from gsnobench.training.ctrl_c import CtrlC
from gsnobench.training.fit import Job, fit


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """A shell that starts the tests in the background makes them deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_training_goes_on_from_the_step_where_it_was_interrupted(tmp_path: Path) -> None:
    def job(name: str) -> Job:
        (tmp_path / name).mkdir(exist_ok=True)
        return make_job(steady(), tmp_path / name, steps=8)

    whole = job("whole")
    fit(whole)

    def on_step(step: int, total: int, best: float) -> None:
        if step == 3:
            press_ctrl_c()

    with pytest.raises(Interrupted, match="at step 3 of 8; a checkpoint is written"):
        fit(replace(job("cut"), on_step=on_step))
    seen: list[int] = []
    resumed = job("cut")
    fit(replace(resumed, on_step=lambda step, total, best: seen.append(step)))
    assert seen == [4, 5, 6, 7, 8]
    state = resumed.module.state_dict()
    for name, value in whole.module.state_dict().items():
        assert torch.equal(state[name], value), name


def test_the_first_is_noted_and_a_second_interrupts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), CtrlC() as ctrl_c:
        press_ctrl_c()
        assert ctrl_c.came
        press_ctrl_c()
        pytest.fail("the second must not wait")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_that_nobody_heeded_interrupts_after_the_block() -> None:
    with pytest.raises(KeyboardInterrupt):
        with CtrlC() as ctrl_c:
            press_ctrl_c()
        pytest.fail("it was forgotten")
    assert ctrl_c.came


def test_threads_and_processes_that_ignore_it_are_left_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with CtrlC() as ctrl_c:
            press_ctrl_c()
        assert not ctrl_c.came and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def enter() -> None:
        with CtrlC() as ctrl_c:
            seen.append(ctrl_c.is_ours)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [False]
