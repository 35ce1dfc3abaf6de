"""A test sample as an animated GIF: truth, prediction and error, frame after frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import nn

from gsnobench.data import Array, Task
from gsnobench.drawing.moving import write_gif
from gsnobench.drawing.page import Page, panel_size
from gsnobench.drawing.quantities import quantities, support_of
from gsnobench.drawing.rules import FAINT, LARGE, SMALL
from gsnobench.errors import ParamError
from gsnobench.runs.gallery import BAR, GAP, HEAD, MARGIN, NUMBERS, Case, Drawn, case_of, drawn_of
from gsnobench.training.loader import Loader

MOST_BYTES = 2_000_000
MOST_FRAMES = 51
PANEL = 1.7  # inches


def check_animable(task: Task) -> None:
    """Refuse a task with one predicted frame."""
    if len(task.predicted_frames()) < 2:
        raise ParamError(
            f"gif: {task.id} has one frame to predict; nothing to animate; leave --gif out"
        )


def animate_median(
    path: Path,
    task: Task,
    module: nn.Module,
    loader: Loader,
    scores: Array,
    *,
    title: str,
    time_unit: str = "s",
) -> Path:
    """The median sample by its score (S,), as a GIF."""
    index = int(np.argsort(scores)[len(scores) // 2])
    case = case_of(
        task,
        module,
        loader,
        index,
        label="median",
        score=float(scores[index]),
        windows=slice(0, len(task.starts)),
        time_unit=time_unit,
    )
    return animate(path, task, case, title=title)


def animate(path: Path, task: Task, case: Case, *, title: str) -> Path:
    """Write the GIF of a case; where it would exceed two megabytes, frames are left out."""
    count = min(MOST_FRAMES, len(case.times))
    rows = {}
    for quantity in quantities(task):
        inside = quantity.of(case.truth)[:, support_of(task, quantity, case.mesh)]
        rows[quantity.name] = drawn_of(
            case,
            task,
            quantity,
            signed=quantity.is_signed(inside),
            most_frames=count,
            shares_scales=True,
        )
    shown = range(len(next(iter(rows.values())).frames))
    pictures = [_page(rows, number, title).picture() for number in shown]
    return write_gif(path, pictures, MOST_BYTES)


def _page(rows: Mapping[str, Drawn], shown: int, title: str) -> Page:
    """One row per quantity: truth and prediction on one scale, the error on its own."""
    first = next(iter(rows.values()))
    width, height = panel_size(first.view.aspect, PANEL)
    wide, case = width + 2 * GAP + BAR + NUMBERS, first.case
    page = Page(2 * MARGIN + width + GAP + 2 * wide, HEAD + (height + 2 * GAP) * len(rows))
    page.text(MARGIN, 0.25, title, fontsize=LARGE, fontweight="bold")
    below = f"{case.label} test sample, rel. L2 {case.score:.3g}"
    page.text(MARGIN, 0.48, below, fontsize=SMALL, color=FAINT)
    page.text(page.width - MARGIN, 0.48, first.truth[shown].heading, ha="right")
    for number, row in enumerate(rows.values()):
        top = HEAD + (height + 2 * GAP) * number
        columns = (
            ("truth", MARGIN, row.truth[shown]),
            ("prediction", MARGIN + width + GAP, row.prediction[shown]),
            ("error", MARGIN + width + GAP + wide, row.error[shown]),
        )
        for name, left, panel in columns:
            box = (left, top, width, height)
            page.panel(box, row.view, panel.values, panel.scale, flow=panel.flow)
            if number == 0:
                page.text(left + width / 2, HEAD - 0.14, name, ha="center")
            if name != "truth":
                page.bar((left + width + GAP, top, BAR, height), panel.scale)
    return page
