"""What replaces the kernel R of the Graph Spectral Neural Operator in ablation studies."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class IdentityKernel(nn.Module):
    """R = I: the projection on the retained modes, nothing is learned."""

    def __init__(self, waves: Tensor, copies: int) -> None:
        super().__init__()
        self.copies = copies
        self.waves: Tensor
        self.register_buffer("waves", waves, persistent=False)  # (2 k_t - 1, T)

    def forward(self, c: Tensor, level: Tensor) -> Tensor:
        """Modal coefficients (G, k, S, T, C) -> (G, k, S, T, copies*C)."""
        return (self.waves.mT @ (self.waves @ c)).repeat(1, 1, 1, 1, self.copies)


class PerceptronKernel(nn.Module):
    """Without the FFT: a perceptron along time, then one channel matrix per graph mode."""

    def __init__(self, width: int, steps: int, modes: int, copies: int) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(steps, 32), nn.GELU(), nn.Linear(32, steps))
        self.weight = nn.Parameter(torch.randn(modes, 1, width, copies * width) / width)

    def forward(self, c: Tensor, level: Tensor) -> Tensor:
        """Modal coefficients (G, k, S, T, C) -> (G, k, S, T, copies*C)."""
        return self.time(c.mT).mT @ self.weight
