"""A split as one table: all inputs and frames of all windows, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import gsnobench as gb
from gsnobench_plugins.models.floors.choices import Target, carriers, in_float64
from gsnobench_plugins.models.floors.common_mesh import (
    drawn_from_common_nodes,
    fields_at_common_nodes,
    inputs_at_common_nodes,
)


@dataclass(frozen=True, eq=False)
class Table:
    """A split at the nodes, or at the common ones, in float64."""

    inputs: torch.Tensor  # (S, N, channels)
    frames: torch.Tensor  # (S, t_out, N, C)
    last: torch.Tensor  # (S, 1, N, C), the last given frame; no frame if none is given
    share: torch.Tensor  # (N, C), how much a node counts in the score of a field

    def fitted(self, target: Target) -> torch.Tensor:
        """What is to be predicted, (S, t_out, N, C)."""
        return self.frames - self.last if target == "change" else self.frames


def read_table(fit: gb.Fit, split: gb.Split) -> Table:
    """All windows of a split."""
    columns: list[tuple[torch.Tensor, ...]] = []
    for encoded, target in fit.batches(split):
        batch = in_float64(encoded)
        frames = torch.cat([target.double(), batch.window[:, -1:]], dim=1)
        share = carriers(batch).double().expand(batch.size, -1, -1)  # (B, N, C)
        if not fit.task.corresponds:
            frames = fields_at_common_nodes(batch, frames)
            share = drawn_from_common_nodes(batch, share)
        steps = target.shape[1]
        columns.append((inputs(batch), frames[:, :steps], frames[:, steps:], share))
    x, frames, last, share = (torch.cat(column) for column in zip(*columns, strict=True))
    return Table(x, frames, last, share.mean(0))


def inputs(batch: gb.Batch) -> torch.Tensor:
    """All inputs at the nodes, or at the common ones: (B, N, channels)."""
    return batch.features if batch.task.corresponds else inputs_at_common_nodes(batch)
