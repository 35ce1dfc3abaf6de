"""Append-only event log of a run: one JSON line per event, written before MLflow sees it.

A writer locks its file while it lives, so that any other process can tell a running spool from an
interrupted one. `RUN.done` beside `RUN.jsonl` holds how many bytes of it have been mirrored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from gsnobench import __version__
from gsnobench.errors import DataError
from gsnobench.files import ends_torn, is_locked, lock, lock_file, write_text
from gsnobench.home import RunFolder
from gsnobench.records import RunResult, RunSpec

FOLDER = "spool"
TEXT = 500  # characters of a tag or parameter
Event = Literal["started", "epoch", "finished"]


@dataclass(frozen=True)
class Point:
    """One value of a metric."""

    name: str
    step: int
    value: float
    time: int  # ms since 1970


@dataclass(frozen=True)
class Spool:
    """The content of a spool file, without the repetitions of a resumed run."""

    path: Path
    size: int  # bytes read
    started: Mapping[str, Any]  # the first such record: id, store, experiment, name, tags, params
    points: Mapping[tuple[str, int], Point] = field(default_factory=dict)  # by metric and step
    finished: Mapping[str, Any] | None = None
    skipped: int = 0  # lines that are no records: torn by a kill, or damaged

    @property
    def id(self) -> str:
        return str(self.started["id"])

    @property
    def run_folder(self) -> Path:
        """Where the run keeps its result and figures."""
        return self.path.parent.parent / "runs" / str(self.started["run"])


@dataclass(frozen=True, eq=False)
class SpoolWriter:
    """An open spool; when `append` returns, the operating system has the record."""

    path: Path
    file: IO[str]

    def append(self, event: Event, **content: Any) -> None:
        record = {"event": event, "time": int(time.time() * 1000), **_plain(content)}
        self.file.write(json.dumps(record, allow_nan=False) + "\n")
        self.file.flush()

    def close(self) -> None:
        """Flush the file to the disk and free its lock: the spool is no longer live."""
        with self.file:
            os.fsync(self.file.fileno())


def open_writer(home: Path, run: str) -> SpoolWriter:
    """The spool of a run, opened at its end; a finished one is put aside for the new attempt.

    Raises OSError where the folder cannot be written or another process writes the same run.
    """
    path = home / FOLDER / f"{run}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not is_locked(path):
        before = read(path)
        if before is None or before.finished is not None:
            _put_aside(path, before)
    file = path.open("a", encoding="utf-8")
    if not lock_file(file, patience=1.0):  # `is_locked` itself locks it for microseconds
        file.close()
        raise BlockingIOError(f"{path} is being written by another process")
    if ends_torn(path):
        file.write("\n")
    return SpoolWriter(path, file)


def beginning(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> dict[str, Any]:
    """The first record of a run: experiment, tags, and resolved knobs by their dotted names."""
    identity = {
        "model": spec.model,
        "preset": spec.preset,
        "task": spec.task,
        "track": spec.track,
        "seed": spec.seed,
        "row": spec.row,
        "gsnobench.key": spec.key,
        "gsnobench.version": __version__,
    }
    settings = {
        "model": spec.model_params,
        "train": spec.train_params,
        "data": {**spec.data, "seed": spec.data_seed},
        "steps": spec.steps,
        "sizes": spec.sizes,
        "resolution": spec.resolution,
        "seed": spec.seed,
    }
    return {
        "run": folder.name,
        "experiment": f"gsnobench/{spec.track}/{spec.task}",
        "name": f"{spec.row} seed {spec.seed}",
        "tags": _flat({**identity, **tags}),
        "params": _flat(settings),
    }


def ending(result: RunResult, folder: Path) -> dict[str, Any]:
    """The last record of a run: status, final scores, costs, and the machine."""
    metrics = {
        f"{split}/{field_name}/{metric}": value
        for split, by_field in result.scores.items()
        for field_name, by_metric in by_field.items()
        for metric, value in by_metric.items()
    }
    metrics |= {f"cost/{name}": value for name, value in result.costs.items()}
    numbers = {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
    return {
        "status": result.status,
        "reason": result.reason[:TEXT],
        "metrics": numbers,
        "tags": _flat({"env": result.environment, "data": result.data}),
        "result": fingerprint(folder),
    }


def fingerprint(folder: Path) -> str:
    """Hash of a result: shows whether the files of a folder are still those of this attempt."""
    result = RunFolder(folder).result
    return hashlib.sha256(result.read_bytes()).hexdigest() if result.exists() else ""


def is_told(folder: Path) -> bool:
    """Whether the spool of a run has the end of the result that is in the folder now."""
    path = folder.parent.parent / FOLDER / f"{folder.name}.jsonl"
    spool = read(path) if path.exists() else None
    end = None if spool is None else spool.finished
    return end is not None and end["result"] == fingerprint(folder)


def tell_again(spool: Spool) -> Spool:
    """The spool with the end of its run, if the run was killed before it could write that."""
    folder = RunFolder(spool.run_folder)
    is_current = spool.path.stem == folder.name  # others are of earlier attempts
    stored = folder.result if folder.result.exists() else folder.trial
    if spool.finished is not None or not is_current or not folder.untold.exists():
        return spool
    with lock(folder.lock, patience=0) as is_free, suppress(DataError, OSError):
        if is_free:
            result = RunResult.load(stored)
            writer = open_writer(spool.path.parent.parent, folder.name)
            writer.append("finished", **ending(result, folder.path))
            writer.close()
            folder.untold.unlink(missing_ok=True)
    return read(spool.path) or spool


def new_id() -> str:
    """A name for one attempt at a run."""
    return uuid.uuid4().hex


def spools(home: Path) -> list[Path]:
    """All spool files of a home, sorted."""
    return sorted((home / FOLDER).glob("*.jsonl"))


def read(path: Path) -> Spool | None:
    """What a spool holds, without lines torn by a kill; None if it has no readable beginning."""
    raw = path.read_bytes()
    lines = raw.split(b"\n")
    parsed = [_parsed(line) for line in lines]
    records = [record for record in parsed if record is not None]
    started = next(
        (record for record in records if record["event"] == "started" and "id" in record), None
    )
    if started is None:
        return None
    finished = next((record for record in records if record["event"] == "finished"), None)
    points: dict[tuple[str, int], Point] = {}
    for record in records:
        for point in _points_of(record):
            points.setdefault((point.name, point.step), point)
    skipped = sum(
        1 for line, record in zip(lines, parsed, strict=True) if line.strip() and record is None
    )
    return Spool(path, len(raw), started, points, finished, skipped)


def is_mirrored(path: Path) -> bool:
    """Whether all that the file holds now has been mirrored."""
    try:
        return int(path.with_suffix(".done").read_text()) == path.stat().st_size
    except (OSError, ValueError):
        return False


def unmirrored(home: Path, seen: dict[Path, tuple[int, int, int]]) -> list[Path]:
    """Spools that hold more than has been mirrored.

    `seen` remembers the others between calls, since there may be thousands of them.
    """
    paths = []
    for path in spools(home):
        with suppress(FileNotFoundError):  # put aside by a new attempt
            stat = path.stat()
            mark = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if seen.get(path) == mark:
                continue
            if is_mirrored(path):
                seen[path] = mark
            else:
                paths.append(path)
    return paths


def mark_mirrored(spool: Spool) -> None:
    """Note that everything read into `spool` is mirrored."""
    write_text(spool.path.with_suffix(".done"), f"{spool.size}\n")


def _put_aside(path: Path, before: Spool | None) -> None:
    """Remove a spool that is fully mirrored; keep any other under its own name for a replay."""
    if is_mirrored(path):
        path.unlink()
    else:
        suffix = before.id[:8] if before else "unreadable"
        path.rename(path.with_name(f"{path.stem}.{suffix}.jsonl"))
    path.with_suffix(".done").unlink(missing_ok=True)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None if it is torn or no record, so that it cannot stop the others."""
    try:
        record = json.loads(line)
        list(_points_of(record))
        if record["event"] == "started" and not isinstance(record["store"], str):
            return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
    return dict(record)


def _points_of(record: Mapping[str, Any]) -> Iterator[Point]:
    when = int(record.get("time", 0))
    if record["event"] == "epoch":
        step = int(record["epoch"])
        for name, value in record["scores"].items():
            yield Point(_allowed(f"{record['phase']}/{name}"), step, float(value), when)
    if record["event"] == "finished":
        for name, value in record["metrics"].items():
            yield Point(_allowed(name), 0, float(value), when)


def _allowed(name: str) -> str:
    """A name with only the characters that MLflow allows."""
    return re.sub(r"[^\w\-./: ]", "_", name)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested values as dotted names and short texts."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        dotted = _allowed(f"{prefix}{name}")
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{dotted}.")
        else:
            flat[dotted] = str(value)[:TEXT]
    return flat


def _plain(value: Any) -> Any:
    """JSON has no NaN: numbers that are not finite become the texts that `float` reads back."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)
