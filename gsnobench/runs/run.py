"""RunSpec -> RunResult: a run in its folder with its lock, observers and every way it can end."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gsnobench.datasets.task_json import task_to_json
from gsnobench.errors import DataError, GsnobenchError, Prune, describe_error
from gsnobench.files import atomic, lock, write_text
from gsnobench.home import Home
from gsnobench.params import Knob
from gsnobench.plugins import load_observers, notify, provenance
from gsnobench.reading import InputFile, guarded, read_json
from gsnobench.records import RunResult, RunSpec, evidence_path
from gsnobench.registry import read_registry, remember_file
from gsnobench.runs.costs import describe_environment
from gsnobench.runs.machine import Machine, threads_for, with_threads
from gsnobench.runs.plan import Plan, plan_of_spec
from gsnobench.runs.source import source_digest
from gsnobench.runs.stages import Run

LONGEST_REASON = 300  # letters


def run_plan(plan: Plan, machine: Machine, *, force: bool = False) -> RunResult:
    """Run a plan in its folder, one process at a time; observers see the result once it is kept."""
    run = Run.at_home(plan, machine)
    with lock(run.folder.lock):
        stored = None if force else finished_result(plan, machine.home)  # it may be damaged
        if stored is not None and stored.status != "failed":
            _say_if_code_changed(stored, plan, machine)
            _tell(run, stored)
            return stored
        if (force or stored is not None) and run.folder.path.exists():
            shutil.rmtree(run.folder.path)
        observers = Observers(run)
        result = _run_in_folder(run, observers, may_test=True)
        write_text(run.folder.untold, "")
        keep_result(result, machine.home)
        run.folder.checkpoint.unlink(missing_ok=True)
        _tell(run, result, observers)
        return result


def validate_plan(plan: Plan, machine: Machine) -> RunResult:
    """Train a plan and score it on validation alone.

    `run_plan` of the same plan later scores the other splits without training again.
    """
    run = Run.at_home(plan, machine)
    with lock(run.folder.lock):
        for stored in (finished_result(plan, machine.home), trial_result(plan, machine.home)):
            # a pruned run is trained again: another search may need its end
            if stored is not None and stored.status not in ("failed", "pruned"):
                _tell(run, stored)
                return stored
        observers = Observers(run)
        result = _run_in_folder(run, observers, may_test=False)
        write_text(run.folder.untold, "")
        result.save(run.folder.trial)
        _tell(run, result, observers)
        return result


# ------------------------------------------------------------------------------- what a home holds


def finished_result(plan: Plan, home: Home) -> RunResult | None:
    """The stored result of this plan, if there is one."""
    return _stored(home.run_folder(plan.spec.key).result, "--force repeats the run")


def trial_result(plan: Plan, home: Home) -> RunResult | None:
    """The result that a search stored for this plan: scores on validation alone."""
    path = home.run_folder(plan.spec.key).trial
    return _stored(path, "remove it, and the point is trained again")


def _stored(path: Path, remedy: str) -> RunResult | None:
    try:
        return RunResult.load(path) if path.exists() else None
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from error


def is_interrupted(plan: Plan, home: Home) -> bool:
    """Whether an earlier attempt at this run left something to continue from."""
    folder = home.run_folder(plan.spec.key)
    return folder.checkpoint.exists() or (folder.spec.exists() and not folder.result.exists())


def keep_result(result: RunResult, home: Home) -> None:
    """Write a result to the evidence of a home, with its picture, and to the folder of its run."""
    folder = home.run_folder(result.spec.key)
    if result.status != "pruned":
        path = evidence_path(home.results, result.spec)
        if folder.picture.exists():
            with atomic(path.with_suffix(".png")) as part:
                shutil.copyfile(folder.picture, part)
        result.save(path)
    result.save(folder.result)


def record_failure(spec: RunSpec, home: Home, reason: str) -> RunResult:
    """Keep a failed result for a run whose process could not write one."""
    result = RunResult(spec, "failed", _first_line(reason))
    with suppress(GsnobenchError):  # a spec of other plugins than those installed here
        result = stamped(result, plan_of_spec(spec, read_registry(home=home)))
    keep_result(result, home)
    return result


# ---------------------------------------------------------------------------------------- observers


class Observers:
    """The observers of one run; their errors become warnings, only `gb.Prune` gets through."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.observers, problems = load_observers()
        self.has_started = False
        self._warn(problems)

    def started(self) -> None:
        """The run is about to train: its data and geometry are in order."""
        self.has_started = True
        spec, folder = self.run.plan.spec, self.run.folder.path
        self._notify("gsnobench_run_started", spec=spec, folder=folder, tags=_tags(self.run))

    def epoch(self, phase: str, epoch: int, scores: Mapping[str, float]) -> None:
        """An epoch ended."""
        spec, watch = self.run.plan.spec, self.run.machine.watch
        self._notify("gsnobench_epoch_ended", spec=spec, phase=phase, epoch=epoch, scores=scores)
        if watch is not None:
            watch(phase, epoch, scores)

    def finished(self, result: RunResult) -> None:
        """The result is final and written."""
        if not self.has_started:
            self.started()
        self._notify("gsnobench_run_finished", result=result, folder=self.run.folder.path)

    def _notify(self, hook: str, **details: Any) -> None:
        self._warn(notify(self.observers, hook, **details))

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.run.machine.report.warn(problem)


def _tell(run: Run, result: RunResult, observers: Observers | None = None) -> None:
    """Tell observers of a kept result, once: also of one whose process was killed before that."""
    if not run.folder.untold.exists():
        return
    if observers is None:
        observers = Observers(run)
        observers.has_started = True  # in the process that was killed
    observers.finished(result)
    run.folder.untold.unlink(missing_ok=True)


def _tags(run: Run) -> dict[str, str]:
    plan = run.plan
    packages = {"model": provenance("model", plan.model.name)}
    if plan.dataset is not None:
        packages["dataset"] = provenance("dataset", plan.dataset.name)
    texts = {
        f"{kind}_package": f"{origin['package']} {origin['version']}"
        for kind, origin in packages.items()
    }
    return {**texts, **(run.machine.tags or {})}


# ------------------------------------------------------------------------------------- ways to end


def _run_in_folder(run: Run, observers: Observers, *, may_test: bool) -> RunResult:
    """Write what is requested, then run; a user's mistake leaves no folder behind."""
    folder, threads = run.folder, _threads(run)
    if run.plan.file is not None:
        remember_file(run.plan.spec.source, run.plan.file, run.machine.home)
    for value in run.plan.task.data.values():
        if isinstance(value, InputFile) and value.path is not None:
            remember_file(value, value.path, run.machine.home)
    write_text(folder.spec, json.dumps(run.plan.spec.to_dict(), indent=1) + "\n")
    write_text(folder.task, task_to_json(run.plan.task) + "\n")
    write_text(folder.machine, json.dumps({"threads": threads}) + "\n")
    try:
        with with_threads(threads):
            return stamped(_result_in_any_case(run, observers, may_test=may_test), run.plan)
    except GsnobenchError:
        if not folder.checkpoint.exists():  # nothing was done that could be resumed
            shutil.rmtree(folder.path)
        raise


def _threads(run: Run) -> int:
    """Those that an interrupted run began with, else as requested, else by the size of the work."""
    if run.folder.checkpoint.exists() and run.folder.machine.exists():
        return _stored_threads(run.folder.machine)
    return run.machine.threads or threads_for(run.plan.task.resolution * run.plan.train.batch)


def _stored_threads(path: Path) -> int:
    remedy = "the threads of an interrupted run; --force repeats the run"
    stored = read_json(path, expected=remedy)
    with guarded(path, expected=remedy):
        return int(Knob("threads", int, 1, "", low=1, high=4096).check(stored["threads"]))


def stamped(result: RunResult, plan: Plan) -> RunResult:
    """The result with what a board must know of its plan: changed settings, steps, code."""
    return replace(
        result, changed=plan.changed, steps_from=plan.steps_from, code=_code_digests(plan)
    )


def _code_digests(plan: Plan) -> dict[str, str]:
    digests = {"model": source_digest("model", plan.model.name)}
    if plan.dataset is not None:
        digests["dataset"] = source_digest("dataset", plan.dataset.name)
    return digests


def _say_if_code_changed(stored: RunResult, plan: Plan, machine: Machine) -> None:
    """A stored result of the same revision may be that of other code."""
    here = _code_digests(plan)
    names = {"model": plan.spec.model, "dataset": plan.spec.task}
    for kind, digest in stored.code.items():
        if here.get(kind, digest) != digest:
            machine.report.warn(
                f"{names[kind]}: its code has changed since this result was computed; --force "
                "computes it again, a new `revision` makes all old results stale"
            )


def _result_in_any_case(run: Run, observers: Observers, *, may_test: bool) -> RunResult:
    """Declined, pruned, failed, diverged or done; a user's mistake is raised, not recorded."""
    spec, declined = run.plan.spec, run.plan.declined
    environment = describe_environment(run.machine.device)
    if declined is not None:
        return RunResult(spec, "declined", declined, environment=environment)
    try:
        result = _train_and_score(run, observers, may_test=may_test)
        return replace(result, environment=environment)
    except GsnobenchError:
        raise
    except Prune as pruned:
        return RunResult(spec, "pruned", str(pruned), environment=environment)
    except Exception as error:
        write_text(run.folder.traceback, traceback.format_exc())
        is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        reason = "memory" if is_memory else _first_line(describe_error(error))
        return RunResult(spec, "failed", reason, environment=environment)


def _train_and_score(run: Run, observers: Observers, *, may_test: bool) -> RunResult:
    with run.open_data() as data:
        run.machine.report.stage("preparing geometry")
        setup = run.set_up(data.split("train"))
        observers.started()
        outcome = run.train(setup, data, observers.epoch)
        if outcome.reason:
            result = run.diverged(setup, outcome)
        else:
            run.save_weights(setup)
            result = run.score(setup, data, outcome, may_test=may_test)
        origin = "file" if run.plan.dataset is None else "generated"
        facts = {"hash": data.content_hash, "fingerprint": data.fingerprint, "origin": origin}
        return replace(result, data=facts)


def _first_line(reason: str) -> str:
    return reason.splitlines()[0][:LONGEST_REASON]
