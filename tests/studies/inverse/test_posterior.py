"""The Laplace approximation is exact where the posterior is normal, and chains right anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from gsnobench.studies.inverse.chains import SAMPLERS, run_chains
from gsnobench.studies.inverse.diagnostics import bulk_ess
from gsnobench.studies.inverse.posterior import Law, Likelihood, laplace
from gsnobench.studies.inverse.target import Noise

RNG = np.random.default_rng(0)
DIM, SENSORS, SIGMA = 5, 7, 0.1
OPERATOR = RNG.normal(size=(SENSORS, DIM))
DATA = OPERATOR @ RNG.normal(size=DIM) + SIGMA * RNG.normal(size=SENSORS)


def forward(xi: torch.Tensor) -> torch.Tensor:
    return xi @ torch.from_numpy(OPERATOR).T


def bent(xi: torch.Tensor) -> torch.Tensor:
    return torch.exp(0.3 * forward(xi))


def test_the_likelihood_is_the_density_of_its_normal_law() -> None:
    errors = 0.2 * RNG.normal(size=(30, SENSORS)) + 0.1
    guesses = RNG.normal(size=(2, SENSORS))
    for known in (None, errors):
        likelihood = Likelihood.of(DATA, SIGMA, known)
        extra = 0.0 if known is None else np.cov(known.T)
        law = stats.multivariate_normal(np.zeros(SENSORS), SIGMA**2 * np.eye(SENSORS) + extra)
        shift = 0.0 if known is None else known.mean(axis=0)
        expected = [law.logpdf(DATA - guess - shift) for guess in guesses]
        values = likelihood.potential(torch.from_numpy(guesses))
        assert float(values[1] - values[0]) == pytest.approx(expected[0] - expected[1])


def test_laplace_is_the_posterior_of_a_linear_problem() -> None:
    law = laplace(forward, Likelihood.of(DATA, SIGMA), DIM)
    covariance = np.linalg.inv(np.eye(DIM) + OPERATOR.T @ OPERATOR / SIGMA**2)
    np.testing.assert_allclose(law.root @ law.root.T, covariance, rtol=1e-8, atol=1e-12)
    mean = covariance @ OPERATOR.T @ DATA / SIGMA**2
    np.testing.assert_allclose(law.mean, mean, rtol=1e-8)
    target = law.target(forward, Likelihood.of(DATA, SIGMA))
    flat = target.at(Noise.of(0).normal(9, DIM)).potential
    assert float(flat.max() - flat.min()) < 1e-6  # relative to its own law it is flat


def test_laplace_of_a_bent_problem_is_at_the_top() -> None:
    likelihood = Likelihood.of(np.exp(0.3 * DATA), SIGMA)
    law = laplace(bent, likelihood, DIM)
    xi = law.mean.clone().requires_grad_()
    energy = likelihood.potential(bent(xi[None]))[0] + 0.5 * xi.square().sum()
    (gradient,) = torch.autograd.grad(energy, xi)
    newton = law.root.T @ gradient  # in standard deviations
    assert float(newton.norm()) < 0.05


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_wrong_law_changes_proposals_and_not_the_posterior(name: str) -> None:
    likelihood = Likelihood.of(DATA, 10 * SIGMA)
    exact = laplace(forward, likelihood, DIM)
    wrong = Law(exact.mean + 0.3, 1.5 * exact.root)
    start = Noise.of(1).normal(8, DIM)
    target = wrong.target(forward, likelihood)
    chains = run_chains(SAMPLERS[name], target, start, burn=60, draws=200, seed=2)
    xi = wrong.decode(torch.from_numpy(chains.draws)).numpy()
    sd = np.sqrt(np.diag((exact.root @ exact.root.T).numpy()))
    sizes = np.array([bulk_ess(xi[:, :, k]) for k in range(DIM)])
    assert (np.abs(xi.mean(axis=(0, 1)) - exact.mean.numpy()) < 4 * sd / np.sqrt(sizes)).all()
    assert xi.std(axis=(0, 1)) == pytest.approx(sd, rel=4 / np.sqrt(2 * sizes.min()))
