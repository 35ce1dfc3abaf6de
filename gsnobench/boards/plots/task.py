"""Plots of one board: cost, growth over frames, Laplacian bands, run time, single samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gsnobench.boards.board import Board, Row
from gsnobench.boards.plots.axes import LINE, NAMES, WIDTH, end_labels, log_axis, name_rows
from gsnobench.boards.plots.style import Drawing, Figure, label, row_style
from gsnobench.boards.wording import number
from gsnobench.data import Array
from gsnobench.drawing.rules import SMALL

SHADED = 3  # rows whose spread over samples is shaded: more of them hide one another
QUANTILES = ("q10", "q50", "q90")
COST_AXES = {
    "parameters": "trained parameters",
    "train_cpu_s": "training, CPU seconds",
    "peak_mb": "peak memory, MB",
}
TIME_AXES = {"train_cpu_s": "training, CPU seconds", "inference_s": "inference, per sample"}


def board_figures(board: Board) -> list[Figure]:
    """The plots that this board has the numbers for."""
    rows = board.compared
    kinds = (_cost_figure, _frame_figure, _band_figure, _time_figure, _sample_figure)
    figures = [draw(board, rows) for draw in kinds] if rows else []
    return [figure for figure in figures if figure is not None]


def _names_to_the_right(rows: int) -> tuple[Drawing, float]:
    """A sheet high enough for the names of all rows, and the height of axes on it."""
    height = max(2.7, LINE * rows) + 0.6
    return Drawing(WIDTH, height), height - 0.6


# ----------------------------------------------------------------------------------- error and cost


def pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Indices of the points that no other beats in both, cheapest first; unknown costs left out."""
    pairs = list(zip(costs, errors, strict=True))
    known = [index for index, pair in enumerate(pairs) if all(map(math.isfinite, pair))]
    front: list[int] = []
    for index in sorted(known, key=lambda index: pairs[index]):
        if not front or errors[index] < errors[front[-1]]:
            front.append(index)
    return front


def _cost_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    """Panels on one error axis, so that one column of names serves the points of all of them."""
    errors = [row.error for row in rows]
    panels = {name: [_positive(row.cost(name)) for row in rows] for name in COST_AXES}
    panels = {name: costs for name, costs in panels.items() if any(map(math.isfinite, costs))}
    if not panels:
        return None
    height = max(2.5, LINE * len(rows)) + 0.6
    drawing = Drawing(WIDTH, height)
    wide = (WIDTH - 0.65 - NAMES) / len(panels)
    for column, (name, costs) in enumerate(panels.items()):
        axes = drawing.axes(0.65 + column * wide, 0.48, wide - 0.25, height - 0.6)
        log_axis(axes, "y", errors)
        log_axis(axes, "x", [cost for cost in costs if math.isfinite(cost)])
        _scatter(drawing, axes, rows, costs)
        drawing.name_axis(axes, COST_AXES[name])
        if column:
            axes.tick_params(labelleft=False)
        else:
            drawing.name_axis(axes, "relative L2 error", "y")
    end_labels(drawing, axes, rows, errors)
    caption = _cost_caption(rows, panels)
    return drawing.figure(f"{board.slug}-cost", "Error against cost", caption)


def _cost_caption(rows: Sequence[Row], panels: Mapping[str, Sequence[float]]) -> str:
    errors = [row.error for row in rows]
    front = pareto_front(panels.get("train_cpu_s", errors), errors)
    names = ", ".join(label(rows[index].name) for index in front)
    return (
        "Mean error of each row against what it costs, on logarithmic axes; lower left is better. "
        "Filled points and the stepped line are the Pareto front: no other row is both cheaper and "
        f"more accurate (for training time: {names}). A closed form has no trained parameters, so "
        "it is not in that panel."
    )


def _positive(value: float) -> float:
    return value if value > 0 else math.nan  # a logarithmic axis has no zero


def _scatter(drawing: Drawing, axes: Axes, rows: Sequence[Row], costs: Sequence[float]) -> None:
    front = pareto_front(costs, [row.error for row in rows])
    corners = [costs[index] for index in front], [rows[index].error for index in front]
    axes.step(*corners, where="post", color=drawing.ink, linewidth=0.7, alpha=0.55)
    for index, (row, cost) in enumerate(zip(rows, costs, strict=True)):
        if math.isfinite(cost):
            style = row_style(row)
            face = style.colour if index in front else "none"
            mark: dict[str, Any] = {"ms": 5, "mfc": face, "mec": style.colour, "mew": 1.1}
            axes.plot(cost, row.error, style.marker, clip_on=False, **mark)


# ------------------------------------------------------------------------------------------- frames


def frame_quantiles(row: Row) -> Array | None:
    """Error of each frame: 10, 50 and 90 % over samples, mean over fields and seeds, (3, T).

    None for a task without time.
    """
    tables = [table for entry in row.done for table in entry.frames.values()]
    tables = [table for table in tables if {*QUANTILES} <= {*table} and len(table["q50"]) > 1]
    curves = [[table[name] for name in QUANTILES] for table in tables]
    if len({len(curve) for triple in curves for curve in triple}) != 1:
        return None
    quantiles: Array = np.asarray(curves, dtype=float).mean(axis=0)  # (3, T)
    return quantiles if np.isfinite(quantiles).all() and (quantiles > 0).all() else None


def _frame_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    curves = [(row, curve) for row in rows if (curve := frame_quantiles(row)) is not None]
    if not curves:
        return None
    drawing, height = _names_to_the_right(len(curves))
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - NAMES, height)
    for index, (row, (low, middle, high)) in enumerate(curves):
        frames, style = np.arange(1, len(middle) + 1), row_style(row)
        if index < SHADED:
            axes.fill_between(frames, low, high, color=style.colour, alpha=0.18, linewidth=0)
        every = max(len(frames) // 6, 1)
        marks: dict[str, Any] = {"marker": style.marker, "markersize": 3}
        marks["markevery"] = (index % every, every)
        width = 0.9 + 0.5 * (index < SHADED)
        axes.plot(frames, middle, color=style.colour, linewidth=width, **marks)
    axes.set_xlim(1, max(len(curve[1]) for _, curve in curves))
    log_axis(axes, "y", [float(value) for _, curve in curves for value in curve[1]])
    drawing.name_axis(axes, "predicted frame")
    drawing.name_axis(axes, "relative L2 error of the frame", "y")
    last = [float(curve[1][-1]) for _, curve in curves]
    end_labels(drawing, axes, [row for row, _ in curves], last)
    caption = (
        "Median over test samples of the error of each predicted frame, best row "
        f"{label(curves[0][0].name)}; the 10 to 90 % band is shaded for the best "
        f"{min(SHADED, len(curves))}. Each name is at the height of its row's last frame."
    )
    return drawing.figure(f"{board.slug}-frames", "Error per frame", caption)


# -------------------------------------------------------------------------------------------- bands


def band_norms(row: Row) -> Array | None:
    """Truth and error in each band of Laplacian modes, mean over fields and seeds, (2, bands).

    None if no seed has them, or if their numbers of bands differ.
    """
    tables = [table for entry in row.done for table in entry.bands.values()]
    pairs = [[table["truth"], table["error"]] for table in tables]
    if len({len(curve) for pair in pairs for curve in pair}) != 1:
        return None
    norms: Array = np.asarray(pairs, dtype=float).mean(axis=0)  # (2, bands)
    return norms


def band_name(band: int, count: int) -> str:
    """Modes of a band: 1, 2-3, 4-7 and so on, the last one open."""
    first = 2**band
    return f"{first}+" if band == count - 1 else "1" if band == 0 else f"{first}-{2 * first - 1}"


def _band_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    known = [(row, norms) for row in rows if (norms := band_norms(row)) is not None]
    if not known:
        return None
    all_bands = known[0][1][0]
    used = np.flatnonzero(all_bands > 0)  # a coarse mesh has no modes in the last bands
    truth, bands = all_bands[used], np.arange(len(used))
    curves = [np.maximum(norms[1][used], 1e-9) for _, norms in known]
    drawing, height = _names_to_the_right(len(curves))
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - NAMES, height)
    axes.plot(bands, truth, color=drawing.ink, linewidth=1.6, linestyle=(0, (5, 2)))
    drawing.text(axes, 0.0, 1.15 * truth[0], "truth", va="bottom")
    for index, ((row, _), curve) in enumerate(zip(known, curves, strict=True)):
        style, width = row_style(row), 0.9 + 0.5 * (index < SHADED)
        mark: dict[str, Any] = {"marker": style.marker, "markersize": 3}
        axes.plot(bands, curve, color=style.colour, linewidth=width, **mark)
    names = [band_name(band, len(all_bands)) for band in used.tolist()]
    axes.set(xlim=(-0.15, len(bands) - 0.85), xticks=bands, xticklabels=names)
    log_axis(axes, "y", [float(value) for curve in (truth, *curves) for value in curve])
    drawing.name_axis(axes, "modes of the mesh's Laplacian, smooth to rough")
    drawing.name_axis(axes, "part of the field's norm", "y")
    end_labels(drawing, axes, [row for row, _ in known], [float(curve[-1]) for curve in curves])
    caption = _band_caption([row for row, _ in known], len(rows))
    return drawing.figure(f"{board.slug}-bands", "Error by Laplacian band", caption)


def _band_caption(shown: Sequence[Row], count: int) -> str:
    partial = sum(not all(entry.bands for entry in row.done) for row in shown)
    missing = f" Rows with bands for some of their seeds only: {partial}." if partial else ""
    if len(shown) < count:
        missing += f" Rows without any, not shown: {count - len(shown)}."
    return (
        "Error of each row in bands of Laplacian modes, beside the truth in the same bands "
        "(dashed), both relative to the norm of the whole truth, root mean square over test "
        "samples: the squares of a curve add up to its whole error. Where a row meets the dashed "
        f"line, it has learned nothing of that band.{missing}"
    )


# -------------------------------------------------------------------------------- times and spreads


def _time_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    reference = next((row for row in rows if row.is_reference), rows[0])
    height = LINE * len(rows) + 0.75
    drawing = Drawing(WIDTH, height)
    wide = (WIDTH - NAMES) / 2
    is_drawn = False
    for column, (cost, title) in enumerate(TIME_AXES.items()):
        ratios = [_positive(row.cost(cost)) / _positive(reference.cost(cost)) for row in rows]
        known = [ratio for ratio in ratios if math.isfinite(ratio)]
        if not known:
            continue
        axes = drawing.axes(NAMES + column * wide, 0.48, wide - 0.55, height - 0.6)
        _bars(drawing, axes, rows, ratios)
        log_axis(axes, "x", [min(known), max(known), 0.8, 1.25])
        drawing.name_axis(axes, f"{title}, relative to {label(reference.name)}")
        name_rows(drawing, axes, rows, is_named=not is_drawn)
        is_drawn = True
    if not is_drawn:
        return None
    caption = (
        "Time of each row to train, and to predict one sample, divided by that of "
        f"{label(reference.name)}. The axes are logarithmic: bars to the left are faster. Rows are "
        "sorted by their error."
    )
    return drawing.figure(f"{board.slug}-times", "Run time", caption)


def _bars(drawing: Drawing, axes: Axes, rows: Sequence[Row], ratios: Sequence[float]) -> None:
    words: dict[str, Any] = {"fontsize": SMALL - 1, "color": drawing.ink, "va": "center"}
    words |= {"xytext": (3, 0), "textcoords": "offset points", "annotation_clip": False}
    for index, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        if math.isfinite(ratio):
            level, colour = [index, index], row_style(row).colour
            axes.plot([1, ratio], level, color=colour, linewidth=6, solid_capstyle="butt")
            axes.annotate(f"{number(ratio, 2)}×", (max(ratio, 1.0), index), **words)
    axes.axvline(1, color=drawing.ink, linewidth=0.6)


def _sample_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    height = LINE * 1.25 * len(rows) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(NAMES, 0.48, WIDTH - NAMES - 0.2, height - 0.6)
    tables = [np.maximum(row.scores.sample_means, 1e-12) for row in rows]  # (S,) each
    for index, (row, values) in enumerate(zip(rows, tables, strict=True)):
        _strip(drawing, axes, index, values, row_style(row).colour)
    log_axis(axes, "x", [float(end) for values in tables for end in (values.min(), values.max())])
    name_rows(drawing, axes, rows)
    drawing.name_axis(axes, "relative L2 error of a test sample")
    caption = (
        f"Every test sample ({len(tables[0])}) as a tick, mean over seeds; the dot is the median, "
        "the thick line holds the middle half, the thin one 80 %. A long tail to the right means "
        "that a few samples are predicted badly."
    )
    return drawing.figure(f"{board.slug}-samples", "Errors of single samples", caption)


def _strip(drawing: Drawing, axes: Axes, height: int, values: Array, colour: str) -> None:
    """All samples of a row as ticks in one path, with their quantiles."""
    low, quarter, middle, third, high = np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9))
    ticks = np.column_stack([values, values, np.full(len(values), np.nan)]).ravel()
    ends = np.tile([height - 0.32, height + 0.32, np.nan], len(values))
    level, ink = [height, height], drawing.ink
    axes.plot(ticks, ends, color=colour, linewidth=0.5, alpha=0.55)
    axes.plot([low, high], level, color=ink, linewidth=0.7)
    axes.plot([quarter, third], level, color=ink, linewidth=2.4, solid_capstyle="butt")
    axes.plot([middle], [height], "o", ms=3.6, mfc="white", mec=ink, mew=0.8)
