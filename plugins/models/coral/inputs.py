"""What CORAL encodes on a task: at which coordinates, which input function, with which weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

import gsnobench as gb

if TYPE_CHECKING:
    from gsnobench_plugins.models.coral.model import Params


# ----------------------------------------------------------------------------------------- per task


def input_channels(task: gb.Task) -> int:
    """Channels of the input function: static fields, positions of moving nodes, distances."""
    positions = task.dim if task.corresponds and not task.fixed_mesh else 0
    distances = max(1, len(task.tags)) if has_distances(task) else 0
    return len(task.static) + positions + distances


def has_distances(task: gb.Task) -> bool:
    """Whether nothing but a shape is given, on nodes that do not correspond."""
    return not (task.fixed_mesh or task.corresponds or task.static or task.t_in)


# ---------------------------------------------------------------------------------------- per batch


def coordinates(batch: gb.Batch) -> Tensor:
    """Coordinates of the codecs, (1 or B, N, d): common to all samples if nodes correspond."""
    return batch.geometry.get("place", batch.points)


def per_frame(values: Tensor, frames: int) -> Tensor:
    """Rows of samples -> rows of their frames; a single row stays, since it belongs to all."""
    return values if len(values) == 1 else values.repeat_interleave(frames, 0)


def support(batch: gb.Batch) -> Tensor:
    """1 at the nodes that carry a field, else and at padding 0, (1 or B, N, C)."""
    columns = []
    for field in batch.task.fields:
        tag = field.support.removeprefix("not ")
        if tag == "all":
            is_tagged = torch.ones_like(batch.tags.any(-1))
        else:
            is_tagged = batch.tags[..., batch.task.tags.index(tag)]
        columns.append(~is_tagged if field.support.startswith("not ") else is_tagged)
    carries = torch.stack(columns, -1)
    return (carries if batch.mask is None else carries & batch.mask[..., None]).to(batch.points)


def normalised(weight: Tensor, channels: int) -> Tensor:
    """Weights that sum to 1 over the nodes and channels of a row."""
    total = weight.sum((1, 2), keepdim=True) * (channels / weight.shape[2])
    return weight / total.clamp_min(1)


# ----------------------------------------------------------------------------------------- per mesh


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """The box of the training meshes and, if nodes correspond, their mean positions in it."""
    low = np.min([mesh.points.min(0) for mesh in train.meshes], axis=0)
    extent = np.max([mesh.points.max(0) for mesh in train.meshes], axis=0) - low
    extent = np.where(extent > 0, extent, 1.0)
    stored = {"low": low, "extent": extent}
    if train.task.corresponds and not train.task.fixed_mesh:
        mean = np.mean([mesh.points for mesh in train.meshes], axis=0)
        stored["place"] = (mean - low) / extent
    return stored


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Common coordinates of the nodes, or their distances from each part of the boundary."""
    if has_distances(task):
        distance = distances(mesh, task, float(summary["extent"].max()))
        return {"distance": gb.Part(distance, ("node", "tag"))}
    if "place" not in summary:
        return {}
    place = summary["place"]
    if mesh.size != len(place):  # another mesh: as if nothing were deformed
        place = (mesh.points - summary["low"]) / summary["extent"]
    return {"place": gb.Part(place, ("node", "dim"))}


def distances(mesh: gb.Mesh, task: gb.Task, unit: float) -> np.ndarray:
    """From every node to the nearest node of each tag, (N, tags); 1 for a tag without nodes."""
    columns = np.ones((mesh.size, max(1, len(task.tags))))
    for column, is_tagged in enumerate(mesh.tag_matrix(task.tags).T):
        if is_tagged.any():
            columns[:, column] = cKDTree(mesh.points[is_tagged]).query(mesh.points)[0] / unit
    return columns
