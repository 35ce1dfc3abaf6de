"""The posterior of the numerical solver itself, by delayed acceptance.

A chain of the surrogate proposes, the solver decides. The proposal leaves the surrogate's posterior
alone, so that the ratio of both likelihoods makes the chain exact for the solver, however wrong the
surrogate is (Christen, Fox 2005, doi:10.1198/106186005X76983). A bad surrogate costs acceptance.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from gsnobench.studies.inverse.chains import SAMPLERS, Chains, StepSize
from gsnobench.studies.inverse.target import Noise, State, Target

PROPOSAL = SAMPLERS["pcn"]
Progress = Callable[[int, int], None]


def run(
    surrogate: Target,
    solver: Target,
    start: torch.Tensor,
    *,
    burn: int,
    draws: int,
    seed: int,
    progress: Progress = lambda done, total: None,
) -> Chains:
    """Chains of the solver's posterior; both targets are relative to the same law."""
    noise, begun = Noise.of(seed), time.process_time()
    rough, fine = surrogate.at(start.double()), solver.at(start.double())
    size, kept, accepted = StepSize(0.1, PROPOSAL.goal), [], []
    for draw in range(burn + draws):
        other = rough
        for _ in range(PROPOSAL.steps):
            chosen = size.value if draw < burn else size.settled
            other, probability = PROPOSAL.step(surrogate, other, chosen, noise)
            if draw < burn:
                size.learn(float(probability.mean()))
        exact = _where_moved(solver, fine, other)
        ratio = (fine.potential - exact.potential) - (rough.potential - other.potential)
        fine, chance = noise.decide(fine, exact, ratio)
        moved = (fine.z == exact.z).all(-1)
        rough = rough.moved_to(other, moved)
        if draw >= burn:
            kept.append(fine.z.numpy())
            accepted.append(float(chance.mean()))
        progress(draw + 1, burn + draws)
    cpu_s = time.process_time() - begun
    return Chains(np.stack(kept, axis=1), float(np.mean(accepted)), size.settled, cpu_s)


def _where_moved(solver: Target, fine: State, other: State) -> State:
    """The solver at the proposal; a chain that has not moved needs no solve."""
    moved = (fine.z != other.z).any(-1)
    potential = fine.potential.clone()
    if bool(moved.any()):
        potential[moved] = solver.at(other.z[moved]).potential
    return State(other.z, potential)
