"""Inputs that nothing is learned for: boundary distances, smoothed static inputs, a linear
propagator in closed form.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from gsnobench.batch import Batch
from gsnobench.data import Mesh, Task
from gsnobench.declare import Fit, Geometry, Part
from gsnobench.meshes.distances import boundary_distance
from gsnobench.meshes.modes import eigenbasis
from gsnobench.meshes.operators import lumped_mass

SMOOTHING_MODES = 256
SMOOTHING_LENGTHS = (0.02, 0.05, 0.12)  # relative to the size of the domain
RIDGE = 1e-5  # of the propagator, relative to the mean energy of its inputs

# ---------------------------------------------------------------------------------- of the geometry


def smoothing_lengths(task: Task) -> tuple[float, ...]:
    """Over which lengths static inputs are smoothed; in space so many modes are all longer than the
    longest of them.
    """
    return SMOOTHING_LENGTHS if task.static and task.dim < 3 else ()


def domain_length(mesh: Mesh) -> float:
    """The side of a cube as large as the domain."""
    return float(lumped_mass(mesh).sum()) ** (1 / mesh.dim)


def feature_geometry(mesh: Mesh, task: Task, length: float) -> Geometry:
    """Distance to every tagged boundary, and low modes with their decay in an implicit step of the
    heat flow.
    """
    distance = [
        boundary_distance(mesh, tag) / length
        if mesh.tag_matrix((tag,)).any()
        else np.ones(mesh.size)
        for tag in task.tags
    ]
    parts = {
        "distance": Part(
            np.stack(distance, 1) if distance else np.zeros((mesh.size, 0)), ("node", "tag")
        )
    }
    lengths = smoothing_lengths(task)
    if not lengths:
        return parts
    basis = eigenbasis(mesh, min(SMOOTHING_MODES, mesh.size // 2))
    squares = np.array(lengths)[:, None] ** 2 * length**2 * basis.values  # (scales, m)
    parts["heat"] = Part(basis.vectors, ("node", "heat"))
    parts["heat_mass"] = Part(basis.mass, ("node",))
    parts["decay"] = Part(1 / (1 + squares), ("scale", "heat"))
    return parts


# ------------------------------------------------------------------------------------------ of time


class Propagator(nn.Module):
    """Every mode by itself, linearly from the window to all frames: a_p(t) = sum_s w_p(s, t)
    a_p(s).

    Fitted in closed form, no constant term: the sign of a mode does not matter.
    """

    def __init__(self, task: Task, modes: int) -> None:
        super().__init__()
        fields = len(task.fields)
        self.weight: Tensor
        self.register_buffer("weight", torch.zeros(modes, task.t_in * fields, task.t_out * fields))

    def forward(self, batch: Batch) -> Tensor:
        """Window -> (B, N, t_out*C)."""
        phi = batch.geometry["modes"][..., : self.weight.shape[0]]  # (G, N, k)
        a = self.coefficients(batch, batch.window)  # (B, k, t_in*C)
        return phi @ torch.einsum("bpi,pio->bpo", a, self.weight)  # (B, N, t_out*C)

    def coefficients(self, batch: Batch, frames: Tensor) -> Tensor:
        """Modal coefficients of frames (B, T, N, C): (B, k, T*C)."""
        phi = batch.geometry["modes"][..., : self.weight.shape[0]]  # (G, N, k)
        values = frames.permute(0, 2, 1, 3).flatten(2)  # (B, N, T*C)
        return phi.mT @ (batch.geometry["mass"][..., None] * values)


class Hints(nn.Module):
    """Inputs that nothing is learned for: boundary distances, smoothed static inputs, the linear
    propagator's frames.
    """

    def __init__(self, task: Task, has_features: bool, propagated: int, modes: int) -> None:
        super().__init__()
        self.task, self.has_features = task, has_features
        # without a window there is nothing to propagate
        count = min(propagated, task.t_out) * min(1, task.t_in)
        # frames, the last among them
        self.shown = [round((i + 1) * task.t_out / count) - 1 for i in range(count)]
        self.propagator = Propagator(task, modes) if count else None
        own = len(task.tags) + len(smoothing_lengths(task)) * len(task.static)
        self.channels = own * has_features + count * len(task.fields)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, N, channels), and the trajectory to start from, (B, t_out, N, C).

        In full precision, whatever the rest is trained in: it is scored so. Where a window is the
        model's own answer, gradients pass through.
        """
        kind = batch.static.device.type
        with (
            torch.autocast(kind, enabled=False)
            if torch.amp.is_autocast_available(kind)
            else nullcontext()
        ):
            return self._in_full(batch)

    def _in_full(self, batch: Batch) -> tuple[Tensor, Tensor]:
        hints = self._of_geometry(batch) if self.has_features else []
        if self.propagator is None:
            start = batch.static.new_zeros(
                (batch.size, self.task.t_out, batch.nodes, len(self.task.fields))
            )
        else:
            start = batch.frames(self.propagator(batch))  # (B, t_out, N, C)
            hints = [*hints, *(start[:, frame] for frame in self.shown)]
        return torch.cat([batch.static[..., :0], *hints], -1), start

    def _of_geometry(self, batch: Batch) -> list[Tensor]:
        distance = 8 * batch.geometry["distance"].expand(batch.size, -1, -1) - 1  # (B, N, K)
        if "heat" not in batch.geometry:
            return [distance]
        heat, mass, decay = (batch.geometry[name] for name in ("heat", "heat_mass", "decay"))
        c = heat.mT @ (mass[..., None] * batch.static)  # (B, m, F)
        # each (B, N, F)
        return [
            distance,
            *(heat @ (decay[:, scale, :, None] * c) for scale in range(decay.shape[1])),
        ]


def fit_propagator(propagator: Propagator, fit: Fit) -> Tensor:
    """Ridge regression for every mode; returns what it leaves of the training targets, (k, S,
    t_out*C), in float64.
    """
    pairs = [
        (propagator.coefficients(batch, batch.window), propagator.coefficients(batch, target))
        for batch, target in fit.batches("train")
    ]
    # (k, S, t_in*C), (k, S, t_out*C)
    x, y = (torch.cat(parts).double().transpose(0, 1) for parts in zip(*pairs, strict=True))
    gram = x.mT @ x  # (k, t_in*C, t_in*C)
    strength = RIDGE * gram.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-30)  # (k,)
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    # (k, t_in*C, t_out*C)
    weight = torch.linalg.solve(gram + strength[:, None, None] * eye, x.mT @ y)
    propagator.weight.copy_(weight)
    return y - x @ weight
