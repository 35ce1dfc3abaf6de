"""Floor `modal`: a linear forecast of each Laplacian mode, from the window to each later frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import gsnobench as gb
from gsnobench.meshes.modes import eigenbasis
from gsnobench_plugins.models.floors.choices import (
    STRENGTHS,
    Buffers,
    Floor,
    FloorParams,
    Target,
    solve_best_target,
    strongest_of_the_best,
    validation_error,
)

GSNOBENCH_API = 1
# of a training window that begins where the evaluated ones begin; all other windows have weight 1
START_WEIGHT = 10.0


class Params(FloorParams):
    k: int = gb.knob(
        default=256,
        low=1,
        high=1024,
        log=True,
        geometry=True,
        search=False,
        help="Laplacian modes, at most half as many as nodes",
    )


class Modal(Floor):
    """a = Phi^T M u, a_p(lag) = w_{p,lag} . (a_p over the window) + b_{p,lag}, u = Phi a.

    Each field and mode by itself. What the modes cannot represent is dropped: the prediction lies
    in their span. If the change is predicted, it lies there, and the rest persists.
    """

    weight: torch.Tensor  # (K, C, t_out, t_in)
    offset: torch.Tensor  # (t_out, K, C)
    strength: torch.Tensor  # () of the ridge, relative to a mode's variance; to be looked at

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__(task, params)
        for name in ("weight", "offset", "strength"):
            self.register_buffer(name, torch.empty(0, dtype=torch.float64))

    def closed_form(self, batch: gb.Batch) -> torch.Tensor:
        phi, mass = batch.geometry["phi"].double(), batch.geometry["mass"].double()
        known = analyse(phi, mass, batch.window)  # (B, t_in, K, C)
        future = torch.einsum("bikc,kcoi->bokc", known, self.weight)  # (B, t_out, K, C)
        return torch.einsum("nk,bokc->bonc", phi[0], future + self.offset)  # (B, t_out, N, C)


def analyse(phi: torch.Tensor, mass: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    """Modal coefficients: phi (1, N, K), mass (1, N), frames (B, T, N, C) -> (B, T, K, C)."""
    return torch.einsum("nk,btnc->btkc", phi[0] * mass[0, :, None], frames)


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """The number of modes, the same on every mesh.

    The upper half of a mesh's spectrum has little to do with that of the domain.
    """
    return {"modes": np.array([min(params.k, train.mesh(0).size // 2)])}


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Neumann modes, which assume nothing about boundary values."""
    basis = eigenbasis(mesh, int(summary["modes"][0]), kind="fem")
    return {"phi": gb.Part(basis.vectors, ("node", "mode")), "mass": gb.Part(basis.mass, ("node",))}


# ----------------------------------------------------------------------------------------- the fit


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """One small ridge regression per mode, field and lag, on all windows of the training split.

    One strength for all, chosen on validation.
    """
    assert isinstance(module, Modal)
    products, means, shape = second_moments(fit)
    lags = [make_lag(products, means, lag, fit.task) for lag in range(fit.task.t_out)]

    def buffers_of(strength: float, target: Target) -> Buffers:
        laws = [lag.regress(strength, target) for lag in lags]
        weight = torch.stack([w for w, _ in laws], dim=1).unflatten(0, shape)
        offset = torch.stack([b for _, b in laws]).unflatten(1, shape)
        chosen = torch.tensor(strength, dtype=torch.float64)
        return {"weight": weight, "offset": offset, "strength": chosen}

    def solve_target(target: Target) -> Buffers:
        tried = (buffers_of(strength, target) for strength in STRENGTHS)
        errors = [validation_error(module, fit, buffers, target) for buffers in tried]
        return buffers_of(STRENGTHS[strongest_of_the_best(errors)], target)

    solve_best_target(module, fit, solve_target)


def second_moments(fit: gb.Fit) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int]]:
    """Means over samples of a(t) a(t') (P, T, T) and a(t) (P, T) of P = K*C series; (K, C)."""
    task = fit.task
    parts = next(iter(fit.batches("train")))[0].geometry
    phi, mass = parts["phi"].cpu().double(), parts["mass"].cpu().double()
    centre = torch.tensor([field.reference for field in task.fields], dtype=torch.float64)
    steps, modes, fields = fit.train.frames.shape[1], phi.shape[-1], len(task.fields)
    products = torch.zeros(modes * fields, steps, steps, dtype=torch.float64)
    means = torch.zeros(modes * fields, steps, dtype=torch.float64)
    for index in range(len(fit.train)):
        frames = torch.as_tensor(fit.train.frames[index], dtype=torch.float64) - centre  # (T, N, C)
        series = analyse(phi, mass, frames[None])[0].flatten(1).T  # (K*C, T)
        products += series[:, :, None] * series[:, None, :] / len(fit.train)
        means += series / len(fit.train)
    return products, means, (modes, fields)


@dataclass(frozen=True, eq=False)
class Lag:
    """Moments of P series and their window: what the laws for one later frame are made of."""

    x_mean: torch.Tensor  # (P, t_in)
    y_mean: torch.Tensor  # (P,)
    covariance: torch.Tensor  # (P, t_in, t_in) of the window
    cross: torch.Tensor  # (P, t_in) covariance of the window with the later frame

    def regress(self, strength: float, target: Target) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights (P, t_in) and offsets (P,)."""
        cross, y_mean = self.cross, self.y_mean
        if target == "change":
            cross, y_mean = cross - self.covariance[:, :, -1], y_mean - self.x_mean[:, -1]
        variance = self.covariance.diagonal(dim1=1, dim2=2).mean(1)  # (P,)
        ridge = (strength * variance).clamp_min(1e-300)  # a mode that never moves
        eye = torch.eye(self.x_mean.shape[1], dtype=torch.float64)
        weight = torch.linalg.solve(self.covariance + ridge[:, None, None] * eye, cross)
        return weight, y_mean - (weight * self.x_mean).sum(1)


def make_lag(products: torch.Tensor, means: torch.Tensor, lag: int, task: gb.Task) -> Lag:
    """The moments for one lag, from means of a(t) a(t') (P, T, T) and a(t) (P, T)."""
    # windows whose target lies inside the trajectory
    first = torch.arange(means.shape[1] - task.t_in - lag)
    window = first[:, None] + torch.arange(task.t_in)  # (n, t_in)
    target = first + task.t_in + lag  # (n,)
    share = torch.where(torch.isin(first, torch.tensor(task.starts)), START_WEIGHT, 1.0).double()
    share = share / share.sum()
    x_mean, y_mean = torch.einsum("pni,n->pi", means[:, window], share), means[:, target] @ share
    second = torch.einsum("pnij,n->pij", products[:, window[:, :, None], window[:, None, :]], share)
    cross = torch.einsum("pni,n->pi", products[:, window, target[:, None]], share)
    return Lag(
        x_mean=x_mean,
        y_mean=y_mean,
        covariance=second - x_mean[:, :, None] * x_mean[:, None, :],
        cross=cross - x_mean * y_mean[:, None],
    )


def declines(task: gb.Task) -> str | None:
    if task.t_in == 0:
        return "no frame is given, so there is no motion to continue"
    return None if task.fixed_mesh else "mode p means another shape on another geometry"


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "modal",
        Params,
        Modal,
        presets={"default": gb.Preset(train=gb.UNSCALED)},
        geometry=geometry,
        summary=summary,
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
        capabilities=frozenset(
            {
                gb.Capability.UNSTEADY,
                gb.Capability.FIXED_GEOMETRY,
                gb.Capability.THREE_DIMENSIONS,
                gb.Capability.OTHER_MESH,
                gb.Capability.PERMUTATION_EQUIVARIANT,
            }
        ),
        is_floor=True,
        revision=2,
        title="Per-mode linear propagator",
        cites="Schmid, Dynamic mode decomposition of numerical and experimental data, Journal of "
        "Fluid Mechanics 656, 2010",
        differs=(
            "the modes are those of the Laplacian, known before the data; each is forecast by "
            "itself",
        ),
    )
