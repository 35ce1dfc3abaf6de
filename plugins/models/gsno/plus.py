"""What the preset `plus` adds to the operator: gradients of modes, alignment, a joint decode."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import gsnobench as gb
from gsnobench.meshes.interpolation import interpolation
from gsnobench.meshes.operators import gradient

# ---------------------------------------------------------------------------------- of the geometry


def gradient_modes(mesh: gb.Mesh, values: gb.Array, vectors: gb.Array) -> list[gb.Array]:
    """Gradients of the modes over the roots of their eigenvalues, one (N, k) per dimension.

    As vectors they are orthonormal again.
    """
    # a constant mode has no gradient, whatever its root
    roots = np.sqrt(np.maximum(values, 1e-6 * values[-1]))
    return [matrix @ vectors / roots for matrix in gradient(mesh)]


def carry(stored: gb.Summary, mesh: gb.Mesh) -> gb.Array:
    """The modes of the training mesh, interpolated to the nodes of another mesh: (N, k)."""
    source = gb.Mesh(points=stored["points"], cells=stored.get("cells"))
    return np.asarray(interpolation(source, mesh.points) @ stored["modes"])


# ------------------------------------------------------------------------------------------ of time


class JointDecode(nn.Module):
    """Frames as k_t temporal functions of each graph mode: sum_p phi_p sum_q psi_pq(t) a_pq.

    The functions are cosines until `solve` replaces them by those that best describe what the
    propagator leaves over.
    """

    def __init__(self, task: gb.Task, width: int, modes: int, k_t: int) -> None:
        super().__init__()
        self.fields, k_t = len(task.fields), min(k_t, task.t_out)
        self.weight = nn.Parameter(torch.randn(width, k_t * self.fields) * 0.1 / width)
        time = (torch.arange(task.t_out) + 0.5) / task.t_out
        cosines = torch.cos(torch.pi * torch.arange(k_t)[:, None] * time)  # (k_t, t_out)
        self.waves: Tensor
        self.register_buffer("waves", cosines.expand(modes, -1, -1).contiguous())  # (k, k_t, t_out)

    def forward(self, c: Tensor) -> Tensor:
        """Modal coefficients of the latent (G, k, S*C) -> of the frames (G, k, S*t_out*fields)."""
        a = c.unflatten(-1, (-1, self.weight.shape[0])) @ self.weight  # (G, k, S, k_t*fields)
        a = a.unflatten(-1, (-1, self.fields))  # (G, k, S, k_t, fields)
        return (self.waves.mT[:, None] @ a).flatten(2)  # (G, k, S*t_out*fields)


def solve(hints: gb.ComputedInputs, joint: JointDecode | None, fit: gb.Fit) -> None:
    """Fit the propagator of every mode by ridge regression, then the functions of its residual."""
    assert hints.propagator is not None
    left = gb.fit_propagator(hints.propagator, fit)  # (k, S, t_out*C)
    if joint is None:  # a latent with a time axis has no such functions
        return
    k_t, t_out = joint.waves.shape[1:]
    courses = left.unflatten(-1, (t_out, -1)).transpose(1, 2).flatten(2)  # (k, t_out, S*C)
    _, vectors = torch.linalg.eigh(courses @ courses.mT)  # (k, t_out, t_out), the main one last
    joint.waves.copy_(vectors.flip(2)[..., :k_t].mT * t_out**0.5)
