"""The ablation runs what the model declares, with paired seeds and controls; the ladder arrives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import command
from study_engines import local_engine

from gsnobench.plugins import load
from gsnobench.records import RunResult
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.studies.ablation import ladder_arms, study
from gsnobench.studies.catalogue import Ablation
from gsnobench.studies.changes import parameters, printed_ratios
from gsnobench.studies.planning import Planner

pytestmark = pytest.mark.usefixtures("untracked")


def test_every_declared_part_is_left_out_once_with_a_control_as_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "study ablation --datasets darcy --base compact --track smoke --seeds 3"
    options = ("--train.steps", "1", "--home", tmp_path, "--executor", "local", "--json")
    ended = command(capsys, *words.split(), *options)
    assert ended.code == 0, ended.err
    effects = {entry["change"]: entry for entry in ended.json["numbers"]["effects"]}
    declared = [change.label for change in load("model", "gsno").studies.ablations["compact"]]
    steady = [label for label in declared if label != "MLP over time"]
    controls = [f"{label}, as many parameters" for label in ("R = I", "W = 0")]
    assert set(effects) == {"unchanged", *steady, *controls}
    assert effects["random basis"]["printed_ratio"] == pytest.approx(0.0465 / 0.0083)
    sizes = {run["point"]["change"]: run["costs"]["parameters"] for run in ended.json["runs"]}
    assert sizes["R = I"] < 0.5 * sizes["unchanged"]
    for control in controls:
        assert sizes[control] == pytest.approx(sizes["unchanged"], rel=0.1)
    specs = [RunResult.load(path) for path in (tmp_path / "results").rglob("*.json")]
    seeds = {spec.spec.model_params["basis_seed"] for spec in specs if _is_random(spec)}
    assert seeds == {3}  # the random basis follows the training seed
    assert all(result.changed and result.spec.origin == "study ablation" for result in specs)


def _is_random(result: RunResult) -> bool:
    return result.spec.model_params["basis"] == "random"


@pytest.mark.parametrize("dataset", ["darcy", "nse", "elasticity"])
def test_the_last_rung_is_the_other_preset_to_the_letter(dataset: str, tmp_path: Path) -> None:
    ladder = load("model", "gsno").studies.ladder
    assert ladder is not None
    options = Ablation(track="smoke", seeds="0", datasets=dataset, ladder=True)
    planner = Planner("ablation", options, Request("", "", track="smoke"), local_engine(tmp_path))
    base = planner.request(f"gsno@{ladder.first}", dataset)
    arms = ladder_arms(planner, base, ladder)
    assert len(arms) >= 6
    goal = make_plan(replace(base, preset=ladder.last)).spec
    last = arms[-1].plans[0].spec
    assert last.model_params == goal.model_params and last.train_params == goal.train_params
    keys = [arm.plans[0].spec.key for arm in arms]
    assert len(set(keys)) == len(keys)
    rest = str(arms[-1].point["change"])
    assert rest.startswith("the rest: ") and "beta2" in rest and "k_s" not in rest


def test_changes_without_effect_and_of_other_tasks_are_left_out(tmp_path: Path) -> None:
    options = Ablation(track="smoke", seeds="0,1", datasets="nse,darcy", base="plus")
    asked = study(options, Request("", "", track="smoke"), local_engine(tmp_path))
    labels = [(arm.point["task"], arm.point["change"]) for arm in asked.arms]
    assert ("nse", "no propagator") in labels and ("darcy", "no propagator") not in labels
    steps = {tuple(plan.spec.trained_steps.values()) for arm in asked.arms for plan in arm.plans}
    assert steps == {(20,)}  # those of the track, for all
    assert "same optimiser steps" in asked.budget
    full = next(arm for arm in asked.arms if arm.point["change"] == "unchanged").plans[0]
    assert full.changed == {} and parameters(full) > 0


def test_the_papers_ratios_come_from_its_numbers() -> None:
    changes = load("model", "gsno").studies.ablations["compact"]
    ratios = printed_ratios("gsno", ["darcy", "burgers2d", "nse"], changes)
    assert ratios["burgers2d", "MLP over time"] == pytest.approx(0.0348 / 0.0156)
    assert ratios["darcy", "W = 0"] == pytest.approx(0.0119 / 0.0083)
    assert len(ratios) == 9


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--datasets darcy --model mean", "study: mean declares no ablations"),
        ("--datasets darcy --model mean --ladder", "study: mean declares no ladder"),
        ("--datasets darcy --base plsu", "study: gsno declares no ablations of 'plsu'; did you"),
        ("--datasets darcyy", "darcyy: no such dataset"),
        ("", "study ablation: needs --datasets"),
    ],
)
def test_a_wrong_option_is_one_line(
    words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = command(capsys, "study", "ablation", *words.split(), "--home", tmp_path)
    assert ended.mistake.startswith(f"gsnobench: {line}"), ended.mistake
