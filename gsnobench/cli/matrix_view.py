"""The matrix as a person sees it: a grid of rows and tasks, alive in a terminal, a line a finished
cell elsewhere.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gsnobench.bench.matrix import Cell

if TYPE_CHECKING:
    from rich.table import Table

PERIOD_S = 1.0  # between two looks at the cells
LOOKING = 0.05  # of a core at most, however many cells there are


def grid(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a row a model@preset, a column a task, in each field the states of its
    seeds.
    """
    tasks = list(dict.fromkeys(cell.spec.task for cell in cells))
    names = list(dict.fromkeys(cell.spec.row for cell in cells))
    places: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.spec.row, cell.spec.task), []).append(cell)
    return ["model", *tasks], [
        [name, *(_field(places.get((name, task), [])) for task in tasks)] for name in names
    ]


def _field(cells: Sequence[Cell]) -> str:
    """`done 0.0123` for one seed or one kind of seeds, else the counts of the states."""
    if not cells:
        return ""
    states = Counter(cell.state for cell in cells)
    if set(states) == {"done"}:
        scores = [cell.result.headline for cell in cells if cell.result is not None]
        return f"{sum(scores) / len(scores):.4f} ({len(cells)})"
    return ", ".join(
        state if len(cells) == 1 else f"{count} {state}" for state, count in states.items()
    )


def summary(cells: Sequence[Cell]) -> str:
    """`12 done, 3 missing`."""
    return ", ".join(
        f"{count} {state}" for state, count in Counter(cell.state for cell in cells).most_common()
    )


def remarks(cells: Sequence[Cell]) -> list[str]:
    """A line for every cell with something to say: why it failed, diverged, declined or is stale."""
    texts: dict[str, list[int]] = {}
    for cell in cells:
        if cell.reason:
            texts.setdefault(
                f"{cell.spec.row} on {cell.spec.task}: {cell.state}, {cell.reason}", []
            ).append(cell.spec.seed)
    return [
        text if len(seeds) < 2 else f"{text} (seeds {', '.join(map(str, seeds))})"
        for text, seeds in texts.items()
    ]


def describe_end(cell: Cell, done: int, total: int) -> str:
    """The line of a finished cell."""
    result = cell.result
    if cell.state == "done" and result is not None:
        told = f"done, {result.headline:.4g} ({result.costs.get('train_cpu_s', 0):.0f} CPU-s)"
    else:
        told = f"{cell.state}, {cell.reason}"
    label = f", {cell.label}" if cell.label else ""
    return f"  [{done}/{total}] {cell.spec.row} on {cell.spec.task}{label}, seed {cell.spec.seed}: {told}"


@contextmanager
def live(
    look: Callable[[], Sequence[Cell]], *, quiet: bool = False
) -> Iterator[Callable[[Cell, int, int], None]]:
    """A callback for finished cells; in a terminal the whole grid is drawn meanwhile, from `look`,
    once a second.
    """
    if quiet:
        yield lambda cell, done, total: None
    elif not sys.stderr.isatty():
        yield lambda cell, done, total: print(
            describe_end(cell, done, total), file=sys.stderr, flush=True
        )
    else:
        yield from _drawn(look)


def _drawn(look: Callable[[], Sequence[Cell]]) -> Iterator[Callable[[Cell, int, int], None]]:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    is_over = threading.Event()
    with Live(_table(look()), console=console, transient=True, auto_refresh=False) as screen:

        def draw() -> None:
            pause = PERIOD_S
            while not is_over.wait(pause):
                begun = time.perf_counter()
                screen.update(_table(look()), refresh=True)
                pause = max(PERIOD_S, (time.perf_counter() - begun) / LOOKING)

        painter = threading.Thread(target=draw, daemon=True)
        painter.start()
        try:
            yield lambda cell, done, total: console.print(
                describe_end(cell, done, total), markup=False, highlight=False
            )
        finally:
            is_over.set()
            painter.join()


def _table(cells: Sequence[Cell]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    header, rows = grid(cells)
    table = Table(
        title=summary(cells),
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for name in header:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(field, style="bold" if "running" in field else "") for field in row))
    return table
