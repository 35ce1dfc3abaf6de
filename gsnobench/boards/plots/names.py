"""Names of rows beside the axes of a plot, and the finished figure with its words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gsnobench.boards.board import Row
from gsnobench.boards.plots.style import GREY, Drawing, Figure, label, look, spread

LINE = 0.155  # inches a line of labels
WIDTH = 8.6
NAMES = 2.1  # inches for the longest name


def end_labels(drawing: Drawing, axes: Axes, rows: Sequence[Row], heights: Sequence[float]) -> None:
    """Names right of the axes at their heights, moved apart where they would touch; a thin line
    leads to the true place.
    """
    low, high = np.log10(axes.get_ylim())
    inches = float(axes.get_position().height * drawing.height)
    order = sorted(range(len(rows)), key=lambda place: heights[place])
    true = [(math.log10(heights[place]) - low) / (high - low) * inches for place in order]
    wide = float(axes.get_position().width * drawing.width)
    for place, start, end in zip(order, true, spread(true, LINE * 0.92, 0.0, inches), strict=True):
        row, style = rows[place], look(rows[place])
        line: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        axes.plot(
            [1 + 0.05 / wide, 1 + 0.22 / wide],
            [start / inches, end / inches],
            color=GREY,
            lw=0.5,
            **line,
        )
        axes.plot([1 + 0.3 / wide], [end / inches], style.marker, color=style.colour, ms=4, **line)
        drawing.text(
            axes,
            1 + 0.4 / wide,
            end / inches,
            label(row.name),
            transform=axes.transAxes,
            **tone(row.is_floor),
        )


def tone(is_floor: bool) -> dict[str, Any]:
    return {"alpha": 0.72} if is_floor else {}


def name_rows(drawing: Drawing, axes: Axes, rows: Sequence[Row], *, is_named: bool = True) -> None:
    """Names left of the axes, best on top, instead of a vertical axis."""
    axes.set(ylim=(len(rows) - 0.4, -0.6), yticks=[])
    axes.spines["left"].set_visible(False)
    across = axes.get_yaxis_transform()
    wide = float(axes.get_position().width * drawing.width)
    for place, row in enumerate(rows if is_named else ()):
        style = look(row)
        axes.plot(
            [-0.12 / wide],
            [place],
            style.marker,
            color=style.colour,
            ms=4,
            transform=across,
            clip_on=False,
        )
        drawing.text(
            axes,
            -0.22 / wide,
            place,
            label(row.name),
            ha="right",
            transform=across,
            **tone(row.is_floor),
        )


def finished(drawing: Drawing, name: str, title: str, caption: str) -> Figure:
    return Figure(name, title, caption, drawing.svg(name, f"{title}. {caption}"))
