"""Langevin steps that leave N(0, I) alone: half-implicit in the prior, explicit in the potential.

The proposal "pCNL" of Cotter, Roberts, Stuart, White 2013, doi:10.1214/13-STS421, section 4.3.
"""

from __future__ import annotations

import math

import torch

from gsnobench.studies.inverse.target import Noise, State, Target


def step(target: Target, state: State, size: float, noise: Noise) -> tuple[State, torch.Tensor]:
    """One step of every chain, and the probability of acceptance; size^2 is the step in time."""
    d = min(size, 1.4) ** 2  # at d = 2 nothing would be left of the old state
    drift = (2.0 - d) * state.z - 2.0 * d * state.slope
    z = (drift + math.sqrt(8.0 * d) * noise.normal(*state.z.shape)) / (2.0 + d)
    other = target.with_gradient(z)
    return noise.decide(state, other, _cost(state, other, d) - _cost(other, state, d))


def _cost(here: State, there: State, d: float) -> torch.Tensor:
    """rho(here, there) of the paper: a move is accepted with exp(rho(u, v) - rho(v, u))."""
    ahead = 0.5 * ((there.z - here.z) * here.slope).sum(-1)
    turn = 0.25 * d * ((there.z + here.z) * here.slope).sum(-1)
    return here.potential + ahead + turn + 0.25 * d * here.slope.square().sum(-1)
