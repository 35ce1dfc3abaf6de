"""The solver is a forward map like any other: right gradients, and a posterior that mixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.datasets.tasks import resolve
from gsnobench.plugins import dataset_named
from gsnobench.studies.inverse import paper, reference
from gsnobench.studies.inverse.diagnostics import bulk_ess, mixing
from gsnobench.studies.inverse.inversion import COEFFICIENTS, Inversion, Settings
from gsnobench.studies.inverse.judgement import fractions
from gsnobench.studies.inverse.problems import World, world_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Permeabilities on 298 nodes, 64 sensors and 1 % noise."""
    dataset, cache = dataset_named("darcy"), gb.Cache(tmp_path_factory.mktemp("cache"))
    task = resolve(dataset, "darcy", track="smoke")
    return world_of(dataset, task, sensors=64, noise=0.01, cache=cache)


def test_gradients_through_the_solver_are_those_of_differences(world: World) -> None:
    frames = reference.frames_of(world)
    rng = np.random.default_rng(0)
    first, other, ahead = torch.from_numpy(rng.normal(size=(3, world.inverse.dim)))
    xi = torch.stack([first, other, first]).requires_grad_()
    weights = torch.from_numpy(rng.normal(size=(3, world.mesh.size)))
    (gradient,) = torch.autograd.grad((weights * frames(xi)).sum(), xi)
    step = 1e-4 * ahead
    for row, own in enumerate((first, other, first)):
        up, down = frames(torch.stack([own + step, own - step]))
        expected = float((weights[row] @ (up - down)) / 2e-4)
        assert float(gradient[row] @ ahead) == pytest.approx(expected, rel=1e-6)


def test_one_point_is_solved_once(world: World) -> None:
    calls = []

    def solve(setup: Any, xi: Array) -> Array:
        calls.append(xi)
        return np.zeros((1, world.mesh.size, 1))

    inverse = replace(world.inverse, solve=solve, adjoint=None)
    other = replace(world, dataset=replace(world.dataset, inverse=inverse))
    points = torch.zeros(5, inverse.dim, dtype=torch.float64)
    points[3] = 1.0
    frames = reference.frames_of(other)
    assert frames(points).shape == (5, world.mesh.size) and len(calls) == 2
    with pytest.raises(gb.ParamError, match="no adjoint"):
        frames(points.requires_grad_()).sum().backward()


def test_the_posterior_of_the_solver_mixes_and_holds_the_truth(world: World) -> None:
    """Relative to its own Laplace approximation it is nearly flat, so short chains do."""
    frames, settings = reference.frames_of(world), Settings(4, 8, 50, "laplace")
    inversion = Inversion(world, frames, {"solver": world.identity}, settings, world.cache)
    problem = world.problem(0)
    drawn = inversion.drawn("hmc", problem)
    state = mixing(drawn.quantities.astype(float))
    assert drawn.accepted > 0.9 and state.rhat < 1.1 and state.bulk > 100
    truth, inputs = inversion.truth_of(problem, "hmc")
    shares = np.array(fractions(drawn, truth))
    assert ((shares > 0.005) & (shares < 0.995)).sum() >= COEFFICIENTS - 3
    assert np.linalg.norm(drawn.mean - inputs) < 0.1 * np.linalg.norm(inputs)


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
