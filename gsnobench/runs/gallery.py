"""Test cases of a run as one picture: truth, prediction and error of every scored quantity.

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
from torch import nn

from gsnobench.data import Array, Mesh, Task
from gsnobench.drawing.flow import Lines, explained, lines_of
from gsnobench.drawing.page import Page, panel_size, save_stack
from gsnobench.drawing.quantities import Quantity, quantities, support_of
from gsnobench.drawing.rules import (
    FAINT,
    INPUT_COLOURS,
    LARGE,
    SMALL,
    at_time,
    labelled,
    spelled,
)
from gsnobench.drawing.scales import Scale, is_uniform
from gsnobench.drawing.views import View, view_of
from gsnobench.training.loader import Loader
from gsnobench.training.rollout import rollout

MOST_FRAMES = 5  # of a trajectory in a strip
MOST_INPUTS = 2
MARGIN, HEAD, GAP, BAR, NUMBERS, NAMES = 0.2, 0.88, 0.1, 0.09, 0.58, 0.8  # inches
BELOW = 0.34  # a colour bar below a column
FIRST_WINDOW = slice(0, 1)


@dataclass(frozen=True, eq=False)
class Case:
    """One test sample: inputs, truth and prediction, all in physical units."""

    label: str  # best, median, worst
    score: float
    mesh: Mesh
    inputs: Mapping[str, Array]  # label -> (N,), what does not change in time
    truth: Array  # (T, N, C)
    prediction: Array  # (T, N, C)
    times: Sequence[float]  # of the T frames
    time_unit: str = "s"
    given: Array | None = None  # (N, C) the last given frame
    given_time: float = 0.0


@dataclass(frozen=True, eq=False)
class Panel:
    """Values of one panel, and what stands above it."""

    heading: str
    values: Array  # (N,)
    scale: Scale
    flow: Lines | None = None


@dataclass(frozen=True, eq=False)
class Drawn:
    """One scored quantity of one case, ready to be coloured; a list has an entry per frame."""

    case: Case
    view: View
    frames: tuple[int, ...]
    inputs: list[Panel]
    truth: list[Panel]
    prediction: list[Panel]
    error: list[Panel]

    @property
    def has_own_scales(self) -> bool:
        """Whether frames have colours of their own, since the quantity decays."""
        return len({panel.scale for panel in self.truth}) > 1


# ------------------------------------------------------------------------------------------- cases


def draw_cases(
    path: Path,
    task: Task,
    module: nn.Module,
    loader: Loader,
    scores: Array,
    *,
    title: str,
    time_unit: str = "s",
) -> None:
    """Inputs, truth, prediction and error of three samples, chosen by their scores (S,)."""
    order = np.argsort(scores)
    chosen = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    middle = len(task.starts) // 2  # the first window of many often begins at rest
    cases = [
        case_of(
            task,
            module,
            loader,
            int(index),
            label=label,
            score=float(scores[index]),
            windows=slice(middle, middle + 1),
            time_unit=time_unit,
        )
        for label, index in chosen.items()
    ]
    gallery(path, task, cases, title=title)


def case_of(
    task: Task,
    module: nn.Module,
    loader: Loader,
    index: int,
    *,
    label: str,
    score: float,
    windows: slice = FIRST_WINDOW,
    time_unit: str = "s",
) -> Case:
    """One test sample with the predictions of some windows, one after the other."""
    samples = loader.samples
    mesh, starts = samples.mesh(index), torch.tensor(loader.starts[windows])
    indices = torch.full_like(starts, index)
    module.eval()
    with torch.no_grad():
        batch, target = loader.batch(indices, starts, task.t_out)
        prediction = rollout(module, loader, batch, indices, task.t_out)
    static = np.asarray(samples.static[index])[: mesh.size]  # (N, F)
    last = task.starts[windows][0] + task.t_in - 1
    given = np.asarray(samples.frames[index])[last, : mesh.size] if task.t_in else None
    predicted = task.predicted_frames()
    shown = predicted[windows.start * task.t_out : windows.stop * task.t_out]
    return Case(
        label=label,
        score=score,
        mesh=mesh,
        inputs={
            labelled(field.name, field.unit): static[:, column]
            for column, field in enumerate(task.static)
        },
        truth=_physical(target, loader)[:, : mesh.size],
        prediction=_physical(prediction, loader)[:, : mesh.size],
        times=tuple(task.times[frame] for frame in shown),
        time_unit=time_unit,
        given=given,
        given_time=task.times[last] if task.t_in else 0.0,
    )


def _physical(centred: torch.Tensor, loader: Loader) -> Array:
    """(windows, t_out, N, C) -> (windows * t_out, N, C)."""
    return (centred + loader.reference).flatten(0, 1).cpu().numpy()


# ------------------------------------------------------------------------------------ what is drawn


def gallery(path: Path, task: Task, cases: Sequence[Case], *, title: str = "") -> None:
    """Truth, prediction and error of some cases, one sheet per scored quantity below the other."""
    save_stack(path, sheets(task, cases, quantities(task), title=title))


def sheets(
    task: Task, cases: Sequence[Case], chosen: Sequence[Quantity], *, title: str = ""
) -> list[Page]:
    """One sheet per quantity; many frames are drawn as a strip."""
    pages = []
    for quantity in chosen:
        signed = _is_signed(cases, task, quantity)
        drawn = [drawn_of(case, task, quantity, signed=signed) for case in cases]
        page = _rows(drawn) if max(len(case.frames) for case in drawn) == 1 else _strips(drawn)
        page.text(MARGIN, 0.25, title or task.id, fontsize=LARGE, fontweight="bold")
        page.text(MARGIN, 0.45, _explanation(drawn, quantity), fontsize=SMALL, color=FAINT)
        pages.append(page)
    return pages


def _is_signed(cases: Sequence[Case], task: Task, quantity: Quantity) -> bool:
    """One answer for all cases, so that a quantity has one colour map."""
    values = [
        quantity.of(case.truth)[:, support_of(task, quantity, case.mesh)].ravel() for case in cases
    ]
    return quantity.is_signed(np.concatenate(values))


def drawn_of(
    case: Case,
    task: Task,
    quantity: Quantity,
    *,
    signed: bool,
    most_frames: int = MOST_FRAMES,
    shares_scales: bool = False,
) -> Drawn:
    """One scored quantity of a case; what is given of it has its colours too."""
    truth, prediction = (quantity.of(frames) for frames in (case.truth, case.prediction))
    error = quantity.error(case.truth, case.prediction)
    support = support_of(task, quantity, case.mesh)
    frames = tuple(sorted({round(i) for i in np.linspace(0, len(truth) - 1, most_frames)}))
    supported = [truth[frame][support] for frame in frames]
    if shares_scales:
        supported = [np.concatenate(supported)] * len(frames)
    scales = quantity.scales(supported, signed=signed)
    errors = [error[frame][support] for frame in frames]
    has_own = len(set(scales)) > 1
    error_scales = [
        _error_scale(
            quantity, values if has_own else np.concatenate(errors), with_label=not has_own
        )
        for values in errors
    ]
    moments = [at_time(case.times[frame], case.time_unit) for frame in frames]

    view = view_of(case.mesh, support)
    right, ours = (values[list(frames)] for values in (case.truth, case.prediction))
    true_lines = lines_of(task, quantity, case.mesh, view, right)
    lines = lines_of(task, quantity, case.mesh, view, ours, like=right)

    def panels(
        values: Array, colours: Sequence[Scale], flows: Sequence[Lines | None]
    ) -> list[Panel]:
        return [
            Panel(moment, values[frame], scale, flow)
            for moment, frame, scale, flow in zip(moments, frames, colours, flows, strict=True)
        ]

    reached = [
        scale.reached_by(prediction[frame][support])
        for scale, frame in zip(scales, frames, strict=True)
    ]
    return Drawn(
        case=case,
        view=view,
        frames=frames,
        inputs=_inputs(case, quantity, support, signed, None if has_own else scales[0]),
        truth=panels(truth, scales, true_lines),
        prediction=panels(prediction, reached, lines),
        error=panels(error, error_scales, [None] * len(frames)),
    )


def _error_scale(quantity: Quantity, values: Array, *, with_label: bool) -> Scale:
    label = f"error [{spelled(quantity.unit)}]" if with_label else ""
    return (Scale.rising if quantity.is_vector else Scale.symmetric)(values, label)


def _inputs(
    case: Case, quantity: Quantity, support: Array, signed: bool, scale: Scale | None
) -> list[Panel]:
    """The last given frame and static inputs, without those that are the same everywhere."""
    found = []
    if case.given is not None:
        values = quantity.of(case.given)
        if not is_uniform(values[support]):
            heading = f"given, {at_time(case.given_time, case.time_unit)}"
            own = quantity.scale(values[support], signed=signed, label="")
            found.append(Panel(heading, values, own if scale is None else scale))
    for name, values in case.inputs.items():
        if not is_uniform(values[support]):
            colours = Scale.spanning(values[support], "", INPUT_COLOURS)
            found.append(Panel(name, values, colours))
    return found[:MOST_INPUTS]


def _explanation(drawn: Sequence[Drawn], quantity: Quantity) -> str:
    labels = ", ".join(case.case.label for case in drawn)
    bars = "|" if quantity.is_vector else ""
    error = f"{bars}prediction − truth{bars}"
    notes = filter(None, [drawn[0].view.note, explained(drawn[0].truth[0].flow)])
    note = "".join(f"; {text}" for text in notes)
    name = quantity.name.replace("_", " ")
    return f"{name}: {labels} test sample by relative L2; error = {error}, own scale{note}"


# ------------------------------------------------------------------------------------------ layouts


def _mean_aspect(drawn: Sequence[Drawn]) -> float:
    return float(np.exp(np.mean([math.log(case.view.aspect) for case in drawn])))


def _name_case(page: Page, case: Case, middle: float) -> None:
    page.text(MARGIN, middle - 0.09, case.label, fontweight="bold")
    page.text(MARGIN, middle + 0.09, f"rel. L2 {case.score:.3g}", fontsize=SMALL)


def _heading(page: Page, row: int, middle: float, text: str) -> None:
    if row == 0:
        page.text(middle, HEAD - 0.14, text, ha="center")


def _rows(drawn: Sequence[Drawn]) -> Page:
    """One row per case: inputs, truth, prediction, error."""
    width, height = panel_size(_mean_aspect(drawn), 1.75)
    count = max(len(row.inputs) for row in drawn)
    wide = width + GAP + BAR + NUMBERS
    page = Page(
        2 * MARGIN + NAMES + wide * (count + 2) + width + GAP,
        HEAD + (height + 0.2) * len(drawn) + MARGIN,
    )
    for number, row in enumerate(drawn):
        top, left = HEAD + (height + 0.2) * number, MARGIN + NAMES
        _name_case(page, row.case, top + height / 2)
        columns = [
            *((panel.heading, panel, True) for panel in row.inputs),
            *[("", None, True)] * (count - len(row.inputs)),
            ("truth", row.truth[0], False),
            ("prediction", row.prediction[0], True),
            ("error", row.error[0], True),
        ]
        for heading, panel, has_bar in columns:
            box = (left, top, width, height)
            if panel is not None:
                is_inset = heading == "truth"
                page.panel(
                    box, row.view, panel.values, panel.scale, flow=panel.flow, with_inset=is_inset
                )
                _heading(page, number, left + width / 2, heading)
                if has_bar:
                    page.bar((left + width + GAP / 2, top, BAR, height), panel.scale)
            left += wide if has_bar else width + GAP
    return page


def _strips(drawn: Sequence[Drawn]) -> Page:
    """Three rows per case (truth, prediction, error), one column per frame, an input first."""
    width, height = panel_size(_mean_aspect(drawn), 1.3)
    has_input = any(strip.inputs for strip in drawn)
    has_own = any(strip.has_own_scales for strip in drawn)
    extra = BELOW if has_own else 0.0
    start = MARGIN + NAMES + (width + 2 * GAP) * has_input + 0.3
    block = 3 * (height + GAP) + 2 * extra + 0.25
    right = start + (width + GAP) * max(len(case.frames) for case in drawn) + GAP / 2
    page = Page(right + BAR + NUMBERS + MARGIN, HEAD + block * len(drawn))
    for number, strip in enumerate(drawn):
        top = HEAD + block * number
        _name_case(page, strip.case, top + 1.5 * height + GAP)
        if strip.inputs:
            box = (MARGIN + NAMES, top, width, height)
            _first_input(page, box, strip, number)
        tops = (top, top + height + GAP, top + 2 * (height + GAP) + extra)
        rows = {"truth": strip.truth, "prediction": strip.prediction, "error": strip.error}
        for upper, (name, panels) in zip(tops, rows.items(), strict=True):
            side: dict[str, Any] = {"fontsize": SMALL, "ha": "center", "rotation": 90}
            page.text(start - 0.13, upper + height / 2, name, **side)
            for column, panel in enumerate(panels):
                left = start + (width + GAP) * column
                box = (left, upper, width, height)
                page.panel(box, strip.view, panel.values, panel.scale, flow=panel.flow)
                if name == "truth":
                    _heading(page, number, left + width / 2, panel.heading)
                elif has_own:
                    below = (left + 0.1 * width, upper + height + 0.04, 0.8 * width, BAR)
                    page.bar(below, panel.scale)
        if not has_own:
            page.bar((right, tops[0], BAR, 2 * height + GAP), strip.prediction[0].scale)
            page.bar((right, tops[2] + 0.1, BAR, height - 0.1), strip.error[0].scale)
    return page


def _first_input(page: Page, box: Sequence[float], strip: Drawn, number: int) -> None:
    """The first input of a case beside the truth; its colours below it unless they are the same."""
    left, top, width, height = box
    panel = strip.inputs[0]
    page.panel(box, strip.view, panel.values, panel.scale, with_inset=True)
    _heading(page, number, left + width / 2, panel.heading)
    if panel.scale != strip.truth[0].scale:
        page.bar((left + 0.1 * width, top + height + 0.04, 0.8 * width, BAR), panel.scale)
