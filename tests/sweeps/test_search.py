"""A search on validation alone: its space, trials of workers that die, one-line mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import optuna
import pytest
import torch
from command_line import call_here, the_mistake
from optuna.trial import FixedTrial, TrialState

import gsnobench as gb
from gsnobench.datasets.store import Opened
from gsnobench.home import open_home
from gsnobench.records import RunResult
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.run import run_plan, validate_plan
from gsnobench.sweeps.figures import write_all
from gsnobench.sweeps.sampling import make_sampler
from gsnobench.sweeps.search import (
    Search,
    is_complete,
    make_search,
    open_trials,
    ranked,
    refits,
    search_result,
    work,
)
from gsnobench.sweeps.space import axes_of, grid_points, own_point, suggest
from gsnobench.sweeps.trials import Trials

pytestmark = pytest.mark.usefixtures("untracked")
STEPS = {"train.steps": "3"}


class Knobs(gb.Params):
    modes: int = gb.knob(8, low=4, high=64, log=True)
    depth: int = gb.knob(2, low=1, high=4)
    slope: float = gb.knob(0.1, low=0.01, high=1.0, log=True)
    kernel: Literal["table", "hats"] = gb.knob("table")
    knots: int = gb.knob(8, low=2, high=32, when={"kernel": "hats"})
    bias: bool = gb.knob(True)
    size: int = gb.knob(3, low=1, high=9, search=False)


@pytest.fixture
def plan(steady_file: Path) -> Plan:
    """A plan whose model has the knobs above."""
    gsno = make_plan(Request("gsno", str(steady_file), track="smoke"))
    return replace(gsno, model=replace(gsno.model, params=Knobs), params=Knobs())


def search_on(file: Path, over: str = "model.k_s=4..16,model.k_t=1..2", **how: Any) -> Search:
    request = Request("gsno", str(file), track="smoke", preset="paper", knobs=STEPS)
    settings = {"trials": 4, "name": "s", "refit_top": 2, "refit_seeds": (0, 1)}
    return make_search(request, over.split(","), **{**settings, "sampler": "random", **how})


def run_here(
    search: Search, home: Path, storage: str = ""
) -> tuple[Trials, Machine, list[Mapping[str, Any]]]:
    """A worker in this process."""
    machine = Machine(open_home(home), torch.device("cpu"))
    trials, events = open_trials(search, machine.home, storage), []
    work(search, trials, machine, lambda event, content: events.append({"event": event, **content}))
    return trials, machine, events


# -------------------------------------------------------------------------------------------- space


def test_knobs_become_distributions(plan: Plan) -> None:
    names = "model.bias model.modes model.depth=1..3 model.slope model.kernel train.lr"
    axes = axes_of(names.split(), plan, {})
    assert [axis.distribution() for axis in axes] == [
        optuna.distributions.IntDistribution(4, 64, log=True),
        optuna.distributions.IntDistribution(1, 3),
        optuna.distributions.FloatDistribution(0.01, 1.0, log=True),
        optuna.distributions.CategoricalDistribution(("table", "hats")),
        optuna.distributions.CategoricalDistribution((False, True)),
        optuna.distributions.FloatDistribution(1e-4, 3e-2, log=True),  # not all that is allowed
    ]
    assert axes[0].grid() == (4, 8, 16, 32, 64)
    assert axes_of(["model.modes=4:6:9"], plan, {})[0].grid() == (4, 6, 9)
    # no range of its own to search, but a person may list values
    assert axes_of(["train.warmup=0:0.1"], plan, {})[0].grid() == (0.0, 0.1)


def test_a_conditional_knob_is_searched_only_where_it_matters(plan: Plan) -> None:
    axes = axes_of(["model.knots=2:4", "model.kernel"], plan, {})
    table = FixedTrial({"model.kernel": "table", "model.knots": 4})
    assert dict(suggest(table, axes, plan)) == {"model.kernel": "table"}
    hats = {"model.kernel": "hats", "model.knots": 4}
    assert dict(suggest(FixedTrial(hats), axes, plan)) == hats
    assert len(grid_points(axes, plan)) == 3
    assert own_point(axes, plan) == {"model.kernel": "table"}
    with pytest.raises(gb.ParamError, match="matters only where model.kernel is hats"):
        axes_of(["model.knots"], plan, {})


def test_a_condition_must_name_a_knob_above_it() -> None:
    class Wrong(gb.Params):
        knots: int = gb.knob(8, low=2, high=32, when={"kernel": "hats"})
        kernel: Literal["table", "hats"] = gb.knob("table")

    with pytest.raises(gb.ParamError, match="declare 'kernel' first"):
        Wrong.knobs()


def test_the_central_knobs_are_the_default(
    steady_file: Path, unsteady_file: Path, plan: Plan
) -> None:
    gsno = make_plan(Request("gsno", str(steady_file), track="smoke"))
    # a single frame has no temporal modes
    assert [axis.name for axis in axes_of([], gsno, {})] == ["model.k_s"]
    moving = make_plan(Request("gsno", str(unsteady_file), track="smoke"))
    assert [axis.name for axis in axes_of([], moving, {})] == ["model.k_s", "model.k_t"]
    # a model that declares none
    names = [axis.name for axis in axes_of([], plan, {})]
    assert names[:3] == ["model.modes", "model.depth", "model.slope"]


# ------------------------------------------------------------------------------------- what is seen


def test_the_test_split_is_closed_until_the_winner_is_known_and_is_scored_without_training(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    split = Opened.split
    monkeypatch.setattr(
        Opened, "split", lambda self, name: opened.append(name) or split(self, name)
    )
    search = search_on(steady_file)
    trials, machine, _ = run_here(search, tmp_path)
    assert is_complete(search, trials)
    assert set(opened) == {"train", "valid"}
    monkeypatch.setattr(
        "gsnobench.training.fit._step", lambda *_: pytest.fail("the winner was trained again")
    )
    result = search_result(search, trials, machine)
    assert "test" in opened
    assert result["status"] == "done"
    keys = {path.parent.name for path in tmp_path.glob("runs/*/result.json")}
    assert keys == set(result["winner"]["keys"])  # nobody else was tested
    assert len(keys) == 2


def test_refits_choose_on_the_mean_of_validation_over_seeds(
    steady_file: Path, tmp_path: Path
) -> None:
    search = search_on(steady_file, trials=5)
    trials, machine, _ = run_here(search, tmp_path)
    result = search_result(search, trials, machine)
    winner, table = result["winner"], result["refits"]
    best = [dict(point) for point, _ in ranked(search, trials)[:2]]
    assert [row["point"] for row in table] == best
    assert winner["mean"] == min(row["mean"] for row in table)
    (refit,) = [refit for refit in refits(search, trials) if dict(refit.point) == winner["point"]]
    for seed, run in refit.plans.items():
        stored = run_plan(run, machine)
        error = stored.scores["valid"]["headline"]["rel_l2"]
        assert error == pytest.approx(winner["seeds"][seed], rel=1e-6)
        assert stored.headline == winner["test"][seed]
    files = write_all(search.folder(machine.home), search, trials, result)
    names = {path.name for path in files}
    assert {"trials.csv", "refits.csv", "over-model.k_s.png", "contour.png"} <= names
    assert all(path.stat().st_size > 0 for path in files)


def test_what_was_validated_is_executed_to_the_same_result_as_a_plain_run(
    steady_file: Path, tmp_path: Path
) -> None:
    run = make_plan(Request("gsno", str(steady_file), track="smoke", knobs=STEPS))
    two_steps, one_step = (
        Machine(open_home(tmp_path / name), torch.device("cpu")) for name in ("two", "one")
    )
    tried = validate_plan(run, two_steps)
    assert set(tried.scores) == {"valid"}
    assert not list((tmp_path / "two").glob("results/**/*.json"))  # a trial is no evidence
    whole = run_plan(run, one_step)
    assert run_plan(run, two_steps).scores == whole.scores
    assert tried.scores["valid"] == whole.scores["valid"]
    assert validate_plan(run, two_steps).scores == whole.scores


def test_a_repeated_point_is_not_trained_again(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(search_on(steady_file, "model.k_s=4:8", sampler="grid"), tmp_path)
    monkeypatch.setattr("gsnobench.training.fit._step", lambda *_: pytest.fail("trained twice"))
    other = search_on(steady_file, "model.k_s=4:8", name="other", trials=6)
    trials, _, events = run_here(other, tmp_path)
    assert len(trials.counted()) == 6
    assert len(ranked(other, trials)) <= 2
    assert sum("same" in event for event in events) >= 4


def test_a_point_that_the_model_refuses_counts_and_the_sweep_goes_on(
    steady_file: Path, tmp_path: Path
) -> None:
    search = search_on(
        steady_file, "model.k_s=4:250", sampler="grid", refit_top=1, refit_seeds=(0,)
    )
    trials, machine, events = run_here(search, tmp_path)
    result = search_result(search, trials, machine)
    assert (result["trials"]["done"], result["trials"]["failed"]) == (1, 1)
    reasons = [event.get("reason", "") for event in events]
    assert any("250 modes on a mesh of 121 nodes" in reason for reason in reasons)
    assert result["winner"]["point"] == {"model.k_s": 4}


def test_a_pruner_ends_poor_trials_early(steady_file: Path, tmp_path: Path) -> None:
    # Optuna's median needs five trials before it gives one up
    rates = "train.lr=0.001:0.002:0.003:0.004:0.005:0.3"
    search = search_on(
        steady_file, rates, pruner="median", trials=6, sampler="grid", refit_top=1, refit_seeds=(0,)
    )
    trials, machine, _ = run_here(search, tmp_path)
    (poor,) = [trial for trial in trials.counted() if trial.params["train.lr"] == 0.3]
    assert (poor.state, poor.user_attrs["status"]) == (TrialState.PRUNED, "pruned")
    assert "not among the better trials" in poor.user_attrs["reason"]
    result = search_result(search, trials, machine)
    assert (result["trials"]["done"], result["trials"]["pruned"]) == (5, 1)
    assert result["winner"]["point"]["train.lr"] < 0.3


def test_two_goals_end_in_a_pareto_front(steady_file: Path, tmp_path: Path) -> None:
    search = search_on(steady_file, minimise="error,parameters", trials=5)
    trials, machine, _ = run_here(search, tmp_path)
    result = search_result(search, trials, machine)
    front = [point["values"] for point in result["pareto"]]
    assert front == sorted(front)
    parameters = [count for _, count in front]
    assert parameters == sorted(parameters, reverse=True)
    assert "winner" not in result and refits(search, trials) == []
    assert not list(tmp_path.glob("runs/*/result.json"))
    files = write_all(search.folder(machine.home), search, trials, result)
    assert "pareto.png" in {path.name for path in files}


# ------------------------------------------------------------------------------------------- counts


def test_the_point_of_a_dead_worker_is_tried_again_and_given_up_after_three(
    steady_file: Path, tmp_path: Path
) -> None:
    search = search_on(steady_file, trials=1)
    home = open_home(tmp_path)
    trials = open_trials(search, home, "")
    trials.study.sampler = optuna.samplers.RandomSampler(seed=0)
    points = []
    for _ in range(4):
        opened = trials.ask(1)
        assert opened is not None
        points.append(dict(suggest(opened.trial, search.axes, search.plan({}))))
        opened.signs.close()  # as the kernel does when a process dies
    assert points[0] == points[1] == points[2] != points[3]
    states = [trial.state for trial in trials.all()]
    assert states == [TrialState.FAIL] * 3 + [TrialState.RUNNING]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_a_worker_that_dies_changes_no_point_of_the_sweep(
    sampler: str, steady_file: Path, tmp_path: Path
) -> None:
    search = search_on(steady_file, trials=6, sampler=sampler)

    def points(home: Path, deaths: tuple[int, ...]) -> list[dict[str, Any]]:
        """Of a worker that dies as often in its trials, before or after it knows the point."""
        trials, begun = open_trials(search, open_home(home), ""), 0
        trials.study.sampler = make_sampler(search.sampler, 0)
        while (opened := trials.ask(6)) is not None:
            begun += 1
            if begun not in deaths or begun % 2:
                point = suggest(opened.trial, search.axes, search.plan({}))
            if begun in deaths:
                opened.signs.close()
                trials = open_trials(search, open_home(home), "")
                trials.study.sampler = make_sampler(search.sampler, 0)
                continue
            trials.tell(opened, [1.0 / point["model.k_s"]], {})
        return [dict(trial.params) for trial in trials.counted()]

    whole = points(tmp_path / "whole", ())
    assert points(tmp_path / "cut", (1, 2, 4, 7)) == whole
    assert len({tuple(point.items()) for point in whole}) > 3


def test_hosts_that_share_only_a_database_run_no_trial_too_many(
    steady_file: Path, tmp_path: Path
) -> None:
    search, url = search_on(steady_file, trials=2), f"sqlite:///{tmp_path}/study.db"
    here, there = (open_trials(search, open_home(tmp_path / name), url) for name in ("a", "b"))
    assert here.home != there.home
    first, second = here.ask(2), there.ask(2)
    assert first is not None and second is not None
    assert here._open_trial(2) is None  # as if it had looked before the other asked
    there.tell(second, [0.5], {})
    here.tell(first, [0.4], {})
    assert there.ask(2) is None
    assert [trial.state.name for trial in here.all()] == ["COMPLETE", "COMPLETE", "FAIL"]


def test_a_worker_on_another_host_is_missed_by_its_heartbeat(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsnobench.sweeps.trials.HEARTBEAT_S", 1)
    monkeypatch.setattr("gsnobench.sweeps.trials.GRACE_S", 1)
    search, url = search_on(steady_file, trials=1), f"sqlite:///{tmp_path}/study.db"
    here, there = (open_trials(search, open_home(tmp_path / name), url) for name in ("a", "b"))
    opened = here.ask(1)
    assert opened is not None
    point = dict(suggest(opened.trial, search.axes, search.plan({})))
    opened.signs.close()  # no heartbeat, and its lock is in a home that the other does not see
    again = there.ask(1)
    assert again is not None
    assert dict(suggest(again.trial, search.axes, search.plan({}))) == point
    there.tell(again, [0.5], {})
    assert [trial.state.name for trial in there.all()] == ["FAIL", "COMPLETE"]


def test_a_line_torn_by_a_power_cut_does_not_cost_the_study(
    steady_file: Path, tmp_path: Path
) -> None:
    search = search_on(steady_file, trials=1, refit_seeds=(0,))
    run_here(search, tmp_path)
    journal = tmp_path / "studies" / "s" / "journal.log"
    with journal.open("ab") as file:
        file.write(b'{"op_code": 4, "work')
    trials, _, _ = run_here(replace(search, trials=2), tmp_path)
    assert len(trials.counted()) == 2


def command(file: Path, home: Path, trials: int) -> list[str]:
    words = f"sweep --model gsno --preset paper --dataset {file} --track smoke --name s"
    words += f" --over model.k_s=4..32,model.k_t=1..4 --trials {trials} --workers 2 --train.steps 3"
    words += f" --refit-top 1 --refit-seeds 0 --home {home} --json"
    return [sys.executable, "-m", "gsnobench", *words.split()]


def kill_one(home: Path, after: int, process: subprocess.Popen[str]) -> None:
    """SIGKILL to a worker that has just begun a trial, once so many trials were begun."""
    while process.poll() is None:
        for path in home.glob("studies/s/running/*.lock"):
            with suppress(FileNotFoundError, IndexError, ValueError):
                if int(path.stem) >= after:
                    os.kill(int(path.read_text().split()[1]), signal.SIGKILL)
                    return
        time.sleep(0.002)
    pytest.fail("the sweep ended before a worker could be killed")


def test_a_killed_worker_loses_and_doubles_nothing_and_the_command_goes_on(
    steady_file: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        command(steady_file, tmp_path, 5), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    kill_one(tmp_path, 2, process)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    first = json.loads(out)
    assert first["trials"]["answered"] == first["trials"]["done"] == 5
    assert "a worker died" in errors
    ended = subprocess.run(
        command(steady_file, tmp_path, 6), capture_output=True, text=True, check=True
    )
    second = json.loads(ended.stdout)
    assert second["trials"]["done"] == 6
    assert second["best"]["valid"] <= first["best"]["valid"]
    storage = open_trials(
        search_on(steady_file, "model.k_s=4..32,model.k_t=1..4"), open_home(tmp_path), ""
    )
    states = [trial.state.name for trial in storage.all()]
    assert (states.count("COMPLETE"), states.count("FAIL"), len(states)) == (6, 1, 7)
    (again,) = [trial for trial in storage.all() if "after" in trial.user_attrs]
    assert again.state == TrialState.COMPLETE


# ----------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--over model.k_z", "did you mean 'model.k_"),
        ("--over model.layers", "list values, as in model.layers=1:2"),
        ("--over train.steps", "is the budget"),
        ("--over data.psi", "would change the question"),
        ("--over model.k_s=1..8", "out of range"),
        ("--over model.k_s=64..8", "is no range"),
        ("--over model.k_s --model.k_s 8", "both fixed"),
        ("--over model.k_s,model.k_s", "named twice"),
        ("--sampler best", "sampler: 'best' is unknown"),
        ("--pruner hard", "pruner: 'hard' is unknown"),
        ("--minimise error,beauty", "minimise: 'beauty' is unknown"),
        ("--minimise error,seconds --pruner median", "cannot prune"),
        ("--name ../x", "cannot be a folder"),
        ("--refit-seeds a", "not a whole number"),
        (
            "--storage postgresql+psycopg2x://u:secret@127.0.0.1:1/d",
            "storage postgresql+psycopg2x://127.0.0.1:1/d: cannot be used",
        ),
        ("--storage mysql://u:secret@127.0.0.1/d", "storage mysql://127.0.0.1/d: cannot be used"),
        (
            "--storage sqlite:////nowhere/at/all.db",
            "storage sqlite:////nowhere/at/all.db: cannot be used",
        ),
    ],
)
def test_mistakes_are_one_line(
    words: str, part: str, steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = f"--model gsno --dataset {steady_file} --track smoke --home {tmp_path}"
    line = the_mistake(call_here(capsys, "sweep", *fixed.split(), *words.split()))
    assert part in line
    assert "secret" not in line


def test_the_name_of_another_search_is_refused(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_trials(search_on(steady_file), open_home(tmp_path), "")
    fixed = f"--dataset {steady_file} --track smoke --home {tmp_path} --name s"
    line = the_mistake(call_here(capsys, "sweep", "--model", "deeponet", *fixed.split()))
    assert "sweep s: holds another search (" in line
    assert "model" in line


def test_a_search_without_refits_never_opens_the_test_split(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the test split was opened")

    monkeypatch.setattr("gsnobench.sweeps.search.run_plan", refuse)
    search = search_on(steady_file, trials=3, refit_top=0)
    trials, machine, _ = run_here(search, tmp_path)
    result = search_result(search, trials, machine)
    assert is_complete(search, trials) and result["status"] == "done"
    assert len(result["tried"]) == 3 and "winner" not in result and "refits" not in result
    assert result["best"]["valid"] == min(tried["valid"] for tried in result["tried"])
    assert not list((tmp_path / "runs").glob("*/result.json"))


def test_trials_of_equal_cost_have_steps_of_their_own(steady_file: Path, tmp_path: Path) -> None:
    request = Request("gsno", str(steady_file), track="smoke", preset="paper")
    how = {"name": "s", "sampler": "grid", "trials": 2, "refit_top": 0, "trial_cpu_s": 0.5}
    search = make_search(request, ["train.batch=2:16"], **how)
    trials, machine, _ = run_here(search, tmp_path)
    tried = search_result(search, trials, machine)["tried"]
    small, large = sorted(tried, key=lambda trial: trial["point"]["train.batch"])
    assert small["steps"]["fit"] > large["steps"]["fit"]
    with pytest.raises(gb.ParamError, match="add --refit-top 0"):
        make_search(request, ["train.batch=2:16"], **{**how, "refit_top": 1})


def test_a_winner_is_a_variant_that_names_its_search(steady_file: Path, tmp_path: Path) -> None:
    search = search_on(steady_file, over="model.k_s=4:6", sampler="grid", trials=2, refit_top=1)
    trials, machine, _ = run_here(search, tmp_path)
    search_result(search, trials, machine)
    results = [RunResult.load(path) for path in (tmp_path / "results").rglob("*.json")]
    assert results and all(result.spec.origin == "tuned, 2 trials" for result in results)
    assert all("model.k_s" in result.changed for result in results)


def test_a_search_goes_on_in_another_home_from_its_study_file(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"sweep --model gsno --preset paper --dataset {steady_file} --track smoke --json"
    words += " --over model.k_s=4:6:8 --sampler grid --train.steps 3 --refit-top 0 --name s"
    study = tmp_path / "study.json"

    def sweep(home: str, trials: int) -> dict[str, Any]:
        command = f"{words} --trials {trials} --study {study} --home {tmp_path / home}"
        ended = call_here(capsys, *command.split())
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout))

    first = sweep("here", 2)
    on_file = json.loads(study.read_text())
    assert len(on_file["trials"]) == 2 and "worker" not in study.read_text()
    second = sweep("there", 3)
    assert second["tried"][:2] == first["tried"] and len(second["tried"]) == 3
    assert len(list((tmp_path / "there" / "runs").glob("*/trial.json"))) == 1
    assert len(json.loads(study.read_text())["trials"]) == 3
    other = f"{words} --trials 2 --study {study} --home {tmp_path / 'third'} --seed 1"
    assert "holds the trials of another search (seed differ" in the_mistake(
        call_here(capsys, *other.split())
    )
    study.write_text(study.read_text()[:-300])
    assert "expected what `sweep --study` wrote" in the_mistake(call_here(capsys, *other.split()))
