"""What `--dry-run` shows of many runs: which are missing, and what they would cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gsnobench.cli.console import print_result
from gsnobench.cli.table import print_table
from gsnobench.home import Home

if TYPE_CHECKING:
    from gsnobench.matrix.matrix import Cell, Need

UNKNOWN = "-"


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
