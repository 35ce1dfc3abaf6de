"""Plots across the tasks of a track: who is how far from the best, and which ranks chance alone
explains.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm

from gsnobench.boards.board import Track
from gsnobench.boards.plots.names import LINE, NAMES, WIDTH, finished, name_rows, tone
from gsnobench.boards.plots.style import (
    GREY,
    LARGE,
    NORMAL,
    PAPER_INK,
    SMALL,
    Drawing,
    Figure,
    label,
    look,
    readable_on,
)
from gsnobench.boards.wording import number
from gsnobench.data import Array

HEAT, HEAT_END = "YlGnBu", 30.0  # times the best error at which the colours end


def track_figures(track: Track) -> list[Figure]:
    """The view across tasks."""
    found = [_overview_figure(track), _difference_figure(track)]
    return [figure for figure in found if figure is not None]


def _overview_figure(track: Track) -> Figure | None:
    if not track.rows or not any(board.compared for board in track.boards):
        return None
    drawing = _overview(track, lambda width, height: Drawing(width, height), 0.0)
    caption = (
        "Error of each row on each task as a multiple of the best error on that task, so 1 is the "
        "best; darker is worse, and the "
        f"colours end at {HEAT_END:.0f}. A dash: no error (declined, failed or diverged); empty: "
        "not run."
    )
    return finished(drawing, f"{track.name}-overview", "Error relative to the best", caption)


def overview_png(track: Track) -> bytes:
    """The overview as a picture for a README: on white paper, with its title."""
    drawing = _overview(track, lambda width, height: Drawing(width, height, PAPER_INK), 0.85)
    drawing.sheet.patch.set(facecolor="white", alpha=1.0)
    lines: list[tuple[float, str, dict[str, Any]]] = [
        (0.2, "How far is each model from the best?", {"fontsize": LARGE, "weight": "bold"}),
        (
            0.42,
            "Test error on each task as a multiple of the lowest: 1 is the best, darker is worse.",
            {"fontsize": NORMAL},
        ),
        (
            0.6,
            f"Track {label(track.name)}. Pale names: simple floors. Dash: declined or failed. "
            "Empty: not run.",
            {"fontsize": SMALL},
        ),
    ]
    for lower, text, style in lines:
        place = (0.15 / drawing.width, 1 - lower / drawing.height)
        drawing.sheet.text(*place, text, color=PAPER_INK, va="center", parse_math=False, **style)
    FigureCanvasAgg(drawing.sheet)
    picture = io.BytesIO()
    drawing.sheet.savefig(picture, format="png", dpi=144, metadata={"Software": None})
    return picture.getvalue()


def _overview(track: Track, sheet: Callable[[float, float], Drawing], head: float) -> Drawing:
    boards = [board for board in track.boards if board.compared]
    tables = [{row.name: row for row in board.rows} for board in boards]
    floors = {row.name for board in boards for row in board.rows if row.is_floor}
    cell, line, foot = 0.68, 0.22, 0.78
    drawing = sheet(NAMES + cell * len(boards) + 0.75, line * len(track.rows) + foot + head + 0.1)
    axes = drawing.axes(NAMES, foot, cell * len(boards), line * len(track.rows))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set(xlim=(0, len(boards)), ylim=(len(track.rows), 0), xticks=[], yticks=[])
    ratios = np.full((len(track.rows), len(boards)), np.nan)
    for across, (board, table) in enumerate(zip(boards, tables, strict=True)):
        for down, name in enumerate(track.rows):
            row = table.get(name)
            if row is not None and row.seeds:
                ratios[down, across] = row.error / board.compared[0].error
            elif row is not None:
                drawing.text(axes, across + 0.5, down + 0.5, "–", ha="center")
        turned: dict[str, Any] = {
            "ha": "right",
            "va": "top",
            "rotation": 30,
            "rotation_mode": "anchor",
        }
        drawing.text(axes, across + 0.6, len(track.rows) + 0.2, label(board.slug), **turned)
    _heat(drawing, axes, ratios)
    for down, name in enumerate(track.rows):
        drawing.text(axes, -0.12, down + 0.5, label(name), ha="right", **tone(name in floors))
    return drawing


def _heat(drawing: Drawing, axes: Axes, ratios: Array) -> None:
    colours, scale = matplotlib.colormaps[HEAT], LogNorm(1.0, HEAT_END)
    axes.pcolormesh(np.ma.masked_invalid(ratios), cmap=colours, norm=scale, edgecolors="none")
    for down, across in zip(*np.nonzero(np.isfinite(ratios)), strict=True):
        value = ratios[down, across]
        text, weight = ("1", "bold") if value == 1 else (number(value, 2), "normal")
        ink = readable_on(colours(scale(min(value, HEAT_END))))
        drawing.text(axes, across + 0.5, down + 0.52, text, ha="center", color=ink, weight=weight)


def _difference_figure(track: Track) -> Figure | None:
    """Demsar's critical-difference diagram: rows under one bar are not told apart by their ranks
    over tasks.
    """
    found = track.comparison
    if found is None:
        return None
    order = sorted(zip(found.mean_ranks, found.rows, strict=True))
    rows = {row.name: row for board in track.boards for row in board.rows}
    height = LINE * 1.2 * len(order) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(NAMES, 0.48, WIDTH - NAMES - 0.25, height - 0.6)
    axes.set_xlim(0.8, len(order) + 0.2)
    for place, (mean, name) in enumerate(order):
        style = look(rows[name])
        axes.plot(
            [mean, min(mean + found.critical_difference, len(order))],
            [place, place],
            color=GREY,
            linewidth=2.2,
            alpha=0.5,
        )
        axes.plot([mean], [place], style.marker, color=style.colour, ms=5)
    name_rows(drawing, axes, [rows[name] for _, name in order])
    drawing.name_axis(axes, f"mean rank over {found.tasks} tasks (1 is best)")
    first = order[0]
    tied = [label(name) for mean, name in order[1:] if mean - first[0] < found.critical_difference]
    told = f"{len(tied)} of {len(order) - 1} other rows lie within that of {label(first[1])}"
    caption = (
        f"Mean rank over the {found.tasks} tasks that all these rows have; a grey bar is as long "
        "as the critical difference "
        f"{found.critical_difference:.2f} (Nemenyi, 5 %; Friedman p = {found.p_value:.2g}). A row "
        "whose dot lies on another's "
        f"bar cannot be told from it by ranks: {told}."
    )
    return finished(drawing, f"{track.name}-difference", "Critical difference", caption)
