"""Plots of a board and of a track: what an error costs, how it grows, how it spreads, who is ahead across tasks."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm

from gsnobench.board.boards import Board, Row, Track
from gsnobench.board.plot_style import GREY, Drawing, Figure, label, log_axis, look, readable_on, spread
from gsnobench.board.texts import number
from gsnobench.data import Array
from gsnobench.drawing import INK as PAPER_INK
from gsnobench.drawing import LARGE, NORMAL, SMALL

REFERENCE = "gsno@plus"  # what run times are relative to, where the board has it
BANDS = 3  # rows whose spread over samples is shaded: more of them hide one another
LINE = 0.155  # inches a line of labels
WIDTH = 8.6
COST_AXES = {"parameters": "trained parameters", "train_cpu_s": "training, CPU seconds", "peak_mb": "peak memory, MB"}
HEAT, HEAT_END = "YlGnBu", 30.0  # times the best error at which the colours end


def board_figures(board: Board) -> list[Figure]:
    """The plots that this board has the numbers for."""
    rows = board.compared
    found = [draw(board, rows) for draw in (_cost_figure, _frame_figure, _time_figure, _sample_figure)] if rows else []
    return [figure for figure in found if figure is not None]


def track_figures(track: Track) -> list[Figure]:
    """The view across tasks."""
    found = [_overview_figure(track), _difference_figure(track)]
    return [figure for figure in found if figure is not None]


def _finished(drawing: Drawing, name: str, title: str, caption: str) -> Figure:
    return Figure(name, title, caption, drawing.svg(name, f"{title}. {caption}"))


# --------------------------------------------------------------------------------------------------------- error and cost


def pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Numbers of the points that no other beats in both, cheapest first; unknown costs do not take part."""
    known = [place for place, cost in enumerate(costs) if math.isfinite(cost) and math.isfinite(errors[place])]
    front: list[int] = []
    for place in sorted(known, key=lambda place: (costs[place], errors[place])):
        if not front or errors[place] < errors[front[-1]]:
            front.append(place)
    return front


def _cost_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    """Three panels on one error axis, so that one column of labels names the points of all three."""
    errors = [row.error for row in rows]
    tables = {name: [_positive(row.cost(name)) for row in rows] for name in COST_AXES}
    tables = {name: costs for name, costs in tables.items() if any(map(math.isfinite, costs))}
    if not tables:
        return None
    height = max(2.5, LINE * len(rows)) + 0.6
    drawing = Drawing(WIDTH, height)
    wide = (WIDTH - 0.65 - 1.75) / len(tables)
    for place, (name, costs) in enumerate(tables.items()):
        axes = drawing.axes(0.65 + place * wide, 0.48, wide - 0.25, height - 0.6)
        log_axis(axes, "y", errors)
        log_axis(axes, "x", [cost for cost in costs if math.isfinite(cost)])
        _scatter(drawing, axes, rows, costs)
        drawing.name_axis(axes, COST_AXES[name])
        if place:
            axes.tick_params(labelleft=False)
        else:
            drawing.name_axis(axes, "relative L2 error", "y")
    _end_labels(drawing, axes, rows, errors)
    front = ", ".join(label(rows[place].name) for place in pareto_front(tables.get("train_cpu_s", errors), errors))
    caption = (
        f"Mean error of each row against what it costs, on logarithmic axes; lower left is better. Filled points and the stepped "
        f"line are the Pareto front: no other row is both cheaper and more accurate (for training time: {front}). A closed form "
        f"trains no parameters, so it is missing from the first panel."
    )
    return _finished(drawing, f"{board.slug}-cost", "Error against cost", caption)


def _positive(value: float) -> float:
    return value if value > 0 else math.nan  # a logarithmic axis has no zero


def _scatter(drawing: Drawing, axes: Axes, rows: Sequence[Row], costs: Sequence[float]) -> None:
    front = pareto_front(costs, [row.error for row in rows])
    corners = [(costs[place], rows[place].error) for place in front]
    axes.step([x for x, _ in corners], [y for _, y in corners], where="post", color=drawing.ink, linewidth=0.7, alpha=0.55)
    for place, row in enumerate(rows):
        if math.isfinite(costs[place]):
            style = look(row)
            face = style.colour if place in front else "none"
            axes.plot(costs[place], row.error, style.marker, ms=5, mfc=face, mec=style.colour, mew=1.1, clip_on=False)


def _end_labels(drawing: Drawing, axes: Axes, rows: Sequence[Row], heights: Sequence[float]) -> None:
    """Names right of the axes at their heights, moved apart where they would touch; a thin line leads to the true place."""
    low, high = np.log10(axes.get_ylim())
    inches = float(axes.get_position().height * drawing.height)
    order = sorted(range(len(rows)), key=lambda place: heights[place])
    true = [(math.log10(heights[place]) - low) / (high - low) * inches for place in order]
    wide = float(axes.get_position().width * drawing.width)
    for place, start, end in zip(order, true, spread(true, LINE * 0.92, 0.0, inches), strict=True):
        row, style = rows[place], look(rows[place])
        line: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        axes.plot([1 + 0.05 / wide, 1 + 0.22 / wide], [start / inches, end / inches], color=GREY, lw=0.5, **line)
        axes.plot([1 + 0.3 / wide], [end / inches], style.marker, color=style.colour, ms=4, **line)
        drawing.text(axes, 1 + 0.4 / wide, end / inches, label(row.name), transform=axes.transAxes, **_tone(row.is_floor))


def _tone(is_floor: bool) -> dict[str, Any]:
    return {"alpha": 0.72} if is_floor else {}


# --------------------------------------------------------------------------------------------------------------- frames


def frame_quantiles(row: Row) -> Array | None:
    """10, 50 and 90 % over samples of the error of each frame, mean over fields and seeds, (3, T); None without a time."""
    found = [
        [values[name] for name in ("q10", "q50", "q90")]
        for entry in row.done
        for values in entry.frames.values()
        if {"q10", "q50", "q90"} <= set(values) and len(values["q50"]) > 1
    ]
    lengths = {len(curve) for one in found for curve in one}
    if len(lengths) != 1:
        return None
    quantiles: Array = np.asarray(found, dtype=float).mean(axis=0)
    return quantiles if np.isfinite(quantiles).all() and (quantiles > 0).all() else None


def _frame_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    curves = [(row, curve) for row in rows if (curve := frame_quantiles(row)) is not None]
    if not curves:
        return None
    height = max(2.7, LINE * len(curves)) + 0.6
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - 1.75, height - 0.6)
    for place, (row, (low, middle, high)) in enumerate(curves):
        frames, style = np.arange(1, len(middle) + 1), look(row)
        if place < BANDS:
            axes.fill_between(frames, low, high, color=style.colour, alpha=0.18, linewidth=0)
        every = max(len(frames) // 6, 1)
        drawn: dict[str, Any] = {
            "marker": style.marker,
            "markersize": 3,
            "markevery": (place % every, every),
            "linewidth": 0.9 + 0.5 * (place < BANDS),
        }
        axes.plot(frames, middle, color=style.colour, **drawn)
    axes.set_xlim(1, max(len(curve[1]) for _, curve in curves))
    log_axis(axes, "y", [float(value) for _, curve in curves for value in curve[1]])
    drawing.name_axis(axes, "predicted frame")
    drawing.name_axis(axes, "relative L2 error of the frame", "y")
    _end_labels(drawing, axes, [row for row, _ in curves], [float(curve[1][-1]) for _, curve in curves])
    caption = (
        f"Median over test samples of the error of each predicted frame, best row {label(curves[0][0].name)}; the 10 to 90 % "
        f"band is shaded for the best {min(BANDS, len(curves))}. Names stand at the height of the last frame."
    )
    return _finished(drawing, f"{board.slug}-frames", "Error per frame", caption)


# ------------------------------------------------------------------------------------------------------ times and spreads


def _time_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    reference = next((row for row in rows if row.name == REFERENCE), rows[0])
    panels = {"train_cpu_s": "training, CPU seconds", "inference_s": "inference, a sample"}
    height = LINE * len(rows) + 0.75
    drawing = Drawing(WIDTH, height)
    wide = (WIDTH - 1.75) / 2
    drawn = False
    for place, (cost, title) in enumerate(panels.items()):
        ratios = [_positive(row.cost(cost)) / _positive(reference.cost(cost)) for row in rows]
        known = [ratio for ratio in ratios if math.isfinite(ratio)]
        if not known:
            continue
        axes = drawing.axes(1.75 + place * wide, 0.48, wide - 0.55, height - 0.6)
        _bars(drawing, axes, rows, ratios)
        log_axis(axes, "x", [min(known), max(known), 0.8, 1.25])
        drawing.name_axis(axes, f"{title}, relative to {label(reference.name)}")
        _name_rows(drawing, axes, rows, is_named=not drawn)
        drawn = True
    caption = (
        f"How many times longer than {label(reference.name)} each row takes to train and to predict one sample, on logarithmic "
        f"axes: bars to the left are faster. Rows stand in the order of their error."
    )
    return _finished(drawing, f"{board.slug}-times", "Run time", caption) if drawn else None


def _bars(drawing: Drawing, axes: Axes, rows: Sequence[Row], ratios: Sequence[float]) -> None:
    for place, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        if math.isfinite(ratio):
            axes.plot([1, ratio], [place, place], color=look(row).colour, linewidth=6, solid_capstyle="butt")
            shown: dict[str, Any] = {
                "xytext": (3, 0),
                "textcoords": "offset points",
                "va": "center",
                "fontsize": SMALL - 1,
                "color": drawing.ink,
            }
            axes.annotate(f"{number(ratio, 2)}×", (max(ratio, 1.0), place), annotation_clip=False, **shown)
    axes.axvline(1, color=drawing.ink, linewidth=0.6)


def _name_rows(drawing: Drawing, axes: Axes, rows: Sequence[Row], *, is_named: bool = True) -> None:
    """Names left of the axes, best on top, instead of a vertical axis."""
    axes.set(ylim=(len(rows) - 0.4, -0.6), yticks=[])
    axes.spines["left"].set_visible(False)
    across = axes.get_yaxis_transform()
    wide = float(axes.get_position().width * drawing.width)
    for place, row in enumerate(rows if is_named else ()):
        style = look(row)
        axes.plot([-0.12 / wide], [place], style.marker, color=style.colour, ms=4, transform=across, clip_on=False)
        drawing.text(axes, -0.22 / wide, place, label(row.name), ha="right", transform=across, **_tone(row.is_floor))


def _sample_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    height = LINE * 1.25 * len(rows) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(1.75, 0.48, WIDTH - 1.95, height - 0.6)
    tables = [np.maximum(row.scores.sample_means, 1e-12) for row in rows]
    for place, (row, values) in enumerate(zip(rows, tables, strict=True)):
        low, quarter, middle, third, high = np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9))
        colour = look(row).colour
        ticks = np.column_stack([values, values, np.full(len(values), np.nan)]).ravel()  # one path for all samples of a row
        axes.plot(ticks, np.tile([place - 0.32, place + 0.32, np.nan], len(values)), color=colour, linewidth=0.5, alpha=0.55)
        axes.plot([low, high], [place, place], color=drawing.ink, linewidth=0.7)
        axes.plot([quarter, third], [place, place], color=drawing.ink, linewidth=2.4, solid_capstyle="butt")
        axes.plot([middle], [place], "o", ms=3.6, mfc="white", mec=drawing.ink, mew=0.8)
    log_axis(axes, "x", [float(value) for values in tables for value in (values.min(), values.max())])
    _name_rows(drawing, axes, rows)
    drawing.name_axis(axes, "relative L2 error of a test sample")
    caption = (
        f"Every test sample ({len(tables[0])}) as a tick, mean over seeds; the dot is the median, the thick line holds the "
        f"middle half, the thin one 80 %. A long tail to the right means that a few samples are predicted badly."
    )
    return _finished(drawing, f"{board.slug}-samples", "Errors of single samples", caption)


# ---------------------------------------------------------------------------------------------------------- across tasks


def _overview_figure(track: Track) -> Figure | None:
    if not track.rows or not any(board.compared for board in track.boards):
        return None
    drawing = _overview(track, lambda width, height: Drawing(width, height), 0.0)
    caption = (
        "Error of each row on each task as a multiple of the best error on that task, so 1 is the best; darker is worse, and the "
        f"colours end at {HEAT_END:.0f}. A dash: no error (declined, failed or diverged); empty: not run."
    )
    return _finished(drawing, f"{track.name}-overview", "Error relative to the best", caption)


def overview_png(track: Track) -> bytes:
    """The overview as a picture for a README: on white paper, with its title."""
    drawing = _overview(track, lambda width, height: Drawing(width, height, PAPER_INK), 0.85)
    drawing.sheet.patch.set(facecolor="white", alpha=1.0)
    lines: list[tuple[float, str, dict[str, Any]]] = [
        (0.2, "How far is each model from the best?", {"fontsize": LARGE, "weight": "bold"}),
        (0.42, "Test error on each task as a multiple of the lowest: 1 is the best, darker is worse.", {"fontsize": NORMAL}),
        (
            0.6,
            f"Track {label(track.name)}. Pale names: simple floors. Dash: declined or failed. Empty: not run.",
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
    drawing = sheet(1.75 + cell * len(boards) + 0.75, line * len(track.rows) + foot + head + 0.1)
    axes = drawing.axes(1.75, foot, cell * len(boards), line * len(track.rows))
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
        turned: dict[str, Any] = {"ha": "right", "va": "top", "rotation": 30, "rotation_mode": "anchor"}
        drawing.text(axes, across + 0.6, len(track.rows) + 0.2, label(board.slug), **turned)
    _heat(drawing, axes, ratios)
    for down, name in enumerate(track.rows):
        drawing.text(axes, -0.12, down + 0.5, label(name), ha="right", **_tone(name in floors))
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
    """Demsar's critical-difference diagram: rows under one bar are not told apart by their ranks over tasks."""
    found = track.comparison
    if found is None:
        return None
    order = sorted(zip(found.mean_ranks, found.rows, strict=True))
    rows = {row.name: row for board in track.boards for row in board.rows}
    height = LINE * 1.2 * len(order) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(1.75, 0.48, WIDTH - 2.0, height - 0.6)
    axes.set_xlim(0.8, len(order) + 0.2)
    for place, (mean, name) in enumerate(order):
        style = look(rows[name])
        axes.plot([mean, min(mean + found.critical_difference, len(order))], [place, place], color=GREY, linewidth=2.2, alpha=0.5)
        axes.plot([mean], [place], style.marker, color=style.colour, ms=5)
    _name_rows(drawing, axes, [rows[name] for _, name in order])
    drawing.name_axis(axes, f"mean rank over {found.tasks} tasks (1 is best)")
    first = order[0]
    tied = [label(name) for mean, name in order[1:] if mean - first[0] < found.critical_difference]
    told = f"{len(tied)} of {len(order) - 1} other rows lie within that of {label(first[1])}"
    caption = (
        f"Mean rank over the {found.tasks} tasks that all these rows have; a grey bar is as long as the critical difference "
        f"{found.critical_difference:.2f} (Nemenyi, 5 %; Friedman p = {found.p_value:.2g}). A row whose dot lies on another's "
        f"bar cannot be told from it by ranks: {told}."
    )
    return _finished(drawing, f"{track.name}-difference", "Critical difference", caption)
