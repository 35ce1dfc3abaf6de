"""The local record of a run: one JSON line an event, written before anything else hears of it.

A writer holds a lock on its file while it lives, so that any other process can tell a running spool
from an interrupted one. `RUN.done` beside `RUN.jsonl` says how many bytes of it have been mirrored.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from gsnobench import __version__
from gsnobench.files import write_text
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
    """Everything that a spool file tells, repetitions of a resumed run taken out."""

    path: Path
    size: int  # bytes read
    # the first "started" record: id, store, experiment, name, tags, params
    started: Mapping[str, Any]
    # (metric, step) -> its first value
    points: Mapping[tuple[str, int], Point] = field(default_factory=dict)
    finished: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        return str(self.started["id"])

    @property
    def run_folder(self) -> Path:
        """Where the run keeps its result and figures."""
        return self.path.parent.parent / "runs" / str(self.started["run"])


@dataclass(frozen=True, eq=False)
class SpoolWriter:
    """An open spool; every record is in the hands of the operating system when `append` returns."""

    path: Path
    file: IO[str]

    def append(self, event: Event, **content: Any) -> None:
        record = {"event": event, "time": int(time.time() * 1000), **_plain(content)}
        self.file.write(json.dumps(record, allow_nan=False) + "\n")
        self.file.flush()

    def close(self) -> None:
        """Bring the file to the disk and give up the lock: the spool is no longer live."""
        with self.file:
            os.fsync(self.file.fileno())


def open_writer(home: Path, run: str) -> SpoolWriter:
    """The spool of a run, opened at its end; one that has finished makes room for the new attempt.

    Raises OSError where the folder cannot be written or another process writes the same run.
    """
    path = home / FOLDER / f"{run}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not is_live(path):
        before = read(path)
        if before is None or before.finished is not None:
            _put_aside(path, before)
    file = path.open("a", encoding="utf-8")
    if not _locked(file, patience=1.0):  # a glance of `is_live` holds the lock for microseconds
        file.close()
        raise BlockingIOError(f"{path} is being written by another process")
    if _ends_torn(path):
        file.write("\n")
    return SpoolWriter(path, file)


def beginning(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> dict[str, Any]:
    """What the first record says of a run: where it belongs, its tags, its resolved knobs as the
    command line names them.
    """
    named = {
        "model": spec.model,
        "preset": spec.preset,
        "task": spec.task,
        "track": spec.track,
        "seed": spec.seed,
    }
    named |= {"row": spec.row, "gsnobench.key": spec.key, "gsnobench.version": __version__, **tags}
    groups = {
        "model": spec.model_params,
        "train": spec.train_params,
        "data": {**spec.data, "seed": spec.data_seed},
    }
    groups |= {"steps": spec.steps, "scaling": spec.scaling, "sizes": spec.sizes}
    params = _flat({**groups, "resolution": spec.resolution, "seed": spec.seed})
    experiment, name = f"gsnobench/{spec.track}/{spec.task}", f"{spec.row} seed {spec.seed}"
    return {
        "run": folder.name,
        "experiment": experiment,
        "name": name,
        "tags": _flat(named),
        "params": params,
    }


def ending(result: RunResult, folder: Path) -> dict[str, Any]:
    """What the last record says: status, final scores, costs, and the machine."""
    metrics = {
        f"{split}/{one}/{metric}": value
        for split, by_field in result.scores.items()
        for one, by_metric in by_field.items()
        for metric, value in by_metric.items()
    }
    metrics |= {f"cost/{name}": value for name, value in result.costs.items()}
    return {
        "status": result.status,
        "reason": result.reason[:TEXT],
        "metrics": {
            name: value for name, value in metrics.items() if isinstance(value, (int, float))
        },
        "tags": _flat({"env": result.environment, "data": result.data}),
        "result": fingerprint(folder),
    }


def fingerprint(folder: Path) -> str:
    """Tells whether the files of a run folder are still those of this attempt."""
    result = RunFolder(folder).result
    return hashlib.sha256(result.read_bytes()).hexdigest() if result.exists() else ""


def new_id() -> str:
    """A name for one attempt at a run."""
    return uuid.uuid4().hex


def spools(home: Path) -> list[Path]:
    """All spool files of a home, sorted."""
    return sorted((home / FOLDER).glob("*.jsonl"))


def read(path: Path) -> Spool | None:
    """What a spool holds; None if it has no readable beginning. Lines torn by a kill are left out."""
    raw = path.read_bytes()
    records = [record for line in raw.split(b"\n") if (record := _parsed(line)) is not None]
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
    return Spool(path, len(raw), started, points, finished)


def is_live(path: Path) -> bool:
    """Whether a process has the spool open for writing."""
    with path.open("a") as file:
        return not _locked(file)


def is_mirrored(path: Path) -> bool:
    """Whether all that the file holds now has been mirrored."""
    try:
        return int(path.with_suffix(".done").read_text()) == path.stat().st_size
    except (OSError, ValueError):
        return False


def unmirrored(home: Path, seen: dict[Path, tuple[int, int, int]]) -> list[Path]:
    """Spools that hold more than has been mirrored; `seen` remembers the others, since there may be
    thousands to look at.
    """
    found = []
    for path in spools(home):
        with suppress(FileNotFoundError):  # put aside by a new attempt
            stat = path.stat()
            mark = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if seen.get(path) == mark:
                continue
            if is_mirrored(path):
                seen[path] = mark
            else:
                found.append(path)
    return found


def mark_mirrored(spool: Spool) -> None:
    """Note that everything read into `spool` is mirrored."""
    write_text(spool.path.with_suffix(".done"), f"{spool.size}\n")


@contextmanager
def held(path: Path, patience: float = 0.0) -> Iterator[bool]:
    """Try to hold an exclusive lock for the block; yields whether it was got within `patience`
    seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        yield _locked(file, patience)


def _locked(file: IO[str], patience: float = 0.0) -> bool:
    """Lock an open file; False if another process still has it after `patience` seconds. Closing it
    frees the lock.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)


def _put_aside(path: Path, before: Spool | None) -> None:
    """A spool that is fully mirrored may go; any other keeps its records under a name of its own
    for a later replay.
    """
    if is_mirrored(path):
        path.unlink()
    else:
        path.rename(
            path.with_name(f"{path.stem}.{before.id[:8] if before else 'unreadable'}.jsonl")
        )
    path.with_suffix(".done").unlink(missing_ok=True)


def _ends_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record else None


def _points_of(record: Mapping[str, Any]) -> Iterator[Point]:
    when = int(record.get("time", 0))
    if record["event"] == "epoch":
        for name, value in record["scores"].items():
            yield Point(
                _allowed(f"{record['phase']}/{name}"), int(record["epoch"]), float(value), when
            )
    if record["event"] == "finished":
        for name, value in record["metrics"].items():
            yield Point(_allowed(name), 0, float(value), when)


def _allowed(name: str) -> str:
    """A name with only the characters that MLflow takes."""
    return re.sub(r"[^\w\-./: ]", "_", name)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested values as dotted names and short texts."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        place = _allowed(f"{prefix}{name}")
        flat |= (
            _flat(value, f"{place}.") if isinstance(value, Mapping) else {place: str(value)[:TEXT]}
        )
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
