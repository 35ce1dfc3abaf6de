"""RunSpec -> RunResult: the run folder, its lock, its observers, and every way a run can end."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gsnobench.datasets.store import open_file
from gsnobench.datasets.task_json import task_to_json
from gsnobench.errors import GsnobenchError, Prune
from gsnobench.files import atomic, lock, write_text
from gsnobench.home import Home, open_home
from gsnobench.plugins import load_observers, notify, provenance
from gsnobench.records import RunResult, RunSpec, evidence_path
from gsnobench.runs.cases import PICTURE
from gsnobench.runs.costs import costs, describe_environment
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import Plan, Request, make_plan
from gsnobench.runs.stages import (
    data_path,
    prepare,
    save_weights,
    score,
    score_on_validation,
    thinned,
    train,
)
from gsnobench.training.checkpoint import drop_checkpoint, has_checkpoint


def run(
    model: str,
    dataset: str,
    *,
    home: Path | None = None,
    device: str = "auto",
    force: bool = False,
    **wanted: Any,
) -> RunResult:
    """Train and score one model on one task; a finished run is shown, an interrupted one resumed.
    See `plan.Request`.
    """
    plan = make_plan(Request(model=model, dataset=dataset, **wanted))
    return run_plan(plan, Machine(open_home(home), choose_device(device)), force=force)


def finished_result(plan: Plan, home: Home) -> RunResult | None:
    """The stored result of this very question, if there is one."""
    path = home.run_folder(plan.spec.key) / "result.json"
    return RunResult.load(path) if path.exists() else None


def trial_result(plan: Plan, home: Home) -> RunResult | None:
    """What a search knows of this question, if it has asked it: scores on validation alone."""
    path = home.run_folder(plan.spec.key) / "trial.json"
    return RunResult.load(path) if path.exists() else None


def validate_plan(plan: Plan, machine: Machine) -> RunResult:
    """Train, and score on validation alone; `execute` of the same plan then scores the rest without
    training again.
    """
    folder = machine.home.run_folder(plan.spec.key)
    with lock(machine.home.runs / f".{plan.spec.short}.lock"):
        for stored in (finished_result(plan, machine.home), trial_result(plan, machine.home)):
            # pruned: another search may want the end
            if stored is not None and stored.status not in ("failed", "pruned"):
                return stored
        observed = Observed(plan, machine, folder)
        result = _attempt(plan, machine, folder, observed, may_test=False)
        result.save(folder / "trial.json")
        observed.finished(result)
        return result


def run_plan(plan: Plan, machine: Machine, *, force: bool = False) -> RunResult:
    """Run the plan in its folder, one process at a time; the result is written before anybody is
    told.
    """
    folder = machine.home.run_folder(plan.spec.key)
    with lock(machine.home.runs / f".{plan.spec.short}.lock"):
        stored = finished_result(plan, machine.home)
        if stored is not None and stored.status != "failed" and not force:
            return stored
        if (force or stored is not None) and folder.exists():
            shutil.rmtree(folder)
        observed = Observed(plan, machine, folder)
        result = _attempt(plan, machine, folder, observed, may_test=True)
        keep_result(result, machine.home)
        drop_checkpoint(folder)
        observed.finished(result)
        return result


def _attempt(
    plan: Plan, machine: Machine, folder: Path, observed: Observed, *, may_test: bool
) -> RunResult:
    write_text(folder / "spec.json", json.dumps(plan.spec.to_dict(), indent=1) + "\n")
    write_text(folder / "task.json", task_to_json(plan.task) + "\n")
    try:
        return _answer(plan, machine, folder, observed, may_test=may_test)
    except GsnobenchError:
        if not has_checkpoint(folder):  # nothing was done that could be resumed
            shutil.rmtree(folder)
        raise


def keep_result(result: RunResult, home: Home) -> None:
    """Write a result to the evidence of a home, its picture beside it, and to the folder of its
    run.
    """
    folder = home.run_folder(result.spec.key)
    if result.status != "pruned":
        path = evidence_path(home.results, result.spec)
        if (folder / PICTURE).exists():
            with atomic(path.with_suffix(".png")) as part:
                shutil.copyfile(folder / PICTURE, part)
        result.save(path)
    result.save(folder / "result.json")


def record_failure(spec: RunSpec, home: Home, reason: str) -> RunResult:
    """A failed run that could not say so itself."""
    result = RunResult(spec, "failed", reason.splitlines()[0][:300])
    keep_result(result, home)
    return result


class Observed:
    """The observers of one run; their troubles become warnings, only `gb.Prune` gets through."""

    def __init__(self, plan: Plan, machine: Machine, folder: Path) -> None:
        self.plan, self.machine, self.folder = plan, machine, folder
        self.observers, problems = load_observers()
        self.has_started = False
        self._warn(problems)

    def started(self) -> None:
        """The run is about to train: its data and geometry are in order."""
        self.has_started = True
        tags = _tags(self.plan, self.machine)
        self._notify("gsnobench_run_started", spec=self.plan.spec, folder=self.folder, tags=tags)

    def epoch(self, phase: str, epoch: int, scores: Mapping[str, float]) -> None:
        """An epoch ended."""
        self._notify(
            "gsnobench_epoch_ended", spec=self.plan.spec, phase=phase, epoch=epoch, scores=scores
        )
        if self.machine.watch is not None:
            self.machine.watch(phase, epoch, scores)

    def finished(self, result: RunResult) -> None:
        """The result is final and written."""
        if not self.has_started:
            self.started()
        self._notify("gsnobench_run_finished", result=result, folder=self.folder)

    def _notify(self, hook: str, **details: Any) -> None:
        self._warn(notify(self.observers, hook, **details))

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.machine.report.warn(problem)


def is_interrupted(plan: Plan, home: Home) -> bool:
    """Whether an earlier attempt at this run left something to go on from."""
    folder = home.run_folder(plan.spec.key)
    return has_checkpoint(folder) or (
        (folder / "spec.json").exists() and not (folder / "result.json").exists()
    )


def _tags(plan: Plan, machine: Machine) -> dict[str, str]:
    packages = {"model": provenance("model", plan.model.name)}
    if plan.dataset is not None:
        packages["dataset"] = provenance("dataset", plan.dataset.name)
    texts = {
        f"{kind}_package": f"{one['package']} {one['version']}" for kind, one in packages.items()
    }
    return {**texts, **(machine.tags or {})}


def _answer(
    plan: Plan, machine: Machine, folder: Path, observed: Observed, *, may_test: bool
) -> RunResult:
    """The result in every case: declined, pruned, failed, diverged or done. A user's mistake is
    raised, not recorded.
    """
    environment = describe_environment(machine.device)
    if plan.declined is not None:
        return RunResult(plan.spec, "declined", plan.declined, environment=environment)
    try:
        result = _train_and_score(plan, machine, folder, observed, may_test=may_test)
        return replace(result, environment=environment)
    except GsnobenchError:
        raise
    except Prune as pruned:
        return RunResult(plan.spec, "pruned", str(pruned), environment=environment)
    except Exception as error:
        write_text(folder / "traceback.txt", traceback.format_exc())
        reason = (
            "memory"
            if isinstance(error, (MemoryError, torch.OutOfMemoryError))
            else f"{type(error).__name__}: {error}"
        )
        return RunResult(plan.spec, "failed", reason.splitlines()[0][:300], environment=environment)


def _train_and_score(
    plan: Plan, machine: Machine, folder: Path, observed: Observed, *, may_test: bool
) -> RunResult:
    with open_file(data_path(plan, machine), plan.task) as opened:
        machine.report.stage("preparing geometry")
        setup = prepare(plan, machine, opened.split("train"))
        observed.started()
        outcome = train(plan, machine, setup, opened, folder=folder, on_epoch=observed.epoch)
        if outcome.reason:
            spent = costs(setup.module, setup.prepare_cpu_s, outcome.progress, machine.device)
            result = RunResult(
                plan.spec,
                "diverged",
                outcome.reason,
                curve=thinned(outcome.progress.curve),
                costs=spent,
            )
        else:
            save_weights(folder, setup)
            if may_test:
                result = score(plan, machine, setup, opened, folder, outcome)
            else:
                result = score_on_validation(plan, machine, setup, opened, outcome)
        origin = "file" if plan.dataset is None else "generated"
        return replace(
            result,
            data={"hash": opened.content_hash, "fingerprint": opened.fingerprint, "origin": origin},
        )
