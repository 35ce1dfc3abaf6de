"""Computed inputs: boundary distances, contrasts of static inputs, and a linear propagator.

Nothing of them is learned by gradient descent; the propagator is fitted in closed form.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from gsnobench.batch import Batch
from gsnobench.data import Array, Mesh, Task
from gsnobench.declare import Fit, Geometry, Part
from gsnobench.meshes.distances import boundary_distance
from gsnobench.meshes.modes import eigenbasis
from gsnobench.meshes.operators import lumped_mass

SMOOTHING_MODES = 256
SMOOTHING_LENGTHS = (0.02, 0.05, 0.12)  # relative to the size of the domain
RIDGE = 1e-5  # of the propagator, relative to the mean energy of its inputs

# --------------------------------------------------------------------------- from the geometry


def smoothing_lengths(task: Task) -> tuple[float, ...]:
    """The lengths over which static inputs are smoothed for their contrasts.

    None in space: the wavelengths of so many modes are all longer than the longest length.
    """
    return SMOOTHING_LENGTHS if task.static and task.dim < 3 else ()


def domain_length(mesh: Mesh) -> float:
    """The side of a cube that is as large as the domain."""
    return float(lumped_mass(mesh).sum()) ** (1 / mesh.dim)


def computed_geometry(mesh: Mesh, task: Task, length: float) -> Geometry:
    """Distances to the tagged boundaries; low modes and their decay in a step of the heat flow."""
    distances = [_distance(mesh, tag, length) for tag in task.tags]
    distance = np.stack(distances, 1) if distances else np.zeros((mesh.size, 0))
    parts = {"distance": Part(distance, ("node", "tag"))}
    lengths = smoothing_lengths(task)
    if not lengths:
        return parts
    basis = eigenbasis(mesh, min(SMOOTHING_MODES, mesh.size // 2))
    squares = np.array(lengths)[:, None] ** 2 * length**2 * basis.values  # (scales, m)
    parts["heat"] = Part(basis.vectors, ("node", "heat"))
    parts["heat_mass"] = Part(basis.mass, ("node",))
    parts["decay"] = Part(1 / (1 + squares), ("scale", "heat"))  # an implicit Euler step
    return parts


def _distance(mesh: Mesh, tag: str, length: float) -> Array:
    """Distance to the nodes of a tag, (N,); 1 everywhere if the mesh has no such node."""
    if not mesh.tag_matrix((tag,)).any():
        return np.ones(mesh.size)
    return boundary_distance(mesh, tag) / length


# ----------------------------------------------------------------------------- from the window


class Propagator(nn.Module):
    """Each mode by itself, linearly from the window to all frames: a_p(t) = sum_s w_p(s, t) a_p(s).

    Fitted in closed form and without a constant term, so that the sign of a mode has no effect.
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


def fit_propagator(propagator: Propagator, fit: Fit) -> Tensor:
    """Ridge regression for each mode; returns the residual of the training targets.

    The residual is (k, S, t_out*C) in float64.
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


# --------------------------------------------------------------------------------- all of them


class ComputedInputs(nn.Module):
    """All computed inputs of a batch, and the propagator's trajectory."""

    def __init__(self, task: Task, has_features: bool, propagated: int, modes: int) -> None:
        super().__init__()
        self.task, self.has_features = task, has_features
        count = min(propagated, task.t_out) * min(1, task.t_in)  # no window, nothing to propagate
        # frames that are shown, evenly spaced, the last among them
        self.shown = [round((i + 1) * task.t_out / count) - 1 for i in range(count)]
        self.propagator = Propagator(task, modes) if count else None
        own = len(task.tags) + len(smoothing_lengths(task)) * len(task.static)
        self.channels = own * has_features + count * len(task.fields)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, N, channels), and the trajectory to start from, (B, t_out, N, C).

        Always in full precision, as it is scored. Where the window is a model's own prediction,
        gradients pass through.
        """
        with _without_autocast(batch.static.device.type):
            return self._in_full_precision(batch)

    def _in_full_precision(self, batch: Batch) -> tuple[Tensor, Tensor]:
        inputs = self._from_geometry(batch) if self.has_features else []
        if self.propagator is None:
            shape = (batch.size, self.task.t_out, batch.nodes, len(self.task.fields))
            start = batch.static.new_zeros(shape)
        else:
            start = batch.frames(self.propagator(batch))  # (B, t_out, N, C)
            inputs = [*inputs, *(start[:, frame] for frame in self.shown)]
        return torch.cat([batch.static[..., :0], *inputs], -1), start

    def _from_geometry(self, batch: Batch) -> list[Tensor]:
        """Distances (B, N, K), then contrasts of the static inputs, one (B, N, F) per length.

        A contrast is what smoothing over one more length removes. The smoothed values themselves
        are nearly equal, so a network would have to learn their small differences.
        """
        distance = 8 * batch.geometry["distance"].expand(batch.size, -1, -1) - 1  # (B, N, K)
        if "heat" not in batch.geometry:
            return [distance]
        heat, mass, decay = (batch.geometry[name] for name in ("heat", "heat_mass", "decay"))
        c = heat.mT @ (mass[..., None] * batch.static)  # (B, m, F)
        scales = range(decay.shape[1])
        smooth = [batch.static, *(heat @ (decay[:, scale, :, None] * c) for scale in scales)]
        return [distance, *(finer - coarser for finer, coarser in pairwise(smooth))]


def residual_size(inputs: ComputedInputs, fit: Fit) -> Tensor:
    """Root mean square of what the trajectory leaves of the training targets, (t_out, C)."""
    total, count = torch.zeros(()), 0.0
    for batch, target in fit.batches("train"):
        left = (target - inputs(batch)[1]).square()  # (B, t_out, N, C)
        if batch.mask is not None:
            left = left * batch.mask[:, None, :, None]
        total = total.to(left.device) + left.double().sum((0, 2))
        count += batch.size * batch.nodes if batch.mask is None else float(batch.mask.sum())
    return (total / count).sqrt().clamp_min(1e-6).float()


def _without_autocast(device_type: str) -> AbstractContextManager[None]:
    if not torch.amp.is_autocast_available(device_type):
        return nullcontext()
    return torch.autocast(device_type, enabled=False)
