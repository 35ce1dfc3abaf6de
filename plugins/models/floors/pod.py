"""Floor `pod`: proper orthogonal decomposition, and ridge regression between coefficients."""

from __future__ import annotations

import torch
from torch import nn

import gsnobench as gb
from gsnobench_plugins.models.floors.choices import (
    STRENGTHS,
    Buffers,
    Floor,
    FloorParams,
    Target,
    solve_best_target,
    strongest_of_the_best,
)
from gsnobench_plugins.models.floors.kernel_ridge import Axes, principal_axes
from gsnobench_plugins.models.floors.table import Table, read_table

GSNOBENCH_API = 1
RESOLVED = 1e-12  # share of the largest variance below which data in float32 hold rounding errors
FITTED = ("in_mean", "in_basis", "weight", "out_basis", "out_mean", "strength")


class Params(FloorParams):
    energy: float = gb.knob(
        0.9999, low=0.5, high=1.0, search=False, help="share of the variance that both bases keep"
    )


class Pod(Floor):
    """y = mean_y + (x - mean_x) Phi_x W Phi_y^T, orthonormal bases; x: all inputs at all nodes."""

    in_mean: torch.Tensor  # (N*in_channels,)
    in_basis: torch.Tensor  # (N*in_channels, r_in)
    weight: torch.Tensor  # (r_in, r_out)
    out_basis: torch.Tensor  # (r_out, t_out*N*C)
    out_mean: torch.Tensor  # (t_out, N, C)
    strength: torch.Tensor  # () of the ridge, relative to the largest eigenvalue; to be looked at

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__(task, params)
        self.energy = params.energy
        for name in FITTED:
            self.register_buffer(name, torch.empty(0, dtype=torch.float64))

    def closed_form(self, batch: gb.Batch) -> torch.Tensor:
        scores = (batch.features.flatten(1) - self.in_mean) @ self.in_basis  # (B, r_in)
        y = scores @ self.weight @ self.out_basis  # (B, t_out*N*C)
        return self.out_mean + y.unflatten(1, self.out_mean.shape)  # (B, t_out, N, C)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Both bases from the training split, the ridge strength by the validation score."""
    assert isinstance(module, Pod)
    train, valid = read_table(fit, "train"), read_table(fit, "valid")
    in_mean, axes = decompose(train.inputs, module.energy)
    scores = (valid.inputs.flatten(1) - in_mean) @ axes.directions  # (V, r_in)

    def solve_target(target: Target) -> Buffers:
        y = train.fitted(target) * train.share  # (S, t_out, N, C)
        out_mean, out = decompose(y, module.energy)
        cross = axes.spread[:, None] * (axes.left.T @ (out.left * out.spread))  # (r_in, r_out)

        def weight_of(strength: float) -> torch.Tensor:
            values = axes.spread.square()  # the scores are orthogonal: a division per coefficient
            return cross / (values + strength * values[0])[:, None]

        def guess_of(strength: float) -> torch.Tensor:
            return out_mean + scores @ weight_of(strength) @ out.directions.T

        errors = [_error(guess_of(s), valid, target, fit.task) for s in STRENGTHS]
        strength = STRENGTHS[strongest_of_the_best(errors)]
        return {
            "in_mean": in_mean,
            "in_basis": axes.directions,
            "out_basis": out.directions.T,
            "out_mean": out_mean.reshape(y.shape[1:]),
            "weight": weight_of(strength),
            "strength": torch.tensor(strength, dtype=torch.float64),
        }

    solve_best_target(module, fit, solve_target)


def decompose(values: torch.Tensor, energy: float) -> tuple[torch.Tensor, Axes]:
    """Mean (D,) of samples (S, ...), and the principal axes that keep so much of the variance."""
    x = values.flatten(1)
    mean = x.mean(0)
    axes = principal_axes(x - mean)
    variance = axes.spread.square()
    share = variance.cumsum(0) / variance.sum().clamp_min(1e-300)
    resolved = int((variance > RESOLVED * variance[0]).sum())
    rank = min(int((share < energy).sum()) + 1, resolved)
    return mean, Axes(axes.left[:, :rank], axes.spread[:rank], axes.directions[:, :rank])


def _error(guess: torch.Tensor, valid: Table, target: Target, task: gb.Task) -> float:
    """The validation error of a flat guess of what is fitted."""
    missed = guess.reshape(valid.frames.shape) - valid.fitted(target)
    prediction = valid.frames + missed
    return float(gb.relative_l2(prediction, valid.frames, valid.share[None], task).mean())


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
        revision=2,
        title="POD with ridge regression",
        cites="Bhattacharya, Hosseini, Kovachki and Stuart, Model reduction and neural networks "
        "for parametric PDEs, SMAI Journal of Computational Mathematics 7, 2021",
    )
