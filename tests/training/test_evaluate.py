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
from gsnobench.plugins import load
from gsnobench.training.evaluate import evaluate_split, predict_samples
from gsnobench.training.loader import Loader
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


def wave_loader(horizon: gb.Horizon) -> Loader:
    """Waves on a height of 5 m, without scaling."""
    splits, plain = unsteady(), TrainParams(scale_outputs="none")
    return make_loader(splits["valid"], splits["train"], horizon, plain)


def test_a_metric_gets_a_mesh_per_sample_and_the_window_of_the_task() -> None:
    seen = []

    def score(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
        seen.append((p.shape, p.dtype, mesh, (task.t_in, task.t_out)))
        return float(np.abs(p - u).max())

    loader = wave_loader(gb.Horizon(1, 1))  # a model that sees one frame and makes one
    metric = gb.Metric("largest", gb.each_sample(score))
    scores = evaluate_split(Counting(), loader, frames=7, batch_size=3, metrics=(metric,)).samples
    (mesh,) = loader.samples.meshes
    assert seen == [((7, mesh.size, 1), np.dtype("f8"), mesh, (2, 7))] * 8
    # predicts the level at rest
    np.testing.assert_allclose(scores["headline"]["largest"], scores["height"]["max"], rtol=1e-6)


@pytest.mark.parametrize("name", ["rel_h1", "mass"])
def test_scores_of_plugins_do_not_depend_on_the_batch(name: str) -> None:
    loader, metric = wave_loader(gb.Horizon(2, 7)), load("metric", name)
    torch.manual_seed(0)
    module = Pointwise(loader.task)
    scores = [
        evaluate_split(module, loader, frames=7, batch_size=size, metrics=(metric,)).samples
        for size in (1, 3, 8)
    ]
    for other in scores[1:]:
        expected = scores[0]["headline"][name]
        np.testing.assert_allclose(other["headline"][name], expected, rtol=1e-5)


def test_a_metric_is_absent_where_it_does_not_apply() -> None:
    loader = wave_loader(gb.Horizon(2, 7))
    everywhere = gb.Metric("largest", lambda p, u, batch: (p - u).abs().amax((1, 2, 3)))
    nowhere = replace(everywhere, name="nowhere", applies=lambda task, mesh: mesh.cells is None)
    metrics = (everywhere, nowhere)
    evaluation = evaluate_split(Counting(), loader, frames=7, batch_size=4, metrics=metrics)
    assert set(evaluation.samples["headline"]) == {"rel_l2", "largest"}


def test_a_metric_sees_the_truth_where_a_field_is_not_defined() -> None:
    splits, plain = steady(), TrainParams(scale_outputs="none")
    (field,) = splits["valid"].task.fields
    inside = replace(splits["valid"].task, fields=(replace(field, support="not boundary"),))
    valid = replace(splits["valid"], task=inside, frames=np.asarray(splits["valid"].frames) + 1)
    loader = make_loader(valid, splits["train"], gb.Horizon(0, 1), plain)
    errors = []

    def compute(p: torch.Tensor, u: torch.Tensor, batch: gb.Batch) -> torch.Tensor:
        errors.append((p - u)[0, 0, :, 0].numpy())
        return torch.zeros(batch.size)

    metrics = (gb.Metric("spy", compute),)
    evaluate_split(Counting(), loader, frames=1, batch_size=8, metrics=metrics)
    is_boundary = valid.meshes[0].tags["boundary"]
    assert np.all(errors[0][is_boundary] == 0)
    assert np.all(errors[0][~is_boundary] != 0)
