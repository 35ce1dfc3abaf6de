"""Nodes that samples have in common where their own do not correspond, and interpolation to them.

The common nodes are the centres of clusters of all training nodes: they lie densely where meshes
are fine, and everywhere where some sample has a node. A value is interpolated linearly in the cells
of a mesh; without cells, or for a field that only some nodes carry, it is the mean of the nearest
nodes, weighted by inverse squared distance. Outside a mesh it is that of the nearest place.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

import gsnobench as gb
from gsnobench.meshes.interpolation import interpolation
from gsnobench_plugins.models.floors.boundaries import boundary_distances

ROUNDS = 8  # of Lloyd's algorithm; further ones move the centres little
RATIO = 2  # common nodes per node of the largest training mesh


def common_nodes(train: gb.Samples, most: int) -> gb.Array:
    """Centres of clusters of the nodes of all training meshes, (M, d)."""
    points = np.concatenate([mesh.points for mesh in train.meshes])
    count = min(most, RATIO * max(mesh.size for mesh in train.meshes))
    places = np.unique(points, axis=0)
    centres = np.random.default_rng(0).permutation(places)[:count]
    for _ in range(ROUNDS):
        cluster = cKDTree(centres).query(points)[1]
        size = np.bincount(cluster, minlength=len(centres))
        sums = [np.bincount(cluster, axis, len(centres)) for axis in points.T]
        means = np.stack(sums, axis=1) / np.maximum(size, 1)[:, None]
        centres = np.where(size[:, None] > 0, means, centres)
    return centres


def supports(task: gb.Task) -> tuple[str, ...]:
    """The different sets of nodes that carry something; static inputs are on all nodes."""
    return tuple(dict.fromkeys(["all", *(field.support for field in task.fields)]))


def common_geometry(mesh: gb.Mesh, task: gb.Task, common: gb.Array) -> gb.Geometry:
    """Matrices to the common nodes and back, and the distance of these from the boundary."""
    parts = {
        f"from {support}": gb.Part(_to_points(mesh, support, common), ("common", "node"))
        for support in supports(task)
    }
    parts["back"] = gb.Part(_of_nearest(common, mesh.points), ("node", "common"))
    parts["distance"] = gb.Part(boundary_distances(mesh, common), ("common",))
    return parts


def _to_points(mesh: gb.Mesh, support: str, points: gb.Array) -> csr_array:
    """Values at the nodes of a support -> values at points, (P, N)."""
    if support == "all" and mesh.cells is not None:
        return interpolation(mesh, points)
    nodes = np.flatnonzero(gb.Field("", support=support).nodes(mesh))
    matrix = _of_nearest(mesh.points[nodes], points)
    shape = (len(points), mesh.size)
    return csr_array((matrix.data, nodes[matrix.indices], matrix.indptr), shape=shape)


def _of_nearest(nodes: gb.Array, points: gb.Array) -> csr_array:
    """Values at nodes -> means over the nearest nodes of each point, as many as a cell has."""
    count = min(nodes.shape[1] + 1, len(nodes))
    distance, index = cKDTree(nodes).query(points, np.arange(1, count + 1))  # (P, count)
    closest = np.maximum(distance, 1e-9 * distance.max())  # a node at the point itself: all weight
    weight = (closest[:, :1] / closest) ** 2
    weight /= weight.sum(axis=1, keepdims=True)
    starts = np.arange(len(points) + 1) * count
    return csr_array((weight.ravel(), index.ravel(), starts), shape=(len(points), len(nodes)))


def inputs_at_common_nodes(batch: gb.Batch) -> torch.Tensor:
    """All inputs there, (B, M, channels): distance to the boundary, window, static, scalars."""
    pieces = [batch.geometry["distance"].double()[..., None]]  # (B, M, 1)
    if batch.task.t_in:
        window = fields_at_common_nodes(batch, batch.window)  # (B, t_in, M, C)
        pieces.append(window.permute(0, 2, 1, 3).flatten(2))
    if batch.task.static:
        pieces.append(_apply(batch, "from all", batch.static))  # (B, M, F)
    pieces.append(batch.scalars[:, None].expand(-1, pieces[0].shape[1], -1))  # (B, M, P)
    return torch.cat(pieces, dim=-1)


def fields_at_common_nodes(batch: gb.Batch, frames: torch.Tensor) -> torch.Tensor:
    """Every field from the nodes that carry it: (B, T, N, C) -> (B, T, M, C)."""
    columns = [
        _apply(batch, f"from {field.support}", frames[..., position].transpose(1, 2))  # (B, M, T)
        for position, field in enumerate(batch.task.fields)
    ]
    return torch.stack(columns, dim=-1).transpose(1, 2)


def fields_at_own_nodes(batch: gb.Batch, frames: torch.Tensor) -> torch.Tensor:
    """From the common nodes back: (B, T, M, C) -> (B, T, N, C)."""
    values = frames.permute(0, 2, 1, 3).flatten(2)  # (B, M, T*C)
    own = _apply(batch, "back", values).unflatten(2, (frames.shape[1], frames.shape[3]))
    return own.transpose(1, 2)


def drawn_from_common_nodes(batch: gb.Batch, share: torch.Tensor) -> torch.Tensor:
    """How much of own nodes that count so much (B, N, C) comes from each common one, (B, M, C)."""
    drawn = batch.geometry["back^T"] @ batch.flat(share.float())
    return drawn.unflatten(0, (batch.size, -1)).double()


def _apply(batch: gb.Batch, name: str, values: torch.Tensor) -> torch.Tensor:
    """The matrix on values (B, n, .); the core keeps matrices in float32, so it works there."""
    return batch.apply(name, values.float()).double()
