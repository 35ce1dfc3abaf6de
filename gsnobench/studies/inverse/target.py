"""What a sampler samples: a density relative to the standard normal law, for many chains at once.

The density of z is proportional to exp(-potential(z)) times that of N(0, I). A sampler that leaves
N(0, I) alone where the potential is flat works in any number of dimensions, also in infinitely
many (Cotter, Roberts, Stuart, White 2013, doi:10.1214/13-STS421).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Potential = Callable[[torch.Tensor], torch.Tensor]  # (B, K) -> (B,)


@dataclass(frozen=True, eq=False)
class State:
    """Where B chains are."""

    z: torch.Tensor  # (B, K)
    potential: torch.Tensor  # (B,)
    gradient: torch.Tensor | None = None  # (B, K) of the potential

    @property
    def slope(self) -> torch.Tensor:
        """The gradient of a state that was made with one."""
        assert self.gradient is not None
        return self.gradient

    def moved_to(self, other: State, where: torch.Tensor) -> State:
        """The other state in the chains where this is true."""
        gradient = None
        if self.gradient is not None:
            gradient = torch.where(where[:, None], other.slope, self.slope)
        return State(
            torch.where(where[:, None], other.z, self.z),
            torch.where(where, other.potential, self.potential),
            gradient,
        )


@dataclass(frozen=True, eq=False)
class Target:
    """A potential, with its gradient by automatic differentiation."""

    potential: Potential
    dim: int

    def at(self, z: torch.Tensor) -> State:
        with torch.no_grad():
            return State(z, self.potential(z))

    def with_gradient(self, z: torch.Tensor) -> State:
        inside = z.detach().requires_grad_()
        value = self.potential(inside)
        (gradient,) = torch.autograd.grad(value.sum(), inside)
        return State(z, value.detach(), gradient)


@dataclass(frozen=True, eq=False)
class Noise:
    """The random numbers of one set of chains."""

    generator: torch.Generator

    @classmethod
    def of(cls, seed: int) -> Noise:
        return cls(torch.Generator().manual_seed(seed))

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def decide(
        self, state: State, other: State, log_ratio: torch.Tensor
    ) -> tuple[State, torch.Tensor]:
        """Metropolis: the next state, and the probability of acceptance per chain, (B,)."""
        probability = log_ratio.nan_to_num(nan=-torch.inf, posinf=0.0).clamp(max=0.0).exp()
        uniform = torch.rand(len(log_ratio), generator=self.generator, dtype=torch.float64)
        return state.moved_to(other, uniform < probability), probability
