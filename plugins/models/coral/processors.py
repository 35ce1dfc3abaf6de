"""The processors of CORAL: small networks that map codes of inputs to codes of frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from gsnobench_plugins.models.coral.model import Params


class Swish(nn.Module):
    """x sigmoid(softplus(b) x) / 1.1."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        scale = functional.softplus(self.beta)
        return functional.silu(scale * x) / (1.1 * scale)


class Steady(nn.Module):
    """Codes of the inputs and scalars -> codes of the frames."""

    def __init__(self, params: Params, scalars: int, frames: int) -> None:
        super().__init__()
        latent, width = params.latent, params.processor
        self.scalars = nn.Linear(scalars, latent, bias=False) if scalars else None
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(latent, width), Swish(), nn.Linear(width, latent), Swish())
            for _ in range(params.blocks)
        )
        self.last = nn.Linear(latent, frames * latent)

    def forward(self, z: Tensor, scalars: Tensor) -> Tensor:
        """(B, dz), (B, P) -> (B, t_out, dz)."""
        z = z if self.scalars is None else z + self.scalars(scalars)
        for block in self.blocks:
            z = z + block(z)
        return self.last(z).unflatten(1, (-1, z.shape[1]))


class Dynamics(nn.Module):
    """Codes of the last frames, and what is constant in time -> codes of the next frames."""

    def __init__(self, params: Params, window: int, further: int) -> None:
        super().__init__()
        widths = [window * params.latent + further, *[params.processor] * params.blocks]
        layers: list[nn.Module] = []
        for a, b in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(a, b), Swish()]
        self.rate = nn.Sequential(*layers, nn.Linear(widths[-1], params.latent))

    def next(self, window: Sequence[Tensor], further: Tensor) -> Tensor:
        """The next frame: t_in codes (B, dz) and (B, Q) -> (B, dz)."""
        z = window[-1]
        if len(window) > 1:
            return z + self.rate(torch.cat([*window, further], 1))

        def rate(at: Tensor) -> Tensor:
            return self.rate(torch.cat([at, further], 1))

        first = rate(z)  # the classical Runge-Kutta method of order 4
        second = rate(z + first / 2)
        third = rate(z + second / 2)
        return z + (first + 2 * second + 2 * third + rate(z + third)) / 6

    def forward(
        self,
        window: Tensor,
        further: Tensor,
        frames: int,
        truth: Tensor | None = None,
        forced: float = 0.0,
    ) -> Tensor:
        """(B, t_in, dz) -> (B, frames, dz).

        With a truth, each frame continues from the true code with probability `forced`.
        """
        codes, predicted, is_forced = list(window.unbind(1)), [], None
        if forced:
            is_forced = torch.rand(len(window), frames, 1).to(window.device) < forced
        for frame in range(frames):
            z = self.next(codes, further)
            predicted.append(z)
            if truth is not None and is_forced is not None:
                z = torch.where(is_forced[:, frame], truth[:, frame], z)
            codes = [*codes[1:], z]
        return torch.stack(predicted, 1)
