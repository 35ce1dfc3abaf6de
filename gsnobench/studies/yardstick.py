"""Predictions of trained runs on a common yardstick: the truth of another mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from gsnobench.data import Array, Mesh, Samples, Task
from gsnobench.datasets.store import open_file
from gsnobench.declare import Dataset
from gsnobench.errors import ParamError
from gsnobench.meshes.interpolation import interpolation
from gsnobench.meshes.modes import Kind, eigenbasis
from gsnobench.runs.machine import Machine
from gsnobench.training.metrics import relative_l2


@dataclass(frozen=True, eq=False)
class Truth:
    """The test samples of several tasks; each is solved on its mesh, none is interpolated."""

    machine: Machine
    dataset: Dataset | None  # None: the samples are in `file`
    tasks: Mapping[int, Task]  # by nodes, or by given frames
    file: Path | None = None
    _samples: dict[int, Samples] = field(default_factory=dict, init=False)

    def of(self, number: int) -> Samples:
        """The samples of one task, read once."""
        if number not in self._samples:
            task = self.tasks[number]
            with open_file(self._path(task), task) as opened:
                self._samples[number] = opened.read("test")
        return self._samples[number]

    def _path(self, task: Task) -> Path:
        if self.dataset is not None:
            return self.machine.ensure_data(self.dataset, task)
        assert self.file is not None
        return self.file


def check_meshes(task: Task) -> None:
    """Refuse tasks whose predictions cannot be compared across meshes."""
    if not task.fixed_mesh:
        raise ParamError(
            f"{task.id}: every sample has its own mesh; choose a task with one mesh for all"
        )
    if len(task.starts) > 1:
        raise ParamError(
            f"{task.id}: has several windows per trajectory; choose a task with one window"
        )


def true_frames(samples: Samples, task: Task) -> Array:
    """The frames to be predicted, (S, t_out, N, C)."""
    first = task.starts[0] + task.t_in
    return np.asarray(samples.frames[:])[:, first : first + task.t_out]


def onto(frames: Array, source: Mesh, target: Mesh) -> Array:
    """Frames (S, T, N, C) of one mesh, interpolated to the nodes of another."""
    matrix = interpolation(source, target.points)  # (N_target, N_source)
    flat = frames.reshape(-1, *frames.shape[2:])  # (S * T, N_source, C)
    moved = np.stack([matrix @ frame for frame in flat]).astype(np.float32)
    return moved.reshape(*frames.shape[:2], target.size, frames.shape[-1])


def headlines(prediction: Array, truth: Array, mesh: Mesh, task: Task) -> list[float]:
    """The headline error of each sample, of frames (S, T, N, C) in physical units."""
    reference = np.array([quantity.reference for quantity in task.fields])  # (C,)
    support = np.stack([quantity.nodes(mesh) for quantity in task.fields], axis=-1)  # (N, C)
    p, u = (torch.from_numpy(np.asarray(x - reference, dtype=float)) for x in (prediction, truth))
    errors = relative_l2(p, u, torch.from_numpy(support.astype(float))[None], task)  # (S,)
    return [float(error) for error in errors]


@dataclass(frozen=True)
class Agreement:
    """How far the lowest modes of two meshes of one domain are the same functions."""

    kind: str
    modes: int
    cosine: float  # of the largest principal angle between both spans
    correlation: float  # mean over modes of the one of equal number, signs aside


def agreement(coarse: Mesh, fine: Mesh, modes: int, kind: Kind) -> Agreement:
    """The coarse modes, interpolated to the fine nodes, against the fine modes."""
    ours = eigenbasis(fine, modes, kind=kind)
    carried = interpolation(coarse, fine.points) @ eigenbasis(coarse, modes, kind=kind).vectors
    root = np.sqrt(ours.mass)[:, None]
    frame, _ = np.linalg.qr(root * carried)  # (N, k), orthonormal in the mass of the fine mesh
    cosines = np.linalg.svd((root * ours.vectors).T @ frame, compute_uv=False)
    scaled = root * carried / np.linalg.norm(root * carried, axis=0)
    pairs = np.abs(np.sum(root * ours.vectors * scaled, axis=0))
    return Agreement(kind, modes, float(cosines.min()), float(pairs.mean()))
