"""Child processes: pinned threads, and a channel whose end is the end of the child."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def die_with(channel: Connection) -> None:
    """Nothing is ever sent this way: the call ends when the other side is gone, and so does this
    process.
    """
    receive(channel)
    os._exit(1)


def receive(channel: Connection) -> str | None:
    try:
        return str(channel.recv())
    except (EOFError, OSError):
        return None


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
