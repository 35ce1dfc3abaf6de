"""Muon (Jordan et al., 2024): orthogonal momentum for a model's matrices, AdamW for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

NARROWEST = 16  # a matrix with a shorter side has too few directions to be worth making equal
# gives a step the size of an AdamW step (Liu et al., Muon is scalable for LLM training, 2025)
MATCH = 0.2
REST_SHARE = 0.25  # of the learning rate, for what is no matrix
# Jordan's polynomial: five turns bring singular values into 0.7 .. 1.2
QUINTIC = (3.4445, -4.7750, 2.0315)
TURNS = 5
TINY = 1e-30


class Muon(torch.optim.Optimizer):
    """The last two axes of a parameter are matrices, its other axes count them (modes, heads)."""

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        *,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        entries = list(params)
        given = [entry for entry in entries if isinstance(entry, dict)] or [{"params": entries}]
        groups = []
        for group in given:
            for matrices in (True, False):
                weights = [weight for weight in group["params"] if is_matrix(weight) == matrices]
                groups.append({**group, "params": weights, "is_matrix": matrices})
        defaults = {"lr": lr, "momentum": momentum, "betas": betas, "weight_decay": weight_decay}
        super().__init__([group for group in groups if group["params"]], defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step on every parameter that has a gradient."""
        for group in self.param_groups:
            update = _matrix_step if group["is_matrix"] else _rest_step
            for weight in group["params"]:
                if weight.grad is not None:
                    update(weight, weight.grad, self.state[weight], group)


def is_matrix(weight: Tensor) -> bool:
    """Whether the last two axes are wide enough to be made orthogonal."""
    return weight.ndim >= 2 and min(weight.shape[-2:]) >= NARROWEST and not weight.is_complex()


def _matrix_step(
    weight: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    if not state:
        state["momentum"] = torch.zeros_like(weight)
    state["momentum"].lerp_(grad, 1 - group["momentum"])
    ahead = grad.lerp(state["momentum"], group["momentum"])  # Nesterov's look ahead
    weight.mul_(1 - group["lr"] * group["weight_decay"])
    size = MATCH * max(weight.shape[-2:]) ** 0.5
    matrices = orthogonalise(ahead.reshape(-1, *weight.shape[-2:]))  # (n, a, b)
    weight.add_(matrices.reshape(weight.shape), alpha=-group["lr"] * size)


def orthogonalise(matrices: Tensor) -> Tensor:
    """About U V^T of each matrix U S V^T, by Newton and Schulz's iteration; (n, a, b) both."""
    first, third, fifth = QUINTIC
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices  # (n, a, b), a <= b
    # first by the largest entry: the squares of tiny gradients would be zero
    x = x / x.abs().amax((1, 2), keepdim=True).clamp_min(TINY)
    x = x / x.flatten(1).norm(dim=1).clamp_min(TINY)[:, None, None]
    for _ in range(TURNS):
        gram = x @ x.mT  # (n, a, a)
        higher = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)  # (n, a, a)
        x = torch.baddbmm(x, higher, x, beta=first)
    return x.mT if is_tall else x


def _rest_step(weight: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """AdamW."""
    if not state:
        state |= {"step": 0, "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
    state["step"] += 1
    rate, (slow, slower) = REST_SHARE * group["lr"], group["betas"]
    state["mean"].lerp_(grad, 1 - slow)
    state["square"].mul_(slower).addcmul_(grad, grad.conj(), value=1 - slower)
    spread = (state["square"] / (1 - slower ** state["step"])).sqrt_().add_(1e-8)
    weight.mul_(1 - rate * group["weight_decay"])
    weight.addcdiv_(state["mean"], spread, value=-rate / (1 - slow ** state["step"]))
