"""Scores of a split: per sample first, after a warm-up that leaves no trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import steady, unsteady
from torch import nn
from training_jobs import Pointwise, make_loader

import gsnobench as gb
from gsnobench.training.evaluate import evaluate_split, predict_samples
from gsnobench.training.optimisation import TrainParams
from gsnobench.training.rollout import headline


class Counting(nn.Module):
    """Predicts zeros; counts its calls and remembers the mode of each."""

    def __init__(self) -> None:
        super().__init__()
        self.modes: list[bool] = []

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        self.modes.append(self.training)
        return torch.zeros(batch.size, batch.task.t_out, batch.nodes, len(batch.task.fields))


def test_the_warm_up_is_one_batch_and_ends_before_the_evaluation() -> None:
    splits = steady()
    loader = make_loader(splits["valid"], splits["train"], gb.Horizon(0, 1))
    module = Counting().train()
    evaluate_split(module, loader, frames=1, batch_size=4)
    assert module.modes == [False] * 2  # two batches of four
    assert module.training


def test_the_mean_of_the_samples_is_the_headline() -> None:
    splits = steady()
    loader = make_loader(splits["valid"], splits["train"], gb.Horizon(0, 1))
    torch.manual_seed(0)
    module = Pointwise(loader.task)
    scores = evaluate_split(module, loader, frames=1, batch_size=3).scores()
    assert scores["headline"]["rel_l2"] == pytest.approx(headline(module, loader, 1, 8), rel=1e-6)


def test_windows_of_a_trajectory_are_averaged_before_samples() -> None:
    splits = unsteady()
    task = replace(splits["valid"].task, t_out=3, starts=(0, 4))
    valid = replace(splits["valid"], task=task)
    loader = make_loader(valid, splits["train"], gb.Horizon(2, 3))
    evaluation = evaluate_split(Counting(), loader, frames=3, batch_size=5)
    assert evaluation.samples["height"]["rel_l2"].shape == (8,)
    assert evaluation.frames["height"].shape == (8, 3)
    assert predict_samples(Counting(), loader, frames=3, batch_size=5).shape[:2] == (16, 3)


def test_a_metric_of_a_plugin_is_beside_the_headline() -> None:
    splits, plain = steady(), TrainParams(scale_outputs="none")
    loader = make_loader(splits["valid"], splits["train"], gb.Horizon(0, 1), plain)
    metric = gb.Metric("largest", lambda p, u, batch: (p - u).abs().amax((1, 2, 3)))
    evaluation = evaluate_split(Counting(), loader, frames=1, batch_size=4, metrics=(metric,))
    largest = np.abs(np.asarray(splits["valid"].frames)).max(axis=(1, 2, 3))
    np.testing.assert_allclose(evaluation.samples["headline"]["largest"], largest, rtol=1e-5)
