"""Tier 0 of `verify`: checks that need only the result file: schema, key, size, arithmetic."""

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
from gsnobench.files import digest
from gsnobench.home import Home, RunFolder
from gsnobench.reading import read_json, read_text
from gsnobench.records import SCHEMA, RunResult, RunSpec, Status
from gsnobench.runs.bundle import damaged, opened_run, unpack

MOST_BYTES = 25_000
DIGITS = 4  # of the errors stored for each sample
State = Literal["pass", "FAIL", "not possible"]


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    tier: int
    what: str
    state: State
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is to be verified: a result file, and the run or bundle that it belongs to."""

    name: str
    body: Mapping[str, Any]
    size: int
    folder: RunFolder | None = None  # of the run or of the unpacked bundle
    predictions: Path | None = None
    is_bundle: bool = False


@contextmanager
def opened_subject(text: str, home: Home) -> Iterator[Subject]:
    """A result file, a bundle, or a run; the `result.json` in a run folder stands for the run."""
    path = Path(text)
    if path.suffix == ".json":
        beside = RunFolder(path.parent)
        if path.name != beside.result.name or not beside.spec.exists():
            yield Subject(path.name, _body(path), path.stat().st_size)
            return
        text = str(path.parent)
    with ExitStack() as stack:
        folder = stack.enter_context(opened_run(text, home))
        predictions = folder.predictions
        is_bundle = predictions.exists()
        if folder.bundle.exists():
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="gsnobench-"))
            unpack(folder.bundle, Path(name))
            predictions = RunFolder(Path(name)).predictions
        yield Subject(
            name="" if is_bundle else folder.name,
            body=_body(folder.result),
            size=folder.result.stat().st_size,
            folder=folder,
            predictions=predictions if predictions.exists() else None,
            is_bundle=is_bundle,
        )


def _body(path: Path) -> Mapping[str, Any]:
    body = read_json(path, expected="a result JSON, a bundle or a run")
    if not isinstance(body, dict) or not {"schema", "key", "spec", "status"} <= set(body):
        raise DataError(f"{path}: not a gsnobench result; expected the JSON that `run` writes")
    return body


def result_of(subject: Subject) -> RunResult | None:
    """The result under the key of its spec; stated key and digest have checks of their own."""
    try:
        spec = RunSpec.from_dict(subject.body["spec"])
        body = {name: value for name, value in subject.body.items() if name != "digest"}
        body["key"] = spec.key
        return RunResult.from_json(json.dumps({**body, "digest": digest(body)}))
    except (GsnobenchError, TypeError, AttributeError):
        return None


def judged(tier: int, what: str, is_right: bool, detail: str) -> Check:
    """A check that could be made."""
    return Check(tier, what, "pass" if is_right else "FAIL", detail)


# ------------------------------------------------------------------------------------------- tier 0


def check_itself(subject: Subject) -> Iterator[Check]:
    """Tier 0: schema, key, size, and whether the stated scores are those of the stated samples."""
    body, size = subject.body, subject.size
    yield judged(0, "schema", body["schema"] == SCHEMA, f"{body['schema']!r}, expected {SCHEMA}")
    stated = body.get("digest")
    rest = {name: value for name, value in body.items() if name != "digest"}
    yield judged(0, "digest", stated == digest(rest), f"{str(stated)[:12]} of the rest of the file")
    yield judged(0, "status", body["status"] in get_args(Status), repr(body["status"]))
    yield judged(0, "size", size <= MOST_BYTES, f"{size:,} bytes, at most {MOST_BYTES:,}")
    if subject.is_bundle:
        folder = folder_of(subject)
        changed = damaged(folder)
        detail = f"{', '.join(changed) or 'all members'} against {folder.manifest.name}"
        yield judged(0, "checksums", not changed, detail)
    result = result_of(subject)
    if result is None:
        yield Check(0, "entries", "FAIL", "entries are unknown, missing or of the wrong kind")
        return
    yield from _names(subject, result.spec)
    if subject.folder is not None:
        yield from _beside(subject.folder, result)
    try:
        yield from list(_arithmetic(result))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        yield Check(0, "scores", "FAIL", f"not tables of numbers ({error})")


def _names(subject: Subject, spec: RunSpec) -> Iterator[Check]:
    """The stated key, and a file or folder that is named by a key, against the spec."""
    name, key = subject.name, subject.body["key"]
    hashed = f"the spec hashes to {spec.short}"
    yield judged(0, "key", key == spec.key, f"{str(key)[:12]}, {hashed}")
    if re.fullmatch(r"[0-9a-f]{12}(\.json)?", name):
        yield judged(0, "name", name[:12] == spec.short, f"{name}, {hashed}")


def folder_of(subject: Subject) -> RunFolder:
    """The folder with spec, task and weights."""
    if subject.folder is None:
        raise RunError(
            f"{subject.name}: a result alone has no weights and no predictions; name a run or a "
            "bundle"
        )
    return subject.folder


def _beside(folder: RunFolder, result: RunResult) -> Iterator[Check]:
    """The spec and the task in the folder of a result, for which its weights were made."""
    spec_name, task_name = folder.spec.name, folder.task.name
    try:
        spec = RunSpec.from_json(read_text(folder.spec, expected="a spec"))
        task = task_from_json(read_text(folder.task, expected="a task"))
    except GsnobenchError as error:
        yield Check(0, f"{spec_name}, {task_name}", "FAIL", f"cannot be read ({error})")
        return
    yield judged(0, spec_name, spec.key == result.spec.key, f"its key is {spec.short}")
    stated = (result.spec.task, result.spec.version, result.spec.resolution)
    is_same = (task.id, task.version, task.resolution) == stated
    detail = f"{task.id}, version {task.version}, {task.resolution} nodes"
    yield judged(0, task_name, is_same, detail)
    if result.status == "done":
        names = set(result.samples["test"])
        yield judged(0, "scored fields", names == set(task.scored), ", ".join(sorted(names)))


def _arithmetic(result: RunResult) -> Iterator[Check]:
    """Means over samples against the stored scores, within the stored digits."""
    for scores in (scores for fields in result.scores.values() for scores in fields.values()):
        for value in scores.values():
            number(value)  # raises where a table holds something else
    if result.status != "done":
        is_silent = not math.isfinite(number(result.headline))
        yield judged(0, "headline", is_silent, f"a run that ended {result.status} has no score")
        return
    for split in result.samples:
        yield from _sample_means(result, split)


def _sample_means(result: RunResult, split: str) -> Iterator[Check]:
    """The scores of one split against the means of its samples."""
    scores, count = result.scores[split], result.spec.sizes[split]
    prefix = "" if split == "test" else f"{split} "
    means = []
    for name, table in result.samples[split].items():
        for metric, values in table.items():
            errors = np.array(values, dtype=float)
            mean, slack = errors.mean(), _half_digits(errors).mean()
            stated = number(scores[name][metric])
            is_right = len(errors) == count and abs(mean - stated) <= slack + 1e-6 * abs(mean)
            computed = f"mean of {len(errors)} samples {mean:.6g} +- {slack:.1g}"
            detail = f"{stated:.6g}, {computed}, {count} expected"
            yield judged(0, f"{prefix}{name} {metric}", is_right, detail)
            means += [(mean, slack)] if metric == "rel_l2" else []
    stated = number(scores["headline"]["rel_l2"])
    mean, slack = np.mean(means, axis=0) if means else (math.nan, 0.0)
    is_right = bool(abs(mean - stated) <= slack + 1e-6 * abs(mean))
    detail = f"{stated:.6g}, mean over fields {mean:.6g} +- {slack:.1g}"
    yield judged(0, f"{prefix}headline", is_right, detail)


def number(value: float | None) -> float:
    """A number as JSON holds it: there NaN is null."""
    return math.nan if value is None else float(value)


def _half_digits(values: Array) -> Array:
    """Half a unit of the last stored digit of each value."""
    exponents = np.floor(np.log10(np.maximum(np.abs(values), 1e-30)))
    return np.array(0.5 * 10.0 ** (exponents - (DIGITS - 1)))
