"""The reference step: a fixed piece of training by which machines can be compared.

CPU-seconds of one machine are divided by those of this step, timed in the same process and again
and again during the training, as the speed of a machine changes from one second to the next. A
machine that is half as fast, or busy, then has the same normalised cost.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

from gsnobench.training.checkpoint import Clock

WIDTH, NODES, SAMPLES, MODES = 48, 450, 2, 32  # small: it is timed many times in every run
LAYERS = 2
WARM_UP, TIMED = 1, 5


class Metronome:
    """Times the reference step beside a training: at its start, its end and every few seconds."""

    def __init__(self, clock: Clock, every_s: float) -> None:
        self.clock = clock
        self.every_s = every_s  # CPU-seconds of training between two readings
        self.step = ReferenceStep()
        self.read()

    def tick(self, *, is_last: bool) -> None:
        """A step of the training has ended: read the reference step if it is time."""
        if is_last or self.clock.train_cpu_s - self.last >= self.every_s:
            self.read()

    def read(self) -> None:
        """Add one reading, a median of a few steps, to those of the clock."""
        self.last = self.clock.train_cpu_s
        self.clock.reference_sum_s += self.step.median_s()
        self.clock.reference_readings += 1


class ReferenceStep:
    """One optimiser step of a small spectral network: matrix products, pointwise maps, gathers."""

    def __init__(self) -> None:
        with torch.random.fork_rng(devices=[]):  # the random state stays as it is
            torch.manual_seed(0)
            self._make()

    def median_s(self) -> float:
        """CPU-seconds of one step, median of a few."""
        seconds = []
        with torch.enable_grad():
            for _ in range(WARM_UP + TIMED):
                begun = time.process_time()
                self()
                seconds.append(time.process_time() - begun)
        return median(seconds[WARM_UP:])

    def _make(self) -> None:
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
