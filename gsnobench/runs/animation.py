"""A test sample as an animated GIF: truth, prediction and error, frame after frame."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from torch import nn

from gsnobench.data import Array, Task
from gsnobench.errors import ParamError
from gsnobench.files import atomic
from gsnobench.runs.drawing import FAINT, LARGE, SMALL, Page
from gsnobench.runs.gallery import (
    BAR,
    GAP,
    HEAD,
    MARGIN,
    NUMBERS,
    Case,
    Drawn,
    case_of,
    drawn_of,
    panel_size,
)
from gsnobench.training.loader import Loader

MOST_BYTES = 2_000_000
MOST_FRAMES = 51
STRIDES = (1, 2, 3, 5, 8)  # tried in turn until the file is small enough
SECONDS = 6.0  # one round
PANEL = 1.7  # inches


def check_animable(task: Task) -> None:
    """Refuse a task with one predicted frame."""
    if len(task.predicted_frames()) < 2:
        raise ParamError(
            f"gif: {task.id} has one frame to predict; nothing to animate; leave --gif out"
        )


def animate_median(
    path: Path, task: Task, module: nn.Module, loader: Loader, scores: Array, *, title: str
) -> Path:
    """The median sample by its score (S,), as a GIF."""
    index = int(np.argsort(scores)[len(scores) // 2])
    score, windows = float(scores[index]), len(task.starts)
    case = case_of(task, module, loader, index, label="median", score=score, windows=windows)
    return animate(path, task, case, title=title)


def animate(path: Path, task: Task, case: Case, *, title: str) -> Path:
    """Write the GIF of a case; where it would exceed two megabytes, frames are left out."""
    count = min(MOST_FRAMES, len(case.times))
    rows = {name: drawn_of(case, task, name, group, count) for name, group in task.scored.items()}
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
    frames = {"save_all": True, "append_images": rest, "duration": pauses, "loop": 0}
    first.save(buffer, format="gif", optimize=False, **frames)
    return buffer.getvalue()


def _page(rows: Mapping[str, Drawn], frame: int, title: str) -> Page:
    """One row per quantity: truth and prediction on one scale, the error on its own."""
    first = next(iter(rows.values()))
    width, height = panel_size(first.view.aspect, PANEL)
    wide, case = width + 2 * GAP + BAR + NUMBERS, first.case
    page = Page(2 * MARGIN + width + GAP + 2 * wide, HEAD + (height + 2 * GAP) * len(rows))
    page.text(MARGIN, 0.25, title, fontsize=LARGE, fontweight="bold")
    below = f"{case.label} test sample, rel. L2 {case.score:.3g}"
    page.text(MARGIN, 0.48, below, fontsize=SMALL, color=FAINT)
    page.text(page.width - MARGIN, 0.48, f"t = {case.times[frame]:.3g}", ha="right")
    for number, row in enumerate(rows.values()):
        top = HEAD + (height + 2 * GAP) * number
        columns = (
            ("truth", MARGIN, row.truth, row.value_scale),
            ("prediction", MARGIN + width + GAP, row.prediction, row.value_scale),
            ("error", MARGIN + width + GAP + wide, row.error, row.error_scale),
        )
        for name, left, values, scale in columns:
            page.panel((left, top, width, height), row.view, values[frame], scale)
            if number == 0:
                page.text(left + width / 2, HEAD - 0.14, name, ha="center")
            if name != "truth":
                page.bar((left + width + GAP, top, BAR, height), scale)
    return page
