"""Pictures of tasks: geometry, inputs and outputs of one sample, a strip of its frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gsnobench.data import Array, Mesh, Samples, Task
from gsnobench.drawing.flow import Lines, explained, lines_of
from gsnobench.drawing.moving import write_gif
from gsnobench.drawing.page import Page, panel_size
from gsnobench.drawing.quantities import Quantity, quantities, support_of
from gsnobench.drawing.rules import FAINT, INPUT_COLOURS, LARGE, NORMAL, SMALL, at_time, labelled
from gsnobench.drawing.scales import Scale, is_uniform
from gsnobench.drawing.views import View, outside_of, view_of
from gsnobench.errors import ParamError

STRIP = 5  # frames: the last given one, then predicted ones
MOST_PANELS = 3  # beside the geometry, of a steady task
WIDTH, HIGHEST = 8.4, 2.1  # inches: of a page, and of a panel
MARGIN, GAP, BAR, NUMBERS, HEAD = 0.18, 0.12, 0.09, 0.62, 0.92  # inches
TILE = (2.75, 2.0)  # inches
MOST_BYTES = 400_000  # of a GIF


@dataclass(frozen=True, eq=False)
class Shown:
    """One sample of a task, in physical units."""

    task: Task
    title: str  # of the dataset
    time_unit: str
    mesh: Mesh
    frames: Array  # (T, N, C)
    static: Array  # (N, F)

    @classmethod
    def of(cls, samples: Samples, index: int, *, title: str, time_unit: str) -> Shown:
        """One of some samples."""
        mesh = samples.mesh(index)
        frames = np.asarray(samples.frames[index])[:, : mesh.size]
        static = np.asarray(samples.static[index])[: mesh.size]
        return cls(samples.task, title, time_unit, mesh, frames, static)

    @property
    def last_given(self) -> int:
        """The frame that a model is given last: of the first window that shows something."""
        given = [start + max(self.task.t_in - 1, 0) for start in self.task.starts]
        drawn = quantities(self.task)
        varied = (
            frame
            for frame in given
            if not all(is_uniform(quantity.of(self.frames[frame])) for quantity in drawn)
        )
        return next(varied, given[0])

    def strip(self, count: int) -> list[int]:
        """Frames for a strip: the last given one, then evenly to the end."""
        last = len(self.task.times) - 1
        return sorted({round(i) for i in np.linspace(self.last_given, last, count)})

    def lines(
        self, quantity: Quantity, view: View, frames: Sequence[int]
    ) -> Sequence[Lines | None]:
        """Lines of a flow in some frames; none where the quantity is not one."""
        return lines_of(self.task, quantity, self.mesh, view, self.frames[list(frames)])

    def quantity_frames(self, quantity: Quantity, frames: Sequence[int]) -> list[Array]:
        """Values of some frames at the nodes that carry the quantity."""
        support = support_of(self.task, quantity, self.mesh)
        return [quantity.of(self.frames[frame])[support] for frame in frames]


# ---------------------------------------------------------------------------------------- one task


def draw_task(path: Path, shown: Shown) -> None:
    """The picture of a task: a row of panels, or a strip of frames per quantity."""
    page = _strips(shown) if len(shown.task.times) > 1 else _row(shown)
    page.text(MARGIN, 0.24, shown.title, fontsize=LARGE, fontweight="bold")
    page.text(MARGIN, 0.46, _facts(shown), fontsize=SMALL, color=FAINT)
    page.save(path)


def _facts(shown: Shown) -> str:
    task, cells = shown.task, shown.mesh.cells
    kinds = {3: "triangles", 4: "tetrahedra" if task.dim == 3 else "quadrilaterals"}
    parts = [task.id, f"{shown.mesh.size:,} nodes"]
    if cells is not None:
        parts.append(f"{len(cells):,} {kinds.get(cells.shape[1], 'cells')}")
    if task.t_in:
        frames = "frame" if task.t_in == 1 else "frames"
        parts.append(f"{task.t_in} {frames} given, {task.t_out} to predict")
    parts.append("one mesh for all samples" if task.fixed_mesh else "one mesh per sample")
    for quantity in quantities(task):
        view = view_of(shown.mesh, support_of(task, quantity, shown.mesh))
        (lines,) = shown.lines(quantity, view, [shown.last_given])
        parts += [explained(lines)] if lines is not None else []
    return " · ".join(parts)


def _row(shown: Shown) -> Page:
    """Geometry, inputs that vary, outputs: each with its own colours."""
    outputs = _outputs(shown)
    drawn = [*_inputs(shown)[: max(0, MOST_PANELS - len(outputs))], *outputs]
    geometry = outside_of(shown.mesh)
    aspects = [geometry.aspect, *(view.aspect for _, view, *_ in drawn)]
    beside = GAP / 2 + BAR + NUMBERS  # a colour bar and its numbers
    fixed = 2 * MARGIN + 2 * GAP + beside * len(drawn)
    height = min(HIGHEST, (WIDTH - fixed) / sum(aspects))
    page = Page(fixed + height * sum(aspects), HEAD + height + 0.3)
    page.mesh((MARGIN, HEAD, height * aspects[0], height), geometry)
    page.text(MARGIN + height * aspects[0] / 2, HEAD - 0.16, "geometry", ha="center")
    left = MARGIN + height * aspects[0] + 2 * GAP
    for heading, view, values, scale, lines in drawn:
        wide = height * view.aspect
        page.panel((left, HEAD, wide, height), view, values, scale, flow=lines)
        page.text(left + wide / 2, HEAD - 0.16, heading, ha="center")
        note: dict[str, Any] = {"fontsize": SMALL, "color": FAINT, "ha": "center"}
        page.text(left + wide / 2, HEAD + height + 0.12, view.note, **note)
        bar = max(0.8 * height, min(height, 0.8))
        page.bar((left + wide + GAP / 2, HEAD + (height - bar) / 2, BAR, bar), scale)
        left += wide + beside
    return page


Panel = tuple[str, View, Array, Scale, Lines | None]


def _inputs(shown: Shown) -> list[Panel]:
    """Static inputs that are not the same everywhere."""
    everywhere = np.ones(shown.mesh.size, dtype=bool)
    view = view_of(shown.mesh, everywhere)
    columns = [
        (field, shown.static[:, column])
        for column, field in enumerate(shown.task.static)
        if not is_uniform(shown.static[:, column])
    ]
    return [
        (
            f"given: {field.name.replace('_', ' ')}",
            view,
            values,
            Scale.spanning(values, labelled(field.name, field.unit), INPUT_COLOURS),
            None,
        )
        for field, values in columns
    ]


def _outputs(shown: Shown) -> list[Panel]:
    found = []
    for quantity in quantities(shown.task):
        support = support_of(shown.task, quantity, shown.mesh)
        values = quantity.of(shown.frames[-1])
        signed = quantity.is_signed(values[support])
        scale = quantity.scale(values[support], signed=signed)
        name = quantity.name.replace("_", " ")
        view = view_of(shown.mesh, support)
        (lines,) = shown.lines(quantity, view, [len(shown.frames) - 1])
        found.append((f"to predict: {name}", view, values, scale, lines))
    return found


def _strips(shown: Shown) -> Page:
    """Geometry at the left, then a strip of frames per quantity."""
    geometry, drawn = outside_of(shown.mesh), quantities(shown.task)
    views = [view_of(shown.mesh, support_of(shown.task, each, shown.mesh)) for each in drawn]
    frames = shown.strip(STRIP)
    fixed = MARGIN + 3 * GAP + GAP * len(frames) + BAR + NUMBERS
    high = min(HIGHEST, (WIDTH - fixed) / (len(frames) + 1) / views[0].aspect)
    wide = high * views[0].aspect
    start = MARGIN + wide + 3 * GAP
    right = start + (wide + GAP) * len(frames)
    rows = [_row_scales(shown, quantity, frames) for quantity in drawn]
    below = [0.36 if _differ(scales) else 0.0 for scales in rows]
    height = HEAD + sum(below) + (high + GAP) * len(drawn) + 0.15 * bool(views[0].note)
    page = Page(right + BAR + NUMBERS, height)
    page.mesh((MARGIN, HEAD, wide, high), geometry)
    page.text(MARGIN + wide / 2, HEAD - 0.16, "geometry", ha="center")
    top = HEAD
    for quantity, view, scales, extra in zip(drawn, views, rows, below, strict=True):
        flows = shown.lines(quantity, view, frames)
        for column, (frame, scale, flow) in enumerate(zip(frames, scales, flows, strict=True)):
            left, values = start + (wide + GAP) * column, quantity.of(shown.frames[frame])
            page.panel((left, top, wide, high), view, values, scale, flow=flow)
            if top == HEAD:
                page.text(left + wide / 2, HEAD - 0.16, _moment(shown, frame), ha="center")
            if extra:
                page.bar((left + 0.1 * wide, top + high + 0.05, 0.8 * wide, BAR), scale)
        if extra:
            style: dict[str, Any] = {"fontsize": SMALL, "ha": "center", "rotation": 90}
            page.text(right + 0.1, top + high / 2, quantity.label, **style)
        else:
            page.bar((right, top + 0.05 * high, BAR, 0.9 * high), scales[0])
        top += high + GAP + extra
    note: dict[str, Any] = {"fontsize": SMALL, "color": FAINT}
    page.text(start, page.height - 0.12, views[0].note, **note)
    return page


def _row_scales(shown: Shown, quantity: Quantity, frames: Sequence[int]) -> list[Scale]:
    values = shown.quantity_frames(quantity, frames)
    return quantity.scales(values, signed=quantity.is_signed(np.concatenate(values)))


def _differ(scales: Sequence[Scale]) -> bool:
    return len(set(scales)) > 1


def _moment(shown: Shown, frame: int) -> str:
    text = at_time(shown.task.times[frame], shown.time_unit)
    return f"given, {text}" if shown.task.t_in and frame == shown.last_given else text


# -------------------------------------------------------------------------------------- many tasks


def draw_tiles(path: Path, tasks: Sequence[Shown], across: int = 3) -> None:
    """One tile per task: the field to predict on its mesh, its name, what it is."""
    wide, high, head = *TILE, 0.52
    down = -(-len(tasks) // across)
    page = Page(across * (wide + GAP) + GAP, down * (high + head) + GAP)
    for number, shown in enumerate(tasks):
        left = GAP + (number % across) * (wide + GAP)
        top = (number // across) * (high + head) + 0.2
        page.text(left, top, shown.task.base, fontweight="bold", fontsize=NORMAL + 1)
        page.text(left, top + 0.18, shown.title, fontsize=SMALL, color=FAINT)
        _tile(page, (left, top + 0.32, wide, high - 0.15), shown)
    page.save(path)


def draw_tile(path: Path, shown: Shown) -> None:
    """The field to predict on its mesh without a word, for a gallery that names it."""
    wide, high = TILE
    page = Page(wide, high)
    _tile(page, (GAP, GAP, wide - 2 * GAP, high - 2 * GAP), shown)
    page.save(path)


def _tile(page: Page, box: Sequence[float], shown: Shown) -> None:
    quantity = quantities(shown.task)[0]
    support = support_of(shown.task, quantity, shown.mesh)
    view = view_of(shown.mesh, support)
    frame = shown.strip(3)[min(1, len(shown.strip(3)) - 1)]
    values = quantity.of(shown.frames[frame])
    scale = quantity.scale(values[support], signed=quantity.is_signed(values[support]))
    page.panel(box, view, values, scale)
    page.lines(box, view)


# ------------------------------------------------------------------------------------------ moving


def draw_moving(path: Path, shown: Shown) -> None:
    """The first quantity of all frames as a GIF."""
    if len(shown.task.times) < 2:
        raise ParamError(f"out: {shown.task.id} has one frame; nothing moves; write a PNG")
    quantity = quantities(shown.task)[0]
    support = support_of(shown.task, quantity, shown.mesh)
    view = view_of(shown.mesh, support)
    values = [quantity.of(frame) for frame in shown.frames]
    inside = np.concatenate([frame[support] for frame in values])
    scale = quantity.scale(inside, signed=quantity.is_signed(inside))
    flows = shown.lines(quantity, view, range(len(values)))
    pictures = [
        _moving_page(shown, view, frame, scale, number, flow)
        for number, (frame, flow) in enumerate(zip(values, flows, strict=True))
    ]
    write_gif(path, pictures, MOST_BYTES)


def _moving_page(
    shown: Shown, view: View, values: Array, scale: Scale, frame: int, flow: Lines | None
) -> Image.Image:
    wide, high = panel_size(view.aspect, 3.0)
    page = Page(2 * MARGIN + wide + GAP + BAR + NUMBERS, HEAD + high + MARGIN)
    page.text(MARGIN, 0.24, shown.title, fontsize=LARGE, fontweight="bold")
    moment = at_time(shown.task.times[frame], shown.time_unit)
    kind = "given" if frame <= shown.last_given and shown.task.t_in else "to predict"
    page.text(MARGIN, 0.5, f"{moment}, {kind}")
    page.panel((MARGIN, HEAD - 0.2, wide, high), view, values, scale, flow=flow)
    page.bar((MARGIN + wide + GAP, HEAD, BAR, high - 0.4), scale)
    return page.picture()
