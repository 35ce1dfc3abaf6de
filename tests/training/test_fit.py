"""The training loop: selection, seeds, options, windows, divergence, closed-form phases."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import steady, unsteady
from torch import nn
from training_jobs import Pointwise, make_job

import gsnobench as gb
from gsnobench.training.fit import draw_batch, fit, mix
from gsnobench.training.rollout import headline, rollout


def test_training_lowers_the_validation_error_and_keeps_the_best_weights(tmp_path: Path) -> None:
    job = make_job(steady(), tmp_path, steps=90)
    before = headline(job.module, job.valid, 1, 8)
    outcome = fit(job)
    validated = [point["valid"] for point in outcome.progress.curve if "valid" in point]
    assert outcome.reason == ""
    assert headline(job.module, job.valid, 1, 8) == pytest.approx(min(validated), rel=1e-6)
    assert min(validated) < 0.8 * before


def test_the_same_seed_gives_the_same_curve_and_another_seed_another(tmp_path: Path) -> None:
    curves = [
        fit(replace(make_job(steady(), tmp_path / str(n)), seed=seed)).progress.curve
        for n, seed in enumerate((0, 0, 1))
    ]
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


def test_the_loop_waits_for_its_device_once_per_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(steady(), tmp_path, steps=30)  # ten epochs of three steps
    read: list[str] = []
    for name in ("item", "__float__", "__bool__", "tolist"):
        usual = getattr(torch.Tensor, name)

        def counted(tensor: torch.Tensor, usual: Callable = usual, name: str = name) -> Any:
            if tensor.requires_grad or tensor.dtype == torch.float64:
                read.append(name)
            return usual(tensor)

        monkeypatch.setattr(torch.Tensor, name, counted)
    waited: list[torch.device] = []
    monkeypatch.setattr("gsnobench.training.fit._synchronise", waited.append)
    monkeypatch.setattr("gsnobench.training.fit.headline", lambda *_: 0.5)
    outcome = fit(job)
    assert len(outcome.progress.curve) == len(waited) == 10
    assert len(read) == 10  # the mean loss of each epoch, and nothing else


@pytest.mark.parametrize("horizon", [None, gb.Horizon(2, 1), gb.Horizon(2, 3)])
def test_a_model_may_predict_the_change_since_the_last_frame(
    tmp_path: Path, horizon: gb.Horizon | None
) -> None:
    job = make_job(unsteady(), tmp_path, steps=2, horizon=horizon, predict="change")
    indices, starts = torch.arange(4), torch.zeros(4, dtype=torch.long)
    batch, target = job.train.batch(indices, starts, job.horizon.steps)
    last = job.train.normaliser.window.decode(batch.window[:, -1:])
    encoded = job.train.encode_target(target, batch)
    torch.testing.assert_close(
        job.train.finish(encoded, batch, indices), target, rtol=1e-5, atol=1e-5
    )
    still = job.train.encode_target(last.expand_as(target), batch)
    torch.testing.assert_close(
        job.train.normaliser.output.decode(still), torch.zeros_like(target), rtol=0, atol=1e-5
    )
    changes = (target - last).double()
    spread = float(changes.std())
    assert 0.3 * spread < float(job.train.normaliser.output.scale) < 3 * spread
    assert fit(job).reason == ""


@pytest.mark.parametrize(
    "train",
    [
        {"average": 0.9},
        {"accumulate": 2},
        {"loss": "mse"},
        {"clip": 0.5, "optimiser": "adam"},
        {"optimiser": "muon"},
        {"amp": True},
    ],
)
def test_every_option_of_the_loop_trains(tmp_path: Path, train: dict[str, object]) -> None:
    job = make_job(steady(), tmp_path, steps=40, **train)
    before = headline(job.module, job.valid, 1, 8)
    assert fit(job).reason == ""
    assert headline(job.module, job.valid, 1, 8) < before


def test_a_loss_of_its_own_knows_its_module_though_it_is_to_be_compiled(tmp_path: Path) -> None:
    seen: list[type] = []

    def loss(
        module: nn.Module, batch: gb.Batch, target: torch.Tensor, progress: float
    ) -> torch.Tensor:
        seen.append(type(module))
        return (module(batch) - target).square().mean()

    job = make_job(steady(), tmp_path, steps=2, compile=True)
    assert fit(replace(job, phases=(gb.Phase(loss=loss),))).reason == ""
    assert set(seen) == {Pointwise}


def test_accumulation_of_two_half_batches_is_one_whole_batch(tmp_path: Path) -> None:
    whole = make_job(steady(), tmp_path / "whole", steps=3, batch=24)
    halves = make_job(steady(), tmp_path / "halves", steps=3, batch=12, accumulate=2)
    fit(whole), fit(halves)
    for mine, other in zip(whole.module.parameters(), halves.module.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_a_loss_that_is_not_finite_is_a_result_not_a_crash(tmp_path: Path) -> None:
    def undefined(
        module: nn.Module, batch: gb.Batch, target: torch.Tensor, progress: float
    ) -> torch.Tensor:
        return module(batch).sum() * math.nan

    outcome = fit(replace(make_job(steady(), tmp_path), phases=(gb.Phase(loss=undefined),)))
    assert "the training loss was nan" in outcome.reason


def test_a_failed_validation_leaves_the_trained_weights_in_the_module(tmp_path: Path) -> None:
    """Not the averaged ones, with which it validates."""
    trained: dict[str, torch.Tensor] = {}

    def score(module: nn.Module, fit: gb.Fit) -> float:
        raise RuntimeError("no luck")

    def loss(
        module: nn.Module, batch: gb.Batch, target: torch.Tensor, progress: float
    ) -> torch.Tensor:
        trained.update({name: value.clone() for name, value in module.state_dict().items()})
        return (module(batch) - target).square().mean()

    job = make_job(steady(), tmp_path, steps=3, average=0.9, lr=1e-6)
    with pytest.raises(RuntimeError, match="no luck"):
        fit(replace(job, phases=(gb.Phase(loss=loss, score=score),)))
    for name, value in job.module.state_dict().items():  # one step of 1e-6 later
        torch.testing.assert_close(value, trained[name], rtol=0, atol=2e-6)


def test_every_item_is_drawn_once_per_epoch_in_another_order(tmp_path: Path) -> None:
    job = make_job(steady(), tmp_path, batch=5)
    draw = torch.Generator().manual_seed(0)
    numbers = range(2 * 5)  # 24 samples in batches of 5: five batches per epoch
    drawn = [
        draw_batch(job, job.phases[0], number=number, done=0.0, draw=draw) for number in numbers
    ]
    first, second = (torch.cat([part.indices for part in drawn[i : i + 5]]) for i in (0, 5))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(24))
    assert first.tolist() != second.tolist()
    assert all(part.frames == 1 and not part.starts.any() for part in drawn)


def test_a_short_horizon_is_trained_on_windows_that_fit_and_rolled_out_to_all_frames(
    tmp_path: Path,
) -> None:
    splits, horizon = unsteady(), gb.Horizon(2, 3, unroll=3)
    job = make_job(splits, tmp_path, steps=30, horizon=horizon, start_share=0.25, unroll_after=0.5)
    draw = torch.Generator().manual_seed(0)
    for done in (0.0, 0.9):
        drawn = [draw_batch(job, job.phases[0], number=n, done=done, draw=draw) for n in range(20)]
        assert all(int(part.starts.max()) + 2 + part.frames <= 9 for part in drawn)
        assert {part.frames for part in drawn} == ({3} if done == 0 else {3, 7})
    assert fit(job).reason == ""
    indices = torch.arange(4)
    batch, target = job.valid.batch(indices, torch.zeros(4, dtype=torch.long), 7)
    prediction = rollout(job.module.eval(), job.valid, batch, indices, 7)
    assert prediction.shape == target.shape == (4, 7, splits["valid"].meshes[0].size, 1)


def test_a_closed_form_phase_takes_no_step_and_sees_no_test_split(tmp_path: Path) -> None:
    seen = {}

    def solve(module: nn.Module, fit: gb.Fit) -> None:
        seen["names"] = sorted(name for name in vars(fit) if name in ("train", "valid", "test"))
        seen["count"] = sum(target.shape[0] for _, target in fit.batches("train"))

    job = make_job(steady(), tmp_path)
    outcome = fit(replace(job, phases=(gb.Phase(name="solve", solve=solve),), steps={"solve": 0}))
    assert outcome.reason == ""
    assert seen == {"names": ["train", "valid"], "count": 24}


def test_seeds_are_mixed_the_same_way_everywhere() -> None:
    assert mix(0, "fit", 1) == 8692621455460757814
    assert len({mix(seed, "fit", step) for seed in range(20) for step in range(20)}) == 400
