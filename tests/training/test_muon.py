"""Muon makes steps of equal size in all directions of a matrix, and is AdamW for the rest."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from gsnobench.training.muon import REST_SHARE, Muon, is_matrix, orthogonalise


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 24, 80), (2, 80, 24)])
def test_singular_values_become_about_one_and_directions_stay(shape):
    torch.manual_seed(0)
    matrices = torch.randn(shape) * torch.tensor([1e-6, 1.0, 1e4][: shape[0]])[:, None, None]
    result = orthogonalise(matrices)
    values = torch.linalg.svdvals(result)
    assert values.max() < 1.3
    assert values.median() > 0.6
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    core = u.mT @ result @ v.mT  # diagonal if the directions are the same
    off = core - torch.diag_embed(core.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-3


def test_a_step_does_not_depend_on_the_size_of_the_gradient():
    steps = []
    for size in (1e-5, 1.0, 1e5):
        weight = nn.Parameter(torch.zeros(2, 16, 16))
        weight.grad = size * torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(1))
        Muon([weight], 1e-2).step()
        steps.append(weight.detach().clone())
    assert torch.allclose(steps[0], steps[1], atol=1e-6)
    assert torch.allclose(steps[2], steps[1], atol=1e-6)
    assert steps[1].abs().max() > 1e-4


@pytest.mark.parametrize("size", [1e-23, 1e-30, 1e-38, 0.0])
def test_a_matrix_that_hardly_gets_a_gradient_stays_finite(size):
    draw = torch.Generator().manual_seed(1)
    result = orthogonalise(size * torch.randn(2, 16, 24, generator=draw))
    assert torch.isfinite(result).all()
    assert result.norm() < 8  # sqrt(2 * 16) for two orthogonal ones


def test_what_is_no_matrix_is_trained_by_adamw():
    shapes = [(7,), (5, 40), (15, 15), (3, 40, 1)]
    torch.manual_seed(0)
    mine = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = copy.deepcopy(mine)
    assert not any(is_matrix(weight) for weight in mine)
    ours = Muon(mine, 0.02, betas=(0.9, 0.99), weight_decay=0.1)
    adamw = torch.optim.AdamW(theirs, REST_SHARE * 0.02, betas=(0.9, 0.99), weight_decay=0.1)
    for turn in range(4):
        for weight, other in zip(mine, theirs, strict=True):
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(turn))
            other.grad = weight.grad.clone()
        ours.step()
        adamw.step()
    for weight, other in zip(mine, theirs, strict=True):
        assert torch.allclose(weight, other, atol=1e-6)


def test_it_reaches_the_solution_of_an_ill_conditioned_problem():
    torch.manual_seed(0)
    x = torch.randn(256, 32) * torch.logspace(0, -1, 32)
    solution = torch.randn(32, 32)
    weight = nn.Parameter(torch.zeros(32, 32))
    optimiser = Muon([weight], 0.1)
    for turn in range(300):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - turn / 300)
        optimiser.zero_grad()
        (x @ (weight - solution)).square().mean().backward()
        optimiser.step()
    assert (weight - solution).norm() < 0.1 * solution.norm()


def test_state_survives_a_save(tmp_path):
    def run(
        turns: int, state: dict | None, weights: list[torch.Tensor]
    ) -> tuple[list[nn.Parameter], dict]:
        trained = [nn.Parameter(weight.clone()) for weight in weights]
        optimiser = Muon(trained, 0.01, weight_decay=0.01)
        if state is not None:
            optimiser.load_state_dict(state)
        for _ in range(turns):
            optimiser.zero_grad()
            sum((weight - 1).square().sum() for weight in trained).backward()
            optimiser.step()
        return trained, optimiser.state_dict()

    start = [torch.eye(20), torch.zeros(20)]
    whole, _ = run(6, None, start)
    half, state = run(3, None, start)
    torch.save(state, tmp_path / "state.pt")
    rest, _ = run(3, torch.load(tmp_path / "state.pt", weights_only=True), half)
    for weight, other in zip(whole, rest, strict=True):
        assert torch.equal(weight, other)
