"""Prediction: calls that feed one another, known boundary values, shorter windows."""

from __future__ import annotations

import pytest
import torch
from problems import steady, unsteady
from torch import nn
from training_jobs import Pointwise, make_loader

import gsnobench as gb
from gsnobench.training.optimisation import TrainParams
from gsnobench.training.rollout import headline, rollout, walk


class Last(nn.Module):
    """The last frame of the window, once for every frame to predict."""

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return batch.window[:, -1:].expand(-1, batch.task.t_out, -1, -1)


class OneMore(nn.Module):
    """The last frame of the window plus one, in encoded units."""

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return batch.window[:, -1:] + 1.0


def test_a_model_that_sees_a_shorter_window_is_scored_on_the_same_frames() -> None:
    splits = unsteady()
    whole, short, single = (
        make_loader(splits["valid"], splits["train"], gb.Horizon(*sizes))
        for sizes in ((2, 7), (1, 7), (1, 1))
    )
    assert headline(Last(), short, 7, 4) == headline(Last(), whole, 7, 4)
    assert headline(Last(), single, 7, 4) == pytest.approx(headline(Last(), whole, 7, 4), rel=1e-5)


def test_a_rollout_feeds_its_own_frames_back() -> None:
    splits, plain = unsteady(), TrainParams(**gb.UNSCALED)
    loader = make_loader(splits["valid"], splits["train"], gb.Horizon(2, 1), plain)
    indices = torch.arange(2)
    batch, _ = loader.batch(indices, torch.zeros(2, dtype=torch.long), 7)
    prediction = rollout(OneMore(), loader, batch, indices, 7)
    expected = batch.window[:, -1:] + torch.arange(1.0, 8.0)[None, :, None, None]
    torch.testing.assert_close(prediction, expected)


def test_known_boundary_values_are_imposed_in_physical_units() -> None:
    splits = steady()
    loader = make_loader(splits["valid"], splits["train"], gb.Horizon(0, 1))
    indices = torch.arange(3)
    batch, _ = loader.batch(indices, torch.zeros(3, dtype=torch.long), 1)
    with torch.no_grad():
        prediction = rollout(Pointwise(loader.task), loader, batch, indices, 1)
    on_boundary = torch.from_numpy(splits["valid"].meshes[0].tags["boundary"])
    assert float(prediction[:, :, on_boundary].abs().max()) == 0.0
    assert float(prediction[:, :, ~on_boundary].abs().min()) > 0.0


def test_a_walk_sees_every_sample_once_and_restores_the_mode_of_the_module() -> None:
    splits = steady()
    loader = make_loader(splits["valid"], splits["train"], gb.Horizon(0, 1))
    module = Pointwise(loader.task).train()
    modes, indices = [], []
    for step in walk(module, loader, frames=1, batch_size=3):
        modes.append(module.training)
        indices += step.indices.tolist()
        assert not step.prediction.requires_grad and step.seconds > 0
    assert indices == list(range(8)) and modes == [False] * 3
    assert module.training
