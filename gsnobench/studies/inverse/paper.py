"""The sampler that the GSNO paper prints, to the letter, with what it leaves open chosen kindly.

Printed: the unknown is the value a at every node, its prior N(0, s^2 I), the observation the whole
noise-free frame u, the log posterior -|f(a) - u|^2 / 2 - |a|^2 / (2 s^2), Metropolis-Hastings with
5000 steps of which 500 are dropped. Not printed: s, the proposal, the start, units. Here s is 1,
the proposal a random walk whose step the dropped part tunes, the start a draw from the prior, and
units are physical. In other words it is `rwm` in z = a / s.

White noise at the nodes is no function and may be negative, and a noise of variance 1 on a frame of
size 0.01 leaves the likelihood flat: the chain sees its prior alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gsnobench.data import Array
from gsnobench.studies.inverse import rwm
from gsnobench.studies.inverse.chains import Chains, Sampler, run_chains
from gsnobench.studies.inverse.target import Noise, Target

DEVIATION = 1.0  # s
STEPS, DROPPED, THINNING = 5000, 500, 5
SAMPLER = Sampler(rwm.step, 0.234, THINNING)


def target(predict: Callable[[torch.Tensor], torch.Tensor], frame: Array) -> Target:
    """The printed posterior relative to its prior; `predict` maps (B, N) to (B, N)."""
    observed = torch.from_numpy(frame)

    def potential(z: torch.Tensor) -> torch.Tensor:
        return 0.5 * (predict(DEVIATION * z) - observed).square().sum(-1)

    return Target(potential, len(frame))


def run(posterior: Target, chains: int, seed: int, start: torch.Tensor | None = None) -> Chains:
    """Chains from draws of the prior, or all from one point; the draws are values of z."""
    if start is None:
        first = Noise.of(seed + 1).normal(chains, posterior.dim)
    else:
        first = start.expand(chains, -1).clone()
    burn, draws = DROPPED // THINNING, (STEPS - DROPPED) // THINNING
    return run_chains(SAMPLER, posterior, first, burn=burn, draws=draws, seed=seed)
