"""Pictures of results, all in one colour-blind safe style: galleries of cases, rows of fields,
training curves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gsnobench.data import Array, Mesh, Task
from gsnobench.runs.drawing import (
    FAINT,
    INPUT_COLOURS,
    LARGE,
    NORMAL,
    SMALL,
    Page,
    Scale,
    View,
    view_of,
)

MOST_FRAMES = 5  # of a trajectory in a strip
MOST_INPUTS = 2
TRAIN, VALID = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermillion
MARGIN, HEAD, GAP, BAR, NUMBERS = 0.2, 0.88, 0.1, 0.09, 0.58  # inches


@dataclass(frozen=True, eq=False)
class Case:
    """One test sample: what was given, what was asked, what was answered, all in physical units."""

    label: str  # best, median, worst
    score: float
    mesh: Mesh
    inputs: Mapping[str, Array]  # name -> (N,)
    truth: Array  # (T, N, C)
    prediction: Array  # (T, N, C)
    times: Sequence[float]  # of the T frames


@dataclass(frozen=True, eq=False)
class Drawn:
    """One scored quantity of one case, ready to be coloured."""

    case: Case
    view: View
    frames: tuple[int, ...]
    truth: Array  # (T, N)
    prediction: Array  # (T, N)
    error: Array  # (T, N)
    value_scale: Scale
    error_scale: Scale


def gallery(path: Path, task: Task, cases: Sequence[Case], *, model: str = "") -> tuple[Path, ...]:
    """Truth, prediction and error of some cases: one picture for each scored quantity, a strip of
    frames if there are many.

    With one quantity the picture is `path`; with several the quantity's name is added to the stem.
    """
    written = []
    for name, group in task.scored.items():
        drawn = [drawn_of(case, task, name, group) for case in cases]
        place = path if len(task.scored) == 1 else path.with_stem(f"{path.stem}_{name}")
        page = _rows(drawn) if max(len(one.frames) for one in drawn) == 1 else _strips(drawn)
        page.text(
            MARGIN,
            0.25,
            f"{model} on {task.id}" if model else task.id,
            fontsize=LARGE,
            fontweight="bold",
        )
        page.text(MARGIN, 0.45, _explanation(drawn, name), fontsize=SMALL, color=FAINT)
        page.save(place)
        written.append(place)
    return tuple(written)


def panels(mesh: Mesh, columns: Mapping[str, Array], title: str, path: Path) -> None:
    """Fields (N,) of one mesh side by side, each with its own colours."""
    view = view_of(mesh, np.ones(mesh.size, dtype=bool))
    width, height = panel_size(view.aspect, 2.4)
    step = width + 2 * GAP + BAR + NUMBERS
    page = Page(2 * MARGIN + step * len(columns), 0.7 + height + MARGIN)
    page.text(MARGIN, 0.25, title, fontsize=LARGE, fontweight="bold")
    for number, (name, values) in enumerate(columns.items()):
        left, scale = MARGIN + step * number, Scale.spanning(values, "")
        page.text(left + width / 2, 0.56, name, ha="center")
        page.panel((left, 0.7, width, height), view, values, scale)
        page.bar((left + width + GAP, 0.7, BAR, height), scale)
    page.save(path)


def curve(path: Path, history: Sequence[Mapping[str, Any]], *, title: str = "") -> None:
    """Training loss and validation error over steps; the best validation error is marked."""
    page = Page(6.4, 3.6)
    axes = page.axes(0.75, 0.62, 5.4, 2.4)
    page.text(0.75, 0.25, title or "training", fontsize=LARGE, fontweight="bold")
    offset, last, phase = 0, 0, None
    lines: dict[str, list[tuple[int, float]]] = {"loss": [], "valid": []}
    for point in history:
        if phase not in (None, point["phase"]):
            offset = last
            axes.axvline(offset, color=FAINT, linewidth=0.6, linestyle=":")
        phase, last = point["phase"], offset + int(point["step"])
        for name, line in lines.items():
            value = point.get(name)
            if value is not None and math.isfinite(value):
                line.append((last, float(value)))
    for name, colour, label in (
        ("loss", TRAIN, "training loss"),
        ("valid", VALID, "validation error"),
    ):
        if lines[name]:
            steps, values = zip(*lines[name], strict=True)
            axes.plot(
                steps,
                values,
                color=colour,
                linewidth=1.4,
                label=label,
                marker="o" if len(steps) < 30 else None,
                ms=2.5,
            )
    if lines["valid"]:
        step, best = min(lines["valid"], key=lambda pair: pair[1])
        axes.plot(
            [step],
            [best],
            "o",
            color=VALID,
            ms=5,
            mfc="white",
            label=f"best {best:.3g} at step {step}",
        )
    if all(value > 0 for line in lines.values() for _, value in line):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("optimiser step", fontsize=NORMAL)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, which="both")
    if any(lines.values()):
        axes.legend(
            frameon=False, fontsize=SMALL, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0)
        )
    page.save(path)


# ------------------------------------------------------------------------------------ what is drawn


def drawn_of(
    case: Case, task: Task, name: str, group: tuple[int, ...], most_frames: int = MOST_FRAMES
) -> Drawn:
    """One scored quantity of a case, its scales spanning the frames that are shown."""
    fields = [task.fields[position] for position in group]
    # (T, N, c)
    truth, prediction = (
        values[:, : case.mesh.size, list(group)] for values in (case.truth, case.prediction)
    )
    support = fields[0].nodes(case.mesh)
    frames = tuple(sorted({round(i) for i in np.linspace(0, len(truth) - 1, most_frames)}))
    unit = "" if fields[0].unit in ("", "1") else f" [{fields[0].unit}]"
    shown = np.ix_(frames, np.flatnonzero(support))
    if len(group) > 1:
        u, p, e = (
            np.linalg.norm(values, axis=2) for values in (truth, prediction, prediction - truth)
        )
        value_scale = Scale.spanning(u[shown], f"|{name}|{unit}")
        error_scale = Scale.rising(e[shown], f"error{unit}")
    else:
        u, p, e = truth[..., 0], prediction[..., 0], (prediction - truth)[..., 0]
        value_scale = Scale.spanning(u[shown], f"{name}{unit}")
        error_scale = Scale.symmetric(e[shown], f"error{unit}")
    return Drawn(
        case,
        view_of(case.mesh, support),
        frames,
        u,
        p,
        e,
        value_scale.reached_by(p[shown]),
        error_scale,
    )


def panel_size(aspect: float, size: float) -> tuple[float, float]:
    """Width and height of a panel: about size x size, a long domain wider but not higher."""
    width = min(1.5 * size, size * aspect)
    width = max(width, 0.45 * size)
    return width, min(width / aspect, 1.3 * size)


def _mean_aspect(drawn: Sequence[Drawn]) -> float:
    return float(np.exp(np.mean([math.log(one.view.aspect) for one in drawn])))


def _explanation(drawn: Sequence[Drawn], name: str) -> str:
    cases = ", ".join(one.case.label for one in drawn)
    bars = "|" if drawn[0].error_scale.low == 0 else ""
    return f"{name}: {cases} test sample by relative L2; error = {bars}prediction − truth{bars}, on a scale of its own"


def _name_case(page: Page, case: Case, middle: float) -> None:
    page.text(MARGIN, middle - 0.09, case.label, fontweight="bold")
    page.text(MARGIN, middle + 0.09, f"rel. L2 {case.score:.3g}", fontsize=SMALL)


# ------------------------------------------------------------------------------------------ layouts


def _rows(drawn: Sequence[Drawn]) -> Page:
    """One row a case: inputs, truth, prediction, error."""
    width, height = panel_size(_mean_aspect(drawn), 2.0)
    inputs = list(drawn[0].case.inputs)[:MOST_INPUTS]
    wide, label = width + 2 * GAP + BAR + NUMBERS, 0.75
    page = Page(
        2 * MARGIN + label + wide * (len(inputs) + 2) + width + GAP,
        HEAD + (height + 0.2) * len(drawn) + MARGIN,
    )
    for number, one in enumerate(drawn):
        top, left = HEAD + (height + 0.2) * number, MARGIN + label
        _name_case(page, one.case, top + height / 2)
        for name in inputs:
            values = one.case.inputs[name]
            _with_bar(
                page,
                (left, top, width, height),
                one.view,
                values,
                Scale.spanning(values, "", INPUT_COLOURS),
            )
            _heading(page, number, left + width / 2, name)
            left += wide
        page.panel((left, top, width, height), one.view, one.truth[0], one.value_scale)
        _heading(page, number, left + width / 2, "truth")
        left += width + GAP
        _with_bar(page, (left, top, width, height), one.view, one.prediction[0], one.value_scale)
        _heading(page, number, left + width / 2, "prediction")
        left += wide
        _with_bar(page, (left, top, width, height), one.view, one.error[0], one.error_scale)
        _heading(page, number, left + width / 2, "error")
    return page


def _heading(page: Page, row: int, middle: float, text: str) -> None:
    if row == 0:
        page.text(middle, HEAD - 0.14, text, ha="center")


def _with_bar(page: Page, place: Sequence[float], view: View, values: Array, scale: Scale) -> None:
    left, top, width, height = place
    page.panel(place, view, values, scale)
    page.bar((left + width + GAP, top, BAR, height), scale)


def _strips(drawn: Sequence[Drawn]) -> Page:
    """Three rows a case (truth, prediction, error), one column a frame, what was given at the left."""
    width, height = panel_size(_mean_aspect(drawn), 1.35)
    count, has_input = max(len(one.frames) for one in drawn), bool(drawn[0].case.inputs)
    start = MARGIN + 0.85 + (width + 2 * GAP) * has_input + 0.3
    block = 3 * (height + GAP) + 0.25
    right = start + (width + GAP) * count + GAP
    page = Page(right + BAR + NUMBERS + MARGIN, HEAD + block * len(drawn))
    for number, one in enumerate(drawn):
        top = HEAD + block * number
        _name_case(page, one.case, top + 1.5 * height + GAP)
        if has_input:
            _given(page, (MARGIN + 0.85, top, width, height), one, number)
        rows = (
            ("truth", one.truth, one.value_scale),
            ("prediction", one.prediction, one.value_scale),
        )
        for row, (name, values, scale) in enumerate((*rows, ("error", one.error, one.error_scale))):
            upper = top + row * (height + GAP)
            page.text(
                start - 0.13, upper + height / 2, name, fontsize=SMALL, ha="center", rotation=90
            )
            for column, frame in enumerate(one.frames):
                left = start + (width + GAP) * column
                page.panel((left, upper, width, height), one.view, values[frame], scale)
                if row == 0:
                    _heading(page, number, left + width / 2, f"t = {one.case.times[frame]:.3g}")
        page.bar((right, top, BAR, 2 * height + GAP), one.value_scale)
        page.bar((right, top + 2 * (height + GAP) + 0.15, BAR, height - 0.15), one.error_scale)
    return page


def _given(page: Page, place: Sequence[float], one: Drawn, number: int) -> None:
    """The first input of a case beside the truth, its colours below it."""
    left, top, width, height = place
    name, values = next(iter(one.case.inputs.items()))
    scale = Scale.spanning(values, "", INPUT_COLOURS)
    page.panel(place, one.view, values, scale)
    page.bar((left + 0.1 * width, top + height + GAP, 0.8 * width, BAR), scale)
    _heading(page, number, left + width / 2, name)
