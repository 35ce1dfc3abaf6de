"""Is a result what it says? Four tiers: its own arithmetic, its stored predictions, its weights,
its training.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

import numpy as np

from gsnobench.data import SPLITS, Array, Samples, Split, Task
from gsnobench.datasets.store import Opened, open_file
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import GsnobenchError, RunError
from gsnobench.home import Home
from gsnobench.records import RunResult
from gsnobench.runs.costs import describe_environment
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, plan_of
from gsnobench.runs.predictions import in_memory, open_truth, read_predictions, score_predictions
from gsnobench.runs.stages import data_path, prepare, score, train
from gsnobench.runs.trained import load, stored_plan
from gsnobench.runs.verify_file import (
    DIGITS,
    Check,
    Claim,
    check_itself,
    folder_of,
    judged,
    number,
    opened_claim,
    result_of,
)
from gsnobench.training.evaluate import Evaluation

TIERS = (
    "the file itself",
    "metrics from stored predictions",
    "predictions from stored weights",
    "training from the spec",
)
SAME = 1e-4  # relative tolerances: stored predictions on the very data
RERUN = 1e-3  # stored weights, perhaps on other hardware
OTHER_DATA = 1e-2  # data of the same recipe whose last digits are another machine's
RETRAINED = 0.1  # the headline after a training elsewhere: about the spread of seeds
FLOAT32 = 3e-7  # relative: a few roundings of a stored value
Scores = Mapping[str, Mapping[str, float]]  # field -> metric


def verify(subject: str, tier: int, machine: Machine, *, data: Path | None = None) -> list[Check]:
    """Every check up to a tier; `data` is the file of a run that was made on one."""
    with opened_claim(subject, machine.home) as claim:
        checks = list(check_itself(claim))
        result = result_of(claim)
        if result is None or any(
            one.state == "FAIL" and one.what in ("key", "scores") for one in checks
        ):
            return checks  # there is no question, or no answer, to go on with
        steps: tuple[Callable[[], Iterator[Check]], ...] = (
            partial(_tier_1, claim, result, machine, data),
            partial(_tier_2, claim, result, machine, data),
            partial(_tier_3, claim, result, machine, data),
        )
        for level, step in enumerate(steps[:tier], start=1):
            try:
                checks += step()
            except GsnobenchError as error:
                checks.append(Check(level, TIERS[level], "not possible", str(error)))
        return checks


# ------------------------------------------------------------------------------------ tiers 1 and 2


def _tier_1(
    claim: Claim, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Check]:
    if claim.predictions is None:
        raise RunError("no predictions are stored; `gsnobench run ... --bundle` writes them")
    with _truth(claim, result, machine, data) as opened:
        yield _origin(1, result, opened.content_hash, opened.fingerprint)
        truth = in_memory(opened, "test")
        found = score_predictions(read_predictions(claim.predictions, truth), truth)
        tolerance = SAME if _is_same_data(result, opened) else OTHER_DATA
        yield from _compared(1, "test", result.scores["test"], found.scores(), tolerance)
        yield from _single(1, result, found, truth.task, tolerance)


def _tier_2(
    claim: Claim, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Check]:
    folder = folder_of(claim)
    with _truth(claim, result, machine, data) as opened:
        yield _origin(2, result, opened.content_hash, opened.fingerprint)
        tolerance = RERUN if _is_same_data(result, opened) else OTHER_DATA
        trained = load(folder, home=machine.home.root, device=str(machine.device))
        for split in (one for one in SPLITS if one in result.scores):
            truth = in_memory(opened, split)
            predicted = trained.predict(truth)
            predicted = predicted.reshape(len(truth), -1, *predicted.shape[2:])  # (S, T, N, C)
            found = score_predictions(predicted, truth)
            yield from _compared(2, split, result.scores[split], found.scores(), tolerance)
            if split == "test":
                yield from _single(2, result, found, truth.task, tolerance)
                yield from _same_predictions(claim, truth, predicted, tolerance)


@contextmanager
def _truth(
    claim: Claim, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Opened]:
    if result.status != "done":
        raise RunError(f"the run ended {result.status}; it has no scores")
    task = (
        None
        if claim.folder is None
        else task_from_json((claim.folder / "task.json").read_text(encoding="utf-8"))
    )
    with open_truth(result.spec, machine, data=data, task=task) as opened:
        yield opened


def _is_same_data(result: RunResult, opened: Opened) -> bool:
    return result.data.get("hash") == opened.content_hash


def _origin(tier: int, result: RunResult, content_hash: str, fingerprint: str) -> Check:
    """The truth by content hash; by its rounded statistics where another machine's arithmetic made
    other last digits.
    """
    if result.data.get("hash") == content_hash:
        return Check(tier, "data", "pass", f"content hash {content_hash[:12]}")
    is_close = result.data.get("fingerprint") == fingerprint
    said = "the rounded fingerprint is the same" if is_close else "so does the rounded fingerprint"
    return judged(tier, "data", is_close, f"content hash differs, here {content_hash[:12]}; {said}")


def _compared(
    tier: int, split: Split, stated: Scores, found: Scores, tolerance: float
) -> Iterator[Check]:
    """One line a field: the metric that is furthest off, relative to its allowance."""
    missing = sorted(set(found).symmetric_difference(stated))
    if missing:
        yield Check(tier, f"{split} fields", "FAIL", f"{', '.join(missing)} on one side only")
    for name in (one for one in found if one in stated):
        table, claimed = (
            found[name],
            {metric: number(value) for metric, value in stated[name].items()},
        )
        shares = {}  # of what is allowed
        for metric in (one for one in table if one in claimed):
            allowed = tolerance * abs(table[metric]) + _rounding(found, name, metric)
            share = abs(table[metric] - claimed[metric]) / max(allowed, 1e-30)
            shares[metric] = math.inf if math.isnan(share) else share
        worst = max(shares, key=lambda metric: shares[metric])
        detail = f"furthest {worst}: {table[worst]:.6g}, stated {claimed[worst]:.6g}, tolerance {tolerance:g}"
        is_complete = set(table) <= set(claimed)
        yield judged(
            tier,
            f"{split} {name}, {len(shares)} metrics",
            is_complete and shares[worst] <= 1,
            detail,
        )


def _rounding(found: Scores, name: str, metric: str) -> float:
    """What float32 may change in a metric: values are stored with their background, errors are
    taken without it.
    """
    table = found[name]
    if "rmse" not in table:  # the headline: as its worst field
        return max(
            (_rounding(found, one, metric) for one in found if "rmse" in found[one]),
            default=FLOAT32,
        )
    size = table["rmse"] if not metric.startswith("rel_l2") else table.get(metric, 1.0)
    return FLOAT32 * size / max(table["rel_l2_raw"], 1e-30)


def _single(
    tier: int, result: RunResult, found: Evaluation, task: Task, tolerance: float
) -> Iterator[Check]:
    """Errors of single samples, and the quantiles of single frames; a last digit may be rounded to
    either side.
    """
    tables = [("samples", found.sample_table(task), result.samples)]
    tables += [("frames", found.frame_table(), result.frames)] if result.frames else []
    slack = _rounding(found.scores(), "headline", "rel_l2")
    for what, mine, stated in tables:
        lists = [
            (values, stated[name][metric])
            for name, table in mine.items()
            for metric, values in table.items()
        ]
        pairs = [
            (a, number(b))
            for left, right in lists
            for a, b in zip_longest(left, right, fillvalue=math.nan)
        ]
        off = max(
            math.inf if math.isnan(a - b) else abs(a - b) / (abs(a) + slack / tolerance)
            for a, b in pairs
        )
        detail = f"{len(pairs)} numbers, largest difference {off:.2g}"
        yield judged(
            tier, f"test errors of single {what}", off <= tolerance + 10.0 ** (1 - DIGITS), detail
        )


def _same_predictions(
    claim: Claim, truth: Samples, predicted: Array, tolerance: float
) -> Iterator[Check]:
    if claim.predictions is not None:
        stored = read_predictions(claim.predictions, truth)
        is_node = np.stack(
            [np.arange(stored.shape[2]) < truth.mesh(index).size for index in range(len(truth))]
        )
        difference = (predicted - stored) * is_node[:, None, :, None]
        off = float(np.linalg.norm(difference) / max(float(np.linalg.norm(stored)), 1e-30))
        yield judged(
            2,
            "stored predictions",
            off <= tolerance,
            f"relative difference {off:.2g}, tolerance {tolerance:g}",
        )


# ------------------------------------------------------------------------------------------- tier 3


def _tier_3(
    claim: Claim, result: RunResult, machine: Machine, data: Path | None
) -> Iterator[Check]:
    if result.status in ("failed", "pruned"):
        raise RunError(f"the run ended {result.status}; that is not a question of its spec alone")
    plan = _plan(claim, result, machine, data)
    if result.status == "declined" or plan.declined is not None:
        yield judged(
            3,
            "declined",
            result.status == "declined" and plan.declined == result.reason,
            str(plan.declined),
        )
        return
    with tempfile.TemporaryDirectory(prefix="gsnobench-") as place:
        again = _retrained(plan, replace(machine, home=Home(Path(place))), Path(place) / "run")
    yield judged(
        3, "status", again.status == result.status, f"{again.status}, stated {result.status}"
    )
    if again.status == result.status == "done":
        yield from _same_training(result, again, machine)


def _plan(claim: Claim, result: RunResult, machine: Machine, data: Path | None) -> Plan:
    if not result.spec.source:
        return plan_of(result.spec)
    with _truth(claim, result, machine, data) as opened:
        return replace(stored_plan(result.spec, opened.task), file=opened.path)


def _retrained(plan: Plan, machine: Machine, folder: Path) -> RunResult:
    """The run once more, from its data on, where nothing of the first one can be found and nobody
    is told.
    """
    folder.mkdir()
    with open_file(data_path(plan, machine), plan.task) as opened:
        setup = prepare(plan, machine, opened.split("train"))
        outcome = train(
            plan, machine, setup, opened, folder=folder, on_epoch=lambda phase, epoch, scores: None
        )
        if outcome.reason:
            return RunResult(plan.spec, "diverged", outcome.reason)
        made = {"hash": opened.content_hash, "fingerprint": opened.fingerprint}
        return replace(score(plan, machine, setup, opened, folder, outcome), data=made)


def _same_training(result: RunResult, again: RunResult, machine: Machine) -> Iterator[Check]:
    """Equal to the last digit where machine, versions, threads and data are the same; else the
    headline, roughly.
    """
    here = describe_environment(machine.device)
    differing = sorted(
        name
        for name in {*here, *result.environment}
        if here.get(name) != result.environment.get(name)
    )
    is_same_data = again.data["hash"] == result.data.get("hash")
    yield _origin(3, result, again.data["hash"], again.data["fingerprint"])
    if is_same_data and not differing and machine.device.type == "cpu":
        is_equal = (
            json.loads(again.to_json())["scores"] == result.scores
            and again.samples == result.samples
        )
        off = f"headline {again.headline!r}, stated {result.headline!r}"
        yield judged(
            3, "scores", is_equal, f"{off}, to the last digit: same machine, versions and data"
        )
        return
    off_by = abs(again.headline - result.headline) / result.headline
    why = ", ".join([*differing, *([] if is_same_data else ["data"])]) or machine.device.type
    detail = f"{again.headline:.6g}, stated {result.headline:.6g}, tolerance {RETRAINED:.0%} since {why} may round otherwise"
    yield judged(3, "headline", off_by <= RETRAINED, detail)
