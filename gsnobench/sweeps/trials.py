"""Optuna trials shared by workers: exactly N count in the end, even if workers die.

Workers that share the home see each other's locks, which the kernel frees when their holder dies.
Workers on other hosts, which share only a database, are noticed by their heartbeat.
"""

from __future__ import annotations

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
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from gsnobench.errors import RunError
from gsnobench.files import ends_torn, is_locked, lock, write_text
from gsnobench.sweeps.space import Point
from gsnobench.tracking.address import without_password, without_secrets
from gsnobench.tracking.spool import new_id

POLL_S = 0.3  # between two looks for a trial of a dead worker
HEARTBEAT_S = 15  # between two heartbeats of a running trial on a database
GRACE_S = 60  # without a heartbeat: its worker is taken for dead
LIVES = 3  # a point that kills its worker so many times is given up
CONNECT_S = 5  # most seconds until a database accepts a connection
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)  # the states that count towards --trials
REPEATS = "after"  # of a trial that repeats the point of a dead worker: the number of its trial
OPEN = (*COUNTED, TrialState.RUNNING, TrialState.WAITING)


# ------------------------------------------------------------------------------------------ storage


class JournalLock:
    """The lock of a journal, in the shape that Optuna expects.

    Optuna's own lock outlives a killed holder by 30 s; the kernel frees this one at once.
    """

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.stack = ExitStack()

    def acquire(self) -> bool:
        self.stack.enter_context(lock(self.journal.with_suffix(".lock")))
        if ends_torn(self.journal):
            _drop_last_line(self.journal)
        return True

    def release(self) -> None:
        self.stack.close()


def _drop_last_line(journal: Path) -> None:
    """Remove a torn last line: with another line behind it the whole study would be unreadable."""
    with journal.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def open_storage(url: str, folder: Path) -> BaseStorage:
    """The database at an address, or a journal in the folder of the study; an error is one line."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Optuna warns that heartbeats are experimental, and that we send them ourselves
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    warnings.filterwarnings("ignore", message="Heartbeat of storage")
    try:
        if not url:
            folder.mkdir(parents=True, exist_ok=True)
            journal = folder / "journal.log"
            journal_lock: Any = JournalLock(journal)
            return JournalStorage(JournalFileBackend(str(journal), lock_obj=journal_lock))
        return RDBStorage(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            engine_kwargs={"connect_args": _timeouts(url), "pool_pre_ping": True},
            heartbeat_interval=HEARTBEAT_S,
            grace_period=GRACE_S,
            heartbeat_stale_trial_callback=_requeue,
        )
    except Exception as error:  # SQLAlchemy's, the driver's, the system's, or a missing driver
        if isinstance(error, ImportError) and url.startswith("postgres"):
            hint = "its driver is not installed; pip install 'gsnobench[postgres]'"
            raise RunError(f"storage {_label(url)}: {hint}") from error
        raise RunError(_storage_problem(url, error)) from error


def _storage_problem(url: str, error: Exception) -> str:
    """The line about a storage that does not work."""
    text = str(getattr(error, "orig", None) or error).replace(url, _label(url))
    reason = " ".join(without_secrets(text).split())[:200]
    return (
        f"storage {_label(url)}: cannot be used ({reason}); expected sqlite:///FILE or "
        "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE; check address, user and password"
    )


def _label(url: str) -> str:
    return without_password(url) or "journal"


def _timeouts(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"timeout": 60}  # seconds that a writer waits for the others
    return {"connect_timeout": CONNECT_S} if url.startswith("postgres") else {}


@contextmanager
def one_line_errors(url: str) -> Iterator[None]:
    """Trouble with the storage inside the block is one line."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise RunError(_storage_problem(url, error)) from error


# ------------------------------------------------------------------------------------------- trials


@dataclass(frozen=True, eq=False)
class OpenTrial:
    """A trial that this worker runs; its lock and heartbeat show the others that it lives."""

    trial: Trial
    signs: ExitStack
    path: Path

    def close(self) -> None:
        """The trial has its values."""
        self.path.unlink(missing_ok=True)
        self.signs.close()


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
        with lock(folder / ".ask.lock"), one_line_errors(url):
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

    def counted(self) -> list[FrozenTrial]:
        """Trials that were completed or pruned, in the order in which they began."""
        return [trial for trial in self.all() if trial.state in COUNTED]

    def ask(self, count: int, grid: Sequence[Point] = ()) -> OpenTrial | None:
        """The next trial; None once `count` trials count.

        Waits while other workers may still die and leave theirs.
        """
        while True:
            with lock(self.folder / ".ask.lock"):
                self._fail_dead_trials()
                known = self.all()
                states = [trial.state for trial in known]
                if sum(state in COUNTED for state in states) >= count:
                    return None
                if sum(state in (*COUNTED, TrialState.RUNNING) for state in states) < count:
                    if grid and TrialState.WAITING not in states:
                        self.study.enqueue_trial(_next_point(grid, known))
                    opened = self._open_trial(count)
                    if opened is not None:
                        return opened
            time.sleep(POLL_S)

    def _open_trial(self, count: int) -> OpenTrial | None:
        """Ask Optuna for a trial and show that it runs.

        If another host asked at the same moment, one trial too many is given back.
        """
        trial = self.study.ask()
        earlier = [
            other for other in self.all() if other.number < trial.number and other.state in OPEN
        ]
        if len(earlier) >= count:
            self.study.tell(trial, state=TrialState.FAIL)
            return None
        signs, path = ExitStack(), self._lock_of(trial.number)
        signs.enter_context(lock(path))
        worker = f"{socket.gethostname()} {os.getpid()}"
        path.write_text(f"{worker}\n")  # for a person who looks
        trial.set_user_attr("home", self.home)
        trial.set_user_attr("worker", worker)
        signs.enter_context(_heartbeat(self.storage, trial._trial_id))
        return OpenTrial(trial, signs, path)

    def tell(
        self, opened: OpenTrial, values: Sequence[float] | None, facts: Mapping[str, Any]
    ) -> None:
        """The values of a trial; None if it was pruned or has none.

        A trial that was taken for dead stays with the worker that repeats it.
        """
        with lock(self.folder / ".ask.lock"), suppress(optuna.exceptions.UpdateFinishedTrialError):
            for name, value in facts.items():
                opened.trial.set_user_attr(name, value)
            state = TrialState.PRUNED if values is None else TrialState.COMPLETE
            self.study.tell(opened.trial, values, state=state, skip_if_finished=True)
        opened.close()

    def _fail_dead_trials(self) -> None:
        """Mark trials whose worker died as failed, and put their points back in the queue."""
        for trial in self.all():
            if trial.state == TrialState.RUNNING and self._is_dead(trial):
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                _requeue(self.study, trial)
        optuna.storages.fail_stale_trials(self.study)

    def _is_dead(self, trial: FrozenTrial) -> bool:
        home, begun = trial.user_attrs.get("home"), trial.datetime_start
        if home is None and self.url.startswith("postgres"):
            # cut between `ask` and its signature, or about to be signed by another host
            return begun is not None and datetime.now() - begun > timedelta(seconds=GRACE_S)
        return home in (None, self.home) and not is_locked(self._lock_of(trial.number))

    def _lock_of(self, number: int) -> Path:
        return self.folder / "running" / f"{number}.lock"


def _requeue(study: optuna.Study, dead: FrozenTrial) -> None:
    """Put the point of a dead trial back in the queue, unless it has killed too often."""
    lives = int(dead.user_attrs.get("lives", LIVES)) - 1
    if lives > 0:
        study.enqueue_trial(dead.params, user_attrs={"lives": lives, REPEATS: dead.number})


def _next_point(grid: Sequence[Point], known: Sequence[FrozenTrial]) -> dict[str, Any]:
    """The first point of the grid that no trial has."""
    begun = (*COUNTED, TrialState.RUNNING)
    used = [trial.params for trial in known if trial.state in begun]
    return dict(next(point for point in grid if point not in used))


@contextmanager
def _heartbeat(storage: BaseStorage, trial_id: int) -> Iterator[None]:
    """A heartbeat for workers on hosts that do not see our locks."""
    if not isinstance(storage, RDBStorage):
        yield
        return
    is_over = threading.Event()

    def beat() -> None:
        while True:
            # a database that is away for long is noticed by the next call that matters
            with suppress(optuna.exceptions.StorageInternalError):
                storage.record_heartbeat(trial_id)
            if is_over.wait(HEARTBEAT_S):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
