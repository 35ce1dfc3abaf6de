"""Plots of how rows stand: places with their ranges, accuracy against cost, and training curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.plots.axes import (
    LINE,
    NAMES,
    WIDTH,
    end_labels,
    log_axis,
    name_rows,
    place_names,
    spread,
    tone,
)
from gsnobench.boards.plots.style import (
    GREY,
    Drawing,
    Figure,
    RowStyle,
    label,
    numbered_style,
    row_style,
)
from gsnobench.boards.plots.task import board_figures, pareto_front
from gsnobench.boards.plots.track import ENOUGH_TASKS, track_figures
from gsnobench.boards.wording import letters
from gsnobench.data import Array

BEST_TIE = 2.6  # line width of rows that are not significantly worse than the best
POINTS = 60  # of a curve
MOST_NAMES = 5  # that a caption lists


def all_figures(board: Board) -> list[Figure]:
    """The plots of a board's page: how rows stand first, then what they cost and where they err."""
    first = [place_figure(board), convergence_figure(board)]
    return [*(figure for figure in first if figure is not None), *board_figures(board)]


def all_track_figures(track: BoardTrack) -> list[Figure]:
    """The plots of the overview."""
    first = [pareto_figure(track), rank_figure(track)]
    return [*(figure for figure in first if figure is not None), *track_figures(track)]


# ------------------------------------------------------------------------------------------- places


def place_figure(board: Board) -> Figure | None:
    """The place of each row by its error, and the places that it may have."""
    rows = [row for row in board.compared if row.rank is not None]
    if len(rows) < 2:
        return None
    height = LINE * 1.2 * len(rows) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(NAMES, 0.48, WIDTH - NAMES - 0.25, height - 0.6)
    tied = board.tied_with_best
    for index, row in enumerate(rows):
        if row.rank is None:
            continue
        style = row_style(row)
        ends, level = [row.rank.low, row.rank.high], [index, index]
        width = BEST_TIE if row in tied else 1.0
        axes.plot(ends, level, color=style.colour, linewidth=width, solid_capstyle="round")
        axes.plot([row.rank.place], [index], style.marker, color=style.colour, ms=5)
        drawing.text(axes, row.rank.high + 0.3, index, letters(row.rank), alpha=0.8)
    axes.set_xlim(0.5, len(rows) + 1.5)
    name_rows(drawing, axes, rows)
    drawing.name_axis(axes, "place (1 is the best)")
    caption = (
        "The mark is the place by the error, the line holds the places that the tests leave open, "
        "and rows that share a letter do not differ significantly (a-d: a, b, c and d). Thick: the "
        f"best ranked row, {label(rows[0].name)}, and what is not significantly worse "
        f"({_listed(tied[1:])})."
    )
    return drawing.figure(f"{board.slug}-places", "Places and ties", caption)


def _listed(rows: Sequence[Row]) -> str:
    """Names of other rows as far as a caption holds them."""
    names = [label(row.name) for row in rows]
    more = len(names) - MOST_NAMES
    listed = [*names[:MOST_NAMES], *([f"and {more} more"] if more > 0 else [])]
    return ", ".join(listed) or "no other row"


def rank_figure(track: BoardTrack) -> Figure | None:
    """Mean rank of each complete row, with its best and worst rank over the compared tasks."""
    ranks = _ranks(track)
    if len(ranks) < 2 or len(track.compared) < 2:
        return None
    rows = {row.name: row for board in track.boards for row in board.rows if not row.is_variant}
    order = [rows[name] for name in ranks]
    height = LINE * 1.2 * len(order) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(NAMES, 0.48, WIDTH - NAMES - 0.25, height - 0.6)
    for index, row in enumerate(order):
        style, values = row_style(row), ranks[row.name]
        ends = [min(values), max(values)]
        axes.plot(ends, [index, index], color=style.colour, linewidth=1.4, solid_capstyle="round")
        axes.plot([float(np.mean(values))], [index], style.marker, color=style.colour, ms=5)
    axes.set_xlim(0.5, len(order) + 0.5)
    name_rows(drawing, axes, order)
    drawing.name_axis(axes, f"rank over {len(track.compared)} tasks (1 is the best)")
    caption = (
        "The mark is the mean rank over the compared tasks, the line goes from the best to the "
        f"worst rank.{_warning(len(track.compared))}"
    )
    return drawing.figure(f"{track.name}-ranks", "Ranks over tasks", caption)


def _warning(tasks: int) -> str:
    if tasks >= ENOUGH_TASKS:
        return ""
    return f" {tasks} tasks are few: the order of neighbours can change with the next task."


def _ranks(track: BoardTrack) -> dict[str, list[int]]:
    """Rank of each complete row on each compared task, among complete rows, by mean rank."""
    names = [standing.row for standing in track.standings if standing.is_complete]
    ranks: dict[str, list[int]] = {name: [] for name in names}
    for board in track.boards:
        if board.slug in track.compared:
            present = [row.name for row in board.compared if row.name in ranks]
            for place, name in enumerate(present, 1):
                ranks[name].append(place)
    return ranks


# ------------------------------------------------------------------------------- accuracy and cost


def pareto_figure(track: BoardTrack) -> Figure | None:
    """Times the best error against training time, both as geometric means over compared tasks."""
    boards = [board for board in track.boards if board.slug in track.compared]
    points = _points(track, boards)
    if len(points) < 2:
        return None
    rows = {row.name: row for board in boards for row in board.rows if not row.is_variant}
    names = list(points)
    costs = [points[name][0] for name in names]
    ratios = [points[name][1] for name in names]
    drawing = Drawing(WIDTH, 4.2)
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - NAMES, 3.6)
    log_axis(axes, "y", ratios)
    log_axis(axes, "x", costs)
    front = pareto_front(costs, ratios)
    corners = [costs[index] for index in front], [ratios[index] for index in front]
    axes.step(*corners, where="post", color=drawing.ink, linewidth=0.7, alpha=0.55)
    for index, name in enumerate(names):
        style = row_style(rows[name])
        face = style.colour if index in front else "none"
        mark: dict[str, Any] = {"ms": 5.5, "mfc": face, "mec": style.colour, "mew": 1.2}
        axes.plot(costs[index], ratios[index], style.marker, clip_on=False, **mark)
    _direct_labels(drawing, axes, [rows[name] for name in names], costs, ratios)
    drawing.name_axis(axes, "training, CPU seconds")
    drawing.name_axis(axes, "times the best error", "y")
    listed = ", ".join(label(names[index]) for index in front)
    caption = (
        "Rows that have all compared tasks: error as a multiple of the best, against CPU-seconds "
        "of training, geometric means over tasks on logarithmic axes; lower left is better. Filled "
        f"points and the line are the Pareto front: {listed}."
    )
    return drawing.figure(f"{track.name}-pareto", "Accuracy and cost over all tasks", caption)


def _points(track: BoardTrack, boards: Sequence[Board]) -> dict[str, tuple[float, float]]:
    """Complete row -> training time, times the best error; rows of unknown cost are left out."""
    points: dict[str, tuple[float, float]] = {}
    for standing in track.standings:
        if not standing.is_complete:
            continue
        rows = [row for board in boards for row in board.compared if row.name == standing.row]
        costs = [row.cost("train_cpu_s") for row in rows]
        if all(cost > 0 for cost in costs):
            points[standing.row] = (float(np.exp(np.mean(np.log(costs)))), standing.ratio)
    return points


def _direct_labels(
    drawing: Drawing, axes: Axes, rows: Sequence[Row], costs: Sequence[float], ys: Sequence[float]
) -> None:
    """Names right of their points, moved apart within a column of close points.

    A lone point has its name above the line of the front, which begins at the point.
    """
    low, high = np.log10(axes.get_ylim())
    inches = float(axes.get_position().height * drawing.height)
    heights = [(math.log10(y) - low) / (high - low) * inches for y in ys]
    left, right = np.log10(axes.get_xlim())
    tenth = 10 ** (0.1 / (axes.get_position().width * drawing.width) * (right - left))  # of an inch
    for group in _columns(costs):
        if len(group) == 1:
            words, x = label(rows[group[0]].name), costs[group[0]] * tenth
            above = ys[group[0]] * 10 ** (0.6 * LINE / inches * (high - low))
            drawing.text(axes, x, above, words, **tone(rows[group[0]].is_floor))
            continue
        order = sorted(group, key=lambda index: heights[index])
        moved = spread([heights[index] for index in order], LINE * 0.95, 0.0, inches)
        last = max(costs[index] for index in group)
        for index, height in zip(order, moved, strict=True):
            y = 10 ** (low + height / inches * (high - low))
            start, end = (costs[index] * tenth**0.6, ys[index]), (last * tenth**2.4, y)
            axes.plot(*zip(start, end, strict=True), color=GREY, lw=0.5, clip_on=False)
            words = label(rows[index].name)
            drawing.text(axes, last * tenth**2.7, y, words, **tone(rows[index].is_floor))


def _columns(costs: Sequence[float]) -> list[list[int]]:
    """Indices of points of similar cost, whose names would touch."""
    columns: list[list[int]] = []
    for index in sorted(range(len(costs)), key=lambda index: costs[index]):
        if columns and costs[index] < 2.5 * costs[columns[-1][0]]:
            columns[-1].append(index)
        else:
            columns.append([index])
    return columns


# ---------------------------------------------------------------------------------- training curves


def mean_curve(row: Row) -> Array | None:
    """Share of the steps and validation error, geometric mean over seeds, (P, 2); None without."""
    curves = [entry.curve for entry in row.done if len(entry.curve) > 1]
    curves = [curve for curve in curves if (curve[:, 1] > 0).all()]
    if not curves:
        return None
    shares = np.linspace(max(curve[0, 0] for curve in curves), 1.0, POINTS)
    logs = [np.interp(shares, curve[:, 0], np.log(curve[:, 1])) for curve in curves]
    return np.column_stack([shares, np.exp(np.mean(logs, axis=0))])


def convergence_figure(board: Board) -> Figure | None:
    """Validation error over the training of each row, with floors as lines."""
    known = {row.name: curve for row in board.compared if (curve := mean_curve(row)) is not None}
    if not known:
        return None
    rows = [row for row in board.compared if row.name in known]
    floors = [row for row in board.compared if row.is_floor and _valid(row) > 0]
    floors = [row for row in floors if row.name not in known]
    drawing, axes = _curve_axes(len(rows) + len(floors))
    ends: list[float] = []
    for index, row in enumerate(rows):
        ends.append(_draw_curve(axes, row_style(row), known[row.name], index))
    for row in floors:
        colour = row_style(row).colour
        axes.axhline(_valid(row), color=colour, linewidth=0.8, linestyle=(0, (4, 3)))
    values = [float(value) for curve in known.values() for value in curve[:, 1]]
    log_axis(axes, "y", [*values, *(_valid(row) for row in floors)])
    axes.set_xlim(0, 100)
    end_labels(drawing, axes, [*rows, *floors], [*ends, *(_valid(row) for row in floors)])
    missing = len([row for row in board.compared if not row.is_exact]) - len(rows)
    unknown = f" Rows without a curve on record: {missing}." if missing else ""
    caption = (
        "Validation error while training, geometric mean over seeds; dashed lines are floors. A "
        "curve that still falls at the right end would gain from more steps. Of several phases "
        f"the last one is shown.{unknown}"
    )
    return drawing.figure(f"{board.slug}-convergence", "Training curves", caption)


def row_curves_figure(name: str, results: Mapping[str, Row]) -> Figure | None:
    """The training curves of one row on all its tasks."""
    known = {task: c for task, row in results.items() if (c := mean_curve(row)) is not None}
    if not known:
        return None
    drawing, axes = _curve_axes(len(known))
    styles = [numbered_style(number) for number in range(len(known))]
    ends = [
        _draw_curve(axes, style, curve, number)
        for number, (style, curve) in enumerate(zip(styles, known.values(), strict=True))
    ]
    log_axis(axes, "y", [float(value) for curve in known.values() for value in curve[:, 1]])
    axes.set_xlim(0, 100)
    names = [(task, style, tone(False)) for task, style in zip(known, styles, strict=True)]
    place_names(drawing, axes, names, ends)
    caption = "Validation error on each task while training, geometric mean over seeds."
    return drawing.figure(f"{name}-curves", "Training curves", caption)


def _curve_axes(lines: int) -> tuple[Drawing, Axes]:
    height = max(2.7, LINE * lines) + 0.6
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - NAMES, height - 0.6)
    drawing.name_axis(axes, "share of the training steps, %")
    drawing.name_axis(axes, "validation error", "y")
    return drawing, axes


def _draw_curve(axes: Axes, style: RowStyle, curve: Array, index: int) -> float:
    """A curve with a few marks, each curve at other places; returns where it ends."""
    every = max(len(curve) // 6, 1)
    marks: dict[str, Any] = {"marker": style.marker, "markersize": 3}
    marks["markevery"] = (index % every, every)
    axes.plot(100 * curve[:, 0], curve[:, 1], color=style.colour, linewidth=1.0, **marks)
    return float(curve[-1, 1])


def _valid(row: Row) -> float:
    return float(np.mean([entry.valid for entry in row.done])) if row.done else math.nan
