"""The reference step beside a training: how often it is read, and that it disturbs nothing."""

from __future__ import annotations

import pytest
import torch

from gsnobench.training.checkpoint import Clock
from gsnobench.training.reference_step import Metronome, ReferenceStep


def test_it_is_read_at_the_start_at_the_end_and_every_few_seconds_of_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter([0.004, 0.006, 0.008, 0.002])
    monkeypatch.setattr(ReferenceStep, "median_s", lambda step: next(seconds))
    clock = Clock()
    metronome = Metronome(clock, every_s=2.0)
    for _ in range(9):
        clock.train_cpu_s += 0.5  # 4.5 s of training: read after 2 s and 4 s
        metronome.tick(is_last=False)
    metronome.tick(is_last=True)
    assert clock.reference_readings == 4
    assert clock.reference_step_s == pytest.approx(0.005)


def test_a_training_that_was_not_timed_has_no_reference() -> None:
    assert Clock().reference_step_s == 0.0


def test_it_leaves_the_random_state_and_the_training_clock_as_they_are() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    clock = Clock()
    Metronome(clock, every_s=1.0).tick(is_last=True)
    assert torch.equal(torch.rand(3), expected)
    assert clock.train_cpu_s == clock.train_s == 0.0
    assert clock.reference_step_s > 0


def test_it_computes_with_gradients_inside_a_block_without() -> None:
    with torch.no_grad():
        assert ReferenceStep().median_s() > 0
