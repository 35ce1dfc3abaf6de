"""The training curve of a run: loss and validation error over steps, and what floors reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from gsnobench.drawing.page import Page
from gsnobench.drawing.rules import FAINT, FIRST, GRID, INK, LARGE, NORMAL, SECOND, SMALL

MOST_FLOORS = 3  # the best of them: more lines would crowd
Line = list[tuple[int, float]]  # of a curve: step, value


def draw_curve(
    path: Path,
    history: Sequence[Mapping[str, Any]],
    *,
    title: str = "training",
    facts: str = "",
    floors: Mapping[str, float] | None = None,
    printed: float | None = None,
) -> None:
    """Training loss and validation error over steps; the best validation error is marked.

    `floors` are validation errors of predictors without a training loop, drawn as level lines;
    `printed` is the error that the model's paper prints.
    """
    page = Page(6.8, 3.7)
    axes = page.axes(0.85, 0.8, 4.9, 2.35)
    page.text(0.2, 0.22, title, fontsize=LARGE, fontweight="bold")
    page.text(0.2, 0.42, facts, fontsize=SMALL, color=FAINT)
    lines, phase_ends = _lines(history)
    for end in phase_ends:
        axes.axvline(end, color=FAINT, linewidth=0.6, linestyle=":")
    _plot(axes, lines["loss"], FIRST, "training loss")
    _plot(axes, lines["valid"], SECOND, "validation error")
    if lines["valid"]:
        step, best = min(lines["valid"], key=lambda point: point[1])
        label = f"best {best:.3g} at step {step:,}"
        axes.plot([step], [best], "o", color=SECOND, ms=5, mfc="white", label=label)
    _draw_floors(axes, floors or {})
    if printed is not None:
        _draw_level(axes, "printed", printed, INK, ":")
    _scale(axes, [value for line in lines.values() for _, value in line])
    axes.set_xlabel("optimiser step", fontsize=NORMAL)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_ylabel("relative L2 error, loss", fontsize=NORMAL)
    axes.grid(True, which="major", color=GRID, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, which="both")
    if any(lines.values()):
        where: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
        axes.legend(frameon=False, fontsize=SMALL, ncols=3, **where)
    page.save(path)


def _lines(history: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Line], list[int]]:
    """Finite losses and validation errors by steps since the first phase, and where phases end."""
    offset, last, phase = 0, 0, None
    lines: dict[str, Line] = {"loss": [], "valid": []}
    phase_ends = []
    for point in history:
        if phase not in (None, point["phase"]):
            offset = last
            phase_ends.append(offset)
        phase, last = point["phase"], offset + int(point["step"])
        for name, line in lines.items():
            value = point.get(name)
            if value is not None and math.isfinite(value):
                line.append((last, float(value)))
    return lines, phase_ends


def _plot(axes: Axes, line: Line, colour: str, label: str) -> None:
    if line:
        steps, values = zip(*line, strict=True)
        marker = "o" if len(steps) < 30 else None
        axes.plot(steps, values, color=colour, linewidth=1.4, label=label, marker=marker, ms=2.5)


def _draw_floors(axes: Axes, floors: Mapping[str, float]) -> None:
    """Level lines with their names at the right end."""
    known = {name: error for name, error in floors.items() if math.isfinite(error) and error > 0}
    for name in sorted(known, key=lambda name: known[name])[:MOST_FLOORS]:
        _draw_level(axes, name, known[name], FAINT, "--")


def _draw_level(axes: Axes, name: str, error: float, colour: str, line: str) -> None:
    axes.axhline(error, color=colour, linewidth=0.8, linestyle=line)
    axes.annotate(
        f"{name} {error:.3g}",
        (1.0, error),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        color=INK,
        annotation_clip=False,
    )


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Logarithmic with plain numbers, at least two of them."""
    if not values or min(values) <= 0:
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low > 8 else tuple(range(1, 10)) if high / low > 1.6 else None
    if subs is not None:
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_locator(NullLocator())
