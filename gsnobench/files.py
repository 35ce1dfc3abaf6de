"""Files that parallel processes share and that a kill at any moment cannot spoil.

Written whole or not at all (`atomic`), and locked by one process at a time (`lock`).
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gsnobench.errors import DataError

POLL_S = 0.01  # between two attempts to lock a file


def digest(value: object) -> str:
    """Hash of anything JSON can hold; equal content, equal digest, on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


# -------------------------------------------------------------------------------------------- write


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that replaces `path` if the block ends well.

    If the block raises, the temporary file is removed and `path` stays as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror}); choose a writable folder with --home"
        ) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        os.chmod(part, 0o644)  # mkstemp makes private files; data and results are to be shared
        part.replace(path)
    except Exception as error:
        reason = _disk_trouble(error)
        if reason is None:
            raise
        raise DataError(
            f"{path}: cannot be written ({reason}); free some space or choose another --home"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _disk_trouble(error: Exception) -> str | None:
    """Why the disk refused, None if it did not: libraries wrap the system's error in their own."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    words = r"os error \d+|[Nn]o space left|PytorchStreamWriter failed|file write failed"
    return str(error).splitlines()[0] if re.search(words, str(error)) else None


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically."""
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table atomically; returns its path."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    write_text(path, text.getvalue())
    return path


def ends_torn(path: Path) -> bool:
    """Whether a kill or a power cut left the last line of a file without its end."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


# --------------------------------------------------------------------------------------------- lock


@contextmanager
def lock(path: Path, *, patience: float = math.inf) -> Iterator[bool]:
    """Lock a file between processes; yields whether this was possible within `patience` seconds.

    The kernel frees the lock when its holder dies.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise DataError(
            f"{path}: cannot be locked ({error.strerror}); choose a writable folder with --home"
        ) from error
    with file:
        yield lock_file(file, patience=patience)


def lock_file(file: IO[Any], *, patience: float = 0.0) -> bool:
    """Lock an open file until it is closed; False if another process keeps it locked too long."""
    if patience == math.inf:
        fcntl.flock(file, fcntl.LOCK_EX)
        return True
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if not path.exists():
        return False
    with path.open("a") as file:
        return not lock_file(file)
