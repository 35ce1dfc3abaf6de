"""What is to be verified, as it was found, and what it says about itself: the checks that need
nothing but the file.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gsnobench.data import Array
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import DataError, GsnobenchError, RunError
from gsnobench.home import Home
from gsnobench.records import SCHEMA, RunResult, RunSpec, Status
from gsnobench.runs.bundle import BUNDLE, MANIFEST, PREDICTIONS, damaged, opened_run, unpack

MOST_BYTES = 25_000
DIGITS = 4  # of the errors stored for each sample
State = Literal["pass", "FAIL", "not possible"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    tier: int
    what: str
    state: State
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Claim:
    """What is to be verified, as it was found: a result, and whatever lies beside it."""

    name: str
    body: Mapping[str, Any]
    size: int
    folder: Path | None  # of the run or of the unpacked bundle
    predictions: Path | None
    is_bundle: bool


@contextmanager
def opened_claim(subject: str, home: Home) -> Iterator[Claim]:
    """A result file, a bundle, or a run; a `result.json` that lies in a run folder stands for the
    run.
    """
    path = Path(subject)
    with ExitStack() as stack:
        if path.suffix == ".json" and not (
            path.name == "result.json" and (path.parent / "spec.json").exists()
        ):
            yield Claim(path.name, _body(path), path.stat().st_size, None, None, False)
            return
        folder = stack.enter_context(
            opened_run(str(path.parent) if path.suffix == ".json" else subject, home)
        )
        predictions = folder / PREDICTIONS
        is_bundle = predictions.exists()
        if (folder / BUNDLE).exists():
            beside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gsnobench-")))
            unpack(folder / BUNDLE, beside)
            predictions = beside / PREDICTIONS
        result = folder / "result.json"
        stored = predictions if predictions.exists() else None
        yield Claim(
            "" if is_bundle else folder.name,
            _body(result),
            result.stat().st_size,
            folder,
            stored,
            is_bundle,
        )


def _body(path: Path) -> Mapping[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not a readable result ({error}); expected a result JSON, a bundle or a run"
        ) from error
    if not isinstance(body, dict) or not {"schema", "key", "spec", "status"} <= set(body):
        raise DataError(f"{path}: not a gsnobench result; expected the JSON that `run` writes")
    return body


def result_of(claim: Claim) -> RunResult | None:
    """The result as it reads, its key set right: whether that was right is a check of its own."""
    try:
        spec = RunSpec.from_dict(claim.body["spec"])
        return RunResult.from_json(json.dumps({**claim.body, "key": spec.key}))
    except (GsnobenchError, TypeError, AttributeError):
        return None


def judged(tier: int, what: str, is_right: bool, detail: str) -> Check:
    """A check that has an answer."""
    return Check(tier, what, "pass" if is_right else "FAIL", detail)


# ------------------------------------------------------------------------------------------- tier 0


def check_itself(claim: Claim) -> Iterator[Check]:
    """Tier 0: schema, key, size, and whether the stated scores are those of the stated samples."""
    body = claim.body
    yield judged(0, "schema", body["schema"] == SCHEMA, f"{body['schema']!r}, expected {SCHEMA}")
    yield judged(0, "status", body["status"] in get_args(Status), repr(body["status"]))
    yield judged(
        0, "size", claim.size <= MOST_BYTES, f"{claim.size:,} bytes, at most {MOST_BYTES:,}"
    )
    if claim.is_bundle:
        changed = damaged(folder_of(claim))
        yield judged(
            0, "checksums", not changed, f"{', '.join(changed) or 'all members'} against {MANIFEST}"
        )
    result = result_of(claim)
    if result is None:
        yield Check(0, "entries", "FAIL", "entries are unknown, missing or of the wrong kind")
        return
    spec = result.spec
    yield judged(
        0,
        "key",
        body["key"] == spec.key,
        f"{str(body['key'])[:12]}, the spec hashes to {spec.short}",
    )
    if re.fullmatch(r"[0-9a-f]{12}(\.json)?", claim.name):
        yield judged(
            0,
            "name",
            claim.name[:12] == spec.short,
            f"{claim.name}, the spec hashes to {spec.short}",
        )
    if claim.folder is not None:
        yield from _beside(claim.folder, result)
    try:
        yield from list(_arithmetic(result))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        yield Check(0, "scores", "FAIL", f"not tables of numbers ({error})")


def folder_of(claim: Claim) -> Path:
    """Where spec, task and weights lie."""
    if claim.folder is None:
        raise RunError(
            f"{claim.name}: a result alone has no weights and no predictions; name a run or a "
            "bundle"
        )
    return claim.folder


def _beside(folder: Path, result: RunResult) -> Iterator[Check]:
    """The spec and the task that lie beside a result, and that its weights were made for."""
    try:
        spec = RunSpec.from_dict(json.loads((folder / "spec.json").read_text(encoding="utf-8")))
        task = task_from_json((folder / "task.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, GsnobenchError) as error:
        yield Check(0, "spec.json, task.json", "FAIL", f"cannot be read ({error})")
        return
    yield judged(0, "spec.json", spec.key == result.spec.key, f"its key is {spec.short}")
    asked = (task.id, task.version, task.resolution)
    is_same = asked == (result.spec.task, result.spec.version, result.spec.resolution)
    yield judged(
        0, "task.json", is_same, f"{task.id}, version {task.version}, {task.resolution} nodes"
    )
    if result.status == "done":
        names = set(result.samples)
        yield judged(0, "scored fields", names == set(task.scored), ", ".join(sorted(names)))


def _arithmetic(result: RunResult) -> Iterator[Check]:
    """Means over samples against the stored scores, within what the stored digits can tell."""
    for scores in (scores for fields in result.scores.values() for scores in fields.values()):
        for value in scores.values():
            number(value)  # raises where a table holds something else
    if result.status != "done":
        is_silent = not math.isfinite(number(result.headline))
        yield judged(0, "headline", is_silent, f"a run that ended {result.status} has no score")
        return
    test, wanted = result.scores["test"], result.spec.sizes["test"]
    means = []
    for name, table in result.samples.items():
        for metric, values in table.items():
            errors = np.array(values, dtype=float)
            mean, slack = errors.mean(), _half_digits(errors).mean()
            stated = number(test[name][metric])
            is_right = len(errors) == wanted and abs(mean - stated) <= slack + 1e-6 * abs(mean)
            detail = f"{stated:.6g}, mean of {len(errors)} samples {mean:.6g} +- {slack:.1g}, {wanted} expected"
            yield judged(0, f"{name} {metric}", is_right, detail)
            means += [(mean, slack)] if metric == "rel_l2" else []
    mean, slack = np.mean(means, axis=0) if means else (math.nan, 0.0)
    is_right = abs(mean - result.headline) <= slack + 1e-6 * abs(mean)
    yield judged(
        0,
        "headline",
        bool(is_right),
        f"{result.headline:.6g}, mean over fields {mean:.6g} +- {slack:.1g}",
    )


def number(value: float | None) -> float:
    """JSON has no NaN: it is null there."""
    return math.nan if value is None else float(value)


def _half_digits(values: Array) -> Array:
    """Half a unit of the last stored digit of each value."""
    return np.array(
        0.5 * 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-30))) - (DIGITS - 1))
    )
