"""MLflow observer: the hooks only write the local spool, a process of its own mirrors it. Alone in
importing mlflow.

Training never waits for a server and never imports mlflow. One mirror per home and store follows
all spools, outlives the runs by a bounded time, and gives up on a dead server; `replay` then brings
what is missing.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsnobench.errors import RunError
from gsnobench.files import is_locked, lock
from gsnobench.home import RunFolder
from gsnobench.hookspecs import hookimpl
from gsnobench.records import RunResult, RunSpec
from gsnobench.tracking.address import Address, bounded_requests
from gsnobench.tracking.spool import (
    FOLDER,
    Point,
    Spool,
    SpoolWriter,
    beginning,
    ending,
    fingerprint,
    is_mirrored,
    mark_mirrored,
    new_id,
    open_writer,
    read,
    spools,
    unmirrored,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

GSNOBENCH_API = 1
WAIT_VARIABLE = "GSNOBENCH_TRACKING_WAIT"  # seconds that a finished run waits for its mirror
PASS_SECONDS = 0.5  # between two looks at the spools
TRIES = 4  # of a store that does not answer, once no run is left
LONGEST_PAUSE = 15.0  # seconds between two tries
KIND = "custom_model_development"  # the layout of MLflow's pages that suits training runs
BATCH = 1000  # metrics in one call: the limit of MLflow's interface
# all others: FAILED
STATUS = {"done": "FINISHED", "pruned": "KILLED", "interrupted": "KILLED", "running": "RUNNING"}

log = logging.getLogger("gsnobench.tracking")
# hooks are plain functions: what is open between two of them must be kept here
_open: dict[str, SpoolWriter] = {}


# -------------------------------------------------------------------------------------------- hooks


@hookimpl
def gsnobench_run_started(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> None:
    """Open the spool and see to it that a mirror follows it."""
    with harmless("this run is not tracked"):
        _start(spec, folder, tags)


@hookimpl
def gsnobench_epoch_ended(
    spec: RunSpec, phase: str, epoch: int, scores: Mapping[str, float]
) -> None:
    """Append one line."""
    key = spec.key
    if key in _open:
        with harmless("the rest of this run is not tracked"):
            try:
                _open[key].append("epoch", phase=phase, epoch=epoch, scores=scores)
            except OSError:
                del _open[key]
                raise


@hookimpl
def gsnobench_run_finished(result: RunResult, folder: Path) -> None:
    """Close the spool, and wait a bounded time for the mirror."""
    with harmless("the end of this run is not tracked"):
        if result.spec.key not in _open:
            _start(result.spec, folder, {})
        writer = _open.pop(result.spec.key, None)
        address = Address.of(folder.parent.parent)
        if writer is None or address is None:
            return
        writer.append("finished", **ending(result, folder))
        writer.close()
        mirror = ensure_mirror(address)
        patience = float(os.environ.get(WAIT_VARIABLE, "10"))
        deadline = time.monotonic() + patience
        while patience and not is_mirrored(writer.path):
            if time.monotonic() > deadline or (mirror is not None and mirror.poll() is not None):
                log.warning(
                    "tracking: %s lacks part of this run; later `gsnobench doctor --replay` brings "
                    "it",
                    address.label,
                )
                return
            time.sleep(0.05)


@contextmanager
def harmless(consequence: str) -> Iterator[None]:
    """Trouble with tracking is one line on the log, and never an exception in the training loop."""
    try:
        yield
    except Exception as error:
        log.warning("tracking: %s (%s); %s", error, type(error).__name__, consequence)


def _start(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> None:
    address = Address.of(folder.parent.parent)
    if address is None:
        return
    # an attempt of this process that raised before its end
    if (left := _open.pop(spec.key, None)) is not None:
        left.close()
    writer = _open[spec.key] = open_writer(address.home, folder.name)
    before = read(writer.path)  # a run that was cut goes on under its old id
    writer.append(
        "started",
        id=before.id if before else new_id(),
        store=address.id,
        **beginning(spec, folder, tags),
    )
    ensure_mirror(address)


def ensure_mirror(address: Address) -> subprocess.Popen[bytes] | None:
    """Start the mirror unless one is at work: that one sees our spool, which lies there before we
    look.
    """
    with lock(_lock(address), patience=0) as is_free:
        pass
    if not is_free:
        return None
    journal = address.home / FOLDER / f"mirror-{address.id}.log"
    with journal.open(
        "ab" if journal.exists() and journal.stat().st_size < 1_000_000 else "wb"
    ) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "gsnobench.tracking.observer", str(address.home)],
            env=address.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C ends the training, not the record of it
        )


def _lock(address: Address) -> Path:
    return address.home / FOLDER / f".mirror-{address.id}.lock"


# --------------------------------------------------------------------------------------- the mirror


@dataclass(eq=False)
class Target:
    """One MLflow run, and what is known to be in it."""

    client: MlflowClient
    id: str
    stored: set[tuple[str, int]]
    state: str = ""

    @classmethod
    def find(cls, client: MlflowClient, address: Address, spool: Spool) -> Target:
        """The run that bears the spool's id, made if there is none."""
        experiment = experiment_id(client, address, str(spool.started["experiment"]))
        found = client.search_runs(
            [experiment], f"tags.`gsnobench.spool` = '{spool.id}'", max_results=1
        )
        if found:
            run = found[0]
        else:
            tags = {
                **spool.started["tags"],
                "gsnobench.spool": spool.id,
                "mlflow.source.name": "gsnobench run",
            }
            if sweep := tags.get("gsnobench.parent"):  # the mirror brings a sweep before its trials
                above = client.search_runs(
                    [experiment], f"tags.`gsnobench.spool` = '{sweep}'", max_results=1
                )
                tags |= {"mlflow.parentRunId": above[0].info.run_id} if above else {}
            name, when = str(spool.started["name"]), int(spool.started["time"])
            run = client.create_run(experiment, start_time=when, tags=tags, run_name=name)
        names = {name for name, _ in spool.points} & set(run.data.metrics)
        stored = {
            (name, one.step)
            for name in names
            for one in client.get_metric_history(run.info.run_id, name)
        }
        target = cls(client, run.info.run_id, stored)
        target.log_params(
            {k: v for k, v in spool.started["params"].items() if k not in run.data.params}
        )
        return target

    def log_params(self, params: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        entries = [Param(name, value) for name, value in params.items()]
        for first in range(0, len(entries), 100):
            self.client.log_batch(self.id, params=entries[first : first + 100])

    def log_points(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        for first in range(0, len(points), BATCH):
            chunk = points[first : first + BATCH]
            self.client.log_batch(
                self.id, metrics=[Metric(p.name, p.value, p.time, p.step) for p in chunk]
            )
            self.stored |= {(p.name, p.step) for p in chunk}

    def log_files(self, folder: Path) -> None:
        """Result and figures, unless a file of that name and size is there already."""
        files = [path for pattern in RunFolder.TRACKED for path in sorted(folder.glob(pattern))]
        for below in {path.parent for path in files}:
            place = "" if below == folder else below.relative_to(folder).as_posix()
            there = {
                (entry.path, entry.file_size)
                for entry in self.client.list_artifacts(self.id, place or None)
            }
            for path in files:
                if (
                    path.parent == below
                    and (path.relative_to(folder).as_posix(), path.stat().st_size) not in there
                ):
                    self.client.log_artifact(self.id, str(path), place or None)

    def set_state(self, state: str, when: int, tags: Mapping[str, str] | None = None) -> None:
        """The status in MLflow's words, and in ours as a tag; the last thing to be written."""
        from mlflow.entities import RunTag

        if state == self.state:
            return
        entries = [
            RunTag(k, str(v)) for k, v in {**(tags or {}), "gsnobench.status": state}.items()
        ]
        self.client.log_batch(self.id, tags=entries)
        if (status := STATUS.get(state, "FAILED")) == "RUNNING":
            self.client.update_run(self.id, status=status)
        else:
            self.client.set_terminated(self.id, status, end_time=when)
        self.state = state


@dataclass(eq=False)
class Mirror:
    """Brings spools to one store; remembers what is there, and forgets it after any trouble."""

    address: Address
    targets: dict[str, Target] = field(default_factory=dict)

    def bring(self, spool: Spool, *, live: bool) -> int:
        """Everything in the spool that the store lacks; returns how many points that was."""
        target = self.targets.pop(spool.id, None) or Target.find(
            client_of(self.address), self.address, spool
        )
        missing = [point for place, point in spool.points.items() if place not in target.stored]
        target.log_points(missing)
        end = spool.finished
        if end is None:
            target.set_state("running" if live else "interrupted", int(time.time() * 1000))
        else:
            if end["result"] and end["result"] == fingerprint(spool.run_folder):
                target.log_files(spool.run_folder)
            tags = {**end["tags"], **({"reason": end["reason"]} if end["reason"] else {})}
            target.set_state(end["status"], int(end["time"]), tags)
        if not live:
            mark_mirrored(spool)
        # only now: a call that failed may have worked, so the next one looks again
        self.targets[spool.id] = target
        return len(missing)


def client_of(address: Address) -> MlflowClient:
    """A client of this store and no other."""
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=address.uri)


def experiment_id(client: MlflowClient, address: Address, name: str) -> str:
    """The id of an experiment, made or restored if need be."""
    found = client.get_experiment_by_name(name)
    if found is None:
        place = None if address.is_served else (address.artifacts / name).as_uri()
        return client.create_experiment(
            name, artifact_location=place, tags={"mlflow.experimentKind": KIND}
        )
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _pending(address: Address, paths: Iterable[Path]) -> dict[Path, Spool]:
    """Those of the spools that belong to this store."""
    content = {path: read(path) for path in paths}
    return {
        path: spool
        for path, spool in content.items()
        if spool is not None and spool.started["store"] == address.id
    }


def _follow(mirror: Mirror) -> bool:
    """Mirror until no spool is pending; False if the store did not answer after the last run had
    ended.
    """
    failures, next_try, running, seen = 0, 0.0, set[Path](), dict[Path, tuple[int, int, int]]()
    while True:
        paths = unmirrored(mirror.address.home, seen)
        live = {path for path in paths if is_locked(path)}
        # read after the look at who lives: what has ended is then read to its end
        pending = _pending(mirror.address, paths)
        if not pending:
            return True
        if running - live:
            next_try = 0.0  # a run has just ended and waits for us
        running = live & set(pending)
        if time.monotonic() >= next_try:
            troubles = [
                _attempt(mirror, spool, live=path in live) for path, spool in pending.items()
            ]
            failures = failures + 1 if any(troubles) else 0
            next_try = time.monotonic() + min(2.0**failures, LONGEST_PAUSE) if failures else 0.0
        if failures >= TRIES and not running:
            return False
        time.sleep(PASS_SECONDS)


def _attempt(mirror: Mirror, spool: Spool, *, live: bool) -> str:
    """What went wrong with one spool, on the journal too; empty if nothing did."""
    try:
        mirror.bring(spool, live=live)
    except Exception as error:
        trouble = f"{spool.path.name}: {type(error).__name__}: {mirror.address.told(error)}"
        log.warning("%s", trouble)
        return trouble
    return ""


def mirror(home: Path) -> None:
    """Follow the spools of a home until all runs have ended; returns at once if another process
    does so.
    """
    address = Address.of(home)
    while address is not None:
        with lock(_lock(address), patience=1.0) as is_ours:
            if not is_ours or not _follow(Mirror(address)):
                return
        # asked after the lock is free: a run may have begun meanwhile
        if not _pending(address, unmirrored(address.home, {})):
            return


def replay(home: Path) -> dict[str, Any]:
    """Bring to the store whatever it lacks; doing it twice changes nothing. Raises RunError if the
    store does not answer.
    """
    address = Address.of(home)
    if address is None:
        raise RunError(
            "replay: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it "
            "for SQLite"
        )
    with lock(_lock(address), patience=30.0) as is_ours, bounded_requests():
        if not is_ours:
            raise RunError(
                "replay: a mirror is at work on this home; wait until its runs have ended"
            )
        live = {path for path in spools(address.home) if is_locked(path)}
        every = {path: spool for path in spools(address.home) if (spool := read(path)) is not None}
        ours = {
            path: spool for path, spool in every.items() if spool.started["store"] == address.id
        }
        bringer, points = Mirror(address), 0
        for path, spool in ours.items():
            try:
                points += bringer.bring(spool, live=path in live)
            except Exception as error:
                reason = address.told(error)
                raise RunError(
                    f"{address.label}: cannot take {path.name} ({reason}); mend it and replay again"
                ) from error
    elsewhere = sorted(path.name for path in every if path not in ours)
    return {"store": address.label, "spools": len(ours), "points": points, "elsewhere": elsewhere}


def trouble_of(address: Address) -> str | None:
    """Why a store does not answer; None if it does, or if its file will be made by the first run."""
    if address.is_default and not (address.home / "mlflow.db").exists():
        return None
    with bounded_requests():
        try:
            client_of(address).search_experiments(max_results=1)
        except Exception as error:
            return address.told(error)
    return None


if __name__ == "__main__":
    os.nice(5)  # training goes first
    logging.basicConfig(format="%(asctime)s %(message)s")
    mirror(Path(sys.argv[1]))
