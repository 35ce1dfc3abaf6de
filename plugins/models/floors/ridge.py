"""Floor `ridge`: kernel ridge regression from transformed inputs to the whole solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import torch
from torch import nn

import gsnobench as gb

GSNOBENCH_API = 1
# relative to the mean eigenvalue of the Gram matrix
STRENGTHS = tuple(10.0**power for power in range(-8, 4))
RANKS = (16, 64, 256)  # principal components of the radial kernel: fewer means smoother inputs
# of the radial kernel, relative to the root mean square distance of two samples
WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
BUFFERS = ("lowest", "centre", "scale", "axes", "linear", "anchors", "precision", "radial", "mean")


class Params(gb.Params):
    kernel: Literal["best", "linear", "rbf"] = gb.knob(
        default="best", search=False, help="best: whichever has the lower validation error"
    )


class Ridge(nn.Module):
    """y = mean_y + k(z, Z) c; z are principal components of features of all inputs at all nodes.

    Features of a channel are x, 1/x and log x where its training values are positive, else x and
    x^2; a channel that never varies is left out. They are standardised. The linear kernel is
    applied as z W, which is more accurate in float32 than its dual form.
    """

    lowest: torch.Tensor  # (channels,) of the positive ones
    positive: torch.Tensor  # positions among the input channels
    other: torch.Tensor
    centre: torch.Tensor  # (N, F)
    scale: torch.Tensor  # (F,)
    axes: torch.Tensor  # (N*F, r)
    linear: torch.Tensor  # (r, t_out*N*C), or no rows
    anchors: torch.Tensor  # (S, r), or no rows
    precision: torch.Tensor  # ()
    radial: torch.Tensor  # (S, t_out*N*C), or no rows
    mean: torch.Tensor  # (t_out, N, C)

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.kernel = params.kernel
        for name in BUFFERS:
            self.register_buffer(name, torch.empty(0))
        for name in ("positive", "other"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int64))

    def features(self, batch: gb.Batch) -> torch.Tensor:
        """Transformed inputs, (B, N, F)."""
        x = batch.features
        positive = x[..., self.positive].maximum(self.lowest)  # finite at any test value
        other = x[..., self.other]
        return torch.cat([positive, 1 / positive, positive.log(), other, other.square()], dim=-1)

    def standardised(self, batch: gb.Batch) -> torch.Tensor:
        """Features centred at every node, with one scale per feature, (B, N*F)."""
        return ((self.features(batch) - self.centre) / self.scale).flatten(1)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        z = self.standardised(batch) @ self.axes  # (B, r)
        near = z[:, : self.anchors.shape[1]]
        near = radial_kernel(near, self.anchors, self.precision)  # (B, S or 0)
        # the kernel that was not chosen has no rows
        y = z[:, : self.linear.shape[0]] @ self.linear + near @ self.radial
        return self.mean + y.unflatten(1, self.mean.shape)  # (B, t_out, N, C)


def radial_kernel(
    z: torch.Tensor, anchors: torch.Tensor, precision: torch.Tensor | float
) -> torch.Tensor:
    """exp(-precision |z - anchor|^2), (B, S)."""
    squared = z.square().sum(1)[:, None] + anchors.square().sum(1) - 2 * z @ anchors.T
    return torch.exp(-precision * squared.clamp_min(0))


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Principal axes of the features from the training split, the kernel by validation."""
    assert isinstance(module, Ridge)
    choose_features(module, fit)
    x, y = _stack(module, fit, "train")
    x_valid, y_valid = _stack(module, fit, "valid")
    mean = y.mean(0)
    axes = principal_axes(x)  # (D, r)
    z, z_valid = x @ axes, x_valid @ axes
    error_of = validation_error(fit, y, y_valid)
    rank, precision, inverse = choose_kernel(module.kernel, z, z_valid, error_of)
    dual = inverse @ (y - mean).flatten(1)  # (S, t_out*N*C)
    fitted = {"axes": axes, "linear": z.T @ dual, "anchors": z[:0, :0], "radial": dual[:0]}
    if rank > 0:
        axes, anchors = axes[:, :rank], z[:, :rank]
        fitted = {"axes": axes, "linear": dual[:0], "anchors": anchors, "radial": dual}
    for name, value in {**fitted, "mean": mean, "precision": torch.tensor(precision)}.items():
        module.register_buffer(name, value.float().contiguous().to(module.positive.device))


def choose_features(module: Ridge, fit: gb.Fit) -> None:
    """Set which channels vary and which are positive, then centre and scale of every feature."""
    x = torch.cat([batch.features for batch, _ in fit.batches("train")])  # (S, N, in_channels)
    lowest, varies = x.amin((0, 1)), (x.amax(0) > x.amin(0)).any(0)
    module.positive = torch.nonzero(varies & (lowest > 0)).flatten()
    module.other = torch.nonzero(varies & (lowest <= 0)).flatten()
    module.lowest = lowest[module.positive] / 10
    features = torch.cat([module.features(batch) for batch, _ in fit.batches("train")])
    features = features.cpu().double()  # (S, N, F)
    centre = features.mean(0)
    module.centre = centre.float().to(x.device)
    module.scale = (features - centre).square().mean((0, 1)).sqrt().float().to(x.device)


def principal_axes(x: torch.Tensor) -> torch.Tensor:
    """Orthonormal directions in which the rows of x (S, D) vary, the strongest first, (D, r)."""
    values, vectors = torch.linalg.eigh(x @ x.T)
    kept = values > 1e-10 * values[-1]  # below, float32 features are only rounding errors
    return x.T @ (vectors[:, kept] / values[kept].sqrt()).flip(1)


def choose_kernel(
    kernel: str, z: torch.Tensor, z_valid: torch.Tensor, error_of: Callable[[torch.Tensor], float]
) -> tuple[int, float, torch.Tensor]:
    """The best rank (0: linear), precision and regularised inverse (S, S) of the Gram matrix."""
    best: tuple[float, int, float, torch.Tensor] | None = None
    for rank, precision, gram, rows in _kernels(kernel, z, z_valid):
        values, vectors = torch.linalg.eigh(gram)
        for strength in STRENGTHS:
            inverse = vectors / (values.clamp_min(0) + strength * values.mean()) @ vectors.T
            error = error_of(rows @ inverse)
            if best is None or error < best[0]:
                best = error, rank, precision, inverse
    assert best is not None
    return best[1:]


def _kernels(
    kernel: str, z: torch.Tensor, z_valid: torch.Tensor
) -> Iterator[tuple[int, float, torch.Tensor, torch.Tensor]]:
    """Every kernel to try: rank, precision, Gram matrix (S, S), kernel to validation (V, S)."""
    if kernel != "rbf":
        yield 0, 0.0, z @ z.T, z_valid @ z.T
    for rank in sorted({min(rank, z.shape[1]) for rank in RANKS}) if kernel != "linear" else ():
        near, near_valid = z[:, :rank], z_valid[:, :rank]
        # mean squared distance of two samples: z has mean 0
        distance = 2 * float(near.square().sum(1).mean())
        for width in WIDTHS:
            precision = 1 / (2 * width**2 * distance)
            gram = radial_kernel(near, near, precision)
            yield rank, precision, gram, radial_kernel(near_valid, near, precision)


def validation_error(
    fit: gb.Fit, y: torch.Tensor, y_valid: torch.Tensor
) -> Callable[[torch.Tensor], float]:
    """Headline error of predictions mean + w (y - mean) as a function of w (V, S).

    All targets are reduced to products of size S first, so that one evaluation is cheap.
    """
    mesh = fit.train.mesh(0)
    support = np.stack([field.nodes(mesh) for field in fit.task.fields], axis=1)  # (N, C)
    tables = []
    for group in fit.task.scored.values():
        scored = torch.from_numpy(support[:, list(group)])
        known, target = ((values[..., list(group)] * scored).flatten(1) for values in (y, y_valid))
        norm = target.square().sum(1)
        known, target = known - known.mean(0), target - known.mean(0)
        tables.append((norm, target.square().sum(1), target @ known.T, known @ known.T))

    def error_of(w: torch.Tensor) -> float:
        squared = [
            ((c - 2 * (w * cross).sum(1) + ((w @ gram) * w).sum(1)).clamp_min(0) / norm)
            for norm, c, cross, gram in tables
        ]
        return float(torch.stack(squared).sqrt().mean())

    return error_of


def _stack(
    module: Ridge, fit: gb.Fit, split: Literal["train", "valid"]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Standardised features (S, N*F) and targets (S, t_out, N, C) of a split, on the host."""
    pairs = [
        (module.standardised(batch).cpu(), target.cpu()) for batch, target in fit.batches(split)
    ]
    return torch.cat([x for x, _ in pairs]).double(), torch.cat([y for _, y in pairs]).double()


def declines(task: gb.Task) -> str | None:
    if task.corresponds:
        return None
    return "nodes do not correspond between samples, so inputs have no common layout"


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "ridge",
        Params,
        Ridge,
        presets={"default": gb.Preset(train=gb.UNSCALED)},
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
        capabilities=frozenset(
            {
                gb.Capability.STEADY,
                gb.Capability.UNSTEADY,
                gb.Capability.FIXED_GEOMETRY,
                gb.Capability.VARYING_GEOMETRY,
                gb.Capability.THREE_DIMENSIONS,
            }
        ),
        is_floor=True,
        title="Kernel ridge regression",
        cites="Batlle, Darcy, Hosseini and Owhadi, Kernel methods are competitive for operator "
        "learning, Journal of Computational Physics 496, 2024",
        differs=(
            "the kernel is linear or Gaussian on fixed transforms of the inputs, one width, chosen "
            "on validation",
        ),
    )
