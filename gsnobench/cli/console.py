"""What a person sees: facts and progress, with rich in a terminal and as plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gsnobench.records import plain

if TYPE_CHECKING:
    from gsnobench.params import Params
    from gsnobench.runs.machine import Report

HeaderAndRows = tuple[Sequence[str], list[list[str]]]
LINE_S = 10.0  # between two lines of plain progress
STARTING = "starting"
KEPT_S = 0.5  # a shorter stage leaves no line in a terminal


# -------------------------------------------------------------------------------------------- print


def print_result(document: object, show: Callable[[], None], *, as_json: bool) -> None:
    """The result of a command: one JSON document, or what `show` prints for a person."""
    if as_json:
        print(json.dumps(plain(document)))
    else:
        show()


def print_facts(facts: Mapping[str, Any]) -> None:
    """One line per fact."""
    for name, value in facts.items():
        text = "unknown" if value is None else f"{value:.4g}" if isinstance(value, float) else value
        print(f"{name}: {text}")


def knob_table(
    params: type[Params],
    section: str,
    *,
    preset: str = "default",
    settings: Mapping[str, Any] | None = None,
) -> HeaderAndRows:
    """One row per knob, as the command line spells it, with its value in a preset."""
    values = settings or {}
    rows = [
        [
            f"--{section}.{knob.name}",
            str(values.get(knob.name, knob.default)),
            knob.range,
            knob.help,
        ]
        for knob in params.knobs()
    ]
    return ("knob", preset, "values", "what it does"), rows


def warn(text: str) -> None:
    """One line on stderr."""
    print(f"gsnobench: warning: {text}", file=sys.stderr)


# ----------------------------------------------------------------------------------------- progress


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """Progress on stderr: bars in a terminal, a line now and then elsewhere, warnings if quiet."""
    from gsnobench.runs.machine import Report

    if quiet:
        yield Report(warn=warn)
    elif sys.stderr.isatty():
        yield from _bars()
    else:
        lines = _Lines()
        yield Report(stage=lines.stage, data=lines.data, step=lines.step, warn=warn)


class _Lines:
    """Plain progress: one line per stage, then one whenever ten seconds have passed."""

    def __init__(self) -> None:
        self.started = self.shown = time.monotonic()

    def stage(self, text: str) -> None:
        self.started = self.shown = time.monotonic()
        print(f"- {text}", file=sys.stderr, flush=True)

    def data(self, done: int, total: int) -> None:
        self._print_sometimes(f"{done}/{total} samples", done, total)

    def step(self, step: int, total: int, best: float) -> None:
        self._print_sometimes(f"step {step}/{total}, best validation {best:.4g}", step, total)

    def _print_sometimes(self, text: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.shown < LINE_S:
            return
        self.shown = now
        left = (now - self.started) / max(done, 1) * (total - done)
        print(f"  {text}, about {left:.0f} s left", file=sys.stderr, flush=True)


def _bars() -> Iterator[Report]:
    from rich import progress as rich_progress
    from rich.console import Console

    from gsnobench.runs.machine import Report

    console = Console(stderr=True)
    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[count]}"),
        rich_progress.TextColumn("{task.fields[note]}"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(STARTING, total=None, note="", count="")

        def stage(text: str) -> None:
            keep_line()
            bars.reset(bar, description=text, note="", count="")
            bars.tasks[0].total = None  # `reset` would keep that of the stage before

        def keep_line() -> None:
            """A stage that took a while stays on the screen, with its time."""
            task = bars.tasks[0]
            if task.description != STARTING and (task.elapsed or 0) >= KEPT_S:
                words = [task.description, task.fields["count"], task.fields["note"]]
                line = "  ".join([*filter(None, words), f"{task.elapsed or 0:.1f} s"])
                console.print(line, markup=False, highlight=False)

        def data(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total, count=f"{done}/{total}", note="samples")

        def step(done: int, total: int, best: float) -> None:
            note = f"best validation {best:.4g}" if best < 1e9 else ""
            bars.update(bar, completed=done, total=total, count=f"{done}/{total}", note=note)

        def warn_above(text: str) -> None:
            console.print(f"gsnobench: warning: {text}", markup=False, highlight=False)

        yield Report(stage=stage, data=data, step=step, warn=warn_above)
        keep_line()
