"""Floor `pod`: proper orthogonal decomposition of inputs and outputs, and a ridge regression
between the coefficients.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import nn

import gsnobench as gb

GSNOBENCH_API = 1
# relative to the largest input eigenvalue
STRENGTHS = tuple(10.0**power for power in range(-10, 2))


class Params(gb.Params):
    energy: float = gb.knob(
        default=0.9999,
        low=0.5,
        high=1.0,
        search=False,
        help="share of the variance that both bases keep",
    )


class Pod(nn.Module):
    """y = mean_y + (x - mean_x) Phi_x W Phi_y^T with orthonormal Phi_x, Phi_y; x holds all inputs
    at all nodes.
    """

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.energy = params.energy
        self.in_mean: torch.Tensor
        self.in_basis: torch.Tensor
        self.weight: torch.Tensor
        self.out_basis: torch.Tensor
        self.out_mean: torch.Tensor
        self.register_buffer("in_mean", torch.empty(0))  # (N*in_channels,)
        self.register_buffer("in_basis", torch.empty(0))  # (N*in_channels, r_in)
        self.register_buffer("weight", torch.empty(0))  # (r_in, r_out)
        self.register_buffer("out_basis", torch.empty(0))  # (r_out, t_out*N*C)
        self.register_buffer("out_mean", torch.empty(0))  # (t_out, N, C)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        scores = (batch.features.flatten(1) - self.in_mean) @ self.in_basis  # (B, r_in)
        # (B, t_out, N, C)
        return self.out_mean + (scores @ self.weight @ self.out_basis).unflatten(
            1, self.out_mean.shape
        )


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Both bases from the training split; the ridge strength is the one with the best validation
    score.
    """
    assert isinstance(module, Pod)
    mesh = fit.train.mesh(0)
    # (N, C)
    support = torch.from_numpy(np.stack([one.nodes(mesh) for one in fit.task.fields], axis=1))
    x, y = _stack(fit, "train")
    in_mean, in_scores, in_basis = decompose(x, module.energy)
    out_mean, out_scores, out_basis = decompose((y * support).flatten(1), module.energy)
    x_valid, y_valid = _stack(fit, "valid")
    valid_scores = (x_valid - in_mean).double() @ in_basis  # (V, r_in)
    # (r_in,): the scores are orthogonal, so the ridge is one division a coefficient
    eigenvalues = in_scores.square().sum(0)
    cross = in_scores.T @ out_scores  # (r_in, r_out)

    def weight_of(strength: float) -> torch.Tensor:
        return cross / (eigenvalues + strength * eigenvalues.amax())[:, None]

    def error_of(strength: float) -> float:
        guess = (out_mean + valid_scores @ weight_of(strength) @ out_basis.T).reshape(y_valid.shape)
        return float(gb.relative_l2(guess, y_valid.double(), support[None], fit.task).mean())

    found = {
        "in_mean": in_mean,
        "in_basis": in_basis,
        "out_basis": out_basis.T,
        "out_mean": out_mean.reshape(y.shape[1:]),
    }
    found["weight"] = weight_of(min(STRENGTHS, key=error_of))
    device = module.weight.device
    for name, value in found.items():
        module.register_buffer(name, value.float().contiguous().to(device))


def decompose(x: torch.Tensor, energy: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean (D,), scores (S, r) and orthonormal basis (D, r) of the rows of x (S, D), by the method
    of snapshots.
    """
    mean = x.double().mean(0)
    centred = x.double() - mean
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    share = values.cumsum(0) / values.sum().clamp_min(1e-300)
    rank = min(int((share < energy).sum()) + 1, int((values > 1e-12 * values[0]).sum()))
    lengths = values[:rank].sqrt()
    return mean, vectors[:, :rank] * lengths, centred.T @ (vectors[:, :rank] / lengths)


def _stack(fit: gb.Fit, split: Literal["train", "valid"]) -> tuple[torch.Tensor, torch.Tensor]:
    """All inputs (S, N*in_channels) and targets (S, t_out, N, C) of a split, on the host."""
    pairs = [
        (batch.features.flatten(1).cpu(), target.cpu()) for batch, target in fit.batches(split)
    ]
    return torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])


def declines(task: gb.Task) -> str | None:
    return (
        None
        if task.corresponds
        else "nodes do not correspond between samples, so snapshots have no common basis"
    )


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    capable = gb.Capability
    return gb.Model(
        "pod",
        Params,
        Pod,
        # one unit a channel, or the field with the largest numbers would own both bases
        presets={"default": gb.Preset(inputs="scale", outputs="scale", points="box")},
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
        capabilities=frozenset(
            {
                *(capable.STEADY, capable.UNSTEADY, capable.FIXED_GEOMETRY),
                *(capable.VARYING_GEOMETRY, capable.THREE_DIMENSIONS),
            }
        ),
        is_floor=True,
        title="POD with ridge regression",
        cites="Bhattacharya, Hosseini, Kovachki and Stuart, Model reduction and neural networks "
        "for parametric PDEs, "
        "SMAI Journal of Computational Mathematics 7, 2021",
    )
