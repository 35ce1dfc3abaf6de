"""The mirror: a process that brings spools to the MLflow store, and the same on request (`replay`).

One mirror per home and store follows all spools until their runs have ended, and gives up on a
store that stays silent. What is in the store already is looked up, so that bringing a spool twice
changes nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsnobench.errors import RunError
from gsnobench.files import atomic, is_locked, lock
from gsnobench.home import RunFolder
from gsnobench.tracking.address import DATABASE, Address, bounded_requests
from gsnobench.tracking.spool import (
    FOLDER,
    Point,
    Spool,
    fingerprint,
    mark_mirrored,
    read,
    spools,
    tell_again,
    unmirrored,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PASS_SECONDS = 0.5  # between two looks at the spools
TRIES = 4  # of a silent store, once no run is left
LONGEST_PAUSE = 15.0  # seconds between two tries
KIND = "custom_model_development"  # the layout of MLflow's pages that suits training runs
CONNECT_S = 5  # most seconds until a database accepts a connection
BATCH = 1000  # metrics in one call: the limit of MLflow's interface
PARAMS = 100  # parameters in one call: the limit of MLflow's interface
# gsnobench's states in MLflow's words; all others are FAILED
STATUS = {"done": "FINISHED", "pruned": "KILLED", "interrupted": "KILLED", "running": "RUNNING"}

log = logging.getLogger("gsnobench.tracking")


# ---------------------------------------------------------------------------------------- the store


def client_of(address: Address) -> MlflowClient:
    """A client of this store and no other."""
    from mlflow import MlflowClient

    make_store(address)
    _knock(address)
    return MlflowClient(tracking_uri=address.uri)


def _knock(address: Address) -> None:
    """Connect once to a database: MLflow itself would try a silent one for minutes."""
    if not address.uri.startswith(("postgresql", "mysql", "mssql")):
        return
    from sqlalchemy import create_engine

    limit = {"connect_timeout": CONNECT_S} if address.uri.startswith("postgresql") else {}
    engine = create_engine(address.uri, connect_args=limit)
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def make_store(address: Address) -> None:
    """Make the database of a home if there is none: under another name, put in place when whole.

    MLflow takes seconds to make its tables, and could not go on where a kill ended it.
    """
    path = address.home / DATABASE
    if not address.is_default or path.exists():
        return
    from mlflow import MlflowClient

    with lock(address.home / FOLDER / ".store.lock"):
        if not path.exists():  # another process was faster
            with atomic(path) as part, _quiet():
                MlflowClient(tracking_uri=f"sqlite:///{part}").search_experiments(max_results=1)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without MLflow's lines about each of its tables."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def experiment_id(client: MlflowClient, address: Address, name: str) -> str:
    """The id of an experiment, which is made or restored if need be."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        artifacts = None if address.is_served else (address.artifacts / name).as_uri()
        tags = {"mlflow.experimentKind": KIND}
        return client.create_experiment(name, artifact_location=artifacts, tags=tags)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


def trouble_of(address: Address) -> str | None:
    """Why a store is silent; None if it responds, or if its file will be made by the first run."""
    if address.is_default and not (address.home / DATABASE).exists():
        return None
    with bounded_requests():
        try:
            client_of(address).search_experiments(max_results=1)
        except Exception as error:
            return address.error_line(error)
    return None


@dataclass(eq=False)
class StoredRun:
    """One MLflow run, and what is known to be in it."""

    client: MlflowClient
    id: str
    stored: set[tuple[str, int]]  # (metric, step)
    state: str = ""

    @classmethod
    def of(cls, client: MlflowClient, address: Address, spool: Spool) -> StoredRun:
        """The run that has the spool's id as a tag, made if there is none."""
        experiment = experiment_id(client, address, str(spool.started["experiment"]))
        run = _run_of(client, experiment, spool.id) or _new_run(client, experiment, spool)
        names = {name for name, _ in spool.points} & set(run.data.metrics)
        history = {name: client.get_metric_history(run.info.run_id, name) for name in names}
        stored = {(name, point.step) for name, points in history.items() for point in points}
        made = cls(client, run.info.run_id, stored)
        params = spool.started["params"]
        made.log_params({k: v for k, v in params.items() if k not in run.data.params})
        return made

    def log_params(self, params: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        entries = [Param(name, value) for name, value in params.items()]
        for first in range(0, len(entries), PARAMS):
            self.client.log_batch(self.id, params=entries[first : first + PARAMS])

    def log_points(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        for first in range(0, len(points), BATCH):
            chunk = points[first : first + BATCH]
            metrics = [Metric(p.name, p.value, p.time, p.step) for p in chunk]
            self.client.log_batch(self.id, metrics=metrics)
            self.stored |= {(p.name, p.step) for p in chunk}

    def log_files(self, folder: Path) -> None:
        """Result and figures, unless a file of that name and size is there already."""
        files = [path for pattern in RunFolder.TRACKED for path in sorted(folder.glob(pattern))]
        for parent in {path.parent for path in files}:
            below = None if parent == folder else parent.relative_to(folder).as_posix()
            artifacts = self.client.list_artifacts(self.id, below)
            known = {(artifact.path, artifact.file_size) for artifact in artifacts}
            for path in files:
                name = path.relative_to(folder).as_posix()
                if path.parent == parent and (name, path.stat().st_size) not in known:
                    self.client.log_artifact(self.id, str(path), below)

    def set_state(self, state: str, when: int, tags: Mapping[str, str] | None = None) -> None:
        """The status in MLflow's words, and in ours as a tag; the last thing to be written."""
        from mlflow.entities import RunTag

        if state == self.state:
            return
        named = {**(tags or {}), "gsnobench.status": state}
        self.client.log_batch(self.id, tags=[RunTag(k, str(v)) for k, v in named.items()])
        if (status := STATUS.get(state, "FAILED")) == "RUNNING":
            self.client.update_run(self.id, status=status)
        else:
            self.client.set_terminated(self.id, status, end_time=when)
        self.state = state


def _run_of(client: MlflowClient, experiment: str, spool_id: str) -> Run | None:
    """The MLflow run that a spool was brought to before."""
    query = f"tags.`gsnobench.spool` = '{spool_id}'"
    return next(iter(client.search_runs([experiment], query, max_results=1)), None)


def _new_run(client: MlflowClient, experiment: str, spool: Spool) -> Run:
    tags = {**spool.started["tags"], "gsnobench.spool": spool.id}
    tags["mlflow.source.name"] = "gsnobench run"
    if sweep := tags.get("gsnobench.parent"):  # the mirror brings a sweep before its trials
        parent = _run_of(client, experiment, sweep)
        tags |= {} if parent is None else {"mlflow.parentRunId": parent.info.run_id}
    name, when = str(spool.started["name"]), int(spool.started["time"])
    return client.create_run(experiment, start_time=when, tags=tags, run_name=name)


# --------------------------------------------------------------------------------------- the mirror


@dataclass(eq=False)
class Mirror:
    """Brings spools to one store; remembers what is there, and forgets it after any error."""

    address: Address
    runs: dict[str, StoredRun] = field(default_factory=dict)  # id of a spool -> its run

    def bring(self, spool: Spool, *, live: bool) -> int:
        """Send everything in the spool that the store lacks; returns how many points that was."""
        spool = spool if live else tell_again(spool)
        run = self.runs.pop(spool.id, None)
        run = run or StoredRun.of(client_of(self.address), self.address, spool)
        missing = [point for step, point in spool.points.items() if step not in run.stored]
        run.log_points(missing)
        end = spool.finished
        if end is None:
            run.set_state("running" if live else "interrupted", int(time.time() * 1000))
        else:
            if end["result"] and end["result"] == fingerprint(spool.run_folder):
                run.log_files(spool.run_folder)
            tags = {**end["tags"], **({"reason": end["reason"]} if end["reason"] else {})}
            run.set_state(end["status"], int(end["time"]), tags)
        if not live:
            mark_mirrored(spool)
        # only now: a call that failed may have worked, so the next one looks again
        self.runs[spool.id] = run
        return len(missing)


def lock_path(address: Address) -> Path:
    """Locked by the mirror of a home and store while it works."""
    return address.home / FOLDER / f".mirror-{address.id}.lock"


def follow(home: Path) -> None:
    """Follow the spools of a home until all runs have ended, unless another process does so."""
    address = Address.of(home)
    while address is not None:
        with lock(lock_path(address), patience=1.0) as is_ours:
            if not is_ours or not _follow(Mirror(address)):
                return
        # looked up after the lock is free: a run may have begun meanwhile
        if not _pending(address, unmirrored(address.home, {})):
            return


def _follow(mirror: Mirror) -> bool:
    """Mirror until no spool is pending; False if the store was silent after the last run's end."""
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
            works = [_attempt(mirror, spool, live=path in live) for path, spool in pending.items()]
            failures = 0 if all(works) else failures + 1
            next_try = time.monotonic() + min(2.0**failures, LONGEST_PAUSE) if failures else 0.0
        if failures >= TRIES and not running:
            return False
        time.sleep(PASS_SECONDS)


def _pending(address: Address, paths: Iterable[Path]) -> dict[Path, Spool]:
    """Those of the spools that belong to this store."""
    content = {path: spool for path in paths if (spool := read(path)) is not None}
    return {path: spool for path, spool in content.items() if spool.started["store"] == address.id}


def _attempt(mirror: Mirror, spool: Spool, *, live: bool) -> bool:
    """Whether a spool could be brought; if not, why is a line in the mirror's log file."""
    try:
        mirror.bring(spool, live=live)
    except Exception as error:
        reason = mirror.address.error_line(error)
        log.warning("%s: %s: %s", spool.path.name, type(error).__name__, reason)
        return False
    return True


def replay(home: Path) -> dict[str, Any]:
    """Bring to the store whatever it lacks; doing it twice changes nothing.

    Raises RunError if the store is silent.
    """
    address = Address.of(home)
    if address is None:
        raise RunError(
            "replay: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it "
            "for SQLite"
        )
    with lock(lock_path(address), patience=30.0) as is_ours, bounded_requests():
        if not is_ours:
            raise RunError(
                "replay: a mirror is at work on this home; wait until its runs have ended"
            )
        paths = spools(address.home)
        live = {path for path in paths if is_locked(path)}
        ours = _pending(address, paths)
        points = _bring_all(Mirror(address), ours, live)
        elsewhere = [path.name for path in paths if path not in ours and read(path) is not None]
    return {"store": address.label, "spools": len(ours), "points": points, "elsewhere": elsewhere}


def _bring_all(mirror: Mirror, spools: Mapping[Path, Spool], live: set[Path]) -> int:
    """How many points were missing; the first error ends it."""
    points = 0
    for path, spool in spools.items():
        try:
            points += mirror.bring(spool, live=path in live)
        except Exception as error:
            reason = mirror.address.error_line(error)
            raise RunError(
                f"{mirror.address.label}: cannot take {path.name} ({reason}); mend it and replay "
                "again"
            ) from error
    return points


if __name__ == "__main__":
    os.nice(5)  # training goes first
    logging.basicConfig(format="%(asctime)s %(message)s")
    follow(Path(sys.argv[1]))
