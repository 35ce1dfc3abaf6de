"""Kernel ridge regression y = mean + k(z, Z) c: its kernels, and the choice among them.

Everything is in float64. A kernel is kept as the eigenvalues and eigenvectors of its Gram matrix,
so that another strength of the ridge costs one division per eigenvalue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from gsnobench_plugins.models.floors.choices import STRENGTHS, strongest_of_the_best

RANKS = (16, 64, 256)  # principal components of the radial kernel: fewer means smoother inputs
# of the radial kernel, relative to the root mean square distance of two samples
WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
NO_AXIS = 1e-12  # a direction with a smaller share of the largest spread is only rounding
Kind = Literal["best", "linear", "rbf"]


@dataclass(frozen=True, eq=False)
class Axes:
    """Centred samples x (S, D) as left * spread @ directions^T: principal components."""

    left: torch.Tensor  # (S, r) orthonormal columns
    spread: torch.Tensor  # (r,), the largest first
    directions: torch.Tensor  # (D, r) orthonormal columns


def principal_axes(x: torch.Tensor) -> Axes:
    """Singular values and vectors of x (S, D); a factor R first, as D is far larger than S."""
    q, r = torch.linalg.qr(x.T)
    turn, spread, left = torch.linalg.svd(r, full_matrices=False)
    kept = spread > NO_AXIS * spread[0]
    return Axes(left.T[:, kept], spread[kept], q @ turn[:, kept])


# ---------------------------------------------------------------------------------------- kernels


@dataclass(frozen=True, eq=False)
class Kernel:
    """A Gram matrix (S, S) of training samples by its eigenvectors, and the validation rows."""

    axes: Axes  # of the samples
    rank: int  # principal components of the radial kernel; 0: the linear kernel of all
    precision: float
    values: torch.Tensor  # (r,)
    vectors: torch.Tensor  # (S, r)
    rows: torch.Tensor  # (V, r) kernel between validation and training samples, times `vectors`

    def shrunk(self, strength: float) -> torch.Tensor:
        """Eigenvalues with the ridge, which is relative to their mean over samples, (r,)."""
        return self.values + strength * self.values.sum() / len(self.vectors)


def radial_kernel(
    z: torch.Tensor, anchors: torch.Tensor, precision: torch.Tensor | float
) -> torch.Tensor:
    """exp(-precision |z - anchor|^2), (B, S)."""
    squared = z.square().sum(1)[:, None] + anchors.square().sum(1) - 2 * z @ anchors.T
    return torch.exp(-precision * squared.clamp_min(0))


def make_kernels(kind: Kind, x: torch.Tensor, x_valid: torch.Tensor) -> list[Kernel]:
    """Every kernel to try, for centred training samples x (S, D); x_valid (V, D) are scored."""
    axes = principal_axes(x)
    z_valid = x_valid @ axes.directions  # (V, r)
    kernels = []
    if kind != "rbf":
        rows = z_valid * axes.spread
        kernels.append(Kernel(axes, 0, 0.0, axes.spread.square(), axes.left, rows))
    z = axes.left * axes.spread  # (S, r)
    for rank in sorted({min(rank, z.shape[1]) for rank in RANKS}) if kind != "linear" else ():
        near, near_valid = z[:, :rank], z_valid[:, :rank]
        # mean squared distance of two samples: z has mean 0
        distance = 2 * float(near.square().sum(1).mean())
        for width in WIDTHS:
            precision = 1 / (2 * width**2 * distance)
            values, vectors = torch.linalg.eigh(radial_kernel(near, near, precision))
            rows = radial_kernel(near_valid, near, precision) @ vectors
            kernels.append(Kernel(axes, rank, precision, values.clamp_min(0), vectors, rows))
    return kernels


# ----------------------------------------------------------------------------- choice by validation


@dataclass(frozen=True, eq=False)
class Scored:
    """What the headline averages over, and how much a node counts in the score of a field."""

    groups: Sequence[list[int]]  # positions of fields that are scored together
    share: torch.Tensor  # (N, C)


@dataclass(frozen=True, eq=False)
class Products:
    """Products of a scored group of fields: all that the validation error of a weight needs.

    A prediction is mean + w (y - mean) with w (V, S). Products of size S make it cheap to score.
    """

    norm: torch.Tensor  # (V,) of the truth with itself
    offset: torch.Tensor  # (V,) of the truth minus the mean with itself
    cross: torch.Tensor  # (V, S) of the truth minus the mean with y - mean
    gram: torch.Tensor  # (S, S) of y - mean with itself

    def turned(self, vectors: torch.Tensor) -> Products:
        """The same for weights in another basis, w vectors^T."""
        return replace(self, cross=self.cross @ vectors, gram=vectors.T @ self.gram @ vectors)

    def errors(self, w: torch.Tensor) -> torch.Tensor:
        """Relative L2 error per sample, (V,)."""
        squared = self.offset - 2 * (w * self.cross).sum(1) + ((w @ self.gram) * w).sum(1)
        return (squared.clamp_min(0) / self.norm).sqrt()


def make_products(
    y: torch.Tensor, y_valid: torch.Tensor, truth: torch.Tensor, scored: Scored
) -> list[Products]:
    """Products of every scored group; `truth` is the field where y is its change, else y_valid."""
    products = []
    for columns in scored.groups:
        share = scored.share[:, columns].sqrt()  # (N, c)
        known, target, field = (
            (values[..., columns] * share).flatten(1) for values in (y, y_valid, truth)
        )
        known, target = known - known.mean(0), target - known.mean(0)
        norm, offset = field.square().sum(1), target.square().sum(1)
        products.append(Products(norm, offset, target @ known.T, known @ known.T))
    return products


def choose(kernels: Sequence[Kernel], products: Sequence[Products]) -> tuple[Kernel, float]:
    """The kernel and the strength with the lowest validation error."""
    tried = []
    for kernel in kernels:
        turned = [product.turned(kernel.vectors) for product in products]
        weights = [kernel.rows / kernel.shrunk(strength) for strength in STRENGTHS]
        errors = [
            float(torch.stack([product.errors(w) for product in turned]).mean()) for w in weights
        ]
        best = strongest_of_the_best(errors)
        tried.append((errors[best], kernel, STRENGTHS[best]))
    _, kernel, strength = min(tried, key=lambda entry: entry[0])
    return kernel, strength
