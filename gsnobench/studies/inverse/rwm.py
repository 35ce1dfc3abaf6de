"""Random walk Metropolis: z' = z + s noise. Its best step shrinks with the dimension."""

from __future__ import annotations

import torch

from gsnobench.studies.inverse.target import Noise, State, Target


def step(target: Target, state: State, size: float, noise: Noise) -> tuple[State, torch.Tensor]:
    """One step of every chain, and the probability of acceptance."""
    other = target.at(state.z + size * noise.normal(*state.z.shape))
    return noise.decide(state, other, _energy(state) - _energy(other))


def _energy(state: State) -> torch.Tensor:
    """Minus the logarithm of the whole density, (B,)."""
    return state.potential + 0.5 * state.z.square().sum(-1)
