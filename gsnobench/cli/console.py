"""What a person sees: rich tables and progress in a terminal, plain lines elsewhere. Everything
here goes to stderr or stdout.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsnobench.runs.machine import Report


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, mark: int | None = None
) -> None:
    """A table on stdout; tab-separated lines where stdout is not a terminal. `mark` emphasises one
    row.
    """
    if not sys.stdout.isatty():
        print(title)
        for row in (header, *rows):
            print("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for position, name in enumerate(header):
        is_number = all(row[position][:1] in "-0123456789" for row in rows)
        table.add_column(Text(name), justify="right" if is_number else "left")
    for number, row in enumerate(rows):
        table.add_row(*(Text(cell) for cell in row), style="bold green" if number == mark else None)
    Console().print(table)


def warn(text: str) -> None:
    """One line on stderr."""
    print(f"gsnobench: warning: {text}", file=sys.stderr)


def print_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """A line a fact, or one JSON document."""
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        text = "unknown" if value is None else f"{value:.4g}" if isinstance(value, float) else value
        print(f"{name}: {text}")


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """Progress of one run: bars with a rate and an ETA in a terminal, a line now and then
    elsewhere, nothing if quiet.
    """
    from gsnobench.runs.machine import Report

    if quiet:
        yield Report(warn=warn)
    elif sys.stderr.isatty():
        yield from _bars()
    else:
        lines = _Lines()
        yield Report(stage=lines.stage, data=lines.data, step=lines.step, warn=warn)


class _Lines:
    """Plain progress: a line a stage, then one whenever ten seconds have passed."""

    def __init__(self) -> None:
        self.begun = self.shown = time.monotonic()

    def stage(self, text: str) -> None:
        self.begun = self.shown = time.monotonic()
        print(f"- {text}", file=sys.stderr, flush=True)

    def data(self, done: int, total: int) -> None:
        self._now_and_then(f"{done}/{total} samples", done, total)

    def step(self, step: int, total: int, best: float) -> None:
        self._now_and_then(f"step {step}/{total}, best validation {best:.4g}", step, total)

    def _now_and_then(self, text: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.shown < 10:
            return
        self.shown = now
        left = (now - self.begun) / max(done, 1) * (total - done)
        print(f"  {text}, about {left:.0f} s left", file=sys.stderr, flush=True)


def _bars() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from gsnobench.runs.machine import Report

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task("starting", total=None, note="")

        def stage(text: str) -> None:
            bars.reset(bar, description=text, total=None, note="")

        def data(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total, note="samples")

        def step(done: int, total: int, best: float) -> None:
            bars.update(
                bar,
                completed=done,
                total=total,
                note=f"best validation {best:.4g}" if best < 1e9 else "",
            )

        def warn_above(text: str) -> None:
            console.print(f"gsnobench: warning: {text}", markup=False, highlight=False)

        yield Report(stage=stage, data=data, step=step, warn=warn_above)
