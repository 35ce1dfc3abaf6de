"""Errors of several rows over a number: tables, slopes, ratios to the first row, and a figure.

The studies of mesh, training samples and budget share it; each has its own axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gsnobench.params import above_zero
from gsnobench.studies.base import Row, Table
from gsnobench.studies.figures import (
    colours,
    draw_curve,
    legend_right,
    log_x,
    log_y,
    new_page,
    style,
)
from gsnobench.studies.statistics import Estimate, geometric_mean, paired_ratio, slope

Grid = Mapping[str, Mapping[float, Row]]  # row's name -> x -> its runs


@dataclass(frozen=True)
class Axis:
    """The number that a study varies."""

    name: str  # in the points of the arms
    label: str  # as people read it
    heading: str  # of the figure


def at_least_two(text: str, name: str) -> list[int]:
    """At least two different whole numbers above 0, in rising order."""
    return above_zero(text, name, least=2)


def grid_of(rows: Sequence[Row], axis: Axis) -> Grid:
    """Rows by the name of their model and by x; closed forms that do not depend on x have none."""
    grid: dict[str, dict[float, Row]] = {}
    for row in rows:
        if axis.name in row.point:
            grid.setdefault(str(row.point["row"]), {})[float(row.point[axis.name])] = row
    return grid


def all_x(grid: Grid) -> list[float]:
    return sorted({x for by_x in grid.values() for x in by_x})


def by_seed(row: Row, other: Row) -> dict[int, float]:
    """Errors by seed; a closed form has no seed, so its error counts for those of the other row."""
    errors = row.by_seed()
    is_exact = not any(run.steps for run in row.done)
    return dict.fromkeys(other.by_seed(), row.errors()[0]) if is_exact and errors else errors


# ------------------------------------------------------------------------------------------ numbers


def slopes(grid: Grid) -> dict[str, Estimate | None]:
    """Exponent of the error over x, of every row, from all of its seeds."""
    points = {
        name: [(x, error) for x, row in by_x.items() for error in row.errors()]
        for name, by_x in grid.items()
    }
    return {
        name: slope([x for x, _ in pairs], [error for _, error in pairs])
        for name, pairs in points.items()
    }


def ratios(grid: Grid) -> dict[str, dict[float, Estimate | None]]:
    """Error relative to the first row at the same x, paired by seed."""
    first = next(iter(grid.values()), {})
    return {
        name: {
            x: paired_ratio(by_seed(row, first[x]), by_seed(first[x], row))
            for x, row in by_x.items()
            if x in first
        }
        for name, by_x in grid.items()
    }


def numbers_of_grid(grid: Grid) -> dict[str, Any]:
    """What the tables are made from, as JSON has it."""
    return {
        "errors": {
            name: {f"{x:g}": row.by_seed() for x, row in by_x.items()}
            for name, by_x in grid.items()
        },
        "slopes": {
            name: None if estimate is None else asdict(estimate)
            for name, estimate in slopes(grid).items()
        },
    }


# ------------------------------------------------------------------------------------------- tables


def error_table(title: str, grid: Grid, axis: Axis) -> Table:
    """Geometric mean over seeds and its interval at each x, and the slope over x."""
    exponents = slopes(grid)
    lines = []
    for name, by_x in grid.items():
        cells = [_error(by_x.get(x)) for x in all_x(grid)]
        exponent = exponents[name]
        lines.append([name, *cells, "-" if exponent is None else str(exponent)])
    header = ["row", *(f"{x:g}" for x in all_x(grid)), "slope"]
    return Table(f"{title}: test error by {axis.label}", header, lines)


def _error(row: Row | None) -> str:
    if row is None:
        return ""
    return str(geometric_mean(row.errors())) if row.errors() else row.states.partition(", ")[2]


def ratio_table(title: str, grid: Grid, axis: Axis) -> Table | None:
    """Errors relative to the first row; None if it is alone."""
    first, *others = grid
    if not others:
        return None
    table = ratios(grid)
    lines = [
        [name, *("-" if (at := table[name].get(x)) is None else str(at) for x in all_x(grid))]
        for name in others
    ]
    header = ["row", *(f"{x:g}" for x in all_x(grid))]
    return Table(f"{title}: error relative to {first} by {axis.label}", header, lines)


def tables_of(title: str, grid: Grid, axis: Axis) -> list[Table]:
    """Errors, and ratios where there are several rows."""
    ratio = ratio_table(title, grid, axis)
    return [error_table(title, grid, axis), *([] if ratio is None else [ratio])]


def falls(grid: Grid, letter: str) -> str:
    """How every row's error depends on x, in words."""
    known = {name: exponent for name, exponent in slopes(grid).items() if exponent is not None}
    if not known:
        return "Too few points for a slope."
    parts = [f"{letter}^{exponent} for {name}" for name, exponent in known.items()]
    return f"The error goes as {', '.join(parts)} (95 % intervals)."


# ------------------------------------------------------------------------------------------- figure


def draw(
    path: Path, title: str, grid: Grid, axis: Axis, floors: Mapping[str, float] | None = None
) -> None:
    """Left the errors, right their ratios to the first row; floors are dashed lines."""
    floors = floors or {}
    has_ratios = len(grid) > 1
    page = new_page(9.6 if has_ratios else 5.8, 3.8, axis.heading, title)
    panels = [page.axes(0.75 + 3.85 * number, 0.85, 3.1, 2.35) for number in range(1 + has_ratios)]
    shades, table = colours([*grid, *floors]), ratios(grid)
    curves = [
        {name: {x: row.errors() for x, row in by_x.items()} for name, by_x in grid.items()},
        {name: {x: [at.value] for x, at in by_x.items() if at} for name, by_x in table.items()},
    ]
    labels = ["relative L2 error", f"error / error of {next(iter(grid), '')}"]
    for axes, by_row, label in zip(panels, curves, labels, strict=False):
        for name, curve in by_row.items():
            colour, marker = shades[name]
            draw_curve(axes, curve, label=name, colour=colour, marker=marker)
        style(axes, axis.label, label)
        log_x(axes, all_x(grid))
    for name, level in floors.items():
        panels[0].axhline(level, color=shades[name][0], linestyle="--", linewidth=1.0, label=name)
    for axes in panels:
        log_y(axes)
    legend_right(panels[-1], *panels[0].get_legend_handles_labels())
    page.save(path)
