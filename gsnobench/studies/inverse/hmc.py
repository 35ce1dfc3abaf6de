"""Hamiltonian Monte Carlo whose free motion is the exact rotation of N(0, I).

Beskos, Pinski, Sanz-Serna, Stuart 2011, doi:10.1016/j.spa.2011.06.003. The whole turn is at most a
right angle: with a flat potential the end is then independent of the start, and no turn leads back.
"""

from __future__ import annotations

import math

import torch

from gsnobench.studies.inverse.target import Noise, State, Target

LEAPS = 5  # of one draw
LARGEST = 0.5 * math.pi  # the whole angle


def step(
    target: Target, state: State, size: float, noise: Noise, leaps: int = LEAPS
) -> tuple[State, torch.Tensor]:
    """One trajectory of every chain, and the probability of acceptance."""
    angle = min(size, LARGEST / leaps)
    velocity = noise.normal(*state.z.shape)
    here, v = state, velocity
    for _ in range(leaps):
        here, v = leap(target, here, v, angle)
    return noise.decide(state, here, _energy(state, velocity) - _energy(here, v))


def leap(target: Target, state: State, v: torch.Tensor, angle: float) -> tuple[State, torch.Tensor]:
    """Half a kick, a rotation, half a kick; one leap is then one step of `mala`."""
    cos, sin, kick = math.cos(angle), math.sin(angle), math.tan(0.5 * angle)
    v = v - kick * state.slope
    other = target.with_gradient(cos * state.z + sin * v)
    v = cos * v - sin * state.z
    return other, v - kick * other.slope


def _energy(state: State, velocity: torch.Tensor) -> torch.Tensor:
    squares = state.z.square().sum(-1) + velocity.square().sum(-1)
    return state.potential + 0.5 * squares
