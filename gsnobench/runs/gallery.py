"""Pictures of a run: test cases with truth, prediction and error, and the training curve.

The cases are the best, the median and the worst test sample, so that a picture cannot flatter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from torch import nn

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
from gsnobench.training.loader import Loader
from gsnobench.training.rollout import rollout

MOST_FRAMES = 5  # of a trajectory in a strip
MOST_INPUTS = 2
TRAIN, VALID = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermillion
MARGIN, HEAD, GAP, BAR, NUMBERS = 0.2, 0.88, 0.1, 0.09, 0.58  # inches
Line = list[tuple[int, float]]  # of a curve: step, value


@dataclass(frozen=True, eq=False)
class Case:
    """One test sample: inputs, truth and prediction, all in physical units."""

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


# ------------------------------------------------------------------------------------------- cases


def draw_cases(
    path: Path, task: Task, module: nn.Module, loader: Loader, scores: Array, *, title: str
) -> tuple[Path, ...]:
    """Inputs, truth, prediction and error of three samples, chosen by their scores (S,)."""
    order = np.argsort(scores)
    chosen = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    cases = [
        case_of(task, module, loader, int(index), label=label, score=float(scores[index]))
        for label, index in chosen.items()
    ]
    return gallery(path, task, cases, title=title)


def case_of(
    task: Task,
    module: nn.Module,
    loader: Loader,
    index: int,
    *,
    label: str,
    score: float,
    windows: int = 1,
) -> Case:
    """One test sample with the predictions of its first `windows` windows, one after the other."""
    samples = loader.samples
    mesh, starts = samples.mesh(index), torch.tensor(loader.starts[:windows])
    indices = torch.full_like(starts, index)
    module.eval()
    with torch.no_grad():
        batch, target = loader.batch(indices, starts, task.t_out)
        prediction = rollout(module, loader, batch, indices, task.t_out)
    return Case(
        label=label,
        score=score,
        mesh=mesh,
        inputs=_inputs(task, loader, index),
        truth=_physical(target, loader)[:, : mesh.size],
        prediction=_physical(prediction, loader)[:, : mesh.size],
        times=tuple(task.times[frame] for frame in task.predicted_frames(windows)),
    )


def _inputs(task: Task, loader: Loader, index: int) -> dict[str, Array]:
    """Static inputs and the last given frame of a sample, each (N,)."""
    samples, nodes = loader.samples, loader.samples.mesh(index).size
    static = np.asarray(samples.static[index])[:nodes]  # (N, F)
    inputs = {field.name: static[:, column] for column, field in enumerate(task.static)}
    if task.t_in:
        last = task.starts[0] + task.t_in - 1
        given = np.asarray(samples.frames[index])[last, :nodes]  # (N, C)
        for column, field in enumerate(task.fields):
            inputs[f"{field.name} (last given)"] = given[:, column]
    return inputs


def _physical(centred: torch.Tensor, loader: Loader) -> Array:
    """(windows, t_out, N, C) -> (windows * t_out, N, C)."""
    return (centred + loader.reference).flatten(0, 1).cpu().numpy()


# ------------------------------------------------------------------------------------------- pages


def gallery(path: Path, task: Task, cases: Sequence[Case], *, title: str = "") -> tuple[Path, ...]:
    """Truth, prediction and error of some cases: one picture per scored quantity.

    With one quantity the picture is `path`; with several the quantity's name is added to the stem.
    Many frames are drawn as a strip.
    """
    written = []
    for name, group in task.scored.items():
        drawn = [drawn_of(case, task, name, group) for case in cases]
        page = _rows(drawn) if max(len(case.frames) for case in drawn) == 1 else _strips(drawn)
        page.text(MARGIN, 0.25, title or task.id, fontsize=LARGE, fontweight="bold")
        page.text(MARGIN, 0.45, _explanation(drawn, name), fontsize=SMALL, color=FAINT)
        picture = path if len(task.scored) == 1 else path.with_stem(f"{path.stem}_{name}")
        page.save(picture)
        written.append(picture)
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


def draw_curve(path: Path, history: Sequence[Mapping[str, Any]], *, title: str = "") -> None:
    """Training loss and validation error over steps; the best validation error is marked."""
    page = Page(6.4, 3.6)
    axes = page.axes(0.75, 0.62, 5.4, 2.4)
    page.text(0.75, 0.25, title or "training", fontsize=LARGE, fontweight="bold")
    lines, phase_ends = _curve_lines(history)
    for end in phase_ends:
        axes.axvline(end, color=FAINT, linewidth=0.6, linestyle=":")
    _plot_line(axes, lines["loss"], TRAIN, "training loss")
    _plot_line(axes, lines["valid"], VALID, "validation error")
    if lines["valid"]:
        step, best = min(lines["valid"], key=lambda point: point[1])
        label = f"best {best:.3g} at step {step}"
        axes.plot([step], [best], "o", color=VALID, ms=5, mfc="white", label=label)
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


def _curve_lines(history: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Line], list[int]]:
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


def _plot_line(axes: Axes, line: Line, colour: str, label: str) -> None:
    if line:
        steps, values = zip(*line, strict=True)
        marker = "o" if len(steps) < 30 else None
        axes.plot(steps, values, color=colour, linewidth=1.4, label=label, marker=marker, ms=2.5)


# ------------------------------------------------------------------------------------ what is drawn


def drawn_of(
    case: Case, task: Task, name: str, group: tuple[int, ...], most_frames: int = MOST_FRAMES
) -> Drawn:
    """One scored quantity of a case; its scales span the frames that are shown."""
    first = task.fields[group[0]]
    nodes, columns = case.mesh.size, list(group)
    truth, prediction = case.truth[:, :nodes, columns], case.prediction[:, :nodes, columns]
    support = first.nodes(case.mesh)
    frames = tuple(sorted({round(i) for i in np.linspace(0, len(truth) - 1, most_frames)}))
    unit = "" if first.unit in ("", "1") else f" [{first.unit}]"
    shown = np.ix_(frames, np.flatnonzero(support))
    if len(group) > 1:
        fields = (truth, prediction, prediction - truth)  # (T, N, c) each
        u, p, e = (np.linalg.norm(values, axis=2) for values in fields)
        value_scale = Scale.spanning(u[shown], f"|{name}|{unit}")
        error_scale = Scale.rising(e[shown], f"error{unit}")
    else:
        u, p, e = truth[..., 0], prediction[..., 0], (prediction - truth)[..., 0]
        value_scale = Scale.spanning(u[shown], f"{name}{unit}")
        error_scale = Scale.symmetric(e[shown], f"error{unit}")
    return Drawn(
        case=case,
        view=view_of(case.mesh, support),
        frames=frames,
        truth=u,
        prediction=p,
        error=e,
        value_scale=value_scale.reached_by(p[shown]),
        error_scale=error_scale,
    )


def panel_size(aspect: float, size: float) -> tuple[float, float]:
    """Width and height of a panel: about size x size, a long domain wider but not higher."""
    width = min(1.5 * size, size * aspect)
    width = max(width, 0.45 * size)
    return width, min(width / aspect, 1.3 * size)


def _mean_aspect(drawn: Sequence[Drawn]) -> float:
    return float(np.exp(np.mean([math.log(case.view.aspect) for case in drawn])))


def _explanation(drawn: Sequence[Drawn], name: str) -> str:
    labels = ", ".join(case.case.label for case in drawn)
    bars = "|" if drawn[0].error_scale.low == 0 else ""
    error = f"{bars}prediction − truth{bars}"
    return f"{name}: {labels} test sample by relative L2; error = {error}, on a scale of its own"


def _name_case(page: Page, case: Case, middle: float) -> None:
    page.text(MARGIN, middle - 0.09, case.label, fontweight="bold")
    page.text(MARGIN, middle + 0.09, f"rel. L2 {case.score:.3g}", fontsize=SMALL)


# ------------------------------------------------------------------------------------------ layouts


def _rows(drawn: Sequence[Drawn]) -> Page:
    """One row per case: inputs, truth, prediction, error."""
    width, height = panel_size(_mean_aspect(drawn), 2.0)
    inputs = list(drawn[0].case.inputs)[:MOST_INPUTS]
    wide, label = width + 2 * GAP + BAR + NUMBERS, 0.75
    page = Page(
        2 * MARGIN + label + wide * (len(inputs) + 2) + width + GAP,
        HEAD + (height + 0.2) * len(drawn) + MARGIN,
    )
    for number, row in enumerate(drawn):
        top, left = HEAD + (height + 0.2) * number, MARGIN + label
        _name_case(page, row.case, top + height / 2)
        for name in inputs:
            values = row.case.inputs[name]
            scale = Scale.spanning(values, "", INPUT_COLOURS)
            _with_bar(page, (left, top, width, height), row.view, values, scale)
            _heading(page, number, left + width / 2, name)
            left += wide
        page.panel((left, top, width, height), row.view, row.truth[0], row.value_scale)
        _heading(page, number, left + width / 2, "truth")
        left += width + GAP
        _with_bar(page, (left, top, width, height), row.view, row.prediction[0], row.value_scale)
        _heading(page, number, left + width / 2, "prediction")
        left += wide
        _with_bar(page, (left, top, width, height), row.view, row.error[0], row.error_scale)
        _heading(page, number, left + width / 2, "error")
    return page


def _heading(page: Page, row: int, middle: float, text: str) -> None:
    if row == 0:
        page.text(middle, HEAD - 0.14, text, ha="center")


def _with_bar(page: Page, box: Sequence[float], view: View, values: Array, scale: Scale) -> None:
    left, top, width, height = box
    page.panel(box, view, values, scale)
    page.bar((left + width + GAP, top, BAR, height), scale)


def _strips(drawn: Sequence[Drawn]) -> Page:
    """Three rows per case (truth, prediction, error), one column per frame, an input first."""
    width, height = panel_size(_mean_aspect(drawn), 1.35)
    count, has_input = max(len(case.frames) for case in drawn), bool(drawn[0].case.inputs)
    start = MARGIN + 0.85 + (width + 2 * GAP) * has_input + 0.3
    block = 3 * (height + GAP) + 0.25
    right = start + (width + GAP) * count + GAP
    page = Page(right + BAR + NUMBERS + MARGIN, HEAD + block * len(drawn))
    for number, strip in enumerate(drawn):
        top = HEAD + block * number
        _name_case(page, strip.case, top + 1.5 * height + GAP)
        if has_input:
            _first_input(page, (MARGIN + 0.85, top, width, height), strip, number)
        rows = (
            ("truth", strip.truth, strip.value_scale),
            ("prediction", strip.prediction, strip.value_scale),
            ("error", strip.error, strip.error_scale),
        )
        for row, (name, values, scale) in enumerate(rows):
            upper = top + row * (height + GAP)
            middle = upper + height / 2
            page.text(start - 0.13, middle, name, fontsize=SMALL, ha="center", rotation=90)
            for column, frame in enumerate(strip.frames):
                left = start + (width + GAP) * column
                page.panel((left, upper, width, height), strip.view, values[frame], scale)
                if row == 0:
                    _heading(page, number, left + width / 2, f"t = {strip.case.times[frame]:.3g}")
        page.bar((right, top, BAR, 2 * height + GAP), strip.value_scale)
        page.bar((right, top + 2 * (height + GAP) + 0.15, BAR, height - 0.15), strip.error_scale)
    return page


def _first_input(page: Page, box: Sequence[float], strip: Drawn, number: int) -> None:
    """The first input of a case beside the truth, its colours below it."""
    left, top, width, height = box
    name, values = next(iter(strip.case.inputs.items()))
    scale = Scale.spanning(values, "", INPUT_COLOURS)
    page.panel(box, strip.view, values, scale)
    page.bar((left + 0.1 * width, top + height + GAP, 0.8 * width, BAR), scale)
    _heading(page, number, left + width / 2, name)
