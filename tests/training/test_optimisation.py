"""Learning rates and beta1 over a phase, shares by parameter, steps per epoch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gsnobench as gb
from gsnobench.training.muon import Muon
from gsnobench.training.optimisation import (
    TrainParams,
    beta1,
    make_optimiser,
    rate,
    rate_groups,
    steps_per_epoch,
    trained_parameters,
)


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


def test_decays_are_even_and_those_of_torch() -> None:
    steps, decays = 40, 3
    params = TrainParams(schedule="step", decay=0.85, decays=decays)
    weight = nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, steps // (decays + 1), gamma=0.85)
    for step in range(steps):
        assert rate(params, step / steps) == pytest.approx(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()


@pytest.mark.parametrize("steps", [50, 1000])
def test_beta1_and_the_rising_rate_are_those_of_torch(steps: int) -> None:
    """torch peaks at step 0.3 T - 1 and ends at step T - 1; ours at the shares 0.3 and 1."""
    params = TrainParams(schedule="onecycle", beta1_cycle=True)
    optimiser = torch.optim.AdamW([nn.Parameter(torch.ones(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1.0, total_steps=steps)
    peak = 0.3 * steps - 1
    for step in range(steps):
        rises = step <= peak
        done = 0.3 * step / peak if rises else 0.3 + 0.7 * (step - peak) / (steps - 1 - peak)
        (group,) = optimiser.param_groups
        assert beta1(params, done) == pytest.approx(group["betas"][0], abs=1e-12)
        if rises:
            assert rate(params, done) == pytest.approx(group["lr"], abs=1e-12)
        optimiser.step()
        if step < steps - 1:
            schedule.step()


def test_beta1_stays_unless_it_is_cycled() -> None:
    assert beta1(TrainParams(schedule="onecycle"), 0.3) == 0.9
    assert beta1(TrainParams(schedule="cosine"), 0.3) == 0.9


def test_an_epoch_counts_windows_and_accumulated_batches() -> None:
    assert steps_per_epoch(24, 1, TrainParams(batch=5)) == 5
    assert steps_per_epoch(24, 2, TrainParams(batch=5)) == 10
    assert steps_per_epoch(24, 1, TrainParams(batch=5, accumulate=2)) == 3


def test_parameters_are_grouped_by_their_share_of_the_rate() -> None:
    module = nn.ModuleDict({"first": nn.Linear(2, 3), "second": nn.Linear(3, 1)})
    trained = trained_parameters(gb.Phase(), module)
    groups = rate_groups(module, trained, {"first.": 0.1})
    assert [group["share"] for group in groups] == [1.0, 0.1]
    assert groups[0]["params"] == list(module["second"].parameters())
    assert groups[1]["params"] == list(module["first"].parameters())


def test_a_phase_trains_what_it_names_and_nothing_frozen() -> None:
    module = nn.ModuleDict({"first": nn.Linear(2, 3), "second": nn.Linear(3, 1)})
    module["second"].bias.requires_grad_(False)
    assert len(trained_parameters(gb.Phase(), module)) == 3
    phase = gb.Phase(parameters=lambda module: module["second"].parameters())
    assert trained_parameters(phase, module) == [module["second"].weight]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("muon", Muon)],
)
def test_an_optimiser_has_the_knobs_of_the_run(name: str, kind: type) -> None:
    params = TrainParams.make({"optimiser": name, "lr": 0.02, "beta2": 0.9, "weight_decay": 0.1})
    optimiser = make_optimiser([nn.Parameter(torch.ones(3))], params, torch.device("cpu"))
    assert type(optimiser) is kind
    (group,) = optimiser.param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.02, (0.9, 0.9), 0.1)
