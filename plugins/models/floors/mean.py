"""Floor `mean`: the training mean, per node if nodes correspond, else per field and frame.

Where frames are given, it may be the mean change from the last of them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import gsnobench as gb
from gsnobench_plugins.models.floors.choices import (
    Buffers,
    Floor,
    FloorParams,
    Target,
    fitted_windows,
    solve_best_target,
)

GSNOBENCH_API = 1


class Mean(Floor):
    """u(x, t) = mean over the training samples of u(x, t), whatever the inputs."""

    value: torch.Tensor  # (t_out, N or 1, C)

    def __init__(self, task: gb.Task, params: FloorParams) -> None:
        super().__init__(task, params)
        self.register_buffer("value", torch.empty(0, dtype=torch.float64))

    def closed_form(self, batch: gb.Batch) -> torch.Tensor:
        return self.value.expand(batch.size, -1, batch.nodes, -1)  # (B, t_out, N, C)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Average over samples and evaluated windows.

    Where nodes do not correspond between samples, also over the nodes that carry the field.
    """

    def solve_target(target: Target) -> Buffers:
        everyone = range(len(fit.train))
        sums, counts = zip(*(_sample_sums(fit, index, target) for index in everyone), strict=True)
        value = sum(sums) / np.maximum(sum(counts), 1)  # (t_out, N or 1, C)
        return {"value": torch.from_numpy(value)}

    solve_best_target(module, fit, solve_target)


def _sample_sums(fit: gb.Fit, index: int, target: Target) -> tuple[gb.Array, gb.Array]:
    """Sum of one sample's targets (t_out, N or 1, C) and number of values in it (1, N or 1, C)."""
    task, mesh = fit.task, fit.train.mesh(index)
    windows = fitted_windows(fit, index, target)[:, :, : mesh.size]  # (W, t_out, N, C)
    support = np.stack([field.nodes(mesh) for field in task.fields], axis=1)  # (N, C)
    total = windows.sum(axis=0) * support  # (t_out, N, C)
    count = (support * len(windows))[None]  # (1, N, C)
    if task.corresponds:
        return total, count
    return total.sum(axis=1, keepdims=True), count.sum(axis=1, keepdims=True)


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "mean",
        FloorParams,
        Mean,
        presets={"default": gb.Preset(train=gb.UNSCALED)},
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        capabilities=frozenset(
            {
                gb.Capability.STEADY,
                gb.Capability.UNSTEADY,
                gb.Capability.FIXED_GEOMETRY,
                gb.Capability.VARYING_GEOMETRY,
                gb.Capability.THREE_DIMENSIONS,
            }
        ),
        is_floor=True,
        revision=2,
        title="Training mean, of the field or of its change",
        cites="Hyndman and Athanasopoulos, Forecasting: Principles and Practice, OTexts 2021, "
        "section 5.2 (mean method)",
    )
