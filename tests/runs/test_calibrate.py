"""Steps are counted for the track's budget, once, with the unmodified preset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gsnobench.errors import RunError
from gsnobench.home import open_home
from gsnobench.registry import Registry, Track, read_registry
from gsnobench.runs import calibrate
from gsnobench.runs.calibrate import count_steps, counted_plan
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.training.reference_step import ReferenceStep

pytestmark = pytest.mark.usefixtures("untracked")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(open_home(tmp_path), torch.device("cpu"))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of a tenth of the usual length: rules can be seen, numbers scatter."""
    monkeypatch.setattr(calibrate, "MEASURED_S", calibrate.MEASURED_S / 10)


def registry_of(budget: float, reference_step_s: float = 0.005) -> Registry:
    track = Track("laptop", train_cpu_s=budget, default_steps=77, counts_steps=True)
    return Registry({"laptop": track}, reference_step_s=reference_step_s)


@pytest.mark.usefixtures("short")
def test_twice_the_budget_has_twice_the_steps(steady_file: Path, machine: Machine) -> None:
    plan = make_plan(Request("gsno", str(steady_file)), registry_of(1.0))
    counts = [count_steps(plan, machine, registry_of(budget)) for budget in (1.0, 2.0)]
    steps = [count.steps["fit"] for count in counts]
    for count, budget in zip(counts, (1.0, 2.0), strict=True):
        assert count.steps["fit"] == pytest.approx(budget / count.step_s["fit"], rel=0.05)
    assert 1.2 < steps[1] / steps[0] < 3.3  # a busy machine scatters


@pytest.mark.usefixtures("short")
def test_a_machine_that_is_slower_in_all_things_counts_the_same(
    steady_file: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(Request("gsno", str(steady_file)), registry_of(1.0))
    monkeypatch.setattr(ReferenceStep, "median_s", lambda step: 0.005)
    usual = count_steps(plan, machine, registry_of(1.0)).steps["fit"]
    monkeypatch.setattr(ReferenceStep, "median_s", lambda step: 0.0005)  # ten times faster
    faster = count_steps(plan, machine, registry_of(1.0)).steps["fit"]
    assert 5 < usual / faster < 20


def test_a_closed_form_has_no_steps_and_epochs_are_not_counted(
    steady_file: Path, machine: Machine
) -> None:
    plan = make_plan(Request("mean", str(steady_file)), registry_of(1.0))
    assert count_steps(plan, machine, registry_of(1.0)).steps == {}
    counted_in_epochs = Registry({"laptop": Track("laptop", epochs=10)})
    with pytest.raises(RunError, match="counted in epochs"):
        count_steps(plan, machine, counted_in_epochs)


def test_a_home_counts_a_pair_once_and_for_the_row(
    steady_file: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    def count(plan: calibrate.Plan, *_: object) -> calibrate.Count:
        counted.append(plan)
        return calibrate.Count({"fit": 41}, {"fit": 0.1})

    monkeypatch.setattr(calibrate, "count_steps", count)
    request = Request("gsno", str(steady_file), knobs={"model.k_s": "16"})
    plan = counted_plan(request, machine)
    assert (plan.spec.steps["fit"], plan.steps_from, plan.changed) == (
        41,
        "home",
        {"model.k_s": 16},
    )
    assert [plan.changed for plan in counted] == [{}]  # the preset was measured, not the variant
    again = counted_plan(replace(request, knobs=None), machine)
    assert (again.spec.steps["fit"], again.changed, len(counted)) == (41, {}, 1)
    assert "41" in machine.home.steps.read_text(encoding="utf-8")
    requested = replace(request, knobs={"train.steps": "3"}, seed=1)
    assert counted_plan(requested, machine).changed == {"steps.fit": 3} and len(counted) == 1


def test_the_smoke_track_keeps_its_default(steady_file: Path, machine: Machine) -> None:
    plan = counted_plan(Request("gsno", str(steady_file), track="smoke"), machine)
    assert plan.spec.steps["fit"] == read_registry().track("smoke").default_steps
    assert not machine.home.steps.exists()
