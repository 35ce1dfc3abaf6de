"""Prediction: a module is called until all frames are there, on a batch or on a whole split."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from gsnobench.batch import Batch
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import relative_l2


def rollout(
    module: nn.Module, loader: Loader, batch: Batch, indices: torch.Tensor, frames: int
) -> torch.Tensor:
    """Call the module until there are `frames` frames: (B, frames, N, C), centred and physical."""
    pieces: list[torch.Tensor] = []
    done = 0
    while True:
        piece = loader.finish(module(batch), batch, indices)  # (B, steps, N, C)
        pieces.append(piece)
        done += piece.shape[1]
        if done >= frames:
            return torch.cat(pieces, dim=1)[:, :frames] if len(pieces) > 1 else piece[:, :frames]
        encoded = loader.normaliser.window.encode(piece)
        window = torch.cat([batch.window, encoded], dim=1)[:, -loader.task.t_in :]
        batch = replace(batch, window=window)


@dataclass(frozen=True, eq=False)
class Step:
    """One evaluated batch; target and prediction are centred physical values."""

    indices: torch.Tensor  # (B,) samples
    batch: Batch
    target: torch.Tensor  # (B, frames, N, C)
    prediction: torch.Tensor  # (B, frames, N, C)
    seconds: float  # of the prediction


def walk(
    module: nn.Module, loader: Loader, frames: int, batch_size: int
) -> Generator[Step, None, None]:
    """Predict every (sample, start) of a split, in order, without gradients."""
    was_training = module.training
    module.eval()
    try:
        for indices, starts in windows(loader, batch_size, loader.starts):
            with torch.no_grad():  # not inference_mode: a model may differentiate here
                batch, target = loader.batch(indices, starts, frames)
                started = time.perf_counter()
                prediction = rollout(module, loader, batch, indices, frames)
                if loader.device.type == "cuda":
                    torch.cuda.synchronize(loader.device)
                seconds = time.perf_counter() - started
            yield Step(indices, batch, target, prediction, seconds)
    finally:
        module.train(was_training)


def windows(
    loader: Loader, batch_size: int, starts: Sequence[int]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Every (sample, start) of a split in order, in batches of indices (B,) and starts (B,)."""
    pairs = [(index, start) for index in range(len(loader)) for start in starts]
    for first in range(0, len(pairs), batch_size):
        batch_indices, batch_starts = zip(*pairs[first : first + batch_size], strict=True)
        yield torch.tensor(batch_indices), torch.tensor(batch_starts)


def headline(module: nn.Module, loader: Loader, frames: int, batch_size: int) -> float:
    """The score that selects weights: mean relative L2 over samples and scored fields."""
    scores = []
    for step in walk(module, loader, frames, batch_size):
        support = loader.scored_nodes(step.indices).support
        scores.append(relative_l2(step.prediction, step.target, support, loader.task))
    return float(torch.cat(scores).mean())
