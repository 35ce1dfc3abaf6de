"""Random numbers as samples and batches, for rules that hold for any numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gsnobench as gb
from gsnobench.training.loader import Loader


def samples(meshes: tuple[gb.Mesh, ...], count: int, shape: Mapping[str, Any]) -> gb.Samples:
    """Samples of random numbers on these meshes; `shape` changes their task."""
    nodes = max(mesh.size for mesh in meshes)
    task = gb.Task(
        "t",
        "t",
        **{"fields": (gb.Field("u"),), "dim": meshes[0].dim, "tags": ("boundary",), **shape},
    )
    draw = np.random.default_rng(0)
    return gb.Samples(
        task=task,
        meshes=meshes,
        frames=draw.standard_normal(
            (count, task.t_in + task.t_out, nodes, len(task.fields))
        ).astype(np.float32),
        static=draw.standard_normal((count, nodes, len(task.static))).astype(np.float32),
        scalars=draw.standard_normal((count, len(task.scalars))).astype(np.float32),
    )


def all_of(loader: Loader) -> gb.Batch:
    """All samples of a loader as one batch."""
    count = len(loader)
    return loader.batch(
        torch.arange(count), torch.zeros(count, dtype=torch.long), loader.task.t_out
    )[0]


def relative(p: Tensor, u: Tensor) -> Tensor:
    """Mean relative L2 difference."""
    return ((p - u).flatten(1).norm(dim=1) / u.flatten(1).norm(dim=1)).mean()


def random_batch(
    task: gb.Task, size: int = 3, nodes: int = 20, dtype: torch.dtype = torch.float32
) -> gb.Batch:
    """A batch of random numbers without geometry."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=dtype)

    return gb.Batch(
        task=task,
        window=normal(size, task.t_in, nodes, len(task.fields)),
        static=normal(size, nodes, len(task.static)),
        scalars=normal(size, len(task.scalars)),
        points=normal(1 if task.fixed_mesh else size, nodes, task.dim),
        tags=torch.zeros(1, nodes, 0, dtype=torch.bool),
        mask=None,
        geometry={},
    )


def nodes_picked(batch: gb.Batch, order: Tensor) -> gb.Batch:
    """The batch with its nodes in another order, or some of them."""
    picked = {
        "window": batch.window[:, :, order],
        "static": batch.static[:, order],
        "points": batch.points[:, order],
    }
    return replace(batch, **picked, tags=batch.tags[:, order])
