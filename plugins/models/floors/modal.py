"""Floor `modal`: a linear forecast of each Laplacian mode, from the window to each later frame."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import gsnobench as gb
from gsnobench.meshes.modes import eigenbasis

GSNOBENCH_API = 1
# of a training window that begins where the evaluated ones begin; all other windows have weight 1
START_WEIGHT = 10.0


class Params(gb.Params):
    k: int = gb.knob(
        default=256,
        low=1,
        high=1024,
        log=True,
        geometry=True,
        search=False,
        help="Laplacian modes, at most half as many as nodes",
    )
    strength: float = gb.knob(
        default=1e-5,
        low=1e-12,
        high=1.0,
        log=True,
        search=False,
        help="ridge, relative to the variance of a mode's coefficient",
    )


class Modal(nn.Module):
    """a = Phi^T M u, a_p(lag) = w_{p,lag} . (a_p over the window) + b_{p,lag}, u = Phi a.

    Each field and mode by itself. What the modes cannot represent is dropped: the prediction lies
    in their span.
    """

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.strength = params.strength
        self.weight: torch.Tensor
        self.offset: torch.Tensor
        self.register_buffer("weight", torch.empty(0))  # (K, C, t_out, t_in)
        self.register_buffer("offset", torch.empty(0))  # (t_out, K, C)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        phi, mass = batch.geometry["phi"], batch.geometry["mass"]
        known = analyse(phi, mass, batch.window)  # (B, t_in, K, C)
        future = torch.einsum("bikc,kcoi->bokc", known, self.weight)  # (B, t_out, K, C)
        return torch.matmul(phi[:, None], future + self.offset)  # (B, t_out, N, C)


def analyse(phi: torch.Tensor, mass: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    """Modal coefficients: phi (1, N, K), mass (1, N), frames (B, T, N, C) -> (B, T, K, C)."""
    return torch.matmul((phi * mass[..., None]).transpose(1, 2)[:, None], frames)


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """The number of modes, the same on every mesh.

    The upper half of a mesh's spectrum has little to do with that of the domain.
    """
    return {"modes": np.array([min(params.k, train.mesh(0).size // 2)])}


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Neumann modes, which assume nothing about boundary values."""
    basis = eigenbasis(mesh, int(summary["modes"][0]), kind="fem")
    return {"phi": gb.Part(basis.vectors, ("node", "mode")), "mass": gb.Part(basis.mass, ("node",))}


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """One small ridge regression per mode, field and lag, on all windows of the training split."""
    assert isinstance(module, Modal)
    task, device = fit.task, module.weight.device
    parts = next(iter(fit.batches("train")))[0].geometry
    phi, mass = parts["phi"].cpu().double(), parts["mass"].cpu().double()
    centre = torch.tensor([field.reference for field in task.fields], dtype=torch.float64)
    steps, modes, fields = fit.train.frames.shape[1], phi.shape[-1], len(task.fields)
    # sum over samples of a(t) a(t')
    products = torch.zeros(modes * fields, steps, steps, dtype=torch.float64)
    means = torch.zeros(modes * fields, steps, dtype=torch.float64)
    for index in range(len(fit.train)):
        frames = torch.as_tensor(fit.train.frames[index], dtype=torch.float64) - centre  # (T, N, C)
        series = analyse(phi, mass, frames[None])[0].flatten(1).T  # (K*C, T)
        products += series[:, :, None] * series[:, None, :] / len(fit.train)
        means += series / len(fit.train)
    laws = [regress(products, means, lag, task, module.strength) for lag in range(task.t_out)]
    weight = torch.stack([w for w, _ in laws], dim=1)  # (K*C, t_out, t_in)
    weight = weight.unflatten(0, (modes, fields))  # (K, C, t_out, t_in)
    offset = torch.stack([b for _, b in laws]).unflatten(1, (modes, fields))  # (t_out, K, C)
    module.weight, module.offset = weight.float().to(device), offset.float().to(device)


def regress(
    products: torch.Tensor, means: torch.Tensor, lag: int, task: gb.Task, strength: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (P, t_in) and offsets (P,) of P series for one lag.

    `products` (P, T, T) and `means` (P, T) are the means of a(t) a(t') and a(t) over samples.
    """
    # windows whose target lies inside the trajectory
    first = torch.arange(means.shape[1] - task.t_in - lag)
    window = first[:, None] + torch.arange(task.t_in)  # (n, t_in)
    target = first + task.t_in + lag  # (n,)
    share = torch.where(torch.isin(first, torch.tensor(task.starts)), START_WEIGHT, 1.0).double()
    share = share / share.sum()
    x_mean, y_mean = torch.einsum("pni,n->pi", means[:, window], share), means[:, target] @ share
    second = torch.einsum("pnij,n->pij", products[:, window[:, :, None], window[:, None, :]], share)
    cross = torch.einsum("pni,n->pi", products[:, window, target[:, None]], share)
    cross = cross - x_mean * y_mean[:, None]  # (P, t_in)
    covariance = second - x_mean[:, :, None] * x_mean[:, None, :]  # (P, t_in, t_in)
    variance = covariance.diagonal(dim1=1, dim2=2).mean(1)  # (P,)
    eye = torch.eye(task.t_in, dtype=torch.float64)
    ridge = (strength * variance).clamp_min(1e-300)[:, None, None] * eye
    weight = torch.linalg.solve(covariance + ridge, cross)  # (P, t_in)
    return weight, y_mean - (weight * x_mean).sum(1)


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
        title="Per-mode linear propagator",
        cites="Schmid, Dynamic mode decomposition of numerical and experimental data, Journal of "
        "Fluid Mechanics 656, 2010",
        differs=(
            "the modes are those of the Laplacian, known before the data; each is forecast by "
            "itself",
        ),
    )
