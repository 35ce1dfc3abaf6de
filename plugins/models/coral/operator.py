"""The operator of CORAL: what its inputs are on a task, and the processors between codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

import gsnobench as gb
from gsnobench_plugins.models.coral.siren import Siren


class Params(gb.Params):
    """The defaults are the paper's table: SIRENs of 4 layers, 128 wide, w0 = 10, codes of 128; its
    "decoder" is the processor.
    """

    depth: int = gb.knob(4, low=3, high=8, help="layers D of a codec, the linear one among them")
    width: int = gb.knob(128, low=16, high=512, log=True, help="channels h of a codec")
    latent: int = gb.knob(128, low=8, high=512, log=True, help="numbers in a code")
    w0_in: float = gb.knob(
        10.0, low=1.0, high=60.0, log=True, help="frequency of the codec of the inputs"
    )
    w0_out: float = gb.knob(
        10.0, low=1.0, high=60.0, log=True, help="frequency of the codec of the outputs"
    )
    inner: int = gb.knob(3, low=0, high=10, search=False, help="gradient steps K that find a code")
    processor: int = gb.knob(64, low=16, high=1024, log=True, help="channels of the processor")
    blocks: int = gb.knob(
        3,
        low=1,
        high=8,
        help="residual blocks (steady) or hidden layers (unsteady) of the processor",
    )
    codec_rate: float = gb.knob(
        0.5,
        low=1e-3,
        high=2.0,
        log=True,
        help="learning rate of stage 1, relative to that of stage 2",
    )
    codec_loss: Literal["rmse", "mse"] = gb.knob(
        "rmse", help="what stage 1 minimises: the root does not fade as it shrinks"
    )
    codec_share: float = gb.knob(
        0.5, low=0.05, high=0.95, search=False, help="share of the steps that stage 1 takes"
    )
    frames: int = gb.knob(
        4, low=1, high=64, search=False, help="frames of a trajectory that a step of stage 1 sees"
    )
    items: int = gb.knob(
        64, low=1, high=4096, search=False, help="samples whose codes a step of stage 2 sees"
    )
    checkpoint: bool = gb.knob(
        False,
        search=False,
        help="recompute inner steps for the gradient: less memory, a third more time",
    )


# --------------------------------------------------------------------------------------- processors


class Swish(nn.Module):
    """x sigmoid(softplus(b) x) / 1.1."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        scale = functional.softplus(self.beta)
        return functional.silu(scale * x) / (1.1 * scale)


class Steady(nn.Module):
    """Codes of the inputs, and scalars, -> codes of the frames."""

    def __init__(self, params: Params, scalars: int, frames: int) -> None:
        super().__init__()
        latent, width = params.latent, params.processor
        self.scalars = nn.Linear(scalars, latent, bias=False) if scalars else None
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(latent, width), Swish(), nn.Linear(width, latent), Swish())
            for _ in range(params.blocks)
        )
        self.last = nn.Linear(latent, frames * latent)

    def forward(self, z: Tensor, scalars: Tensor) -> Tensor:
        """(B, dz), (B, P) -> (B, t_out, dz)."""
        z = z if self.scalars is None else z + self.scalars(scalars)
        for block in self.blocks:
            z = z + block(z)
        return self.last(z).unflatten(1, (-1, z.shape[1]))


class Dynamics(nn.Module):
    """Codes of the last frames, and what does not change in time, -> codes of the next ones."""

    def __init__(self, params: Params, window: int, further: int) -> None:
        super().__init__()
        widths = [window * params.latent + further, *[params.processor] * params.blocks]
        layers = [
            part
            for a, b in zip(widths, widths[1:], strict=False)
            for part in (nn.Linear(a, b), Swish())
        ]
        self.rate = nn.Sequential(*layers, nn.Linear(widths[-1], params.latent))

    def next(self, window: Sequence[Tensor], further: Tensor) -> Tensor:
        """One frame on: t_in codes (B, dz) and (B, Q) -> (B, dz)."""
        z = window[-1]
        if len(window) > 1:
            return z + self.rate(torch.cat([*window, further], 1))

        def rate(at: Tensor) -> Tensor:
            return self.rate(torch.cat([at, further], 1))

        first = rate(z)  # Runge and Kutta's fourth order
        second = rate(z + first / 2)
        third = rate(z + second / 2)
        return z + (first + 2 * second + 2 * third + rate(z + third)) / 6

    def forward(
        self,
        window: Tensor,
        further: Tensor,
        frames: int,
        truth: Tensor | None = None,
        forced: float = 0.0,
    ) -> Tensor:
        """(B, t_in, dz) -> (B, frames, dz); with a truth, each frame goes on from the true code
        with probability `forced`.
        """
        codes, found = list(window.unbind(1)), []
        is_forced = (
            torch.rand(len(window), frames, 1).to(window.device) < forced if forced else None
        )
        for frame in range(frames):
            z = self.next(codes, further)
            found.append(z)
            if truth is not None and is_forced is not None:
                z = torch.where(is_forced[:, frame], truth[:, frame], z)
            codes = [*codes[1:], z]
        return torch.stack(found, 1)


# ---------------------------------------------------------------------------------------- the model


def input_channels(task: gb.Task) -> int:
    """Of the input function: static fields; where nodes move, their places; where only the shape is
    given, distances.
    """
    places = task.dim if task.corresponds and not task.fixed_mesh else 0
    return len(task.static) + places + (max(1, len(task.tags)) if has_distances(task) else 0)


def has_distances(task: gb.Task) -> bool:
    """Whether nothing but a shape is given, on nodes that do not correspond."""
    return not (task.fixed_mesh or task.corresponds or task.static or task.t_in)


class Coral(nn.Module):
    """u(y) = f_u(y; g(encode(f_a, a))) (Serrano et al., 2023)."""

    in_mean: Tensor  # (dz,): of the codes of all training samples
    in_std: Tensor
    out_mean: Tensor
    out_std: Tensor
    # (S, frames, dz): what stage 2 learns from, standardised; saved, so that a cut run goes on
    codes: Tensor
    contexts: Tensor  # (S, dz + P)

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.task, self.params = task, params
        channels, scalars = input_channels(task), len(task.scalars)
        shape = {name: getattr(params, name) for name in ("depth", "width", "latent")} | {
            "recompute": params.checkpoint
        }
        self.field = Siren(task.dim, len(task.fields), w0=params.w0_out, **shape)
        self.inputs = Siren(task.dim, channels, w0=params.w0_in, **shape) if channels else None
        self.processor: Steady | Dynamics = (
            Dynamics(params, task.t_in, scalars + (params.latent if channels else 0))
            if task.t_in
            else Steady(params, scalars, task.t_out)
        )
        for name, value in {"in_mean": 0.0, "in_std": 1.0, "out_mean": 0.0, "out_std": 1.0}.items():
            self.register_buffer(name, torch.full((params.latent,), value))
        for name in ("codes", "contexts"):
            self.register_buffer(name, torch.empty(0))

    def forward(self, batch: gb.Batch) -> Tensor:
        z = self.process(self.window_codes(batch), self.context(batch))  # (B, t_out, dz)
        return self.decode(batch, z * self.out_std + self.out_mean)

    def process(self, window: Tensor, context: Tensor) -> Tensor:
        """Standardised codes of the given frames (B, t_in, dz) and of the rest (B, dz + P) -> of
        the wanted frames.
        """
        if isinstance(self.processor, Dynamics):
            return self.processor(window, self.further(context), self.task.t_out)
        return self.processor(context[:, : self.params.latent], context[:, self.params.latent :])

    def further(self, context: Tensor) -> Tensor:
        """What the dynamics see of a context: no code where there is no input function."""
        return context if self.inputs is not None else context[:, self.params.latent :]

    def window_codes(self, batch: gb.Batch) -> Tensor:
        """Of the given frames, standardised, (B, t_in, dz)."""
        if not self.task.t_in:
            return batch.static.new_zeros(batch.size, 0, self.params.latent)
        return (self.encode_frames(batch, batch.window) - self.out_mean) / self.out_std

    def context(self, batch: gb.Batch) -> Tensor:
        """Of the input function, standardised (zero without one), and the scalars, (B, dz + P)."""
        z = batch.static.new_zeros(batch.size, self.params.latent)
        if self.inputs is not None:
            z = self.inputs.encode(*self.input_function(batch), self.params.inner)
            z = (z - self.in_mean) / self.in_std
        return torch.cat([z, batch.scalars], 1)

    def encode_frames(self, batch: gb.Batch, frames: Tensor) -> Tensor:
        """(B, T, N, C) -> (B, T, dz)."""
        z = self.field.encode(*self.fields(batch, frames), self.params.inner)
        return z.unflatten(0, frames.shape[:2])

    def decode(self, batch: gb.Batch, z: Tensor) -> Tensor:
        """(B, T, dz) -> (B, T, N, C)."""
        y = self.field.decode(per_frame(coordinates(batch), z.shape[1]), z.flatten(0, 1))
        return y.unflatten(0, z.shape[:2])

    def fields(self, batch: gb.Batch, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes, values and weights of B*T frames, as the codec takes them."""
        count = frames.shape[1]
        weight = normalised(support(batch), len(self.task.fields))
        return per_frame(coordinates(batch), count), frames.flatten(0, 1), per_frame(weight, count)

    def input_function(self, batch: gb.Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes, values and weights of what is given beside frames, as the codec takes them."""
        is_moved = self.task.corresponds and not self.task.fixed_mesh
        further = [batch.points.expand(batch.size, -1, -1)] if is_moved else []
        further += (
            [batch.geometry["distance"].expand(batch.size, -1, -1)]
            if has_distances(self.task)
            else []
        )
        values = torch.cat([batch.static, *further], 2)  # (B, N, A)
        seen = (
            torch.ones_like(batch.points[..., :1])
            if batch.mask is None
            else batch.mask[..., None].to(values)
        )
        return coordinates(batch), values, normalised(seen, values.shape[2])


def coordinates(batch: gb.Batch) -> Tensor:
    """Where the codecs live, (1 or B, N, d): on places common to all samples where nodes
    correspond, else where the nodes are.
    """
    return batch.geometry.get("place", batch.points)


def per_frame(values: Tensor, frames: int) -> Tensor:
    """Rows of samples -> rows of their frames; one row stays one, since it belongs to all."""
    return values if len(values) == 1 else values.repeat_interleave(frames, 0)


def support(batch: gb.Batch) -> Tensor:
    """Where each field lives, padding excluded, (1 or B, N, C) of 0 and 1."""
    columns = []
    for one in batch.task.fields:
        tag = one.support.removeprefix("not ")
        inside = (
            torch.ones_like(batch.tags.any(-1))
            if tag == "all"
            else batch.tags[..., batch.task.tags.index(tag)]
        )
        columns.append(~inside if one.support.startswith("not ") else inside)
    seen = torch.stack(columns, -1)
    return (seen if batch.mask is None else seen & batch.mask[..., None]).to(batch.points)


def normalised(seen: Tensor, channels: int) -> Tensor:
    """Weights that sum to 1 over the nodes and channels of a row."""
    return seen / (seen.sum((1, 2), keepdim=True) * (channels / seen.shape[2])).clamp_min(1)
