"""`verify` in four tiers: the result file, its stored predictions, its weights, its training."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import SPLITS, Array, Samples, Split, Task
from gsnobench.datasets.store import Opened
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import GsnobenchError, RunError
from gsnobench.home import Home, RunFolder
from gsnobench.reading import read_text
from gsnobench.records import RunResult
from gsnobench.registry import read_registry
from gsnobench.runs.costs import describe_environment
from gsnobench.runs.machine import Machine, with_threads
from gsnobench.runs.plan import Plan, plan_of_spec, plan_of_stored
from gsnobench.runs.predictions import open_truth, read_predictions, score_predictions
from gsnobench.runs.stages import Run
from gsnobench.runs.trained import load
from gsnobench.runs.verify_file import (
    DIGITS,
    Check,
    Subject,
    check_itself,
    folder_of,
    judged,
    number,
    opened_subject,
    result_of,
)
from gsnobench.training.evaluate import Evaluation

TIERS = (
    "the file itself",
    "metrics from stored predictions",
    "predictions from stored weights",
    "training from the spec",
)
SAME = 1e-4  # relative tolerances: stored predictions on the same data
RERUN = 1e-3  # stored weights, perhaps on other hardware
OTHER_DATA = 1e-2  # data generated on another machine, with other last digits
RETRAINED = 0.1  # the headline after a training elsewhere: about the spread of seeds
FLOAT32 = 3e-7  # relative: a few roundings of a stored value
HEADLINE = "rel_l2"  # the score that every run has; plugins may add others beside it
Scores = Mapping[str, Mapping[str, float]]  # field -> metric
SplitScores = Mapping[str, Scores]


@dataclass(frozen=True, eq=False)
class Allowance:
    """How far a recomputed score may be from the stated one."""

    tolerance: float  # relative
    rounding: Scores  # what float32 alone changes in each metric

    def of(self, name: str, metric: str, value: float) -> float:
        """Of one metric whose recomputed value this is."""
        return self.tolerance * abs(value) + self.rounding[name][metric]


def verify(text: str, tier: int, machine: Machine, *, data: Path | None = None) -> list[Check]:
    """Every check up to a tier; `data` is the file of a run that was made on one."""
    with opened_subject(text, machine.home) as subject:
        checks = list(check_itself(subject))
        result = result_of(subject)
        failed = {check.what for check in checks if check.state == "FAIL"}
        if result is None or failed & {"key", "scores"}:
            return checks  # no spec to repeat, or no scores to compare with
        steps: tuple[Callable[[], Iterator[Check]], ...] = (
            partial(_tier_1, subject, result, machine, data),
            partial(_tier_2, subject, result, machine, data),
            partial(_tier_3, subject, result, machine, data),
        )
        for level, step in enumerate(steps[:tier], start=1):
            try:
                checks += step()
            except GsnobenchError as error:
                checks.append(Check(level, TIERS[level], "not possible", str(error)))
        return checks


# ------------------------------------------------------------------------------------ tiers 1 and 2


def _tier_1(
    subject: Subject, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Check]:
    if subject.predictions is None:
        raise RunError("no predictions are stored; `gsnobench run ... --bundle` writes them")
    with _truth(subject, result, machine, data) as opened:
        yield _origin(1, result, opened.content_hash, opened.fingerprint)
        truth = opened.read("test")
        scored = score_predictions(read_predictions(subject.predictions, truth), truth)
        tolerance = SAME if _is_same_data(result, opened) else OTHER_DATA
        allowance = Allowance(tolerance, _rounding(truth))
        yield from _compared(1, "test", result.scores["test"], scored.scores(), allowance)
        yield from _single(1, result, scored, truth.task, allowance)


def _tier_2(
    subject: Subject, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Check]:
    folder = folder_of(subject)
    with _truth(subject, result, machine, data) as opened:
        yield _origin(2, result, opened.content_hash, opened.fingerprint)
        tolerance = RERUN if _is_same_data(result, opened) else OTHER_DATA
        trained = load(folder.path, home=machine.home.root, device=str(machine.device))
        for split in (split for split in SPLITS if split in result.scores):
            truth = opened.read(split)
            predicted = trained.predict_trajectories(truth)  # (S, T, N, C)
            scored = score_predictions(predicted, truth)
            allowance = Allowance(tolerance, _rounding(truth))
            yield from _compared(2, split, result.scores[split], scored.scores(), allowance)
            if split == "test":
                yield from _single(2, result, scored, truth.task, allowance)
                yield from _same_predictions(subject, truth, predicted, tolerance)


@contextmanager
def _truth(
    subject: Subject, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Opened]:
    if result.status != "done":
        raise RunError(f"the run ended {result.status}; it has no scores")
    task = None
    if subject.folder is not None:
        task = task_from_json(read_text(subject.folder.task, expected="the task of a run"))
    with open_truth(result.spec, machine, data=data, task=task) as opened:
        yield opened


def _is_same_data(result: RunResult, opened: Opened) -> bool:
    return result.data.get("hash") == opened.content_hash


def _origin(tier: int, result: RunResult, content_hash: str, fingerprint: str) -> Check:
    """The same data by content hash, else by rounded statistics: last digits may differ."""
    if result.data.get("hash") == content_hash:
        return Check(tier, "data", "pass", f"content hash {content_hash[:12]}")
    is_close = result.data.get("fingerprint") == fingerprint
    verdict = "is the same" if is_close else "differs too"
    detail = f"content hash differs, here {content_hash[:12]}; the rounded fingerprint {verdict}"
    return judged(tier, "data", is_close, detail)


def _compared(
    tier: int, split: Split, stated: Scores, computed: Scores, allowance: Allowance
) -> Iterator[Check]:
    """One check per field: the metric that is furthest off, relative to its allowance."""
    missing = sorted(set(computed).symmetric_difference(stated))
    if missing:
        yield Check(tier, f"{split} fields", "FAIL", f"{', '.join(missing)} on one side only")
    for name in (name for name in computed if name in stated):
        claimed = {metric: number(value) for metric, value in stated[name].items()}
        table = _expected(name, computed[name], claimed)
        shares = {}  # of what is allowed
        for metric in (metric for metric in table if metric in claimed):
            allowed = allowance.of(name, metric, table[metric])
            share = abs(table[metric] - claimed[metric]) / max(allowed, 1e-30)
            shares[metric] = math.inf if math.isnan(share) else share
        worst = max(shares, key=lambda metric: shares[metric])
        values = f"{table[worst]:.6g}, stated {claimed[worst]:.6g}"
        is_right = set(table) <= set(claimed) and shares[worst] <= 1
        what = f"{split} {name}, {len(shares)} metrics"
        detail = f"furthest {worst}: {values}, tolerance {allowance.tolerance:g}"
        yield judged(tier, what, is_right, detail)
        for metric in sorted(set(claimed) - set(table)):
            detail = "no installed metric has this name; install the package that offers it"
            yield Check(tier, f"{split} {name} {metric}", "not possible", detail)


def _expected(name: str, table: Mapping[str, float], stated: Container[str]) -> dict[str, float]:
    """What a result must state: a metric of a plugin only if it was there at the time of the run.

    Plugins add to the headline alone.
    """
    needed = {HEADLINE} if name == "headline" else set(table)
    return {metric: table[metric] for metric in table if metric in needed or metric in stated}


def _comparable(scores: SplitScores, others: SplitScores) -> SplitScores:
    """Scores without metrics of plugins that the others lack: not every machine has them."""
    return {
        split: {
            name: _expected(name, table, others.get(split, {}).get(name, {}))
            for name, table in tables.items()
        }
        for split, tables in scores.items()
    }


def _rounding(truth: Samples) -> Scores:
    """What a few roundings of stored values change in each metric, measured on the truth.

    Values are stored with their background, errors are computed without it.
    """
    frames = list(truth.task.predicted_frames())
    exact = np.asarray(truth.frames[:], dtype=np.float32)[:, frames]  # (S, T, N, C)
    signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0], dtype=np.float32), exact.shape)
    best = score_predictions(exact, truth).scores()
    rounded = score_predictions(exact + np.float32(FLOAT32) * signs * exact, truth).scores()
    return {
        name: {metric: abs(table[metric] - best[name][metric]) for metric in table}
        for name, table in rounded.items()
    }


def _single(
    tier: int, result: RunResult, scored: Evaluation, task: Task, allowance: Allowance
) -> Iterator[Check]:
    """Errors of single samples, and quantiles of single frames; a last digit may be rounded."""
    tables = [("samples", scored.sample_table(task), result.samples["test"])]
    tables += [("frames", scored.frame_table(), result.frames)] if result.frames else []
    tolerance = allowance.tolerance
    slack = max(allowance.rounding[name]["rel_l2"] for name in task.scored)
    for what, computed, stated in tables:
        pairs = [
            (a, number(b))
            for name, table in computed.items()
            for metric, values in table.items()
            for a, b in zip_longest(values, stated[name][metric], fillvalue=math.nan)
        ]
        off = max(
            math.inf if math.isnan(a - b) else abs(a - b) / (abs(a) + slack / tolerance)
            for a, b in pairs
        )
        is_right = off <= tolerance + 10.0 ** (1 - DIGITS)
        detail = f"{len(pairs)} numbers, largest difference {off:.2g}"
        yield judged(tier, f"test errors of single {what}", is_right, detail)


def _same_predictions(
    subject: Subject, truth: Samples, predicted: Array, tolerance: float
) -> Iterator[Check]:
    if subject.predictions is not None:
        stored = read_predictions(subject.predictions, truth)
        numbers = np.arange(stored.shape[2])
        is_node = np.stack([numbers < truth.mesh(index).size for index in range(len(truth))])
        difference = (predicted - stored) * is_node[:, None, :, None]
        off = float(np.linalg.norm(difference) / max(float(np.linalg.norm(stored)), 1e-30))
        detail = f"relative difference {off:.2g}, tolerance {tolerance:g}"
        yield judged(2, "stored predictions", off <= tolerance, detail)


# ------------------------------------------------------------------------------------------- tier 3


def _tier_3(
    subject: Subject, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Check]:
    status = result.status
    if status in ("failed", "pruned"):
        raise RunError(f"the run ended {status}; its spec alone does not decide that")
    plan = _plan(subject, result, machine, data)
    if not result.spec.source:  # the registry knows nothing of a file
        detail = f"{dict(result.changed) or 'nothing'}, here {plan.changed or 'nothing'}"
        detail += _counted_anew(result.changed, plan.changed)
        yield judged(3, "changed settings", dict(result.changed) == plan.changed, detail)
    if status == "declined" or plan.declined is not None:
        is_right = status == "declined" and plan.declined == result.reason
        yield judged(3, "declined", is_right, str(plan.declined))
        return
    with tempfile.TemporaryDirectory(prefix="gsnobench-") as name:
        folder = RunFolder(Path(name) / "run")
        threads = int(result.environment.get("threads", 1))
        with with_threads(threads):  # those of the run: they decide the last digits
            again = _retrained(Run(plan, replace(machine, home=Home(Path(name))), folder))
            here = describe_environment(machine.device)
    yield judged(3, "status", again.status == status, f"{again.status}, stated {status}")
    if again.status == status == "done":
        yield from _same_training(result, again, here, machine)


def _counted_anew(stated: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Said where only steps differ: the result is honest, but not of the present counts."""
    names = [name for name in {*stated, *here} if stated.get(name) != here.get(name)]
    if names and all(name.startswith("steps.") for name in names):
        return "; the steps of this pair were counted anew, or requested"
    return ""


def _plan(subject: Subject, result: RunResult, machine: Machine, data: Path | None) -> Plan:
    if not result.spec.source:
        return plan_of_spec(result.spec, read_registry(home=machine.home))
    with _truth(subject, result, machine, data) as opened:
        return replace(plan_of_stored(result.spec, opened.task), file=opened.path)


def _retrained(run: Run) -> RunResult:
    """The run once more from its data on, in an empty home and without observers."""
    run.folder.path.mkdir()
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        outcome = run.train(setup, data)
        if outcome.reason:
            return run.diverged(setup, outcome)
        facts = {"hash": data.content_hash, "fingerprint": data.fingerprint}
        return replace(run.score(setup, data, outcome, may_test=True), data=facts)


def _same_training(
    result: RunResult, again: RunResult, here: Mapping[str, Any], machine: Machine
) -> Iterator[Check]:
    """Equal digits where machine, versions, threads and data are the same, else about equal."""
    there = result.environment
    differing = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    is_same_data = again.data["hash"] == result.data.get("hash")
    yield _origin(3, result, again.data["hash"], again.data["fingerprint"])
    if is_same_data and not differing and machine.device.type == "cpu":
        scores = json.loads(again.to_json())["scores"]
        is_equal = _comparable(scores, result.scores) == _comparable(result.scores, scores)
        is_equal = is_equal and again.samples == result.samples
        values = f"headline {again.headline!r}, stated {result.headline!r}"
        detail = f"{values}, to the last digit: same machine, versions and data"
        yield judged(3, "scores", is_equal, detail)
        return
    off = abs(again.headline - result.headline) / result.headline
    why = ", ".join([*differing, *([] if is_same_data else ["data"])]) or machine.device.type
    values = f"{again.headline:.6g}, stated {result.headline:.6g}"
    detail = f"{values}, tolerance {RETRAINED:.0%} since {why} may round otherwise"
    yield judged(3, "headline", off <= RETRAINED, detail)
