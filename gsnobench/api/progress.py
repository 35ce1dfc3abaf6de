"""Progress for a person: bars in a terminal, a live line in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsnobench.runs.machine import Report

LINE_S = 10.0  # between two lines of plain progress
REDRAW_S = 0.2  # between two pictures of a notebook's line
STARTING = "starting"
KEPT_S = 0.5  # a shorter stage leaves no line in a terminal


def warn(text: str) -> None:
    """One line on stderr."""
    print(f"gsnobench: warning: {text}", file=sys.stderr)


def is_notebook() -> bool:
    """Whether a Jupyter kernel runs this code: its cells show HTML, a terminal does not."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return get_ipython() is not None


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """Progress on stderr: bars in a terminal, a line now and then elsewhere, warnings if quiet."""
    from gsnobench.runs.machine import Report

    if quiet:
        yield Report(warn=warn)
    elif is_notebook():
        cell = _Cell()
        yield Report(stage=cell.stage, data=cell.data, step=cell.step, warn=warn)
        cell.end()
    elif sys.stderr.isatty():
        yield from _bars()
    else:
        lines = _Lines()
        yield Report(stage=lines.stage, data=lines.data, step=lines.step, warn=warn)


def progress_if(wanted: bool | None) -> AbstractContextManager[Report]:
    """Progress as somebody wants it; None: where a person looks, in a notebook or a terminal."""
    is_watched = is_notebook() or sys.stderr.isatty()
    return progress(quiet=not (is_watched if wanted is None else wanted))


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


class _Cell:
    """Progress below a notebook's cell: one line per ended stage, and a bar of the present one."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self.html = HTML
        self.started = self.drawn = time.monotonic()
        self.text, self.note, self.share = STARTING, "", 0.0
        self.ended: list[str] = []
        self.handle: Any = display(HTML(""), display_id=True)

    def stage(self, text: str) -> None:
        self._keep()
        self.started, self.text, self.note, self.share = time.monotonic(), text, "", 0.0
        self._draw()

    def data(self, done: int, total: int) -> None:
        self._move(f"{done}/{total} samples", done / max(total, 1))

    def step(self, step: int, total: int, best: float) -> None:
        best_text = f", best validation {best:.4g}" if best < 1e9 else ""
        self._move(f"step {step}/{total}{best_text}", step / max(total, 1))

    def end(self) -> None:
        self._keep()
        self.handle.update(self.html("<br>".join(self.ended)))

    def _move(self, note: str, share: float) -> None:
        self.note, self.share = note, share
        if time.monotonic() - self.drawn >= REDRAW_S:
            self._draw()

    def _keep(self) -> None:
        """A stage that took a while stays, with its time."""
        elapsed = time.monotonic() - self.started
        if self.text != STARTING and elapsed >= KEPT_S:
            words = [*filter(None, (self.text, self.note)), f"{elapsed:.1f} s"]
            self.ended.append(escape(" · ".join(words)))

    def _draw(self) -> None:
        self.drawn = time.monotonic()
        bar = f"<progress value='{self.share:.3f}' max='1'></progress>" if self.share else ""
        present = f"{escape(self.text)} {bar} {escape(self.note)}"
        self.handle.update(self.html("<br>".join([*self.ended, present])))


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
