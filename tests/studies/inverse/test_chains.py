"""On a linear problem with Gaussian noise, whose posterior is known, every sampler finds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

from gsnobench.data import Array
from gsnobench.studies.inverse import hmc, mala
from gsnobench.studies.inverse.chains import SAMPLERS, Chains, run_chains
from gsnobench.studies.inverse.diagnostics import bulk_ess
from gsnobench.studies.inverse.target import Noise, Target

DIM, SENSORS, NOISE = 6, 4, 0.5
TRUTHS = 200


@dataclass(frozen=True, eq=False)
class Linear:
    """y = G z + noise with the prior N(0, I): the posterior is normal, in closed form."""

    operator: Array
    data: Array

    @property
    def covariance(self) -> Array:
        return np.asarray(np.linalg.inv(np.eye(DIM) + self.operator.T @ self.operator / NOISE**2))

    @property
    def mean(self) -> Array:
        return np.asarray(self.covariance @ self.operator.T @ self.data / NOISE**2)

    @property
    def target(self) -> Target:
        operator, data = torch.from_numpy(self.operator), torch.from_numpy(self.data)

        def potential(z: torch.Tensor) -> torch.Tensor:
            return 0.5 * ((z @ operator.T - data) / NOISE).square().sum(-1)

        return Target(potential, DIM)


def linear(seed: int) -> tuple[Linear, Array]:
    """A problem, and the truth that made its data."""
    rng = np.random.default_rng(seed)
    operator, truth = rng.normal(size=(SENSORS, DIM)), rng.normal(size=DIM)
    return Linear(operator, operator @ truth + NOISE * rng.normal(size=SENSORS)), truth


def drawn(name: str, problem: Linear, seed: int, *, draws: int) -> Chains:
    start = 3 * Noise.of(seed + 1000).normal(8, DIM)
    return run_chains(SAMPLERS[name], problem.target, start, burn=100, draws=draws, seed=seed)


@pytest.mark.parametrize("name", SAMPLERS)
def test_mean_and_covariance_are_right_within_monte_carlo_error(name: str) -> None:
    problem, _ = linear(0)
    chains = drawn(name, problem, seed=1, draws=400)
    z = chains.draws
    sd = np.sqrt(np.diag(problem.covariance))
    sizes = np.array([bulk_ess(z[:, :, k]) for k in range(DIM)])
    assert sizes.min() > 100
    assert (np.abs(z.mean(axis=(0, 1)) - problem.mean) < 4 * sd / np.sqrt(sizes)).all()
    error = np.cov(z.reshape(-1, DIM).T) - problem.covariance
    allowed = np.sqrt((np.outer(sd, sd) ** 2 + problem.covariance**2) / sizes.min())
    assert (np.abs(error) < 4 * allowed).all()
    goal = SAMPLERS[name].goal
    assert chains.accepted == pytest.approx(goal, abs=0.12) or chains.accepted > goal


@pytest.mark.parametrize("name", SAMPLERS)
def test_intervals_cover_as_often_as_they_say(name: str) -> None:
    """Truths from the prior, observed by one operator; one coefficient of each is judged.

    Truths alone decide how often the exact intervals hold them, so a sampler is compared with the
    exact intervals too, and only after its chains have mixed: a short chain has narrow intervals.
    """
    operator, index = linear(0)[0].operator, np.arange(TRUTHS) % DIM
    rng = np.random.default_rng(1)
    truths, noise = rng.normal(size=(TRUTHS, DIM)), rng.normal(size=(TRUTHS, SENSORS))
    problems = [Linear(operator, own) for own in truths @ operator.T + NOISE * noise]
    data = torch.from_numpy(np.stack([problem.data for problem in problems]))

    def potential(z: torch.Tensor) -> torch.Tensor:
        guess = (z @ torch.from_numpy(operator).T).reshape(TRUTHS, -1, SENSORS)
        return 0.5 * ((guess - data[:, None]) / NOISE).square().sum(-1).reshape(-1)

    start = Noise.of(7).normal(8 * TRUTHS, DIM)
    settings = {"burn": 60, "draws": 300, "seed": 8}
    drawn = run_chains(SAMPLERS[name], Target(potential, DIM), start, **settings).draws
    own = drawn.reshape(TRUTHS, 8, -1, DIM)[np.arange(TRUTHS), :, :, index]
    assert np.median([bulk_ess(chains) for chains in own]) > 150
    truth = truths[np.arange(TRUTHS), index]
    ends = np.quantile(own.reshape(TRUTHS, -1), [0.025, 0.975], axis=1)
    mean = np.array([problem.mean[k] for problem, k in zip(problems, index, strict=True)])
    sd = np.sqrt(np.diag(problems[0].covariance))[index]
    exact = mean + np.outer(stats.norm.ppf([0.025, 0.975]), sd)
    assert np.abs(((ends - exact) / sd).mean(axis=1)).max() < 0.05  # neither wide nor narrow
    least, most = stats.binom.interval(0.99, TRUTHS, 0.95)
    for low, high in (exact, ends):
        assert least <= int(((low <= truth) & (truth <= high)).sum()) <= most


def test_one_leap_is_one_langevin_step() -> None:
    """Two formulas of two papers that must agree: cos(angle) = (2 - d) / (2 + d)."""
    problem, _ = linear(3)
    near = torch.from_numpy(problem.mean) + 0.5 * Noise.of(0).normal(5, DIM)
    state = problem.target.with_gradient(near)
    size = 0.2
    angle = float(np.arccos((2 - size**2) / (2 + size**2)))
    one, p_one = mala.step(problem.target, state, size, Noise.of(9))
    two, p_two = hmc.step(problem.target, state, angle, Noise.of(9), leaps=1)
    torch.testing.assert_close(p_one, p_two)
    torch.testing.assert_close(one.z, two.z)
    assert float(p_one.min()) > 0 and float(p_one.max()) <= 1


def test_a_seed_gives_the_same_chains_and_another_one_others() -> None:
    problem, _ = linear(0)
    first, again, other = (drawn("pcn", problem, seed=s, draws=5).draws for s in (4, 4, 5))
    assert (first == again).all() and (first != other).any()


def test_a_proposal_without_a_number_is_rejected() -> None:
    def potential(z: torch.Tensor) -> torch.Tensor:
        return torch.where(z[:, 0] > 0, z[:, 0] - z[:, 0], torch.nan)

    target = Target(potential, 2)
    chains = run_chains(SAMPLERS["pcn"], target, torch.ones(4, 2), burn=5, draws=50, seed=0)
    assert (chains.draws[:, :, 0] > 0).all() and 0 < chains.accepted < 1
