"""Floor `mean`: the training mean, per node if nodes correspond, else per field and frame."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import gsnobench as gb

GSNOBENCH_API = 1


class Mean(nn.Module):
    """u(x, t) = mean over the training samples of u(x, t), whatever the inputs."""

    def __init__(self, task: gb.Task, params: gb.NoParams) -> None:
        super().__init__()
        self.value: torch.Tensor
        self.register_buffer("value", torch.empty(0))  # (t_out, N or 1, C)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return self.value.expand(batch.size, -1, batch.nodes, -1)  # (B, t_out, N, C)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Average over samples and evaluated windows.

    Where nodes do not correspond between samples, also over the nodes that carry the field.
    """
    assert isinstance(module, Mean)
    sums, counts = zip(*(_sample_sums(fit, index) for index in range(len(fit.train))), strict=True)
    total, count = sum(sums), sum(counts)  # (t_out, N or 1, C), (1, N or 1, C)
    value = total / np.maximum(count, 1)
    module.value = torch.as_tensor(value, dtype=torch.float32).to(module.value.device)


def _sample_sums(fit: gb.Fit, index: int) -> tuple[gb.Array, gb.Array]:
    """Sum of one sample's targets (t_out, N or 1, C) and number of values in it (1, N or 1, C)."""
    task, mesh = fit.task, fit.train.mesh(index)
    frames = np.asarray(fit.train.frames[index], dtype=np.float64)[:, : mesh.size]  # (T, N, C)
    frames = frames - [field.reference for field in task.fields]
    windows = [frames[start + task.t_in : start + task.t_in + task.t_out] for start in task.starts]
    support = np.stack([field.nodes(mesh) for field in task.fields], axis=1)  # (N, C)
    total = np.sum(windows, axis=0) * support  # (t_out, N, C)
    count = (support * len(windows))[None]  # (1, N, C)
    if task.corresponds:
        return total, count
    return total.sum(axis=1, keepdims=True), count.sum(axis=1, keepdims=True)


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "mean",
        gb.NoParams,
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
        title="Training mean",
        cites="Hyndman and Athanasopoulos, Forecasting: Principles and Practice, OTexts 2021, "
        "section 5.2 (mean method)",
    )
