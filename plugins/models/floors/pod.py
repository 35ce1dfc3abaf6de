"""Floor `pod`: proper orthogonal decomposition, and ridge regression between coefficients."""

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
        0.9999, low=0.5, high=1.0, search=False, help="share of the variance that both bases keep"
    )


class Pod(nn.Module):
    """y = mean_y + (x - mean_x) Phi_x W Phi_y^T, orthonormal bases; x: all inputs at all nodes."""

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
        y = scores @ self.weight @ self.out_basis  # (B, t_out*N*C)
        return self.out_mean + y.unflatten(1, self.out_mean.shape)  # (B, t_out, N, C)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Both bases from the training split, the ridge strength by the validation score."""
    assert isinstance(module, Pod)
    mesh = fit.train.mesh(0)
    nodes = [field.nodes(mesh) for field in fit.task.fields]
    support = torch.from_numpy(np.stack(nodes, axis=1))  # (N, C)
    x, y = _stack(fit, "train")
    in_mean, in_scores, in_basis = decompose(x, module.energy)
    out_mean, out_scores, out_basis = decompose((y * support).flatten(1), module.energy)
    x_valid, y_valid = _stack(fit, "valid")
    valid_scores = (x_valid - in_mean).double() @ in_basis  # (V, r_in)
    # the scores are orthogonal, so the ridge is one division per coefficient
    eigenvalues = in_scores.square().sum(0)  # (r_in,)
    cross = in_scores.T @ out_scores  # (r_in, r_out)

    def weight_of(strength: float) -> torch.Tensor:
        return cross / (eigenvalues + strength * eigenvalues.amax())[:, None]

    def error_of(strength: float) -> float:
        guess = (out_mean + valid_scores @ weight_of(strength) @ out_basis.T).reshape(y_valid.shape)
        return float(gb.relative_l2(guess, y_valid.double(), support[None], fit.task).mean())

    fitted = {
        "in_mean": in_mean,
        "in_basis": in_basis,
        "out_basis": out_basis.T,
        "out_mean": out_mean.reshape(y.shape[1:]),
        "weight": weight_of(min(STRENGTHS, key=error_of)),
    }
    device = module.weight.device
    for name, value in fitted.items():
        module.register_buffer(name, value.float().contiguous().to(device))


def decompose(x: torch.Tensor, energy: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean (D,), scores (S, r) and orthonormal basis (D, r) of the rows of x (S, D).

    By the method of snapshots.
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
    if task.corresponds:
        return None
    return "nodes do not correspond between samples, so snapshots have no common basis"


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "pod",
        Params,
        Pod,
        # one scale per channel, or the field with the largest numbers would dominate both bases
        presets={
            "default": gb.Preset(
                train={"scale_window": "scale", "scale_static": "scale", "scale_outputs": "scale"}
            )
        },
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
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
        title="POD with ridge regression",
        cites="Bhattacharya, Hosseini, Kovachki and Stuart, Model reduction and neural networks "
        "for parametric PDEs, SMAI Journal of Computational Mathematics 7, 2021",
    )
