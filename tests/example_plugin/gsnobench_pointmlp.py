"""Pointwise perceptron: a simple baseline that sees one node at a time."""

import torch
from torch import nn

import gsnobench as gb

GSNOBENCH_API = 1


class Params(gb.Params):
    width: int = gb.knob(default=64, low=16, high=256, log=True, help="hidden channels")


class PointMLP(nn.Module):
    """u(x) = W2 gelu(W1 a(x) + b1) + b2 at every node x, with a(x) all inputs there."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(task.in_channels, params.width),
            nn.GELU(),
            nn.Linear(params.width, task.out_channels),
        )

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return batch.frames(self.net(batch.features))  # (B, N, in_channels) -> (B, t_out, N, C)


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "pointmlp",
        Params,
        PointMLP,
        title="Pointwise perceptron",
        cites="unpublished",
        capabilities=frozenset(gb.Capability),
    )
