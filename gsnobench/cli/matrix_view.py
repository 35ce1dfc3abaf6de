"""The matrix on a terminal: a live grid, or one line per finished cell when stderr is a file.

Also what `--dry-run` shows of many runs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gsnobench.cli.console import print_result
from gsnobench.cli.table import print_table

if TYPE_CHECKING:
    from rich.table import Table

    from gsnobench.home import Home
    from gsnobench.matrix.matrix import Cell, Need

PERIOD_S = 1.0  # between two reads of the cells' states
SHORT = {"missing": "-", "declined": "n/a"}  # states that most cells of a new matrix have
READING = 0.05  # of a core at most, even for very many cells
ShowEnd = Callable[["Cell", int, int], None]  # a finished cell, how many ended, of how many


def grid(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: one row per model@preset, one column per task, the seeds' states inside."""
    data: dict[str, set[str]] = {}
    for cell in cells:
        data.setdefault(cell.column, set()).add(cell.spec.source)

    def column_of(cell: Cell) -> str:
        """Its task; two files that call their task alike are two columns."""
        is_alone = len(data[cell.column]) == 1
        return cell.column if is_alone else f"{cell.column} #{cell.spec.source[:6]}"

    columns = list(dict.fromkeys(map(column_of, cells)))
    names = list(dict.fromkeys(cell.spec.row for cell in cells))
    seeds: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        seeds.setdefault((cell.spec.row, column_of(cell)), []).append(cell)
    rows = [
        [name, *(_states(seeds.get((name, column), [])) for column in columns)] for name in names
    ]
    return ["model", *columns], rows


def _states(cells: Sequence[Cell]) -> str:
    """The mean error and the number of seeds if all are done, else the counts of their states."""
    if not cells:
        return ""
    counts = Counter(cell.state for cell in cells)
    if set(counts) == {"done"}:
        scores = [cell.result.headline for cell in cells if cell.result is not None]
        return f"{sum(scores) / len(scores):.4f} ({len(cells)})"
    if set(counts) in ({"missing"}, {"declined"}):
        return SHORT[cells[0].state]
    if len(cells) == 1:
        return cells[0].state
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def counts(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: one row per model@preset, one column per state that occurs."""
    states = [state for state, _ in Counter(cell.state for cell in cells).most_common()]
    by_row: dict[str, Counter[str]] = {}
    for cell in cells:
        by_row.setdefault(cell.spec.row, Counter())[cell.state] += 1
    rows = [
        [name, *(str(found[state] or "-") for state in states)] for name, found in by_row.items()
    ]
    return ["model", *states], rows


def summary(cells: Sequence[Cell]) -> str:
    """`12 done, 3 missing`."""
    counts = Counter(cell.state for cell in cells)
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def remarks(cells: Sequence[Cell]) -> list[str]:
    """One line for each reason why cells failed, diverged, declined or are stale."""
    texts: dict[str, list[int]] = {}
    for cell in cells:
        if cell.reason:
            text = f"{cell.spec.row} on {cell.column}: {cell.state}, {cell.reason}"
            texts.setdefault(text, []).append(cell.spec.seed)
    return [
        text if len(seeds) < 2 else f"{text} (seeds {', '.join(map(str, seeds))})"
        for text, seeds in texts.items()
    ]


def describe_end(cell: Cell, done: int, total: int) -> str:
    """The line of a finished cell."""
    spec, result = cell.spec, cell.result
    if cell.state == "done" and result is not None:
        end = f"done, {result.headline:.4g} ({result.costs.get('train_cpu_s', 0):.0f} CPU-s)"
    else:
        end = f"{cell.state}, {cell.reason}"
    label = f", {cell.label}" if cell.label else ""
    return f"  [{done}/{total}] {spec.row} on {cell.column}{label}, seed {spec.seed}: {end}"


@contextmanager
def live(look: Callable[[], Sequence[Cell]], *, quiet: bool = False) -> Iterator[ShowEnd]:
    """A callback for finished cells; in a terminal the grid of `look()` is redrawn meanwhile."""
    if quiet:
        yield lambda cell, done, total: None
    elif not sys.stderr.isatty():
        yield lambda cell, done, total: print(
            describe_end(cell, done, total), file=sys.stderr, flush=True
        )
    else:
        yield from _drawn(look)


def _drawn(look: Callable[[], Sequence[Cell]]) -> Iterator[ShowEnd]:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    is_over = threading.Event()
    with Live(_table(look()), console=console, transient=True, auto_refresh=False) as screen:

        def draw() -> None:
            pause = PERIOD_S
            while not is_over.wait(pause):
                started = time.perf_counter()
                screen.update(_table(look()), refresh=True)
                pause = max(PERIOD_S, (time.perf_counter() - started) / READING)

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
    table = Table(title=summary(cells), box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.title_justify = "left"
    for name in header:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(text, style="bold" if "running" in text else "") for text in row))
    return table


# -------------------------------------------------------------------------------------- forecast


UNKNOWN = "-"  # a cost that nothing tells


def print_forecast(cells: Sequence[Cell], home: Home, *, as_json: bool) -> None:
    """What `--dry-run` shows."""
    from gsnobench.matrix.matrix import need

    needs = [need(cell, home) for cell in cells]
    known = [cell_need.cpu_s for cell_need in needs if cell_need.cpu_s is not None]
    total, unknown = sum(known), len(needs) - len(known)
    pairs = list(zip(cells, needs, strict=True))

    def show() -> None:
        rows = []
        for row, owned in _by_row(pairs).items():
            tasks = dict.fromkeys(cell.column for cell, _ in owned)
            times = [cell_need.cpu_s for _, cell_need in owned]
            memory = [cell_need.memory_mb for _, cell_need in owned]
            costs = [_amount(_total(times)), _amount(max(mb or 0 for mb in memory) or None)]
            rows.append([row, str(len(tasks)), str(len(owned)), *costs])
        header = ["model", "tasks", "cells", "CPU-s", "MB"]
        if all(row[-1] == UNKNOWN for row in rows):
            header, rows = header[:-1], [row[:-1] for row in rows]
        print_table("Cells to run (a cell is one run)", header, rows)
        time = f"{total:.0f} CPU-seconds" if total < 120 else f"{total / 60:.0f} CPU-minutes"
        print(f"about {time}" + (f", and {unknown} cells that were never timed" if unknown else ""))

    document = {
        "count": len(cells),
        "cpu_s": total,
        "unknown": unknown,
        "cells": [{**cell.to_dict(), **vars(cell_need)} for cell, cell_need in pairs],
    }
    print_result(document, show, as_json=as_json)


def _by_row(pairs: Sequence[tuple[Cell, Need]]) -> dict[str, list[tuple[Cell, Need]]]:
    """Cells with their needs, by model and preset."""
    rows: dict[str, list[tuple[Cell, Need]]] = {}
    for cell, cell_need in pairs:
        rows.setdefault(cell.spec.row, []).append((cell, cell_need))
    return rows


def _total(values: Sequence[float | None]) -> float | None:
    """The sum; None if one is unknown."""
    return None if None in values else sum(value or 0.0 for value in values)


def _amount(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
