"""The posterior of coefficients through any forward map, in the coordinates of a Gaussian law.

The law is the prior, or the Laplace approximation: the normal law at the most probable point with
the curvature there. A density relative to the second one is nearly flat, so samplers make large
steps in all directions (Rudolf, Sprungk 2018, doi:10.1007/s10208-016-9340-x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gsnobench.data import Array
from gsnobench.studies.inverse.target import Target

Forward = Callable[[torch.Tensor], torch.Tensor]  # (B, K) coefficients -> (B, S) at the sensors
MOST_NEWTON_STEPS = 30
MOST_HALVINGS = 12
SMALLEST_DECREASE = 1e-3  # nats


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Observations = forward + shift + N(0, covariance)."""

    data: torch.Tensor  # (S,)
    shift: torch.Tensor  # (S,)
    whitening: torch.Tensor  # (S, S): covariance^-1/2

    @classmethod
    def of(cls, data: Array, sigma: float, errors: Array | None = None) -> Likelihood:
        """With noise alone, or with the known errors (V, S) of the forward map besides.

        The errors' mean and covariance are added, as if they were normal and independent of the
        coefficients (Kaipio, Somersalo 2007, doi:10.1016/j.cam.2005.09.027).
        """
        size = len(data)
        covariance, shift = sigma**2 * np.eye(size), np.zeros(size)
        if errors is not None:
            shift = errors.mean(axis=0)
            covariance = covariance + np.atleast_2d(np.cov(errors.T))
        whitening = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(*(torch.from_numpy(np.array(x)) for x in (data, shift, whitening)))

    def misfit(self, observed: torch.Tensor) -> torch.Tensor:
        """What is left, in standard deviations: (B, S)."""
        return (observed + self.shift - self.data) @ self.whitening.T

    def potential(self, observed: torch.Tensor) -> torch.Tensor:
        """Minus the logarithm of the likelihood, without its constant: (B,)."""
        return 0.5 * self.misfit(observed).square().sum(-1)


@dataclass(frozen=True, eq=False)
class Law:
    """N(mean, root root^T) of the coefficients: xi = mean + root z with z of N(0, I)."""

    mean: torch.Tensor  # (K,)
    root: torch.Tensor  # (K, K)

    @classmethod
    def prior(cls, dim: int) -> Law:
        return cls(torch.zeros(dim, dtype=torch.float64), torch.eye(dim, dtype=torch.float64))

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return self.mean + z @ self.root.T

    def target(self, forward: Forward, likelihood: Likelihood) -> Target:
        """The posterior relative to this law."""

        def potential(z: torch.Tensor) -> torch.Tensor:
            xi = self.decode(z)
            gap = xi.square().sum(-1) - z.square().sum(-1)
            return likelihood.potential(forward(xi)) + 0.5 * gap

        return Target(potential, len(self.mean))


def laplace(forward: Forward, likelihood: Likelihood, dim: int) -> Law:
    """The Laplace approximation by Gauss-Newton steps from the prior's mean."""
    xi = torch.zeros(dim, dtype=torch.float64)
    one = torch.eye(dim, dtype=torch.float64)
    for _ in range(MOST_NEWTON_STEPS):
        misfit, slope = _linearised(forward, likelihood, xi)
        gradient = slope.T @ misfit + xi
        step = -torch.linalg.solve(one + slope.T @ slope, gradient)
        xi, decrease = _shortened(forward, likelihood, xi, step)
        if decrease < SMALLEST_DECREASE:
            break
    _, slope = _linearised(forward, likelihood, xi)
    values, vectors = torch.linalg.eigh(one + slope.T @ slope)
    return Law(xi, vectors * values.rsqrt() @ vectors.T)


def _linearised(
    forward: Forward, likelihood: Likelihood, xi: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The misfit (S,) and its derivative (S, K): one copy of the point per sensor."""
    copies = xi.expand(len(likelihood.data), -1).clone().requires_grad_()
    misfit = likelihood.misfit(forward(copies))  # (S, S), all rows equal
    (slope,) = torch.autograd.grad(misfit.diagonal().sum(), copies)
    return misfit[0].detach(), slope


def _shortened(
    forward: Forward, likelihood: Likelihood, xi: torch.Tensor, step: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """The first of step, step / 2, ... that goes down, and by how much; else no step at all."""

    def energy(point: torch.Tensor) -> float:
        with torch.no_grad():
            value = likelihood.potential(forward(point[None]))[0]
        return float(value + 0.5 * point.square().sum())

    before = energy(xi)
    for halving in range(MOST_HALVINGS):
        point = xi + 0.5**halving * step
        if (after := energy(point)) < before:
            return point, before - after
    return xi, 0.0
