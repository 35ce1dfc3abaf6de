"""Smooth random voids: closed curves whose radius is a squashed Gaussian field on the circle.

The field is cut to its first Fourier modes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gsnobench as gb

BISECTIONS = 40  # of the angle between two nodes of the curve


@dataclass(frozen=True, eq=False)
class Void:
    """The curve centre + radius(angle) (cos, sin), radius = low + (high - low) / (1 + exp(g)).

    g is a trigonometric polynomial.
    """

    centre: gb.Array  # (2,)
    low: float
    high: float
    cosines: gb.Array  # (K + 1,) coefficients of g; that of the constant first
    sines: gb.Array  # (K + 1,), the first of no effect

    def radius(self, angle: gb.Array) -> gb.Array:
        """Distance of the curve from the centre, same shape as `angle`."""
        modes = np.arange(len(self.cosines)) * angle[..., None]
        field = np.cos(modes) @ self.cosines + np.sin(modes) @ self.sines
        return np.asarray(self.low + (self.high - self.low) / (1.0 + np.exp(field)))

    def points(self, angle: gb.Array) -> gb.Array:
        """Points of the curve, (..., 2)."""
        return np.asarray(
            self.centre
            + self.radius(angle)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        )

    def angle(self, points: gb.Array) -> gb.Array:
        """Direction of points (m, 2) from the centre, (m,)."""
        return np.arctan2(points[:, 1] - self.centre[1], points[:, 0] - self.centre[0])

    def snap(self, points: gb.Array) -> gb.Array:
        """The points of the curve in the same directions from the centre, (m, 2)."""
        return self.points(self.angle(points))

    def halfway(self, starts: gb.Array, ends: gb.Array) -> gb.Array:
        """Points of the curve as far from one end of a chord as from the other, (m, 2)."""
        first = self.angle(starts)
        span = np.mod(self.angle(ends) - first + np.pi, 2.0 * np.pi) - np.pi
        low, high = np.zeros(len(starts)), np.ones(len(starts))
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            here = self.points(first + middle * span)
            is_before = np.sum((here - starts) ** 2, axis=1) < np.sum((here - ends) ** 2, axis=1)
            low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
        return self.points(first + 0.5 * (low + high) * span)


@dataclass(frozen=True)
class VoidLaw:
    """How voids are drawn: g ~ N(0, deviation^2 (-d^2/dangle^2 + tau^2)^-1), cut at `modes`."""

    low: float = 0.2
    high: float = 0.4
    deviation: float = 4.0
    tau: float = 3.0
    modes: int = 5

    def draw(self, rng: np.random.Generator, centre: tuple[float, float] = (0.5, 0.5)) -> Void:
        """One void; two numbers per mode are drawn, so that more modes refine the same curve."""
        number = np.arange(self.modes + 1)
        squared = np.pi * (number**2 + self.tau**2)  # cos(k angle) / sqrt(pi) has norm 1
        scale = self.deviation / np.sqrt(squared)
        scale[0] /= np.sqrt(2.0)
        noise = rng.standard_normal((self.modes + 1, 2)) * scale[:, None]  # (K + 1, 2)
        return Void(np.array(centre), self.low, self.high, noise[:, 0], noise[:, 1])
