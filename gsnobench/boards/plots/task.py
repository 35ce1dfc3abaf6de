"""Plots of a board: what an error costs, how it grows, where it lives, how it spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gsnobench.boards.board import Board, Row
from gsnobench.boards.plots.names import LINE, NAMES, WIDTH, end_labels, finished, name_rows
from gsnobench.boards.plots.style import SMALL, Drawing, Figure, label, log_axis, look
from gsnobench.boards.wording import number
from gsnobench.data import Array

REFERENCE = "gsno@plus"  # what run times are relative to, where the board has it
SHADED = 3  # rows whose spread over samples is shaded: more of them hide one another
COST_AXES = {
    "parameters": "trained parameters",
    "train_cpu_s": "training, CPU seconds",
    "peak_mb": "peak memory, MB",
}


def board_figures(board: Board) -> list[Figure]:
    """The plots that this board has the numbers for."""
    rows = board.compared
    kinds = (_cost_figure, _frame_figure, _band_figure, _time_figure, _sample_figure)
    found = [draw(board, rows) for draw in kinds] if rows else []
    return [figure for figure in found if figure is not None]


# ----------------------------------------------------------------------------------- error and cost


def pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Numbers of the points that no other beats in both, cheapest first; unknown costs do not take
    part.
    """
    known = [
        place
        for place, cost in enumerate(costs)
        if math.isfinite(cost) and math.isfinite(errors[place])
    ]
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
    wide = (WIDTH - 0.65 - NAMES) / len(tables)
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
    end_labels(drawing, axes, rows, errors)
    front = ", ".join(
        label(rows[place].name) for place in pareto_front(tables.get("train_cpu_s", errors), errors)
    )
    caption = (
        "Mean error of each row against what it costs, on logarithmic axes; lower left is better. "
        "Filled points and the stepped "
        "line are the Pareto front: no other row is both cheaper and more accurate (for training "
        f"time: {front}). A closed form "
        f"trains no parameters, so it is missing from the first panel."
    )
    return finished(drawing, f"{board.slug}-cost", "Error against cost", caption)


def _positive(value: float) -> float:
    return value if value > 0 else math.nan  # a logarithmic axis has no zero


def _scatter(drawing: Drawing, axes: Axes, rows: Sequence[Row], costs: Sequence[float]) -> None:
    front = pareto_front(costs, [row.error for row in rows])
    corners = [(costs[place], rows[place].error) for place in front]
    axes.step(
        [x for x, _ in corners],
        [y for _, y in corners],
        where="post",
        color=drawing.ink,
        linewidth=0.7,
        alpha=0.55,
    )
    for place, row in enumerate(rows):
        if math.isfinite(costs[place]):
            style = look(row)
            face = style.colour if place in front else "none"
            axes.plot(
                costs[place],
                row.error,
                style.marker,
                ms=5,
                mfc=face,
                mec=style.colour,
                mew=1.1,
                clip_on=False,
            )


# ------------------------------------------------------------------------------------------- frames


def frame_quantiles(row: Row) -> Array | None:
    """10, 50 and 90 % over samples of the error of each frame, mean over fields and seeds, (3, T);
    None without a time.
    """
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
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - NAMES, height - 0.6)
    for place, (row, (low, middle, high)) in enumerate(curves):
        frames, style = np.arange(1, len(middle) + 1), look(row)
        if place < SHADED:
            axes.fill_between(frames, low, high, color=style.colour, alpha=0.18, linewidth=0)
        every = max(len(frames) // 6, 1)
        drawn: dict[str, Any] = {
            "marker": style.marker,
            "markersize": 3,
            "markevery": (place % every, every),
            "linewidth": 0.9 + 0.5 * (place < SHADED),
        }
        axes.plot(frames, middle, color=style.colour, **drawn)
    axes.set_xlim(1, max(len(curve[1]) for _, curve in curves))
    log_axis(axes, "y", [float(value) for _, curve in curves for value in curve[1]])
    drawing.name_axis(axes, "predicted frame")
    drawing.name_axis(axes, "relative L2 error of the frame", "y")
    end_labels(
        drawing, axes, [row for row, _ in curves], [float(curve[1][-1]) for _, curve in curves]
    )
    caption = (
        "Median over test samples of the error of each predicted frame, best row "
        f"{label(curves[0][0].name)}; the 10 to 90 % "
        f"band is shaded for the best {min(SHADED, len(curves))}. Names stand at the height of the "
        "last frame."
    )
    return finished(drawing, f"{board.slug}-frames", "Error per frame", caption)


# -------------------------------------------------------------------------------------------- bands


def band_norms(row: Row) -> Array | None:
    """Truth and error in each band of Laplacian modes, mean over fields and the seeds that have
    them, (2, bands).
    """
    found = [
        [table["truth"], table["error"]] for entry in row.done for table in entry.bands.values()
    ]
    # none has them, or they were cut in another way
    if len({len(part) for pair in found for part in pair}) != 1:
        return None
    norms: Array = np.asarray(found, dtype=float).mean(axis=0)
    return norms


def band_name(place: int, count: int) -> str:
    """Modes of a band: 1, 2-3, 4-7 and so on, the last one open."""
    first = 2**place
    return f"{first}+" if place == count - 1 else "1" if place == 0 else f"{first}-{2 * first - 1}"


def _band_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    known = [(row, norms) for row in rows if (norms := band_norms(row)) is not None]
    if not known:
        return None
    truth = known[0][1][0]
    there = truth > 0  # a coarse mesh has no modes in the last bands
    places, names = (
        np.arange(there.sum()),
        [band_name(place, len(truth)) for place in np.flatnonzero(there).tolist()],
    )
    curves = [np.maximum(norms[1][there], 1e-9) for _, norms in known]
    height = max(2.7, LINE * len(curves)) + 0.6
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(0.65, 0.48, WIDTH - 0.65 - NAMES, height - 0.6)
    axes.plot(places, truth[there], color=drawing.ink, linewidth=1.6, linestyle=(0, (5, 2)))
    drawing.text(axes, 0.0, 1.15 * truth[there][0], "truth", va="bottom")
    for place, ((row, _), curve) in enumerate(zip(known, curves, strict=True)):
        style = look(row)
        axes.plot(
            places,
            curve,
            color=style.colour,
            marker=style.marker,
            markersize=3,
            linewidth=0.9 + 0.5 * (place < SHADED),
        )
    axes.set(xlim=(-0.15, len(places) - 0.85), xticks=places, xticklabels=names)
    log_axis(axes, "y", [float(value) for curve in (truth[there], *curves) for value in curve])
    drawing.name_axis(axes, "modes of the mesh's Laplacian, smooth to rough")
    drawing.name_axis(axes, "part of the field's norm", "y")
    end_labels(drawing, axes, [row for row, _ in known], [float(curve[-1]) for curve in curves])
    partial = sum(not all(one.bands for one in row.done) for row, _ in known)
    missing = f" Rows with bands for some of their seeds only: {partial}." if partial else ""
    missing += (
        f" Rows without any, not shown: {len(rows) - len(known)}." if len(known) < len(rows) else ""
    )
    caption = (
        "Error of each row in bands of Laplacian modes, beside the truth in the same bands "
        "(dashed), both relative to the "
        "norm of the whole truth, root mean square over test samples: the squares of a curve add "
        "up to its whole error. Where "
        f"a row meets the dashed line, it has learned nothing of that band.{missing}"
    )
    return finished(drawing, f"{board.slug}-bands", "Error by Laplacian band", caption)


# -------------------------------------------------------------------------------- times and spreads


def _time_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    reference = next((row for row in rows if row.name == REFERENCE), rows[0])
    panels = {"train_cpu_s": "training, CPU seconds", "inference_s": "inference, a sample"}
    height = LINE * len(rows) + 0.75
    drawing = Drawing(WIDTH, height)
    wide = (WIDTH - NAMES) / 2
    drawn = False
    for place, (cost, title) in enumerate(panels.items()):
        ratios = [_positive(row.cost(cost)) / _positive(reference.cost(cost)) for row in rows]
        known = [ratio for ratio in ratios if math.isfinite(ratio)]
        if not known:
            continue
        axes = drawing.axes(NAMES + place * wide, 0.48, wide - 0.55, height - 0.6)
        _bars(drawing, axes, rows, ratios)
        log_axis(axes, "x", [min(known), max(known), 0.8, 1.25])
        drawing.name_axis(axes, f"{title}, relative to {label(reference.name)}")
        name_rows(drawing, axes, rows, is_named=not drawn)
        drawn = True
    caption = (
        f"How many times longer than {label(reference.name)} each row takes to train and to "
        "predict one sample, on logarithmic "
        f"axes: bars to the left are faster. Rows stand in the order of their error."
    )
    return finished(drawing, f"{board.slug}-times", "Run time", caption) if drawn else None


def _bars(drawing: Drawing, axes: Axes, rows: Sequence[Row], ratios: Sequence[float]) -> None:
    for place, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        if math.isfinite(ratio):
            axes.plot(
                [1, ratio],
                [place, place],
                color=look(row).colour,
                linewidth=6,
                solid_capstyle="butt",
            )
            shown: dict[str, Any] = {
                "xytext": (3, 0),
                "textcoords": "offset points",
                "va": "center",
                "fontsize": SMALL - 1,
                "color": drawing.ink,
            }
            axes.annotate(
                f"{number(ratio, 2)}×", (max(ratio, 1.0), place), annotation_clip=False, **shown
            )
    axes.axvline(1, color=drawing.ink, linewidth=0.6)


def _sample_figure(board: Board, rows: Sequence[Row]) -> Figure | None:
    height = LINE * 1.25 * len(rows) + 0.7
    drawing = Drawing(WIDTH, height)
    axes = drawing.axes(NAMES, 0.48, WIDTH - NAMES - 0.2, height - 0.6)
    tables = [np.maximum(row.scores.sample_means, 1e-12) for row in rows]
    for place, (row, values) in enumerate(zip(rows, tables, strict=True)):
        low, quarter, middle, third, high = np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9))
        colour = look(row).colour
        # one path for all samples of a row
        ticks = np.column_stack([values, values, np.full(len(values), np.nan)]).ravel()
        axes.plot(
            ticks,
            np.tile([place - 0.32, place + 0.32, np.nan], len(values)),
            color=colour,
            linewidth=0.5,
            alpha=0.55,
        )
        axes.plot([low, high], [place, place], color=drawing.ink, linewidth=0.7)
        axes.plot(
            [quarter, third],
            [place, place],
            color=drawing.ink,
            linewidth=2.4,
            solid_capstyle="butt",
        )
        axes.plot([middle], [place], "o", ms=3.6, mfc="white", mec=drawing.ink, mew=0.8)
    log_axis(
        axes, "x", [float(value) for values in tables for value in (values.min(), values.max())]
    )
    name_rows(drawing, axes, rows)
    drawing.name_axis(axes, "relative L2 error of a test sample")
    caption = (
        f"Every test sample ({len(tables[0])}) as a tick, mean over seeds; the dot is the median, "
        "the thick line holds the "
        "middle half, the thin one 80 %. A long tail to the right means that a few samples are "
        "predicted badly."
    )
    return finished(drawing, f"{board.slug}-samples", "Errors of single samples", caption)
