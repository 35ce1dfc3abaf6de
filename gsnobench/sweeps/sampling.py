"""Samplers whose points depend on seed and trials, not on who was killed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from gsnobench.sweeps.trials import REPEATS
from gsnobench.training.fit import mix


class Resumable(BaseSampler):
    """Makes a sampler per trial, with random numbers of the trial's place among the points.

    One sampler for all trials would begin anew in a worker that goes on after a kill. Places differ
    between workers, so no two of them choose the same point by chance.
    """

    def __init__(self, make: Callable[[int], BaseSampler]) -> None:
        self.make = make
        self.sampler = make(0)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self.sampler = self.make(place_of(study, trial))
        self.sampler.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self.sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self.sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self.sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self.sampler.after_trial(study, trial, state, values)


def place_of(study: Study, trial: FrozenTrial) -> int:
    """The number of a trial, without counting the points of dead workers twice."""
    trials = study.get_trials(deepcopy=False)
    earlier = [other for other in trials if other.number < trial.number]
    return trial.number - sum(REPEATS in other.user_attrs for other in (*earlier, trial))


def make_sampler(kind: str, seed: int) -> BaseSampler:
    """The sampler of a worker; a grid's points are queued, so what samples them is not asked."""

    def make(place: int) -> BaseSampler:
        own = mix(seed, "sampler", place) % 2**32
        if kind == "gp":
            return GPSampler(seed=own, warn_independent_sampling=False)
        return TPESampler(seed=own) if kind == "tpe" else RandomSampler(seed=own)

    return Resumable(make)
