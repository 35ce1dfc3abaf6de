"""Errors in physical units, per sample first; the mean over samples is always taken last.

Headline (= loss = selection score): mean over samples and scored fields of ||p - u|| / ||u -
reference||, frames flattened, support nodes only, unweighted. All tensors here are centred:
physical value minus the field's reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gsnobench.data import Task

TINY = 1e-30  # an exactly zero field has no relative error; this keeps it finite


@dataclass(frozen=True, eq=False)
class ScoredNodes:
    """Which nodes count and how much, for one batch."""

    support: torch.Tensor  # (1 or B, N, C) 0/1: support nodes that are not padding
    area: torch.Tensor  # (1 or B, N) lumped mass: the area or volume a node stands for
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
    """All metrics of a batch: field -> metric -> (B,). Fields are the task's own, its vector
    groups, and magnitudes.
    """
    table: dict[str, dict[str, torch.Tensor]] = {}
    reference = target.new_tensor([one.reference for one in task.fields])  # (C,)
    for name, p, u, raw, support in _quantities(prediction, target, reference, scored, task):
        table[name] = _errors(p, u, raw, support, scored)
        for position, tag in enumerate(task.tags):
            on_tag = support * scored.tags[..., position, None]  # (1 or B, N, 1)
            if bool((on_tag.sum() > 0).item()):
                table[name][f"boundary_{tag}"] = _rms((p - u) * on_tag[:, None], on_tag, u.shape[1])
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


def _quantities(
    prediction: torch.Tensor,
    target: torch.Tensor,
    reference: torch.Tensor,
    scored: ScoredNodes,
    task: Task,
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(name, prediction, target, raw target, support) of each field, each vector, each vector's
    magnitude.
    """
    for position, one in enumerate(task.fields):
        channel = slice(position, position + 1)
        raw = target[..., channel] + reference[channel]
        yield (
            one.name,
            prediction[..., channel],
            target[..., channel],
            raw,
            scored.support[..., channel],
        )
    for name, group in task.vectors.items():
        channels = list(group)
        p, u, support = (
            prediction[..., channels],
            target[..., channels],
            scored.support[..., channels],
        )
        yield name, p, u, u + reference[channels], support
        length = (u + reference[channels]).square().sum(-1, keepdim=True).sqrt()
        guess = (p + reference[channels]).square().sum(-1, keepdim=True).sqrt()
        yield f"{name}_magnitude", guess, length, length, support[..., :1]


def _errors(
    p: torch.Tensor, u: torch.Tensor, raw: torch.Tensor, support: torch.Tensor, scored: ScoredNodes
) -> dict[str, torch.Tensor]:
    seen = support[:, None]  # (1 or B, 1, N, c)
    difference = (p - u) * seen  # (B, T, N, c)
    area = scored.area[:, None, :, None]
    squared = difference.square()
    return {
        "rel_l2": _ratio(squared.sum((1, 2, 3)), (u.square() * seen).sum((1, 2, 3))),
        "rel_l2_raw": _ratio(squared.sum((1, 2, 3)), (raw.square() * seen).sum((1, 2, 3))),
        "rel_l2_area": _ratio(
            (squared * area).sum((1, 2, 3)), (u.square() * seen * area).sum((1, 2, 3))
        ),
        "rmse": _rms(difference, support, u.shape[1]),
        "mae": difference.abs().sum((1, 2, 3)) / _count(support, u.shape[1], u.shape[0]),
        "max": difference.abs().amax((1, 2, 3)),
    }


def _ratio(error: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    return (error / norm.clamp_min(TINY)).sqrt()


def _count(support: torch.Tensor, frames: int, batch: int) -> torch.Tensor:
    return (support.sum((1, 2)) * frames).clamp_min(1).expand(batch)


def _rms(difference: torch.Tensor, support: torch.Tensor, frames: int) -> torch.Tensor:
    return (
        difference.square().sum((1, 2, 3)) / _count(support, frames, difference.shape[0])
    ).sqrt()
