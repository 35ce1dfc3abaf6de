"""The study of costs: processes of their own, kept readings, and numbers that can be recomputed."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import command
from fake_results import made_curve, made_result

from gsnobench.boards.reproduction.ledger import compare
from gsnobench.boards.reproduction.paper import read_paper
from gsnobench.boards.studies import read_studies
from gsnobench.declare import Limits
from gsnobench.home import Home
from gsnobench.matrix.executors import executor
from gsnobench.runs.machine import Report
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.studies.base import Engine
from gsnobench.studies.catalogue import Cost
from gsnobench.studies.cost.eigenbasis import Preparation
from gsnobench.studies.cost.eigenbasis import _sentence as sentence_of_bases
from gsnobench.studies.cost.measuring import quartiles
from gsnobench.studies.cost.probe import Reading
from gsnobench.studies.cost.solver import Reached, Solved, train_s
from gsnobench.studies.cost.steps import (
    Case,
    Costs,
    _by_row,
    _sentence,
    costs_of,
    subject_of,
)

WORDS = "study cost --datasets darcy --models deeponet --track smoke --batch 2 --rounds 2"


def test_a_study_of_costs_measures_once_and_the_ledger_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = command(capsys, *WORDS.split(), "--home", tmp_path)
    assert first.code == 0 and "measuring deeponet@paper on darcy" in first.err
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "studies").rglob("*.json")}
    readings = [path for path in kept if path.parent.name == "measurements"]
    assert len(readings) == 4  # training and forward, two rounds
    for path in readings:
        (seconds,) = json.loads(path.read_text())["seconds"].values()
        assert len(seconds) == 5 and min(seconds) > 0
    out = tmp_path / "evidence"
    again = command(capsys, *WORDS.split(), "--home", tmp_path, "--out", out, "--json")
    assert again.code == 0
    assert all(path.stat().st_mtime_ns == kept[path] for path in readings), "measured again"
    (entry,) = again.json["numbers"]["measured"]
    plan = make_plan(Request("deeponet", "darcy", track="smoke", preset="paper"))
    module = plan.model.build(plan.model_task, plan.params)
    assert entry["costs"]["parameters"] == sum(own.numel() for own in module.parameters())
    pooled = [json.loads(path.read_text()) for path in readings]
    forward = [own["seconds"]["forward"] for own in pooled if "forward" in own["seconds"]]
    assert entry["costs"]["inference_s_per_batch"] == pytest.approx(np.median(forward))
    (table,) = out.glob("cost/b2-darcy-smoke-*/table.csv")
    with table.open() as file:
        (line,) = csv.DictReader(file)
    assert float(line["parameters"]) == entry["costs"]["parameters"]
    (result,), problems = read_studies(out)
    assert not problems and result.figures
    printed = next(
        own
        for own in read_paper().numbers
        if (own.model, own.metric) == ("deeponet", "train_s_per_epoch") and own.dataset == "airfoil"
    )
    moved = replace(printed, dataset="darcy")
    shown = compare(moved, [], [result])
    assert (shown.verdict, shown.cause) == ("not comparable", "another machine")
    assert shown.ours is not None and shown.ours.value == entry["costs"]["train_s_per_epoch"]


def test_an_epoch_is_the_median_step_times_its_steps_and_phases_count_by_their_steps() -> None:
    plan = make_plan(Request("deeponet", "darcy", track="paper", preset="paper"))
    case = Case("deeponet@paper", plan)
    rounds = [Reading({"fit": [1.0, 2.0, 9.0]}, {}), Reading({"fit": [2.0, 3.0]}, {})]
    forward = [Reading({"forward": [0.5, 0.5]}, {}, mb=3.0)]
    costs = costs_of(case, rounds, forward)
    assert costs.step_s == (2.0, 2.0, 3.0) and costs.forward_mb == 3.0
    steps = -(-plan.task.sizes["train"] // plan.train.batch)
    assert costs.epoch_s == pytest.approx(2.0 * steps)
    two = replace(plan, spec=replace(plan.spec, steps={"first": 30, "second": 10}))
    both = [Reading({"first": [1.0], "second": [5.0]}, {})]
    assert costs_of(Case("toy", two), both, forward).step_s[1] == pytest.approx(2.0)
    assert quartiles([4.0, 1.0, 3.0, 2.0]) == (1.75, 2.5, 3.25)


def epochs(cases: list[tuple[str, dict[str, Any]]]) -> list[Costs]:
    """An epoch of `nodes + frames` seconds for every case."""
    costs = []
    for dataset, changes in cases:
        plan = make_plan(Request("gsno", dataset, track="smoke", preset="paper", **changes))
        seconds = float(plan.task.resolution + plan.task.t_in)
        one = (seconds, seconds, seconds)
        costs.append(Costs(Case("gsno@paper", plan), one, one, seconds, 1.0, 1.0, 1.0, 1.0, 10))
    return costs


def test_epochs_are_shown_over_what_varies() -> None:
    windows = [("nse", {"t_in": t_in}) for t_in in (1, 3, 5)]
    assert _by_row(epochs(windows)) == {"gsno@paper": {1: 451, 3: 453, 5: 455}}
    assert _sentence(epochs(windows)).startswith("An epoch with 5 given frames takes 455")
    assert "Seconds grow as t^" in _sentence(epochs(windows))
    meshes = [("nse", {"resolution": nodes}) for nodes in (450, 972)]
    assert _by_row(epochs(meshes)) == {"gsno@paper": {450: 455, 972: 977}}
    assert _sentence(epochs(meshes)) == (
        "An epoch with 972 mesh nodes takes 977 CPU-s with gsno@paper."
    )


def test_meshes_and_windows_together_lose_none() -> None:
    both = [("nse", {"resolution": n, "t_in": t}) for n in (450, 972) for t in (1, 5)]
    assert _by_row(epochs(both)) == {
        "gsno@paper on nse@1-50": {450: 451, 972: 973},
        "gsno@paper on nse@5-46": {450: 455, 972: 977},
    }
    tasks = [("nse", {}), ("burgers2d", {"t_in": 1}), ("burgers2d", {"t_in": 3})]
    assert _by_row(epochs(tasks)) == {
        "gsno@paper on nse": {5: 455},
        "gsno@paper on burgers2d": {1: 451, 3: 453},
    }


def test_other_rows_meshes_and_knobs_do_not_replace_a_result(tmp_path: Path) -> None:
    limits = Limits(home=tmp_path, device="cpu")
    engine = Engine(Home(tmp_path), executor("local"), limits, Report(), nullcontext)  # type: ignore[arg-type]
    asked = [
        (Cost(datasets="darcy"), {}),
        (Cost(datasets="darcy", models="gsno"), {}),
        (Cost(datasets="darcy", meshes="298"), {}),
        (Cost(datasets="darcy", t_in="1"), {}),
        (Cost(datasets="darcy", errors="0.1"), {}),
        (Cost(datasets="darcy"), {"model.k_s": "16"}),
    ]
    names = [
        subject_of(options, Request("", "", knobs=knobs), engine, "b32") for options, knobs in asked
    ]
    assert names[0] == "b32-darcy-laptop" and len(set(names)) == len(names)


def test_bases_are_amortised_over_a_thousand_epochs() -> None:
    own = Preparation("pipe", 4225, "lanczos", 1000, (0.1, 0.2, 0.3), 0.01, epoch_s=4.0)
    assert own.total_s == pytest.approx(200.0)
    assert own.overhead == pytest.approx(100 * 200 / (1000 * 4.0))
    assert replace(own, epoch_s=0.0).overhead == 0.0
    slow = replace(own, solver="lobpcg", cold_s=(0.3, 0.4, 0.5))
    assert sentence_of_bases([own, slow]) == (
        "pipe pays 200 CPU-s for 1000 bases, 5 % of 1000 epochs; LOBPCG takes 2 times as long."
    )
    darcy = [replace(base, task="darcy", geometries=1) for base in (own, slow)]
    darcy[1] = replace(darcy[1], cold_s=(0.5, 0.6, 0.7))
    assert sentence_of_bases([own, slow, *darcy]) == (
        "pipe pays most: 200 CPU-s for 1000 bases, 5 % of 1000 epochs; LOBPCG takes 2 to 3 times "
        "as long."
    )


def test_time_to_an_error_is_where_validation_first_falls_below_it() -> None:
    """A made curve halves its validation error with every tenth of its steps, six times."""
    result = made_result(steps={"fit": 100})  # 100 CPU-seconds
    assert train_s(result, 0.5) == pytest.approx(10.0)
    assert train_s(result, 0.2) == pytest.approx(30.0)
    assert train_s(result, 1e-6) is None
    steps = {"codec": 100, "fit": 100}
    later = replace(
        result, spec=replace(result.spec, steps=steps), curve=made_curve({"fit": 100}, 10.0)
    )
    first = [{"phase": "codec", "step": 100, "epoch": 1, "valid": 9.0, "loss": 9.0}]
    assert train_s(replace(later, curve=[*first, *later.curve]), 0.5) == pytest.approx(55.0)


def test_a_model_pays_once_its_training_is_cheaper_than_the_solver() -> None:
    coarse = Solved(298, 0.01, (0.09, 0.1, 0.11))
    own = Reached("toy@default", 0.02, 80.0, 5.0, 15.0, 0.05, coarse)
    assert own.total_s == 100.0 and own.pays_after == pytest.approx(2000.0)
    assert replace(own, sample_s=0.2).pays_after is None
    assert replace(own, train_s=None).pays_after is None
    assert replace(own, solver=None).pays_after is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--models gsno", "study cost: needs --datasets"),
        ("--datasets darcy --meshes 0", "meshes: '0' has fewer than one number above 0"),
        ("--datasets darcy --eigenbasis --errors 0.1", "cost: --eigenbasis and --errors are two"),
        (
            "--datasets darcy --errors 0.1",
            "cost: --errors needs one task and at least two",
        ),
        ("--datasets darcy --errors ten --meshes 298,600", "errors: 'ten' is no list of errors"),
        ("--datasets darcy --meshes 299", "data.resolution: darcy has no mesh of 299 nodes"),
        ("--datasets darcy --seeds 0", "--seeds: unknown option"),
    ],
)
def test_a_wrong_option_is_one_line(
    words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = command(capsys, "study", "cost", *words.split(), "--home", tmp_path)
    assert ended.mistake.startswith(f"gsnobench: {line}"), ended.mistake
    assert not list(tmp_path.rglob("*.nc"))
