"""Preconditioned Crank-Nicolson: z' = sqrt(1 - b^2) z + b noise leaves N(0, I) alone.

Only the potential decides, so the step does not shrink with the dimension (Cotter, Roberts, Stuart,
White 2013, doi:10.1214/13-STS421).
"""

from __future__ import annotations

import math

import torch

from gsnobench.studies.inverse.target import Noise, State, Target


def step(target: Target, state: State, size: float, noise: Noise) -> tuple[State, torch.Tensor]:
    """One step of every chain, and the probability of acceptance."""
    b = min(size, 1.0)
    z = math.sqrt(1.0 - b * b) * state.z + b * noise.normal(*state.z.shape)
    other = target.at(z)
    return noise.decide(state, other, state.potential - other.potential)
