"""Plots across the tasks of a track: distance to the best, and ranks that chance explains."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from gsnobench.boards.board import Board, BoardTrack
from gsnobench.boards.plots.axes import LINE, NAMES, WIDTH, name_rows, tone
from gsnobench.boards.plots.style import GREY, INK, Drawing, Figure, label, row_style
from gsnobench.boards.wording import number
from gsnobench.data import Array
from gsnobench.drawing.rules import INK as PAPER_INK
from gsnobench.drawing.rules import LARGE, NORMAL, SMALL, readable_on

HEAT, HEAT_END = "PRGn_r", 10.0  # green to purple; times the best floor at which the colours end
CELL, FOOT = (0.68, 0.22), 0.78  # inches: width and height of a cell, names of the tasks below
ENOUGH_TASKS = 6  # with fewer, the critical difference is nearly as long as the axis
HEAD_WIDTH = 7.6  # inches that the head of a picture needs
TURNED: dict[str, Any] = {"ha": "right", "va": "top", "rotation": 30, "rotation_mode": "anchor"}


def track_figures(track: BoardTrack) -> list[Figure]:
    """The view across tasks."""
    figures = [_overview_figure(track), _difference_figure(track)]
    return [figure for figure in figures if figure is not None]


# ----------------------------------------------------------------------------------------- overview


def _overview_figure(track: BoardTrack) -> Figure | None:
    if not _shown_boards(track):
        return None
    left_out = [board.slug for board in track.main if board.compared and not board.has_models]
    floors = f" Not shown, since only floors have an error: {', '.join(left_out)}."
    caption = (
        "Error of each row on each task as a multiple of the best error on that task, so 1 is the "
        "best. Green: less error than the best floor, purple: more, white: as much; the colours "
        f"end at a factor of {HEAT_END:.0f}. A dash: no error (declined, failed or diverged); "
        f"hatched: not run.{floors if left_out else ''}"
    )
    drawing = _overview(track)
    return drawing.figure(f"{track.name}-overview", "Error relative to the best", caption)


def _shown_boards(track: BoardTrack) -> list[Board]:
    """Tasks on which a model has an error: where none has, the best floor is not the best."""
    return [board for board in track.main if board.has_models]


def overview_png(track: BoardTrack) -> bytes:
    """The overview as a picture for a README: on white paper, with its title.

    A track without a model has none.
    """
    drawing = _overview(track, ink=PAPER_INK, head=0.85)
    drawing.sheet.patch.set(facecolor="white", alpha=1.0)
    title = "How far is each model from the best?"
    scale = "Test error on each task as a multiple of the lowest: 1 is the best."
    tints = "Green: better than the best floor, purple: worse. Pale names: floors."
    marks = "Dash: declined or failed. Hatched: not run."
    lines: list[tuple[float, str, dict[str, Any]]] = [
        (0.2, title, {"fontsize": LARGE, "weight": "bold"}),
        (0.42, scale, {"fontsize": NORMAL}),
        (0.6, f"Track {label(track.name)}. {tints} {marks}", {"fontsize": SMALL}),
    ]
    for lower, text, style in lines:
        x, y = 0.15 / drawing.width, 1 - lower / drawing.height
        drawing.sheet.text(x, y, text, color=PAPER_INK, va="center", parse_math=False, **style)
    FigureCanvasAgg(drawing.sheet)
    picture = io.BytesIO()
    drawing.sheet.savefig(picture, format="png", dpi=144, metadata={"Software": None})
    return picture.getvalue()


def _overview(track: BoardTrack, ink: str = INK, head: float = 0.0) -> Drawing:
    """A table of coloured cells, rows by tasks, with room for a head above it."""
    boards = _shown_boards(track)
    rows = {row.name: row for board in boards for row in board.rows if not row.is_variant}
    names = [name for name in track.rows if name in rows]
    wide, high = CELL[0] * len(boards), CELL[1] * len(names)
    width = max(NAMES + wide + 0.75, HEAD_WIDTH if head else 0.0)
    drawing = Drawing(width, high + FOOT + head + 0.1, ink)
    axes = drawing.axes(NAMES, FOOT, wide, high)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set(xlim=(0, len(boards)), ylim=(len(names), 0), xticks=[], yticks=[])
    ratios = np.full((len(names), len(boards)), np.nan)
    missing = []
    for across, board in enumerate(boards):
        by_name = {row.name: row for row in board.rows}
        for down, name in enumerate(names):
            row = by_name.get(name)
            if row is not None and row.seeds:
                ratios[down, across] = row.error / board.compared[0].error
            elif row is not None:
                drawing.text(axes, across + 0.5, down + 0.5, "–", ha="center")
            else:
                missing.append((across, down))
        drawing.text(axes, across + 0.6, len(names) + 0.2, label(board.slug), **TURNED)
    floors = np.array([_best_floor(board) for board in boards])
    _hatch(axes, missing)
    _heat(drawing, axes, ratios, ratios / floors)
    for down, name in enumerate(names):
        tint = tone(rows[name].is_floor)
        drawing.text(axes, -0.12, down + 0.5, label(name), ha="right", **tint)
    return drawing


def _best_floor(board: Board) -> float:
    """The least error of a floor as a multiple of the best error; not a number without one."""
    errors = [row.error for row in board.compared if row.is_floor]
    return min(errors) / board.compared[0].error if errors else float("nan")


def _hatch(axes: Axes, cells: Sequence[tuple[int, int]]) -> None:
    """Three slanted lines in every cell that was not run."""
    lines = [
        [(across + at - 0.08, down + 0.8), (across + at + 0.08, down + 0.2)]
        for across, down in cells
        for at in (0.3, 0.5, 0.7)
    ]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.5, alpha=0.7))


def _heat(drawing: Drawing, axes: Axes, ratios: Array, against_floor: Array) -> None:
    """Numbers are multiples of the best error, colours compare with the best floor."""
    colours, scale = matplotlib.colormaps[HEAT], LogNorm(1 / HEAT_END, HEAT_END)
    shown = np.where(np.isfinite(ratios), np.nan_to_num(against_floor, nan=1.0), np.nan)
    shown = np.clip(shown, 1 / HEAT_END, HEAT_END)
    lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.8}
    axes.pcolormesh(np.ma.masked_invalid(shown), cmap=colours, norm=scale, **lines)
    for down, across in zip(*np.nonzero(np.isfinite(ratios)), strict=True):
        value = ratios[down, across]
        text, weight = ("1", "bold") if value == 1 else (number(value, 2), "normal")
        ink = readable_on(colours(scale(shown[down, across])))
        drawing.text(axes, across + 0.5, down + 0.52, text, ha="center", color=ink, weight=weight)


# ------------------------------------------------------------------------------ critical difference


def _difference_figure(track: BoardTrack) -> Figure | None:
    """Demsar's critical-difference diagram: rows under one bar are not separated by their ranks."""
    comparison = track.comparison
    if comparison is None or comparison.tasks < ENOUGH_TASKS:
        return None
    critical = comparison.critical_difference
    order = sorted(zip(comparison.mean_ranks, comparison.rows, strict=True))
    rows = {row.name: row for board in track.boards for row in board.rows}
    height = LINE * 1.2 * len(order) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(NAMES, 0.48, WIDTH - NAMES - 0.25, height - 0.6)
    axes.set_xlim(0.8, len(order) + 0.2)
    for index, (mean, name) in enumerate(order):
        style, end = row_style(rows[name]), min(mean + critical, len(order))
        axes.plot([mean, end], [index, index], color=GREY, linewidth=2.2, alpha=0.5)
        axes.plot([mean], [index], style.marker, color=style.colour, ms=5)
    name_rows(drawing, axes, [rows[name] for _, name in order])
    drawing.name_axis(axes, f"mean rank over {comparison.tasks} tasks (1 is best)")
    best = order[0]
    tied = [name for mean, name in order[1:] if mean - best[0] < critical]
    within = f"{len(tied)} of {len(order) - 1} other rows are that close to {label(best[1])}"
    caption = (
        f"Mean rank over the {comparison.tasks} tasks that all these rows have; a grey bar is as "
        f"long as the critical difference {critical:.2f} (Nemenyi, 5 %; Friedman p = "
        f"{comparison.p_value:.2g}). A row whose dot lies on another's bar does not differ from it "
        f"significantly: {within}."
    )
    return drawing.figure(f"{track.name}-difference", "Critical difference", caption)
