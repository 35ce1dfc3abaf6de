"""Floor `ridge`: kernel ridge regression from transformed inputs to the whole solution."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

import gsnobench as gb
from gsnobench_plugins.models.floors.choices import (
    Buffers,
    Floor,
    FloorParams,
    Target,
    solve_best_target,
)
from gsnobench_plugins.models.floors.common_mesh import (
    common_geometry,
    common_nodes,
    fields_at_own_nodes,
)
from gsnobench_plugins.models.floors.kernel_ridge import (
    Kernel,
    Kind,
    Scored,
    choose,
    make_kernels,
    make_products,
    radial_kernel,
)
from gsnobench_plugins.models.floors.table import inputs, read_table

GSNOBENCH_API = 1
FITTED = ("lowest", "centre", "scale", "axes", "mean", "linear", "anchors", "precision", "radial")


class Params(FloorParams):
    kernel: Kind = gb.knob(
        default="best", search=False, help="best: whichever has the lower validation error"
    )
    features: Literal["best", "plain", "transformed"] = gb.knob(
        default="best",
        search=False,
        help="plain: the inputs alone; transformed: their transforms too; best: whichever has the "
        "lower validation error",
    )
    nodes: int = gb.knob(
        default=8192,
        low=16,
        high=65536,
        log=True,
        geometry=True,
        search=False,
        help="common nodes at most, where the nodes of samples do not correspond",
    )


class Ridge(Floor):
    """y = mean_y + k(z, Z) c; z are principal components of features of all inputs at all nodes.

    Features of a channel are x alone, or x, 1/x and log x where its training values are positive,
    else x and x^2; a channel that never varies is left out. They are standardised. Axes of plain
    features are zero at the others. The linear kernel is applied as z W. Where the nodes of samples
    do not correspond, everything is taken at common nodes, the distance from the boundary is an
    input, and the prediction is interpolated back.
    """

    lowest: torch.Tensor  # (channels,) of the positive ones
    positive: torch.Tensor  # positions among the input channels
    other: torch.Tensor
    centre: torch.Tensor  # (N, F)
    scale: torch.Tensor  # (F,)
    axes: torch.Tensor  # (N*F, r)
    mean: torch.Tensor  # (t_out, N, C)
    linear: torch.Tensor  # (r, t_out*N*C), or no rows
    anchors: torch.Tensor  # (S, r), or no rows
    precision: torch.Tensor  # ()
    radial: torch.Tensor  # (S, t_out*N*C), or no rows
    strength: torch.Tensor  # () of the ridge, relative to the mean eigenvalue; to be looked at

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__(task, params)
        self.kernel = params.kernel
        self.kind = params.features
        for name in (*FITTED, "strength"):
            self.register_buffer(name, torch.empty(0, dtype=torch.float64))
        for name in ("positive", "other"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int64))

    def standardised(self, x: torch.Tensor) -> torch.Tensor:
        """Features of inputs (B, N, channels), centred at every node, one scale each, (B, N*F)."""
        return ((self.features(x) - self.centre) / self.scale).flatten(1)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Transformed inputs, (B, N, F)."""
        positive = x[..., self.positive].maximum(self.lowest)  # finite at any test value
        other = x[..., self.other]
        return torch.cat([positive, 1 / positive, positive.log(), other, other.square()], dim=-1)

    def views(self) -> list[torch.Tensor]:
        """Which features (N*F,) may be used together: the inputs alone, and all."""
        count, rest = len(self.positive), len(self.other)
        is_plain = torch.tensor([True, False, False]).repeat_interleave(count)
        is_plain = torch.cat([is_plain, torch.tensor([True, False]).repeat_interleave(rest)])
        plain = is_plain.double().repeat(len(self.centre))
        views = {"plain": plain, "transformed": torch.ones_like(plain)}
        return list(views.values()) if self.kind == "best" else [views[self.kind]]

    def closed_form(self, batch: gb.Batch) -> torch.Tensor:
        z = self.standardised(inputs(batch)) @ self.axes  # (B, r)
        near = z[:, : self.anchors.shape[1]]
        near = radial_kernel(near, self.anchors, self.precision)  # (B, S or 0)
        # the kernel that was not chosen has no rows
        y = z[:, : self.linear.shape[0]] @ self.linear + near @ self.radial
        frames = self.mean + y.unflatten(1, self.mean.shape)  # (B, t_out, N, C)
        return frames if batch.task.corresponds else fields_at_own_nodes(batch, frames)


# ----------------------------------------------------------------------------------------- the fit


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Features and their statistics from the training split, the kernel by validation."""
    assert isinstance(module, Ridge)
    train, valid = read_table(fit, "train"), read_table(fit, "valid")
    choose_features(module, train.inputs)
    x, x_valid = module.standardised(train.inputs), module.standardised(valid.inputs)
    kernels = [
        kernel
        for view in module.views()
        for kernel in make_kernels(module.kernel, x * view, x_valid * view)
    ]
    scored = Scored([list(group) for group in fit.task.scored.values()], train.share)

    def solve_target(target: Target) -> Buffers:
        y, y_valid = train.fitted(target), valid.fitted(target)
        kernel, strength = choose(kernels, make_products(y, y_valid, valid.frames, scored))
        return {
            "strength": torch.tensor(strength, dtype=torch.float64),
            **regress(kernel, strength, y),
        }

    solve_best_target(module, fit, solve_target)


def choose_features(module: Ridge, x: torch.Tensor) -> None:
    """Set which channels vary and which are positive, then centre and scale of every feature."""
    lowest, varies = x.amin((0, 1)), (x.amax(0) > x.amin(0)).any(0)  # (channels,)
    module.positive = torch.nonzero(varies & (lowest > 0)).flatten()
    module.other = torch.nonzero(varies & (lowest <= 0)).flatten()
    module.lowest = lowest[module.positive] / 10
    features = module.features(x)  # (S, N, F)
    module.centre = features.mean(0)
    module.scale = (features - module.centre).square().mean((0, 1)).sqrt()


def regress(kernel: Kernel, strength: float, y: torch.Tensor) -> Buffers:
    """The coefficients of the chosen kernel; the other kernel has no rows."""
    axes, mean = kernel.axes, y.mean(0)
    series = kernel.vectors.T @ (y - mean).flatten(1) / kernel.shrunk(strength)[:, None]
    fitted = {"mean": mean, "precision": torch.tensor(kernel.precision, dtype=torch.float64)}
    if kernel.rank == 0:  # k(z, Z) = z Z^T, and Z^T times an eigenvector is one axis
        linear = axes.spread[:, None] * series  # (r, t_out*N*C)
        none = {"anchors": linear[:0, :0], "radial": linear[:0]}
        return {**fitted, **none, "axes": axes.directions, "linear": linear}
    near = (axes.left * axes.spread)[:, : kernel.rank]  # (S, rank)
    radial = kernel.vectors @ series  # (S, t_out*N*C)
    near_axes = axes.directions[:, : kernel.rank]
    return {**fitted, "axes": near_axes, "linear": radial[:0], "anchors": near, "radial": radial}


# ------------------------------------------------------------------------------------ common nodes


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """The common nodes, where the nodes of samples do not correspond."""
    return {} if train.task.corresponds else {"common": common_nodes(train, params.nodes)}


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """The way to the common nodes and back, where there are some."""
    return common_geometry(mesh, task, summary["common"]) if summary else {}


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "ridge",
        Params,
        Ridge,
        presets={"default": gb.Preset(train=gb.UNSCALED)},
        geometry=geometry,
        summary=summary,
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
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
        revision=3,  # plain features
        title="Kernel ridge regression",
        cites="Batlle, Darcy, Hosseini and Owhadi, Kernel methods are competitive for operator "
        "learning, Journal of Computational Physics 496, 2024",
        differs=(
            "the kernel is linear or Gaussian, of the inputs alone or also of fixed transforms of "
            "them, with one width; validation chooses",
            "it predicts the field or its change from the last given frame, chosen on validation",
            "where nodes do not correspond, fields are interpolated to common nodes and back",
        ),
    )
