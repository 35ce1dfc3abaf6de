"""The training loop: schedules, windows, rollout, selection, divergence, closed-form phases."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from problems import steady, unsteady
from torch import nn

import gsnobench as gb
from gsnobench.batch import Batch
from gsnobench.data import Samples, Task
from gsnobench.declare import Horizon, Phase, Preset
from gsnobench.training.checkpoint import load_state
from gsnobench.training.fit import Job, fit, mix
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams, rate
from gsnobench.training.rollout import headline, rollout

DEFAULT = Preset()


class Pointwise(nn.Module):
    """A perceptron at every node."""

    def __init__(self, task: Task, width: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(task.in_channels, width), nn.GELU(), nn.Linear(width, task.out_channels)
        )

    def forward(self, batch: Batch) -> torch.Tensor:
        return batch.frames(self.net(batch.features))


def make_loader(
    samples: Samples, train: Samples, horizon: Horizon, preset: Preset = DEFAULT
) -> Loader:
    return Loader(
        samples,
        task=samples.task.narrowed(horizon.window, horizon.steps),
        normaliser=fit_normaliser(train, preset),
        geometries=[],
        device="cpu",
        impose_boundary=preset.impose_boundary,
    )


def make_job(
    splits: dict[str, Samples],
    folder: Path,
    *,
    steps: int = 30,
    horizon: Horizon | None = None,
    **train: object,
) -> Job:
    task = splits["train"].task
    horizon = horizon or Horizon(task.t_in, task.t_out)
    torch.manual_seed(0)
    return Job(
        module=Pointwise(task.narrowed(horizon.window, horizon.steps)),
        train=make_loader(splits["train"], splits["train"], horizon),
        valid=make_loader(splits["valid"], splits["train"], horizon),
        phases=(Phase(),),
        steps={"fit": steps},
        horizon=horizon,
        frames=task.t_out,
        params=TrainParams.make({"lr": 0.01, "batch": 8}, train),
        seed=0,
        folder=folder,
        on_epoch=lambda phase, epoch, scores: None,
        on_step=lambda step, total, best: None,
    )


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


@pytest.mark.parametrize(
    "train",
    [
        {"average": 0.9},
        {"accumulate": 2},
        {"loss": "mse"},
        {"clip": 0.5, "optimiser": "adam"},
        {"optimiser": "muon"},
    ],
)
def test_every_option_of_the_loop_trains(tmp_path: Path, train: dict[str, object]) -> None:
    job = make_job(steady(), tmp_path, steps=40, **train)
    before = headline(job.module, job.valid, 1, 8)
    assert fit(job).reason == ""
    assert headline(job.module, job.valid, 1, 8) < before


class Last(nn.Module):
    """The last frame of the window, as often as it is asked for."""

    def forward(self, batch: Batch) -> torch.Tensor:
        return batch.window[:, -1:].expand(-1, batch.task.t_out, -1, -1)


def test_a_model_that_sees_a_shorter_window_is_scored_on_the_same_frames() -> None:
    splits = unsteady()
    whole, short, single = (
        make_loader(splits["valid"], splits["train"], Horizon(*of))
        for of in ((2, 7), (1, 7), (1, 1))
    )
    assert headline(Last(), short, 7, 4) == headline(Last(), whole, 7, 4)
    assert headline(Last(), single, 7, 4) == pytest.approx(headline(Last(), whole, 7, 4), rel=1e-5)


def test_mixed_precision_trains(tmp_path: Path) -> None:
    job = make_job(steady(), tmp_path, steps=40, amp=True)
    before = headline(job.module, job.valid, 1, 8)
    assert fit(job).reason == ""
    assert headline(job.module, job.valid, 1, 8) < before


def test_a_loss_of_its_own_knows_its_module_though_it_is_to_be_compiled(tmp_path: Path) -> None:
    seen: list[type] = []

    def loss(
        module: nn.Module, batch: Batch, target: torch.Tensor, progress: float
    ) -> torch.Tensor:
        seen.append(type(module))
        return (module(batch) - target).square().mean()

    job = make_job(steady(), tmp_path, steps=2, compile=True)
    assert fit(replace(job, phases=(Phase(loss=loss),))).reason == ""
    assert set(seen) == {Pointwise}


def test_accumulation_of_two_half_batches_is_one_whole_batch(tmp_path: Path) -> None:
    whole = make_job(steady(), tmp_path / "whole", steps=3, batch=24)
    halves = make_job(steady(), tmp_path / "halves", steps=3, batch=12, accumulate=2)
    fit(whole), fit(halves)
    for one, other in zip(whole.module.parameters(), halves.module.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_loss_that_is_not_finite_is_a_result_not_a_crash(tmp_path: Path) -> None:
    job = make_job(steady(), tmp_path)
    outcome = fit(
        replace(
            job,
            phases=(
                Phase(loss=lambda module, batch, target, progress: module(batch).sum() * math.nan),
            ),
        )
    )
    assert "the training loss was nan" in outcome.reason


def test_a_short_horizon_is_rolled_out_to_all_frames(tmp_path: Path) -> None:
    splits = unsteady()
    job = make_job(
        splits,
        tmp_path,
        steps=30,
        horizon=Horizon(2, 3, unroll=3),
        start_share=0.25,
        unroll_after=0.5,
    )
    assert fit(job).reason == ""
    indices = torch.arange(4)
    batch, target = job.valid.batch(indices, torch.zeros(4, dtype=torch.long), 7)
    prediction = rollout(job.module.eval(), job.valid, batch, indices, 7)
    assert prediction.shape == target.shape == (4, 7, splits["valid"].meshes[0].size, 1)


def test_a_rollout_feeds_its_own_frames_back() -> None:
    class Last(nn.Module):
        def forward(self, batch: Batch) -> torch.Tensor:
            return batch.window[:, -1:] + 1.0  # encoded units

    splits = unsteady()
    loader = make_loader(
        splits["valid"], splits["train"], Horizon(2, 1), Preset(inputs="none", outputs="none")
    )
    indices = torch.arange(2)
    batch, _ = loader.batch(indices, torch.zeros(2, dtype=torch.long), 7)
    prediction = rollout(Last(), loader, batch, indices, 7)
    expected = batch.window[:, -1:] + torch.arange(1.0, 8.0)[None, :, None, None]
    torch.testing.assert_close(prediction, expected)


def test_known_boundary_values_are_imposed_in_physical_units() -> None:
    splits = steady()
    loader = make_loader(splits["valid"], splits["train"], Horizon(0, 1))
    job = Pointwise(loader.task)
    indices = torch.arange(3)
    batch, _ = loader.batch(indices, torch.zeros(3, dtype=torch.long), 1)
    prediction = rollout(job, loader, batch, indices, 1)
    on_boundary = torch.from_numpy(splits["valid"].meshes[0].tags["boundary"])
    assert float(prediction[:, :, on_boundary].abs().max()) == 0.0
    assert float(prediction[:, :, ~on_boundary].abs().min()) > 0.0


def test_a_closed_form_phase_takes_no_step_and_sees_no_test_split(tmp_path: Path) -> None:
    seen = {}

    def solve(module: nn.Module, fit: gb.Fit) -> None:
        seen["names"] = sorted(name for name in vars(fit) if name in ("train", "valid", "test"))
        total = [target.shape[0] for _, target in fit.batches("train")]
        seen["count"] = sum(total)

    job = make_job(steady(), tmp_path)
    outcome = fit(replace(job, phases=(Phase(name="solve", solve=solve),), steps={"solve": 0}))
    assert outcome.reason == ""
    assert seen == {"names": ["train", "valid"], "count": 24}


def test_schedules_begin_peak_and_end_where_they_should() -> None:
    cosine = TrainParams(schedule="cosine", warmup=0.1)
    assert rate(cosine, 0.05) == pytest.approx(0.5)
    assert rate(cosine, 0.1) == pytest.approx(1.0)
    assert rate(cosine, 1.0) == pytest.approx(0.0, abs=1e-12)
    onecycle = TrainParams(schedule="onecycle")
    assert rate(onecycle, 0.0) == pytest.approx(1 / 25)
    assert rate(onecycle, 0.3) == pytest.approx(1.0)
    assert rate(onecycle, 1.0) == pytest.approx(1e-4)
    assert rate(TrainParams(schedule="constant"), 0.7) == 1.0


def test_seeds_are_mixed_the_same_way_everywhere() -> None:
    assert mix(0, "fit", 1) == 8692621455460757814
    assert len({mix(seed, "fit", step) for seed in range(20) for step in range(20)}) == 400


def test_buffers_take_the_size_they_have_in_the_file() -> None:
    small, large = nn.Module(), nn.Module()
    small.register_buffer("basis", torch.empty(0))
    large.register_buffer("basis", torch.ones(3, 2))
    load_state(small, large.state_dict())
    torch.testing.assert_close(small.basis, torch.ones(3, 2))


def test_statistics_come_from_the_training_split_and_undo_themselves() -> None:
    splits = unsteady()
    for kind in ("none", "minmax", "box", "zscore", "scale"):
        normaliser = fit_normaliser(splits["train"], Preset(inputs=kind, outputs=kind))
        centred = torch.from_numpy(np.asarray(splits["train"].frames)) - 5.0
        encoded = normaliser.output.encode(centred)
        torch.testing.assert_close(normaliser.output.decode(encoded), centred, rtol=1e-4, atol=1e-5)
        if kind == "minmax":
            assert float(encoded.min()) == pytest.approx(0.0, abs=1e-6)
            assert float(encoded.max()) == pytest.approx(1.0, abs=1e-6)
        if kind == "zscore":
            assert float(encoded.std(unbiased=False)) == pytest.approx(1.0, rel=1e-4)
