"""The trials of a sweep in Optuna's storage: asked and told exactly so many times, by any number of
workers that may die.

Workers that share the home see each other's locks, which the kernel frees when their holder dies;
workers elsewhere, on a database, are heard by their heartbeat.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from gsnobench.errors import RunError
from gsnobench.files import is_locked, lock, write_text
from gsnobench.sweep.space import Point
from gsnobench.tracking.spool import new_id

POLL_S = 0.3  # between two looks for a trial of a dead worker
HEARTBEAT_S = 15  # of a running trial on a database
GRACE_S = 60  # without a heartbeat, and its worker is taken for dead
LIVES = 3  # a point that kills its worker so many times is given up
CONNECT_S = 5  # for a database to answer
ANSWERED = (TrialState.COMPLETE, TrialState.PRUNED)
OPEN = (*ANSWERED, TrialState.RUNNING, TrialState.WAITING)


# ------------------------------------------------------------------------------------------ storage


class KernelLock:
    """Optuna's own lock of a journal outlives a killed holder by 30 s; the kernel frees this one at
    once.
    """

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.file: IO[bytes] | None = None

    def acquire(self) -> bool:
        self.file = self.journal.with_suffix(".lock").open("ab")
        fcntl.flock(self.file, fcntl.LOCK_EX)
        _mend(self.journal)
        return True

    def release(self) -> None:
        assert self.file is not None
        self.file.close()


def _mend(journal: Path) -> None:
    """Take out a last line that a power cut left unfinished: with a line behind it the whole study
    would be unreadable.
    """
    with journal.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def open_storage(url: str, folder: Path) -> BaseStorage:
    """A journal in the folder of the study, or the database at an address; what does not answer is
    one line.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # the heartbeat,
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    # and that we give it ourselves
    warnings.filterwarnings("ignore", message="Heartbeat of storage")
    try:
        if not url:
            folder.mkdir(parents=True, exist_ok=True)
            journal = folder / "journal.log"
            return JournalStorage(JournalFileBackend(str(journal), lock_obj=KernelLock(journal)))  # type: ignore[arg-type]
        return RDBStorage(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            engine_kwargs={"connect_args": _patience(url), "pool_pre_ping": True},
            heartbeat_interval=HEARTBEAT_S,
            grace_period=GRACE_S,
            heartbeat_stale_trial_callback=_again,
        )
    # SQLAlchemy's, the driver's and the system's errors; a driver that is missing
    except Exception as error:
        if isinstance(error, ImportError) and url.startswith("postgres"):
            hint = "its driver is not installed; pip install 'gsnobench[postgres]'"
            raise RunError(f"storage {label(url)}: {hint}") from error
        raise RunError(unanswered(url, error)) from error


def unanswered(url: str, error: Exception) -> str:
    """The line about a storage that does not work."""
    reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
    hint = "expected sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE; check address, user and password"
    return f"storage {label(url)}: cannot be used ({reason}); {hint}"


def label(url: str) -> str:
    """The address without user and password."""
    try:
        parts = urlsplit(url)
        return (
            parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            if parts.netloc
            else url or "journal"
        )
    except ValueError:
        return "address"


def _patience(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"timeout": 60}  # seconds that a writer waits for the others
    return {"connect_timeout": CONNECT_S} if url.startswith("postgres") else {}


# -------------------------------------------------------------------------------------------- asked


@dataclass(frozen=True, eq=False)
class Asked:
    """A trial that this worker answers; while it is held, everybody can see that the worker lives."""

    trial: Trial
    hold: ExitStack
    path: Path

    def release(self) -> None:
        """The trial has its answer."""
        self.path.unlink(missing_ok=True)
        self.hold.close()


@dataclass(frozen=True, eq=False)
class Trials:
    """A study as one worker sees it."""

    study: optuna.Study
    storage: BaseStorage
    folder: Path  # HOME/studies/<name>: locks, and the journal if there is no database
    url: str
    home: str  # names the home: equal on hosts that share it

    @classmethod
    def open(cls, name: str, folder: Path, url: str, objectives: int) -> Trials:
        """The study of this name, made if there is none."""
        storage = open_storage(url, folder)
        with lock(folder / ".ask.lock"), answering(url):
            study = optuna.create_study(
                storage=storage,
                study_name=name,
                load_if_exists=True,
                directions=["minimize"] * objectives,
            )
            home = folder / "home.id"
            if not home.exists():
                write_text(home, new_id())
            return cls(study, storage, folder, url, home.read_text().strip())

    def all(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def answered(self) -> list[FrozenTrial]:
        """Trials that have an answer, in the order in which they were asked."""
        return [one for one in self.all() if one.state in ANSWERED]

    def ask(self, wanted: int, grid: Sequence[Point] = ()) -> Asked | None:
        """The next trial; None once so many have their answer. Waits while others may still die and
        leave theirs.
        """
        while True:
            with lock(self.folder / ".ask.lock"):
                self._bury()
                known = self.all()
                if sum(one.state in ANSWERED for one in known) >= wanted:
                    return None
                if sum(one.state in (*ANSWERED, TrialState.RUNNING) for one in known) < wanted:
                    if grid and not any(one.state == TrialState.WAITING for one in known):
                        self.study.enqueue_trial(_next_of(grid, known))
                    asked = self._take(wanted)
                    if asked is not None:
                        return asked
            time.sleep(POLL_S)

    def _take(self, wanted: int) -> Asked | None:
        """Ask Optuna, and show that the trial is held; one too many, because another host asked
        meanwhile, is given back.
        """
        trial = self.study.ask()
        before = [one for one in self.all() if one.number < trial.number and one.state in OPEN]
        if len(before) >= wanted:
            self.study.tell(trial, state=TrialState.FAIL)
            return None
        hold, path = ExitStack(), self.folder / "running" / f"{trial.number}.lock"
        hold.enter_context(lock(path))
        worker = f"{socket.gethostname()} {os.getpid()}"
        path.write_text(f"{worker}\n")  # for a person who looks
        trial.set_user_attr("home", self.home)
        trial.set_user_attr("worker", worker)
        hold.enter_context(_beating(self.storage, trial._trial_id))
        return Asked(trial, hold, path)

    def tell(self, asked: Asked, values: Sequence[float] | None, facts: Mapping[str, Any]) -> None:
        """The answer of a trial; without values it was pruned or has none. One that was taken for
        dead keeps its new owner.
        """
        with lock(self.folder / ".ask.lock"), suppress(optuna.exceptions.UpdateFinishedTrialError):
            for name, value in facts.items():
                asked.trial.set_user_attr(name, value)
            state = TrialState.PRUNED if values is None else TrialState.COMPLETE
            self.study.tell(asked.trial, values, state=state, skip_if_finished=True)
        asked.release()

    def _bury(self) -> None:
        """Trials whose worker died are marked as failed, and their points are asked again."""
        for one in self.all():
            if one.state == TrialState.RUNNING and self._is_dead(one):
                self.study.tell(one.number, state=TrialState.FAIL, skip_if_finished=True)
                _again(self.study, one)
        optuna.storages.fail_stale_trials(self.study)

    def _is_dead(self, one: FrozenTrial) -> bool:
        home = one.user_attrs.get("home")
        # cut between asking and signing, or about to sign elsewhere
        if home is None and self.url.startswith("postgres"):
            return (
                one.datetime_start is not None
                and datetime.now() - one.datetime_start > timedelta(seconds=GRACE_S)
            )
        return home in (None, self.home) and not is_locked(
            self.folder / "running" / f"{one.number}.lock"
        )


def _again(study: optuna.Study, dead: FrozenTrial) -> None:
    """Put the point of a dead trial back in the queue, unless it has killed too often."""
    lives = int(dead.user_attrs.get("lives", LIVES)) - 1
    if lives > 0:
        study.enqueue_trial(dead.params, user_attrs={"lives": lives, "after": dead.number})


def _next_of(grid: Sequence[Point], known: Sequence[FrozenTrial]) -> dict[str, Any]:
    asked = [one.params for one in known if one.state in (*ANSWERED, TrialState.RUNNING)]
    return dict(next(point for point in grid if point not in asked))


@contextmanager
def _beating(storage: BaseStorage, trial_id: int) -> Iterator[None]:
    """A heartbeat for workers on hosts that do not see our locks."""
    if not isinstance(storage, RDBStorage):
        yield
        return
    is_over = threading.Event()

    def beat() -> None:
        while True:
            with suppress(
                optuna.exceptions.StorageInternalError
            ):  # a database that is away for a moment is missed by the next call that matters
                storage.record_heartbeat(trial_id)
            if is_over.wait(HEARTBEAT_S):
                return

    pulse = threading.Thread(target=beat, daemon=True)
    pulse.start()
    try:
        yield
    finally:
        is_over.set()
        pulse.join()


@contextmanager
def answering(url: str) -> Iterator[None]:
    """Trouble with the storage inside the block is one line."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise RunError(unanswered(url, error)) from error
