"""Floor `nearest`: the solution of the closest training geometry, node by closest node."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import nn

import gsnobench as gb
from gsnobench.meshes.topology import boundary_facets

GSNOBENCH_API = 1


class Params(gb.Params):
    grid: int = gb.knob(
        default=1024,
        low=16,
        high=65536,
        log=True,
        geometry=True,
        search=False,
        help="distance samples that describe a shape",
    )


class Nearest(nn.Module):
    """u(x) = u_s(closest node of s to x), s = argmin_s ||distance grid - distance grid of s||."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.values: torch.Tensor
        self.register_buffer("values", torch.empty(0))  # (S, t_out, N_max, C)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        known = self.values[batch.geometry["sample"][:, 0]]  # (B, t_out, N_max, C)
        match = batch.geometry["match"][:, None]  # (B, 1, N, C)
        frames = known.gather(2, match.expand(-1, known.shape[1], -1, -1))  # (B or 1, t_out, N, C)
        return frames.expand(batch.size, -1, -1, -1)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Keep the training targets; of a sample with several evaluated windows, their mean."""
    assert isinstance(module, Nearest)
    task = fit.task
    references = [field.reference for field in task.fields]
    firsts = [start + task.t_in for start in task.starts]  # first target frame of every window
    values = torch.zeros(len(fit.train), task.t_out, *fit.train.frames.shape[2:])
    for index in range(len(fit.train)):
        frames = np.asarray(fit.train.frames[index], dtype=np.float64) - references  # (T, N, C)
        windows = [frames[first : first + task.t_out] for first in firsts]
        values[index] = torch.as_tensor(np.mean(windows, axis=0))
    module.values = values.to(module.values.device)


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """Distance grids, nodes and supports of the training geometries, padded: for comparison."""
    task, meshes = train.task, [train.mesh(index) for index in range(len(train))]
    largest = max(mesh.size for mesh in meshes)
    points = np.zeros((len(meshes), largest, task.dim))
    support = np.zeros((len(meshes), largest, len(task.fields)), dtype=bool)
    for index, mesh in enumerate(meshes):
        points[index, : mesh.size] = mesh.points
        nodes = [field.nodes(mesh) for field in task.fields]
        support[index, : mesh.size] = np.stack(nodes, axis=1)
    probes = _probes(np.concatenate([mesh.points for mesh in meshes]), params.grid)  # (G, d)
    grids = np.stack([boundary_distances(mesh, probes) for mesh in meshes])  # (S, G)
    return {"probes": probes, "grids": grids, "points": points, "support": support}


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Index of the closest training geometry, and the closest node there per node and field."""
    gaps = summary["grids"] - boundary_distances(mesh, summary["probes"])  # (S, G)
    sample = int(np.argmin(np.square(gaps).sum(axis=1)))
    columns = []
    for position in range(len(task.fields)):
        nodes = np.flatnonzero(summary["support"][sample, :, position])
        closest = cKDTree(summary["points"][sample, nodes]).query(mesh.points)[1]
        columns.append(nodes[closest])
    match = np.stack(columns, axis=1).astype(np.int64)  # (N, C)
    return {
        "sample": gb.Part(np.array([sample]), ("one",)),
        "match": gb.Part(match, ("node", "field")),
    }


def _probes(points: gb.Array, count: int) -> gb.Array:
    """A regular grid of about `count` points, a tenth larger than the bounding box, (G, d)."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (high - low)
    per_axis = max(2, round(count ** (1 / points.shape[1])))
    axes = np.linspace(low - margin, high + margin, per_axis).T  # (d, n)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, points.shape[1])


def boundary_distances(mesh: gb.Mesh, probes: gb.Array) -> gb.Array:
    """Distance of each probe to the boundary, negative inside, (G,).

    For a mesh without plane cells: unsigned, to the tagged nodes, or to all if none is tagged.
    """
    if mesh.cells is not None and mesh.dim == 2:
        ends = mesh.points[boundary_facets(mesh)]  # (E, 2, 2)
        return np.where(_inside(probes, ends), -1.0, 1.0) * _to_segments(probes, ends)
    tagged = mesh.tag_matrix(sorted(mesh.tags)).any(axis=1)
    nodes = mesh.points[tagged] if tagged.any() else mesh.points
    distance: gb.Array = cKDTree(nodes).query(probes)[0]
    return distance


def _inside(probes: gb.Array, ends: gb.Array) -> gb.Array:
    """Even-odd rule: a ray to the right crosses the boundary an odd number of times, (G,) bool."""
    a, b = ends[None, :, 0], ends[None, :, 1]  # (1, E, 2)
    x, y = probes[:, None, 0], probes[:, None, 1]  # (G, 1)
    spans = (a[..., 1] > y) != (b[..., 1] > y)  # (G, E)
    rise = np.where(spans, b[..., 1] - a[..., 1], 1.0)
    crossing = a[..., 0] + (y - a[..., 1]) * (b[..., 0] - a[..., 0]) / rise
    is_inside: gb.Array = (spans & (crossing > x)).sum(axis=1) % 2 == 1
    return is_inside


def _to_segments(probes: gb.Array, ends: gb.Array) -> gb.Array:
    """Distance to the nearest of the segments, (G,)."""
    a, along = ends[:, 0], ends[:, 1] - ends[:, 0]  # (E, 2)
    offset = probes[:, None] - a  # (G, E, 2)
    share = (offset * along).sum(axis=-1) / np.square(along).sum(axis=-1)  # (G, E), of the segment
    share = np.clip(share, 0.0, 1.0)
    distance: gb.Array = np.linalg.norm(offset - share[..., None] * along, axis=-1).min(axis=1)
    return distance


def declines(task: gb.Task) -> str | None:
    return "all samples share one geometry, so none is closer" if task.fixed_mesh else None


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "nearest",
        Params,
        Nearest,
        presets={"default": gb.Preset(train=gb.UNSCALED)},
        geometry=geometry,
        summary=summary,
        phases=lambda task, params: (gb.Phase("solve", solve=solve),),
        declines=declines,
        capabilities=frozenset(
            {
                gb.Capability.STEADY,
                gb.Capability.UNSTEADY,
                gb.Capability.VARYING_GEOMETRY,
                gb.Capability.THREE_DIMENSIONS,
                gb.Capability.OTHER_MESH,
                gb.Capability.PERMUTATION_EQUIVARIANT,
            }
        ),
        is_floor=True,
        title="Nearest training geometry",
        cites="Cover and Hart, Nearest neighbor pattern classification, IEEE Transactions on "
        "Information Theory 13, 1967",
    )
