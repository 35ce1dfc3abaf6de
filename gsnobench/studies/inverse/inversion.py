"""The posteriors of one forward map: every sampler on every problem, each kept once it is done.

The map is that of a trained run, or the solver itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from gsnobench.data import Array
from gsnobench.files import Cache
from gsnobench.studies.inverse import paper
from gsnobench.studies.inverse.chains import SAMPLERS, Chains, run_chains
from gsnobench.studies.inverse.posterior import Law, Likelihood, laplace
from gsnobench.studies.inverse.problems import Problem, World
from gsnobench.studies.inverse.target import Noise
from gsnobench.training.fit import mix

RECIPE = "inverse-draws-v1"
COEFFICIENTS = 20  # the first ones are judged: the long waves, which data can say something about
SPREAD = 2.0  # chains start at draws of the law whose deviations are so many times as large
BLOCK = 64  # draws per call of the operator
Map = Callable[[torch.Tensor], torch.Tensor]
PAPER, FROM_TRUTH, SOLVER, REPAIRED = "printed", "printed from the truth", "solver", ", repaired"


@dataclass(frozen=True)
class Settings:
    """How long chains are, and the law that they are relative to."""

    chains: int
    burn: int
    draws: int
    law: str  # laplace or prior


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is kept of the draws of a posterior."""

    quantities: Array  # (B, D, Q): coefficients, mean of the field, frame at an unobserved node
    mean: Array  # (N,) of the input
    deviation: Array  # (N,) of the input
    negative: float  # share of draws and nodes where the input is negative
    accepted: float
    size: float  # of the steps
    cpu_s: float


@dataclass(frozen=True, eq=False)
class Inversion:
    """One forward map on the problems of a world."""

    world: World
    frames: Map  # coefficients (B, K) -> frames (B, N)
    key: Mapping[str, Any]  # what identifies the map
    settings: Settings
    cache: Cache
    errors: Array | None = None  # (V, S) at the sensors, on validation samples
    predict: Map | None = None  # inputs (B, N) -> frames (B, N), for the printed sampler
    _laws: dict[tuple[int, bool], tuple[Law, Likelihood]] = field(default_factory=dict, init=False)

    # ---------------------------------------------------------------------------------- the forward

    def forward(self, xi: torch.Tensor) -> torch.Tensor:
        """The frames at the sensors, (B, S)."""
        return self.frames(xi)[:, self.world.sensors]

    def law_of(self, problem: Problem, *, repaired: bool) -> tuple[Law, Likelihood]:
        """The law that chains are relative to, and the likelihood, with or without the errors."""
        known = (problem.number, repaired)
        if known not in self._laws:
            errors = self.errors if repaired else None
            likelihood = Likelihood.of(problem.data, problem.sigma, errors)
            dim = self.world.inverse.dim
            is_prior = self.settings.law == "prior"
            law = Law.prior(dim) if is_prior else laplace(self.forward, likelihood, dim)
            self._laws[known] = law, likelihood
        return self._laws[known]

    # ------------------------------------------------------------------------------------ the draws

    def drawn(self, label: str, problem: Problem) -> Drawn:
        """The draws of a sampler by its label; what was done before is read."""
        compute = {PAPER: self._paper, FROM_TRUTH: self._paper_from_truth}.get(label)
        if compute is None:
            name, is_repaired = label.removesuffix(REPAIRED), label.endswith(REPAIRED)
            return self._kept(label, problem, lambda: self._sampled(name, problem, is_repaired))
        return self._kept(label, problem, lambda: compute(problem))

    def _kept(self, label: str, problem: Problem, compute: Callable[[], Drawn]) -> Drawn:
        world = self.world
        key = {**self.key, "sampler": label, "problem": problem.number}
        key |= {"sensors": world.sensors.tolist(), "noise": world.noise, **asdict(self.settings)}
        arrays = self.cache.arrays(
            RECIPE, key, lambda: {n: np.asarray(v) for n, v in vars(compute()).items()}
        )
        values: dict[str, Any] = {n: v if v.ndim else float(v) for n, v in arrays.items()}
        return Drawn(**values)

    def _sampled(self, name: str, problem: Problem, is_repaired: bool) -> Drawn:
        law, likelihood = self.law_of(problem, repaired=is_repaired)
        target = law.target(self.forward, likelihood)
        seed, burn, draws = self._seed(name, problem), self.settings.burn, self.settings.draws
        start = self._start(seed, target.dim)
        chains = run_chains(SAMPLERS[name], target, start, burn=burn, draws=draws, seed=seed)
        return self._summary(chains, law)

    def _seed(self, name: str, problem: Problem) -> int:
        return mix("inverse chains", name, problem.number) >> 1

    def _start(self, seed: int, dim: int) -> torch.Tensor:
        """The prior itself is wide enough; an approximation of the posterior is widened."""
        spread = 1.0 if self.settings.law == "prior" else SPREAD
        return spread * Noise.of(seed + 1).normal(self.settings.chains, dim)

    def _summary(self, chains: Chains, law: Law) -> Drawn:
        blocks = []
        for z in torch.from_numpy(chains.draws).flatten(0, 1).split(BLOCK):  # (BLOCK, K)
            xi = law.decode(z)
            inputs, level = self.world.inputs(xi), (xi @ self.world.matrix.T).mean(-1)
            with torch.no_grad():
                frame = self.frames(xi)[:, self.world.unseen]
            blocks.append((torch.column_stack([xi[:, :COEFFICIENTS], level, frame]), inputs))
        return _drawn(chains, *(torch.cat(part) for part in zip(*blocks, strict=True)))

    # ------------------------------------------------------------------------------------ the paper

    def _paper(self, problem: Problem, start: torch.Tensor | None = None) -> Drawn:
        assert self.predict is not None  # the solver is not asked for the printed sampler
        target = paper.target(self.predict, problem.frame)
        chains = paper.run(target, self.settings.chains, self._seed(PAPER, problem), start)
        inputs = paper.DEVIATION * torch.from_numpy(chains.draws).flatten(0, 1)  # (B D, N)
        with torch.no_grad():
            blocks = [self.predict(own)[:, self.world.unseen] for own in inputs.split(BLOCK)]
        seen = inputs[:, self.world.sensors[:COEFFICIENTS]]
        quantities = torch.column_stack([seen, inputs.mean(-1), torch.cat(blocks)])
        return _drawn(chains, quantities, inputs)

    def _paper_from_truth(self, problem: Problem) -> Drawn:
        truth = self.world.inputs(torch.from_numpy(problem.truth)[None])[0]
        return self._paper(problem, truth / paper.DEVIATION)

    def truth_of(self, problem: Problem, label: str) -> tuple[Array, Array]:
        """The true quantities (Q,) and the true input (N,)."""
        xi = torch.from_numpy(problem.truth)[None]
        inputs = self.world.inputs(xi)[0].numpy()
        known = [problem.truth[:COEFFICIENTS], (xi @ self.world.matrix.T).mean().numpy()]
        if label in (PAPER, FROM_TRUTH):
            known = [inputs[self.world.sensors[:COEFFICIENTS]], inputs.mean()]
        return np.hstack([*known, problem.frame[self.world.unseen]]), inputs


def _drawn(chains: Chains, quantities: torch.Tensor, inputs: torch.Tensor) -> Drawn:
    count, length = chains.draws.shape[:2]
    return Drawn(
        quantities=quantities.numpy().astype(np.float32).reshape(count, length, -1),
        mean=inputs.mean(dim=0).numpy(),
        deviation=inputs.std(dim=0).numpy(),
        negative=float((inputs < 0).double().mean()),
        accepted=chains.accepted,
        size=chains.size,
        cpu_s=chains.cpu_s,
    )
