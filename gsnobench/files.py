"""Files that parallel processes share and that a kill at any moment cannot spoil.

Written whole or not at all (`atomic`), locked by one process at a time (`lock`), arrays with a
checksum in plain safetensors (`write_arrays`), computed once per recipe and parameters (`Cache`).
What a killed process leaves behind is removed by the next one (`remove_left_over`).
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
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gsnobench.errors import DataError

if TYPE_CHECKING:
    from gsnobench.data import Array

POLL_S = 0.01  # between two attempts to lock a file
FRESH_S = 60.0  # a lock file that is younger may be about to be locked
UNKNOWN_S = 86400.0  # a temporary file of a process that cannot be looked up is given up then
PART = re.compile(r"\..*\.(?P<host>\w+)-(?P<process>\d+)-[0-9a-f]{8}\.part(-journal)?")
CHECKSUM = "sha256"  # in the metadata of a file of arrays; files from before it have none


def digest(value: object) -> str:
    """Hash of anything JSON can hold; equal content, equal digest, on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


# -------------------------------------------------------------------------------------------- write


@contextmanager
def atomic(path: Path, *, is_private: bool = False) -> Iterator[Path]:
    """A temporary path in the same folder that replaces `path` if the block ends well.

    If the block raises, the temporary file is removed and `path` stays as it was. What killed
    processes left of the same file is removed. A private file can be read by its owner alone, any
    other by whom the umask allows.
    """
    part = part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        os.close(os.open(part, flags, 0o600 if is_private else 0o666))
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path}: cannot be written ({reason}); choose a writable folder with --home"
        ) from error
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
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


def part_of(path: Path) -> Path:
    """A name beside a path for what is not whole yet; it says who writes it."""
    return path.parent / f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.part"


def remove_abandoned(path: Path) -> None:
    """Remove what killed processes left of a file or folder beside it."""
    for part in path.parent.glob(f".{escape(path.name)}.*.part*"):
        if is_abandoned(part):
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)


def _host() -> str:
    """This machine, as a part of a file's name: processes of others cannot be looked up here."""
    return re.sub(r"\W", "", socket.gethostname())[:24] or "localhost"


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


def private_token(path: Path) -> str:
    """A secret in a file that only its owner can read; made once, and anew if it is empty."""
    with lock(path.with_name(f".{path.name}.lock")):
        stored = path.read_text(encoding="utf-8").strip() if path.exists() else ""
        if not stored:
            stored = secrets.token_hex(32)
            with atomic(path, is_private=True) as part:
                part.write_text(stored, encoding="utf-8")
        os.chmod(path, 0o600)  # one of before may be readable by others
    return stored


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

    The kernel frees the lock when its holder dies. The file is removed when the block ends.
    """
    deadline = time.monotonic() + patience
    while True:
        with _opened(path) as file:
            is_ours = lock_file(file, patience=max(0.0, deadline - time.monotonic()))
            if is_ours and not _is_at(file, path):
                continue  # removed while we waited: others lock its successor
            try:
                yield is_ours
            finally:
                if is_ours:
                    path.unlink(missing_ok=True)
            return


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a")
    except OSError as error:
        raise DataError(
            f"{path}: cannot be locked ({error.strerror}); choose a writable folder with --home"
        ) from error


def _is_at(file: IO[Any], path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


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
    try:
        with path.open("rb") as file:
            return not lock_file(file)
    except FileNotFoundError:
        return False


# ---------------------------------------------------------------------------------------- left over


def left_over(folder: Path, *, skip: str = "") -> list[Path]:
    """Files below a folder that killed processes left behind: half-written ones, unheld locks.

    A lock file of this minute may be about to be locked. Folders called `skip` are not looked at.
    """
    youngest = time.time() - FRESH_S
    found = []
    for below, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != skip]
        # SQLite has a journal beside a file that it writes
        ends = (".part", ".part-journal")
        parts = [name for name in names if name.startswith(".") and name.endswith(ends)]
        found += [path for name in parts if is_abandoned(path := Path(below, name))]
        locks = [Path(below, name) for name in names if name.endswith(".lock")]
        found += [path for path in locks if _modified(path) < youngest and not is_locked(path)]
    return sorted(found)


def remove_left_over(folder: Path, *, skip: str = "") -> None:
    """Remove what killed processes left behind below a folder."""
    for path in left_over(folder, skip=skip):
        discard(path)


def discard(path: Path) -> None:
    """Remove a left-over file; a lock is held meanwhile, so that who waits for it notices."""
    if path.suffix != ".lock":
        path.unlink(missing_ok=True)
        return
    with suppress(OSError), path.open("rb") as file:
        if lock_file(file) and _is_at(file, path):
            path.unlink()


def is_abandoned(part: Path) -> bool:
    """Whether the process that writes a temporary file is dead.

    Its name says where and which one it was. Of a process on another machine nothing is known, so
    that its file counts as abandoned after a day; so does a file of another name.
    """
    owner = PART.fullmatch(part.name)
    if owner is None or owner["host"] != _host():
        return _modified(part) < time.time() - UNKNOWN_S
    try:
        os.kill(int(owner["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it lives, and is somebody else's
        pass
    return False


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return math.inf


# ------------------------------------------------------------------------------------------- arrays


class Damaged(ValueError):
    """The file cannot be read, or does not hold what was written."""


def write_arrays(path: Path, arrays: Mapping[str, Array], *, subject: str = "") -> None:
    """Write arrays and their checksum; a killed process leaves the file as it was.

    `subject` says what they are, so that a file in the place of another one is noticed.
    """
    import numpy as np
    from safetensors.numpy import save

    whole = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    with atomic(path) as part:
        # `save_file` would write a file of its own name, for its owner alone, that a kill leaves
        part.write_bytes(save(whole, metadata={CHECKSUM: checksum(whole, subject)}))


def read_arrays(path: Path, *, needs_checksum: bool = False, subject: str = "") -> dict[str, Array]:
    """The arrays of a file; `Damaged` if it is not what was written, or about something else."""
    from safetensors.numpy import load

    try:
        content = path.read_bytes()
        arrays: dict[str, Array] = {name: value.copy() for name, value in load(content).items()}
        stored = _metadata(content).get(CHECKSUM)
    except Exception as error:  # safetensors and json have several kinds for unreadable content
        raise Damaged(f"unreadable ({error})") from error
    # files from before have none, entries of a cache from before one without their subject
    is_known = stored is not None or needs_checksum
    if is_known and stored != checksum(arrays, subject) and stored != checksum(arrays):
        raise Damaged("its checksum does not match its content")
    return arrays


def checksum(arrays: Mapping[str, Array], subject: str = "") -> str:
    """A hash of the subject and of all names, types, shapes and values, whatever their order."""
    import numpy as np

    total = hashlib.sha256(subject.encode())
    for name in sorted(arrays):
        value = arrays[name]
        total.update(f"{name}\0{value.dtype.str}\0{value.shape}\0".encode())
        total.update(np.ascontiguousarray(value).data)  # its bytes, without a copy of them
    return total.hexdigest()


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata in the header of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + size]).get("__metadata__", {}))


# -------------------------------------------------------------------------------------------- cache


@dataclass(frozen=True)
class Cache:
    """Named arrays under a folder; without a folder everything is computed anew."""

    folder: Path | None = None

    def arrays(
        self, recipe: str, params: Mapping[str, object], compute: Callable[[], Mapping[str, Array]]
    ) -> dict[str, Array]:
        """The arrays that `compute` returns, from disk if they were computed before.

        `recipe` names the computation and its version ("modes-v1"); `params` must hold everything
        the result depends on. A damaged entry is computed anew.
        """
        if self.folder is None:
            return dict(compute())
        path = self.folder / recipe / f"{digest(dict(params))[:32]}.safetensors"
        subject = f"{recipe}/{path.stem}"
        if (arrays := _entry(path, subject)) is not None:
            return arrays
        with lock(path.with_suffix(".lock")):
            if (arrays := _entry(path, subject)) is not None:  # another process was faster
                return arrays
            write_arrays(path, compute(), subject=subject)
            return read_arrays(path, subject=subject)


def _entry(path: Path, subject: str) -> dict[str, Array] | None:
    """What an entry holds; None if there is none, or not what was written under this name."""
    if not path.exists():
        return None
    try:
        return read_arrays(path, needs_checksum=True, subject=subject)
    except Damaged:
        return None
