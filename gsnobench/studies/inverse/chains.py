"""Runs the chains of a sampler: a burn-in that finds the step size, then draws that are kept.

A draw of every sampler costs the same: one with cheaper steps makes more of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gsnobench.data import Array
from gsnobench.studies.inverse import hmc, mala, pcn, rwm
from gsnobench.studies.inverse.target import Noise, State, Target

GRADIENT = 3  # a gradient costs as much as so many evaluations
Step = Callable[[Target, State, float, Noise], tuple[State, torch.Tensor]]


@dataclass(frozen=True, eq=False)
class Sampler:
    """A Markov kernel and what the loop must know of it."""

    step: Step
    goal: float  # probability of acceptance that the burn-in aims at
    steps: int  # per draw
    needs_gradient: bool = False


HMC_COST = GRADIENT * hmc.LEAPS
SAMPLERS = {
    "rwm": Sampler(rwm.step, 0.234, HMC_COST),
    "pcn": Sampler(pcn.step, 0.25, HMC_COST),
    "mala": Sampler(mala.step, 0.574, HMC_COST // GRADIENT, needs_gradient=True),
    "hmc": Sampler(hmc.step, 0.8, 1, needs_gradient=True),
}


@dataclass(frozen=True, eq=False)
class Chains:
    """The kept draws of B chains."""

    draws: Array  # (B, D, K)
    accepted: float  # share of the proposals after the burn-in
    size: float  # of the steps
    cpu_s: float  # of the steps, burn-in included


class StepSize:
    """Dual averaging of the logarithm (Hoffman, Gelman 2014, section 3.2), over all chains."""

    def __init__(self, first: float, goal: float) -> None:
        self.value, self.goal = first, goal
        self._centre = math.log(10.0 * first)
        self._count, self._gap, self._mean = 0, 0.0, 0.0

    def learn(self, probability: float) -> None:
        """Take in the mean probability of acceptance of a step."""
        self._count += 1
        share = 1.0 / (self._count + 10.0)
        self._gap += share * (self.goal - probability - self._gap)
        log_size = self._centre - math.sqrt(self._count) / 0.05 * self._gap
        weight = self._count**-0.75
        self._mean += weight * (log_size - self._mean)
        self.value = math.exp(min(log_size, 2.0))

    @property
    def settled(self) -> float:
        return math.exp(min(self._mean, 2.0)) if self._count else self.value


def run_chains(
    sampler: Sampler, target: Target, start: torch.Tensor, *, burn: int, draws: int, seed: int
) -> Chains:
    """Chains from these starts (B, K); the step size is learnt in the burn-in alone."""
    noise, begun = Noise.of(seed), time.process_time()
    state = (target.with_gradient if sampler.needs_gradient else target.at)(start.double())
    size, kept, accepted = StepSize(0.1, sampler.goal), [], []
    for draw in range(burn + draws):
        for _ in range(sampler.steps):
            chosen = size.value if draw < burn else size.settled
            state, probability = sampler.step(target, state, chosen, noise)
            if draw < burn:
                size.learn(float(probability.mean()))
            else:
                accepted.append(float(probability.mean()))
        if draw >= burn:
            kept.append(state.z.numpy())
    cpu_s = time.process_time() - begun
    return Chains(np.stack(kept, axis=1), float(np.mean(accepted)), size.settled, cpu_s)
