"""Engines for studies in tests: this process, no progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gsnobench.declare import Limits
from gsnobench.home import open_home
from gsnobench.matrix.executors import executor
from gsnobench.matrix.matrix import Cell
from gsnobench.runs.machine import Report
from gsnobench.studies.base import Engine


@contextmanager
def silent(look: Callable[[], Sequence[Cell]]) -> Iterator[Callable[[Cell, int, int], None]]:
    yield lambda cell, done, total: None


def local_engine(home: Path) -> Engine:
    """Runs happen in this process, one after the other."""
    limits = Limits(home=home, device="cpu", jobs=1)
    return Engine(open_home(home), executor("local"), limits, Report(), silent)
