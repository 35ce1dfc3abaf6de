"""Delayed acceptance samples the solver's posterior, however wrong the surrogate is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gsnobench.studies.inverse import paper, reference
from gsnobench.studies.inverse.diagnostics import bulk_ess
from gsnobench.studies.inverse.target import Noise, Target


def normal(mean: float, sd: float, dim: int) -> Target:
    """The product of N(mean, sd^2), as a density relative to N(0, 1)."""

    def potential(z: torch.Tensor) -> torch.Tensor:
        return (0.5 * ((z - mean) / sd).square() - 0.5 * z.square()).sum(-1)

    return Target(potential, dim)


def test_a_wrong_surrogate_costs_acceptance_and_nothing_else() -> None:
    solver, seen = normal(0.7, 0.5, 3), []
    start = Noise.of(0).normal(8, 3)
    settings = {"burn": 20, "draws": 400, "seed": 3}
    rates = []
    for mean, sd in ((0.7, 0.5), (0.5, 0.7)):
        progress = lambda done, total: seen.append((done, total))  # noqa: E731
        surrogate = normal(mean, sd, 3)
        chains = reference.run(surrogate, solver, start, **settings, progress=progress)
        z = chains.draws
        size = min(bulk_ess(z[:, :, k]) for k in range(3))
        assert size > 300
        assert z.mean(axis=(0, 1)) == pytest.approx(0.7, abs=4 * 0.5 / np.sqrt(size))
        assert z.std(axis=(0, 1)) == pytest.approx(0.5, rel=4 / np.sqrt(2 * size))
        rates.append(chains.accepted)
    assert rates[0] == pytest.approx(1.0) and rates[1] < 0.9
    assert seen[-1] == (420, 420)


# --------------------------------------------------------------------------------- the printed one


def test_the_printed_sampler_finds_its_posterior_in_few_dimensions() -> None:
    operator, frame = torch.diag(torch.tensor([3.0, 1.0, 0.0])).double(), np.array([3.0, 1.0, 0.0])
    chains = paper.run(paper.target(lambda a: a @ operator, frame), 8, seed=1)
    precision = np.array([10.0, 2.0, 1.0])  # 1 + operator^2, with s = 1
    z = chains.draws
    assert z.shape == (8, 900, 3)
    sizes = np.array([bulk_ess(z[:, :, k]) for k in range(3)])
    errors = np.abs(z.mean(axis=(0, 1)) - np.array([9.0, 1.0, 0.0]) / precision)
    assert (errors < 4 / np.sqrt(precision * sizes)).all()
    assert z.std(axis=(0, 1)) == pytest.approx(precision**-0.5, rel=4 / np.sqrt(2 * sizes.min()))


def test_on_a_small_frame_the_printed_sampler_ends_where_it_starts() -> None:
    """A frame of size 0.01 against a noise of variance 1: the data say nothing."""
    truth = torch.full((300,), 2.0, dtype=torch.float64)
    target = paper.target(lambda a: 0.01 * a, 0.01 * truth.numpy())
    apart = float(target.at(torch.zeros(1, 300).double()).potential)
    assert apart < 0.1  # nats, between the truth and nothing at all
    begun = paper.run(target, 2, seed=1, start=truth).draws
    assert np.abs(begun[:, -1].mean()) < 1.0  # it has forgotten the truth
