"""The numerical solver as a map of torch tensors, with gradients by its adjoint.

With it every sampler and the Laplace approximation work on the solver as they do on a trained run,
and the posterior of the solver is the reference of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gsnobench.data import Array
from gsnobench.studies.inverse.problems import World

Pull = Callable[[Array], Array]  # weights of the frame (N,) -> gradient (K,)
Solve = Callable[[Array], tuple[Array, Pull]]  # coefficients (K,) -> frame (N,)


def frames_of(world: World) -> Callable[[torch.Tensor], torch.Tensor]:
    """Coefficients (B, K) -> the frames that the solver of the data gives, (B, N)."""

    def frames(xi: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(_Solved.apply(xi, world.solved))

    return frames


class _Solved(torch.autograd.Function):
    """One solve per point, and one adjoint solve per row of a gradient."""

    @staticmethod
    def forward(ctx: Any, xi: torch.Tensor, solve: Solve) -> torch.Tensor:
        solved: dict[bytes, tuple[Array, Pull]] = {}
        rows = list(xi.detach().numpy())
        for row in rows:  # a derivative asks for one point as often as there are sensors
            if (point := row.tobytes()) not in solved:
                solved[point] = solve(row)
        frames, ctx.pulls = zip(*(solved[row.tobytes()] for row in rows), strict=True)
        return torch.from_numpy(np.stack(frames))

    @staticmethod
    def backward(ctx: Any, *weights: torch.Tensor) -> tuple[torch.Tensor, None]:
        pairs = zip(ctx.pulls, weights[0].numpy(), strict=True)
        return torch.from_numpy(np.stack([pull(row) for pull, row in pairs])), None
