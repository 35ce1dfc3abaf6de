"""Scalings: statistics of the training split and of the nodes that carry a field."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import steady, unsteady

import gsnobench as gb
from gsnobench.training.normaliser import Normaliser, fit_normaliser
from gsnobench.training.optimisation import TrainParams


@pytest.mark.parametrize("kind", ["none", "minmax", "box", "zscore", "scale"])
def test_statistics_come_from_the_training_split_and_undo_themselves(kind: str) -> None:
    splits = unsteady()
    scaled = {f"scale_{part}": kind for part in ("window", "static", "outputs")}
    normaliser = fit_normaliser(splits["train"], TrainParams.make(scaled))
    centred = torch.from_numpy(np.asarray(splits["train"].frames)) - 5.0
    encoded = normaliser.output.encode(centred)
    torch.testing.assert_close(normaliser.output.decode(encoded), centred, rtol=1e-4, atol=1e-5)
    low, high = float(encoded.min()), float(encoded.max())
    if kind == "minmax":
        assert (low, high) == pytest.approx((0.0, 1.0), abs=1e-6)
    if kind == "box":
        assert (low, high) == pytest.approx((-1.0, 1.0), abs=1e-6)
    if kind == "zscore":
        assert float(encoded.mean()) == pytest.approx(0.0, abs=1e-5)
    if kind in ("zscore", "scale"):
        assert float(encoded.std(unbiased=False)) == pytest.approx(1.0, rel=1e-4)


def test_only_nodes_that_carry_a_field_count() -> None:
    train = steady()["train"]
    frames = np.array(train.frames)
    frames[:, :, train.meshes[0].tags["boundary"]] = 1e6
    inside = replace(train.task, fields=(gb.Field("head", support="not boundary"),))
    fitted = fit_normaliser(replace(train, task=inside, frames=frames), TrainParams())
    assert float(fitted.output.scale) < 10


def test_a_constant_channel_stays_constant() -> None:
    train = steady()["train"]
    constant = replace(train, static=np.full_like(np.asarray(train.static), 3.0))
    fitted = fit_normaliser(constant, TrainParams(scale_static="zscore"))
    assert (float(fitted.static.shift), float(fitted.static.scale)) == (3.0, 1.0)


def test_the_state_restores_every_scaling() -> None:
    fitted = fit_normaliser(unsteady()["train"], TrainParams())
    state = fitted.state()
    again = Normaliser.from_state(state).state()
    assert list(again) == list(state)
    assert all(torch.equal(again[name], value) for name, value in state.items())
