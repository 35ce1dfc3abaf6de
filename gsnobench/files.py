"""Compute once per (recipe, parameters), keep on disk; safe for parallel processes and for a kill
at any moment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gsnobench.errors import DataError

if TYPE_CHECKING:
    from gsnobench.data import Array


def digest(value: object) -> str:
    """Hash of anything JSON can hold; equal content, equal digest, on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that replaces `path` when the block ends well, and
    vanishes when it does not.
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
        # mkstemp makes private files; data and results are meant to be shared
        os.chmod(part, 0o644)
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
    """Why the disk refused, None if it did not: libraries wrap the error of the system in types of
    their own.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if re.search(
        r"os error \d+|[Nn]o space left|PytorchStreamWriter failed|file write failed", str(error)
    ):
        return str(error).splitlines()[0]
    return None


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically."""
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes; the kernel frees it when its holder dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
    except OSError as error:
        raise DataError(
            f"{path}: cannot be locked ({error.strerror}); choose a writable folder with --home"
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if not path.exists():
        return False
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@dataclass(frozen=True)
class Cache:
    """Named arrays under a folder; without a folder everything is computed anew."""

    folder: Path | None = None

    def arrays(
        self, recipe: str, params: Mapping[str, object], compute: Callable[[], Mapping[str, Array]]
    ) -> dict[str, Array]:
        """The arrays that `compute` returns, from disk if they were computed before with these
        parameters.

        `recipe` names the computation and its version ("modes-v1"); `params` must hold everything
        the result depends on.
        """
        if self.folder is None:
            return dict(compute())
        path = self.folder / recipe / f"{digest(dict(params))[:32]}.safetensors"
        if path.exists():
            return self._read(path)
        with lock(path.with_suffix(".lock")):
            if path.exists():  # another process was faster
                return self._read(path)
            import numpy as np  # numpy only where arrays are kept: `gsnobench list` needs none
            from safetensors.numpy import save_file

            arrays = {name: np.ascontiguousarray(value) for name, value in compute().items()}
            with atomic(path) as part:
                save_file(arrays, part)
            return arrays

    @staticmethod
    def _read(path: Path) -> dict[str, Array]:
        from safetensors.numpy import load_file

        try:
            return dict(load_file(path))
        except Exception as error:
            raise DataError(
                f"{path}: unreadable cache entry ({error}); delete it and run again"
            ) from error
