"""The MLflow observer: hooks that write the spool of a run and start the mirror."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gsnobench.files import is_locked, lock
from gsnobench.hookspecs import hookimpl
from gsnobench.records import RunResult, RunSpec
from gsnobench.tracking.address import Address
from gsnobench.tracking.mirror import lock_path
from gsnobench.tracking.spool import (
    FOLDER,
    SpoolWriter,
    beginning,
    ending,
    is_mirrored,
    is_told,
    new_id,
    open_writer,
    read,
)

GSNOBENCH_API = 1
WAIT_VARIABLE = "GSNOBENCH_TRACKING_WAIT"  # seconds that a finished run waits for its mirror
MOST_JOURNAL_BYTES = 1_000_000  # beyond that the mirror's log file begins anew

log = logging.getLogger("gsnobench.tracking")
# hooks are plain functions, so the writers that are open between two calls are kept here
_open: dict[str, SpoolWriter] = {}


@hookimpl
def gsnobench_run_started(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> None:
    """Open the spool and make sure that a mirror follows it."""
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
            if is_told(folder):  # by a process that was killed just after it
                return
            _start(result.spec, folder, {})
        writer = _open.pop(result.spec.key, None)
        address = Address.of(folder.parent.parent)
        if writer is None or address is None:
            return
        writer.append("finished", **ending(result, folder))
        writer.close()
        _wait(address, ensure_mirror(address), writer.path)


@contextmanager
def harmless(consequence: str) -> Iterator[None]:
    """Turn an error of tracking into one line on the log: it must never stop the training."""
    try:
        yield
    except Exception as error:
        log.warning("tracking: %s (%s); %s", error, type(error).__name__, consequence)


def ensure_mirror(address: Address) -> subprocess.Popen[bytes] | None:
    """Start the mirror; None if one is at work: it sees our spool, which exists already."""
    with lock(lock_path(address), patience=0) as is_free:
        pass
    if not is_free:
        return None
    journal = address.home / FOLDER / f"mirror-{address.id}.log"
    is_short = journal.exists() and journal.stat().st_size < MOST_JOURNAL_BYTES
    with journal.open("ab" if is_short else "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "gsnobench.tracking.mirror", str(address.home)],
            env=address.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C ends the training, not the record of it
        )


def _start(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> None:
    address = Address.of(folder.parent.parent)
    if address is None:
        return
    # an attempt of this process that raised before its end
    if (left := _open.pop(spec.key, None)) is not None:
        left.close()
    writer = _open[spec.key] = open_writer(address.home, folder.name)
    before = read(writer.path)  # a resumed run keeps its old id
    attempt = before.id if before else new_id()
    writer.append("started", id=attempt, store=address.id, **beginning(spec, folder, tags))
    ensure_mirror(address)


def _wait(address: Address, mirror: subprocess.Popen[bytes] | None, spool: Path) -> None:
    """Wait until a spool is mirrored, or for so long that a line on the log is due."""
    patience = float(os.environ.get(WAIT_VARIABLE, "10"))
    deadline = time.monotonic() + patience
    while patience and not is_mirrored(spool):
        # ours ends at once where one that was still starting up has the lock: that one works on
        has_ended = mirror is not None and mirror.poll() is not None
        has_ended = has_ended and not is_locked(lock_path(address)) and not is_mirrored(spool)
        is_late = time.monotonic() > deadline
        if is_late and not has_ended and address.uri.startswith("sqlite:"):
            return  # a database of this machine is only slow: the mirror goes on without us
        if has_ended or is_late:
            remedy = "`gsnobench doctor --replay` sends the rest"
            log.warning("tracking: %s does not have all of this run; %s", address.label, remedy)
            return
        time.sleep(0.05)
