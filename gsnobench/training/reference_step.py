"""The reference step: a fixed piece of training by which machines can be compared.

CPU-seconds of one machine are divided by those of this step, timed in the same process. A machine
that is half as fast, or busy, then has the same normalised cost.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

WIDTH, NODES, SAMPLES, MODES = 48, 450, 2, 32  # small: it is timed twice in every run
LAYERS = 2
WARM_UP, TIMED = 3, 11


def reference_step_s() -> float:
    """CPU-seconds of one reference step, median of several; the random state stays as it is."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        step = _Step()
        seconds = []
        for _ in range(WARM_UP + TIMED):
            begun = time.process_time()
            step()
            seconds.append(time.process_time() - begun)
    return median(seconds[WARM_UP:])


class _Step:
    """One optimiser step of a small spectral network: matrix products, pointwise maps, gathers."""

    def __init__(self) -> None:
        self.net = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU()
        )
        self.kernel = nn.Parameter(torch.randn(MODES, WIDTH, WIDTH) / WIDTH)
        self.modes = torch.randn(NODES, MODES) / NODES**0.5
        self.x = torch.randn(SAMPLES, NODES, WIDTH)
        self.neighbour = torch.randint(0, NODES, (NODES,))
        self.optimiser = torch.optim.Adam([*self.net.parameters(), self.kernel], lr=1e-4)

    def __call__(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        x = self.x
        for _ in range(LAYERS):
            modes = torch.einsum("nk,bnc->bkc", self.modes, x)  # (B, K, C)
            mixed = torch.einsum("bkc,kcd->bkd", modes, self.kernel)  # (B, K, C)
            x = self.net(x) + torch.einsum("nk,bkc->bnc", self.modes, mixed)
            x = x + x[:, self.neighbour]
        x.square().mean().backward()
        self.optimiser.step()
