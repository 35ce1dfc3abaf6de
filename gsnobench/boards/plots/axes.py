"""Logarithmic axes, and the names of rows beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from gsnobench.boards.board import Row
from gsnobench.boards.plots.style import GREY, Drawing, RowStyle, label, row_style
from gsnobench.boards.wording import number

LINE = 0.155  # inches per line of labels
WIDTH = 8.6
NAMES = 2.1  # inches for the longest name


def log_axis(axes: Axes, side: str, values: Sequence[float]) -> None:
    """Decades, or 1-2-5 steps where there are few; limits a little outside the values."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.06, 1.08)
    axis = axes.xaxis if side == "x" else axes.yaxis
    (axes.set_xscale if side == "x" else axes.set_yscale)("log")
    (axes.set_xlim if side == "x" else axes.set_ylim)(low / margin, high * margin)
    decades = np.log10(high / low)
    steps = (1.0,) if decades > 2.2 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    marks = [step * 10.0**decade for decade in range(-12, 13) for step in steps]
    few = len([mark for mark in marks if low / margin <= mark <= high * margin]) < 2
    axis.set_major_locator(MaxNLocator(3) if few else LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    """A short number: 0.002, 30, 4k, 2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" if value >= 1e-4 or value == 0 else number(value, 1)


# -------------------------------------------------------------------------------------------- names


def end_labels(drawing: Drawing, axes: Axes, rows: Sequence[Row], heights: Sequence[float]) -> None:
    """Names of rows right of the axes at their heights."""
    names = [(row.name, row_style(row), tone(row.is_floor)) for row in rows]
    place_names(drawing, axes, names, heights)


def place_names(
    drawing: Drawing,
    axes: Axes,
    names: Sequence[tuple[str, RowStyle, dict[str, Any]]],
    heights: Sequence[float],
) -> None:
    """Names right of the axes at their heights, moved apart where they would touch.

    A thin line leads from a name to its true height.
    """
    low, high = np.log10(axes.get_ylim())
    inches = float(axes.get_position().height * drawing.height)
    order = sorted(range(len(names)), key=lambda index: heights[index])
    true = [(math.log10(heights[index]) - low) / (high - low) * inches for index in order]
    wide = float(axes.get_position().width * drawing.width)
    outside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for index, start, end in zip(order, true, spread(true, LINE * 0.92, 0.0, inches), strict=True):
        name, style, shade = names[index]
        ends = [start / inches, end / inches]
        axes.plot([1 + 0.05 / wide, 1 + 0.22 / wide], ends, color=GREY, lw=0.5, **outside)
        mark = {"color": style.colour, "ms": 4, **outside}
        axes.plot([1 + 0.3 / wide], [end / inches], style.marker, **mark)
        written = {"transform": axes.transAxes, **shade}
        drawing.text(axes, 1 + 0.4 / wide, end / inches, label(name), **written)


def name_rows(drawing: Drawing, axes: Axes, rows: Sequence[Row], *, is_named: bool = True) -> None:
    """Names left of the axes, best on top, instead of a vertical axis."""
    axes.set(ylim=(len(rows) - 0.4, -0.6), yticks=[])
    axes.spines["left"].set_visible(False)
    across = axes.get_yaxis_transform()
    wide = float(axes.get_position().width * drawing.width)
    for index, row in enumerate(rows if is_named else ()):
        style = row_style(row)
        mark: dict[str, Any] = {"color": style.colour, "ms": 4, "transform": across}
        axes.plot([-0.12 / wide], [index], style.marker, clip_on=False, **mark)
        written = {"ha": "right", "transform": across, **tone(row.is_floor)}
        drawing.text(axes, -0.22 / wide, index, label(row.name), **written)


def tone(is_floor: bool) -> dict[str, Any]:
    """Names of floors are paler."""
    return {"alpha": 0.72} if is_floor else {}


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Rising heights of labels, moved as little as a gap between all of them needs."""
    if not heights:
        return []
    gap = min(gap, (high - low) / max(len(heights) - 1, 1))
    groups: list[tuple[float, int]] = []  # (height of the first label, number of labels)
    for height in heights:
        groups.append((height, 1))
        while len(groups) > 1 and groups[-2][0] + groups[-2][1] * gap > groups[-1][0]:
            (first, many), (second, more) = groups[-2:]
            moments = many * (first + gap * (many - 1) / 2) + more * (second + gap * (more - 1) / 2)
            centre = moments / (many + more)
            groups[-2:] = [(centre - gap * (many + more - 1) / 2, many + more)]
    moved = [first + gap * index for first, many in groups for index in range(many)]
    last = len(moved) - 1
    return [
        min(max(height, low + gap * below), high - gap * (last - below))
        for below, height in enumerate(moved)
    ]
