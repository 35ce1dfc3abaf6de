"""Training of CORAL in two stages: codecs on fields, then the processor on frozen codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import gsnobench as gb
from gsnobench_plugins.models.coral.inputs import support
from gsnobench_plugins.models.coral.processors import Dynamics

if TYPE_CHECKING:
    from gsnobench_plugins.models.coral.model import Coral, Params

FORCED_UNTIL = 0.7  # progress until which true codes are mixed into trajectories
FORCED_FIRST, FORCED_LAST = 0.98, 1e-3  # share of true codes, falling geometrically
SCORED_FRAMES = 6  # of a trajectory, approximately, when the codec is scored


def phases(task: gb.Task, params: Params) -> tuple[gb.Phase, ...]:
    """Codecs first, then the processor on their codes."""
    codec = gb.Phase(
        "codec",
        share=params.codec_share,
        loss=codec_loss,
        parameters=codec_parameters,
        score=codec_error,
        rates={"field.": params.codec_rate, "inputs.": params.codec_rate},
    )
    processor = gb.Phase(
        "processor",
        share=1 - params.codec_share,
        loss=code_loss,
        prepare=compute_codes,
        parameters=lambda module: module.get_submodule("processor").parameters(),
    )
    return codec, processor


def codec_loss(module: nn.Module, batch: gb.Batch, target: Tensor, progress: float) -> Tensor:
    """Error of both codecs on what they encode; of a trajectory a few frames, drawn at random."""
    coral = cast("Coral", module)
    frames = torch.cat([batch.window, target], 1)  # (B, T, N, C)
    count = min(coral.params.frames, frames.shape[1])
    chosen = torch.rand(frames.shape[:2]).argsort(1)[:, :count].to(frames.device)  # (B, count)
    frames = frames[torch.arange(len(frames), device=frames.device)[:, None], chosen]
    squares = [coral.field.misfit(*coral.fields(batch, frames), coral.params.inner).mean()]
    if coral.inputs is not None:
        given = coral.input_function(batch)
        squares.append(coral.inputs.misfit(*given, coral.params.inner).mean())
    losses = torch.stack(squares)
    return (losses.sqrt() if coral.params.codec_loss == "rmse" else losses).sum()


def codec_error(module: nn.Module, fit: gb.Fit) -> float:
    """Relative L2, in physical units, of validation frames that f_u encodes and decodes."""
    coral = cast("Coral", module)
    zero, unit = physical_units(fit)
    errors = []
    with torch.no_grad():
        for batch, target in fit.batches("valid"):
            frames = target[:, :: max(1, target.shape[1] // SCORED_FRAMES)]
            decoded = coral.decode(batch, coral.encode_frames(batch, frames))
            decoded, frames = (
                (values - zero.to(values)) * unit.to(values) for values in (decoded, frames)
            )
            errors.append(gb.relative_l2(decoded, frames, support(batch), fit.task))
    return float(torch.cat(errors).mean())


def physical_units(fit: gb.Fit) -> tuple[Tensor, Tensor]:
    """Encoded value of a field's reference and size of an encoded unit, each (C,).

    They are computed from the extremes of one sample.
    """
    _, target = next(iter(fit.batches("valid")))
    nodes, first = fit.valid.mesh(0).size, fit.task.starts[0] + fit.task.t_in
    encoded = target[0, :, :nodes].flatten(0, 1).double().cpu()  # (t_out*N, C)
    frames = np.asarray(fit.valid.frames[np.arange(1)], dtype=np.float64)[0]  # (T, N, C)
    frames = frames[first : first + fit.task.t_out, :nodes]
    references = torch.tensor([field.reference for field in fit.task.fields])
    values = torch.from_numpy(frames).flatten(0, 1) - references  # (t_out*N, C)
    low, high = values.argmin(0, keepdim=True), values.argmax(0, keepdim=True)
    rise = values.gather(0, high) - values.gather(0, low)
    encoded_rise = encoded.gather(0, high) - encoded.gather(0, low)
    unit = torch.where(encoded_rise > 0, rise / encoded_rise.clamp_min(1e-30), 1.0)
    return (encoded.gather(0, low) - values.gather(0, low) / unit)[0], unit[0]


@torch.no_grad()
def compute_codes(module: nn.Module, fit: gb.Fit) -> None:
    """Set the standardised codes of all training samples; codecs are frozen from here on."""
    coral = cast("Coral", module)
    for name in ("in_mean", "out_mean"):
        getattr(coral, name).zero_()
    for name in ("in_std", "out_std"):
        getattr(coral, name).fill_(1.0)
    pairs = [
        (coral.encode_frames(batch, torch.cat([batch.window, target], 1)), coral.context(batch))
        for batch, target in fit.batches("train")
    ]
    # (S, T, dz), (S, dz + P)
    codes, contexts = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    latent = coral.params.latent
    if coral.inputs is not None:
        coral.in_mean, coral.in_std = spread(contexts[:, :latent])
    coral.out_mean, coral.out_std = spread(codes.flatten(0, 1))
    if not coral.task.t_in:  # one scale for all numbers of a code, so that errors weigh as before
        coral.out_std = coral.out_std.square().mean().sqrt().expand(latent).clone()
    coral.codes = (codes - coral.out_mean) / coral.out_std
    standardised = (contexts[:, :latent] - coral.in_mean) / coral.in_std
    coral.contexts = torch.cat([standardised, contexts[:, latent:]], 1)


def spread(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each number of a code, bounded below for constant ones."""
    std = codes.std(0, correction=0)
    return codes.mean(0), std.clamp_min(1e-3 * float(std.max())).clamp_min(1e-12)


def code_loss(module: nn.Module, batch: gb.Batch, target: Tensor, progress: float) -> Tensor:
    """Mean squared error of standardised codes of random training samples; ignores the batch."""
    coral = cast("Coral", module)
    chosen = torch.randint(len(coral.codes), (coral.params.items,)).to(coral.codes.device)
    codes, context, given = coral.codes[chosen], coral.contexts[chosen], coral.task.t_in
    truth = codes[:, given:]
    if isinstance(coral.processor, Dynamics):
        forced = 0.0
        if progress < FORCED_UNTIL:
            forced = FORCED_FIRST * (FORCED_LAST / FORCED_FIRST) ** (progress / FORCED_UNTIL)
        window, further = codes[:, :given], coral.further(context)
        predicted = coral.processor(window, further, truth.shape[1], truth, forced)
    else:
        predicted = coral.process(codes[:, :0], context)
    return functional.mse_loss(predicted, truth)


def codec_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """All parameters but the processor's."""
    for name, parameter in module.named_parameters():
        if not name.startswith("processor."):
            yield parameter
