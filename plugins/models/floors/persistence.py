"""Floor `persistence`: the last known frame, repeated."""

from __future__ import annotations

import torch
from torch import nn

import gsnobench as gb

GSNOBENCH_API = 1


class Persistence(nn.Module):
    """u(x, t) = u(x, last frame of the window); there is nothing to fit."""

    def __init__(self, task: gb.Task, params: gb.NoParams) -> None:
        super().__init__()
        self.frames_out = task.t_out

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return batch.window[:, -1:].expand(-1, self.frames_out, -1, -1)  # (B, t_out, N, C)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Closed form with no unknowns."""


def declines(task: gb.Task) -> str | None:
    return "no frame is given, so there is none to repeat" if task.t_in == 0 else None


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "persistence",
        gb.NoParams,
        Persistence,
        presets={"default": gb.Preset(train=gb.UNSCALED)},
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
        capabilities=frozenset(
            {
                gb.Capability.UNSTEADY,
                gb.Capability.FIXED_GEOMETRY,
                gb.Capability.VARYING_GEOMETRY,
                gb.Capability.THREE_DIMENSIONS,
                gb.Capability.OTHER_MESH,
                gb.Capability.PERMUTATION_EQUIVARIANT,
            }
        ),
        is_floor=True,
        title="Persistence",
        cites="Hyndman and Athanasopoulos, Forecasting: Principles and Practice, OTexts 2021, "
        "section 5.2 (naive method)",
    )
