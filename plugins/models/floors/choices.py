"""What validation chooses for a floor: the strength of its ridge, and the field or its change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import nn

import gsnobench as gb

# of a ridge, relative to an eigenvalue of its problem. Below the first there is only the rounding
# of data that are stored in float32; beyond the last the prediction is the mean
STRENGTHS = tuple(10.0**power for power in range(-14, 5))
TIE = 1e-4  # relative difference of validation errors that are as good as equal
Target = Literal["field", "change"]
Buffers = Mapping[str, torch.Tensor]


class FloorParams(gb.Params):
    target: Literal["auto", "field", "change"] = gb.knob(
        default="auto",
        search=False,
        help="the field, or its change from the last given frame; auto: whichever has the lower "
        "validation error",
    )


class Floor(nn.Module):
    """u(x, t) = closed form, or last given frame + closed form; in float64, buffers too."""

    adds_last: torch.Tensor  # 1 if the floor predicts the change, 0 if it predicts the field

    def __init__(self, task: gb.Task, params: FloorParams) -> None:
        super().__init__()
        if params.target == "change" and task.t_in == 0:
            raise gb.ParamError(
                f"model.target: {task.id} gives no frame that could change; expected auto or field"
            )
        self.target = params.target
        self.register_buffer("adds_last", torch.zeros((), dtype=torch.float64))

    def closed_form(self, batch: gb.Batch) -> torch.Tensor:
        """What the floor fits, (B, t_out, N, C) in float64; the batch is in float64 too."""
        raise NotImplementedError

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        exact = in_float64(batch)
        prediction = self.closed_form(exact)
        if batch.task.t_in:
            prediction = prediction + self.adds_last * exact.window[:, -1:]
        return prediction.to(batch.static.dtype)  # (B, t_out, N, C)

    def keep(self, buffers: Buffers, target: Target) -> None:
        """Make this the state of the floor, in float64 on its device."""
        device = self.adds_last.device
        for name, value in buffers.items():
            self.register_buffer(name, value.double().contiguous().to(device))
        self.adds_last = torch.full_like(self.adds_last, float(target == "change"))


def in_float64(batch: gb.Batch) -> gb.Batch:
    """The batch with its numbers in float64."""
    return replace(
        batch,
        window=batch.window.double(),
        static=batch.static.double(),
        scalars=batch.scalars.double(),
        points=batch.points.double(),
    )


def solve_best_target(module: nn.Module, fit: gb.Fit, solve: Callable[[Target], Buffers]) -> None:
    """Fit the field and, where frames are given, its change; keep the better one on validation."""
    assert isinstance(module, Floor)
    targets: tuple[Target, ...] = ("field", "change") if fit.task.t_in else ("field",)
    if module.target != "auto":
        targets = (module.target,)
    tried = []
    for target in targets:
        buffers = solve(target)
        tried.append((validation_error(module, fit, buffers, target), target, buffers))
    _, target, buffers = min(tried, key=lambda entry: entry[0])
    module.keep(buffers, target)


def fitted_windows(fit: gb.Fit, index: int, target: Target) -> gb.Array:
    """What is to be fitted in the evaluated windows of a training sample, (W, t_out, N, C)."""
    task = fit.task
    references = [field.reference for field in task.fields]
    frames = np.asarray(fit.train.frames[index], dtype=np.float64) - references  # (T, N, C)
    firsts = [start + task.t_in for start in task.starts]  # first target frame of every window
    windows = np.stack([frames[first : first + task.t_out] for first in firsts])
    if target == "field":
        return windows
    return windows - frames[[first - 1 for first in firsts], None]


def validation_error(module: Floor, fit: gb.Fit, buffers: Buffers, target: Target) -> float:
    """The headline error on the validation split of a floor with these buffers."""
    module.keep(buffers, target)
    errors = [
        gb.relative_l2(module(batch).double(), frames.double(), carriers(batch), fit.task)
        for batch, frames in fit.batches("valid")
    ]
    return float(torch.cat(errors).mean())


def carriers(batch: gb.Batch) -> torch.Tensor:
    """Which nodes carry which field, (1 or B, N, C) bool."""
    nodes = torch.ones_like(batch.points[..., 0], dtype=torch.bool)  # (1 or B, N)
    nodes = nodes if batch.mask is None else batch.mask
    columns = []
    for field in batch.task.fields:
        if field.support == "all":
            columns.append(nodes)
            continue
        tagged = batch.tags[..., batch.task.tags.index(field.support.removeprefix("not "))]
        columns.append(nodes & (~tagged if field.support.startswith("not ") else tagged))
    return torch.stack(columns, dim=-1)


def strongest_of_the_best(errors: Sequence[float]) -> int:
    """The position of the strongest ridge whose error ties with the lowest.

    `errors` has one entry per strength, in rising order. So a flat curve leads to the same choice
    on every machine, and the choice is the weakest strength only if the curve still falls there.
    """
    limit = (1 + TIE) * min(errors)
    return max(position for position, error in enumerate(errors) if error <= limit)
