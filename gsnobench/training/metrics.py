"""Errors in physical units, per sample first; the mean over samples always comes last.

The headline, which is also the loss and the score that selects weights, is the mean over samples
and scored fields of ||p - u|| / ||u - reference||, over all frames and the nodes that carry the
field, not weighted by area. All tensors here are centred: physical value minus the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gsnobench.batch import Batch
from gsnobench.data import Array, Mesh, Task

TINY = 1e-30  # keeps the relative error of a field that is exactly zero finite


@dataclass(frozen=True, eq=False)
class ScoredNodes:
    """Which nodes count and how much, for one batch."""

    support: torch.Tensor  # (1 or B, N, C) 0/1: nodes that carry a field, without padding
    area: torch.Tensor  # (1 or B, N) lumped mass: area or volume per node
    tags: torch.Tensor  # (1 or B, N, K) bool


def relative_l2(
    prediction: torch.Tensor, target: torch.Tensor, support: torch.Tensor, task: Task
) -> torch.Tensor:
    """The headline per sample, (B,): mean over scored fields."""
    error = (prediction - target).square().sum(1) * support  # (B, N, C), frames summed
    norm = target.square().sum(1) * support  # (B, N, C)
    error, norm = error.sum(1), norm.sum(1)  # (B, C)
    ratios = [
        ((error[:, list(group)].sum(1) + TINY) / norm[:, list(group)].sum(1).clamp_min(TINY)).sqrt()
        for group in task.scored.values()
    ]
    return torch.stack(ratios, dim=1).mean(1)


def sample_errors(
    prediction: torch.Tensor, target: torch.Tensor, scored: ScoredNodes, task: Task
) -> dict[str, dict[str, torch.Tensor]]:
    """All metrics of a batch: name -> metric -> (B,); names are fields, vectors and magnitudes."""
    table: dict[str, dict[str, torch.Tensor]] = {}
    for name, quantity in _quantities(prediction, target, scored, task):
        table[name] = _errors(quantity, scored)
        for position, tag in enumerate(task.tags):
            on_tag = quantity.support * scored.tags[..., position, None]  # (1 or B, N, c)
            if bool((on_tag.sum() > 0).item()):
                difference = (quantity.prediction - quantity.target) * on_tag[:, None]
                table[name][f"boundary_{tag}"] = _rms(difference, on_tag)
    table["headline"] = {"rel_l2": relative_l2(prediction, target, scored.support, task)}
    return table


def frame_errors(
    prediction: torch.Tensor, target: torch.Tensor, scored: ScoredNodes, task: Task
) -> dict[str, torch.Tensor]:
    """Relative L2 of every frame on its own: scored field -> (B, T)."""
    table = {}
    for name, group in task.scored.items():
        channels = list(group)
        support = scored.support[:, None, :, channels]
        error = ((prediction - target)[..., channels].square() * support).sum((2, 3))
        norm = (target[..., channels].square() * support).sum((2, 3))
        table[name] = ((error + TINY) / norm.clamp_min(TINY)).sqrt()
    return table


def each_sample(
    score: Callable[[Array, Array, Mesh, Task], float],
) -> Callable[[torch.Tensor, torch.Tensor, Batch], torch.Tensor]:
    """A metric's `compute` from `score(p, u, mesh, task)`, the score of one sample on its mesh.

    p and u are float64 arrays (T, n, C), the prediction and the truth at the n nodes of the mesh:
    padding is cut off, and no sample sees another.
    """

    def compute(prediction: torch.Tensor, target: torch.Tensor, batch: Batch) -> torch.Tensor:
        def values(frames: torch.Tensor, mesh: Mesh) -> Array:
            return frames[:, : mesh.size].cpu().double().numpy()

        scores = [
            score(values(p, mesh), values(u, mesh), mesh, batch.task)
            for p, u, mesh in zip(prediction, target, batch.meshes, strict=True)
        ]
        return torch.tensor(scores, dtype=torch.float64)  # (B,)

    return compute


@dataclass(frozen=True, eq=False)
class _Quantity:
    """What is scored under one name: a field, a vector, or the magnitude of a vector."""

    prediction: torch.Tensor  # (B, T, N, c)
    target: torch.Tensor  # (B, T, N, c)
    raw: torch.Tensor  # (B, T, N, c) target with its reference
    support: torch.Tensor  # (1 or B, N, c)


def _quantities(
    prediction: torch.Tensor, target: torch.Tensor, scored: ScoredNodes, task: Task
) -> Iterator[tuple[str, _Quantity]]:
    """Each field, then each vector and its magnitude."""
    reference = target.new_tensor([field.reference for field in task.fields])  # (C,)

    def part(channels: slice | list[int]) -> _Quantity:
        u = target[..., channels]
        support = scored.support[..., channels]
        return _Quantity(prediction[..., channels], u, u + reference[channels], support)

    for position, field in enumerate(task.fields):
        yield field.name, part(slice(position, position + 1))
    for name, group in task.vectors.items():
        vector = part(list(group))
        yield name, vector
        length = _length(vector.raw)
        predicted = _length(vector.prediction + reference[list(group)])
        yield f"{name}_magnitude", _Quantity(predicted, length, length, vector.support[..., :1])


def _length(vector: torch.Tensor) -> torch.Tensor:
    """(B, T, N, c) -> (B, T, N, 1)."""
    return vector.square().sum(-1, keepdim=True).sqrt()


def _errors(quantity: _Quantity, scored: ScoredNodes) -> dict[str, torch.Tensor]:
    """Metric -> (B,)."""
    p, u, raw = quantity.prediction, quantity.target, quantity.raw
    seen = quantity.support[:, None]  # (1 or B, 1, N, c)
    area = scored.area[:, None, :, None]  # (1 or B, 1, N, 1)
    difference = (p - u) * seen  # (B, T, N, c)
    squared = difference.square()
    return {
        "rel_l2": _ratio(squared, u.square() * seen),
        "rel_l2_raw": _ratio(squared, raw.square() * seen),
        "rel_l2_area": _ratio(squared * area, u.square() * seen * area),
        "rmse": _rms(difference, quantity.support),
        "mae": difference.abs().sum((1, 2, 3)) / _count(difference, quantity.support),
        "max": difference.abs().amax((1, 2, 3)),
    }


def _ratio(error: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    """Root of the ratio of two sums of squares, (B, T, N, c) both: (B,)."""
    return (error.sum((1, 2, 3)) / norm.sum((1, 2, 3)).clamp_min(TINY)).sqrt()


def _count(difference: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """Numbers that are scored, (B,)."""
    batch, frames = difference.shape[:2]
    return (support.sum((1, 2)) * frames).clamp_min(1).expand(batch)


def _rms(difference: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    return (difference.square().sum((1, 2, 3)) / _count(difference, support)).sqrt()
