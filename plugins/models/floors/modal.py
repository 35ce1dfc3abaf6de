"""Floor `modal`: a linear law of motion for each Laplacian mode, from the window's coefficients to
each later frame.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import gsnobench as gb
from gsnobench.meshes.modes import eigenbasis

GSNOBENCH_API = 1
# of a window that begins where evaluated ones do; any other window of a trajectory counts 1
START_WEIGHT = 10.0


class Params(gb.Params):
    k: int = gb.knob(
        default=256,
        low=1,
        high=1024,
        log=True,
        geometry=True,
        search=False,
        help="Laplacian modes, at most one for two nodes",
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
    """a = Phi^T M u, a_p(lag) = w_{p,lag} . (a_p over the window) + b_{p,lag}, u = Phi a: each
    field and mode by itself.

    What the modes do not carry is dropped: the prediction lies in their span.
    """

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.strength = params.strength
        self.weight: torch.Tensor
        self.offset: torch.Tensor
        self.register_buffer("weight", torch.empty(0))  # (K, C, t_out, t_in)
        self.register_buffer("offset", torch.empty(0))  # (t_out, K, C)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        # (B, t_in, K, C)
        known = analyse(batch.geometry["phi"], batch.geometry["mass"], batch.window)
        # (B, t_out, K, C)
        future = torch.einsum("bikc,kcoi->bokc", known, self.weight) + self.offset
        return torch.matmul(batch.geometry["phi"][:, None], future)  # (B, t_out, N, C)


def analyse(phi: torch.Tensor, mass: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    """Coefficients of node values: phi (1, N, K), mass (1, N), frames (B, T, N, C) -> (B, T, K, C)."""
    return torch.matmul((phi * mass[..., None]).transpose(1, 2)[:, None], frames)


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """How many modes there are: as many on any other mesh; the upper half of a mesh's spectrum is
    not the domain's.
    """
    return {"modes": np.array([min(params.k, train.mesh(0).size // 2)])}


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Neumann modes, which assume nothing about boundary values."""
    basis = eigenbasis(mesh, int(summary["modes"][0]), kind="fem")
    return {"phi": gb.Part(basis.vectors, ("node", "mode")), "mass": gb.Part(basis.mass, ("node",))}


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """One small ridge a mode, field and lag, on all windows of the training trajectories."""
    assert isinstance(module, Modal)
    task, device = fit.task, module.weight.device
    parts = next(iter(fit.batches("train")))[0].geometry
    phi, mass = parts["phi"].cpu().double(), parts["mass"].cpu().double()
    centre = torch.tensor([one.reference for one in task.fields], dtype=torch.float64)
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
    # (K, C, t_out, t_in)
    weight = torch.stack([w for w, _ in laws], dim=1).unflatten(0, (modes, fields))
    offset = torch.stack([b for _, b in laws]).unflatten(1, (modes, fields))  # (t_out, K, C)
    module.weight, module.offset = weight.float().to(device), offset.float().to(device)


def regress(
    products: torch.Tensor, means: torch.Tensor, lag: int, task: gb.Task, strength: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (P, t_in) and offsets (P,) of P series for one lag, from the mean of a(t) a(t') and
    of a(t) over samples.
    """
    # windows whose target lies inside the trajectory
    first = torch.arange(means.shape[1] - task.t_in - lag)
    # (n, t_in), (n,)
    window, target = first[:, None] + torch.arange(task.t_in), first + task.t_in + lag
    share = torch.where(torch.isin(first, torch.tensor(task.starts)), START_WEIGHT, 1.0).double()
    share = share / share.sum()
    x_mean, y_mean = torch.einsum("pni,n->pi", means[:, window], share), means[:, target] @ share
    second = torch.einsum("pnij,n->pij", products[:, window[:, :, None], window[:, None, :]], share)
    cross = (
        torch.einsum("pni,n->pi", products[:, window, target[:, None]], share)
        - x_mean * y_mean[:, None]
    )
    covariance = second - x_mean[:, :, None] * x_mean[:, None, :]  # (P, t_in, t_in)
    variance = covariance.diagonal(dim1=1, dim2=2).mean(1)  # (P,)
    ridge = (strength * variance).clamp_min(1e-300)[:, None, None] * torch.eye(
        task.t_in, dtype=torch.float64
    )
    weight = torch.linalg.solve(covariance + ridge, cross)  # (P, t_in)
    return weight, y_mean - (weight * x_mean).sum(1)


def declines(task: gb.Task) -> str | None:
    if task.t_in == 0:
        return "no frame is given, so there is no motion to continue"
    return None if task.fixed_mesh else "mode p means another shape on another geometry"


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    capable = gb.Capability
    return gb.Model(
        "modal",
        Params,
        Modal,
        presets={"default": gb.Preset(inputs="none", outputs="none", points="none")},
        geometry=geometry,
        summary=summary,
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
        capabilities=frozenset(
            {
                *(capable.UNSTEADY, capable.FIXED_GEOMETRY, capable.THREE_DIMENSIONS),
                *(capable.OTHER_MESH, capable.PERMUTATION_EQUIVARIANT),
            }
        ),
        is_floor=True,
        title="Per-mode linear propagator",
        cites="Schmid, Dynamic mode decomposition of numerical and experimental data, Journal of "
        "Fluid Mechanics 656, 2010",
        differs=(
            "the modes are those of the Laplacian, known before the data; each moves by itself",
        ),
    )
