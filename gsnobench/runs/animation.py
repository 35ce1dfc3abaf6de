"""A test sample as an animated GIF: truth, prediction and error of every scored quantity, frame
after frame.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from torch import nn

from gsnobench.data import Task
from gsnobench.errors import ParamError
from gsnobench.files import atomic
from gsnobench.runs.cases import case_of
from gsnobench.runs.drawing import FAINT, LARGE, SMALL, Page
from gsnobench.runs.gallery import (
    BAR,
    GAP,
    HEAD,
    MARGIN,
    NUMBERS,
    Case,
    Drawn,
    drawn_of,
    panel_size,
)
from gsnobench.runs.plan import Plan
from gsnobench.training.evaluate import Evaluation
from gsnobench.training.loader import Loader

MOST_BYTES = 2_000_000
MOST_FRAMES = 51
STRIDES = (1, 2, 3, 5, 8)  # tried in turn until the file is small enough
SECONDS = 6.0  # one round
PANEL = 1.7  # inches


def gif_path(folder: Path) -> Path:
    """Where the animation of a run lies."""
    return folder / "figures" / "frames.gif"


def check_animable(task: Task) -> None:
    """Refuse a task whose answer is one frame."""
    if len(task.predicted_frames()) < 2:
        raise ParamError(
            f"gif: {task.id} has one frame to find; nothing to animate; leave --gif out"
        )


def animate_median(
    folder: Path, plan: Plan, module: nn.Module, loader: Loader, evaluation: Evaluation
) -> Path:
    """The median test sample by relative L2, as a GIF in the figures of a run."""
    scores = evaluation.samples["headline"]["rel_l2"]
    index = int(np.argsort(scores)[len(scores) // 2])
    case = case_of(
        plan, module, loader, "median", index, float(scores[index]), windows=len(plan.task.starts)
    )
    return animate(gif_path(folder), plan.task, case, title=f"{plan.spec.row} on {plan.task.id}")


def animate(path: Path, task: Task, case: Case, *, title: str) -> Path:
    """Write the GIF of a case; a long or rich one shows every second frame, or fewer, to stay below
    two megabytes.
    """
    rows = {
        name: drawn_of(case, task, name, group, min(MOST_FRAMES, len(case.times)))
        for name, group in task.scored.items()
    }
    pictures = [_page(rows, frame, title).picture() for frame in next(iter(rows.values())).frames]
    for stride in STRIDES:
        content = _encoded(pictures[::stride])
        if len(content) < MOST_BYTES:
            break
    with atomic(path) as part:
        part.write_bytes(content)
    return path


def _encoded(pictures: Sequence[Image.Image]) -> bytes:
    first, *rest = pictures
    buffer = io.BytesIO()
    pause = max(40, round(1000 * SECONDS / len(pictures)))  # milliseconds
    # the last frame stays, so that the end is seen before it starts again
    pauses = [pause] * len(rest) + [pause + 1000]
    first.save(
        buffer,
        format="gif",
        save_all=True,
        append_images=rest,
        duration=pauses,
        loop=0,
        optimize=False,
    )
    return buffer.getvalue()


def _page(rows: Mapping[str, Drawn], frame: int, title: str) -> Page:
    """One row a quantity: truth and prediction on one scale, the error on its own."""
    one = next(iter(rows.values()))
    width, height = panel_size(one.view.aspect, PANEL)
    wide, case = width + 2 * GAP + BAR + NUMBERS, one.case
    page = Page(2 * MARGIN + width + GAP + 2 * wide, HEAD + (height + 2 * GAP) * len(rows))
    page.text(MARGIN, 0.25, title, fontsize=LARGE, fontweight="bold")
    page.text(
        MARGIN,
        0.48,
        f"{case.label} test sample, rel. L2 {case.score:.3g}",
        fontsize=SMALL,
        color=FAINT,
    )
    page.text(page.width - MARGIN, 0.48, f"t = {case.times[frame]:.3g}", ha="right")
    for number, row in enumerate(rows.values()):
        top = HEAD + (height + 2 * GAP) * number
        values = (row.truth, row.prediction, row.error)
        lefts = (MARGIN, MARGIN + width + GAP, MARGIN + width + GAP + wide)
        scales = (row.value_scale, row.value_scale, row.error_scale)
        for name, left, shown, scale in zip(
            ("truth", "prediction", "error"), lefts, values, scales, strict=True
        ):
            page.panel((left, top, width, height), row.view, shown[frame], scale)
            if number == 0:
                page.text(left + width / 2, HEAD - 0.14, name, ha="center")
            if name != "truth":
                page.bar((left + width + GAP, top, BAR, height), scale)
    return page
