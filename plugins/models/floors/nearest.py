"""Floor `nearest`: the solution of the closest training geometry, node by closest node.

Where frames are given, it may be the change from the last of them.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import nn

import gsnobench as gb
from gsnobench_plugins.models.floors.boundaries import boundary_distances
from gsnobench_plugins.models.floors.choices import (
    Buffers,
    Floor,
    FloorParams,
    Target,
    fitted_windows,
    solve_best_target,
)

GSNOBENCH_API = 1


class Params(FloorParams):
    grid: int = gb.knob(
        default=1024,
        low=16,
        high=65536,
        log=True,
        geometry=True,
        search=False,
        help="distance samples that describe a shape",
    )


class Nearest(Floor):
    """u(x) = u_s(closest node of s to x), s = argmin_s ||distance grid - distance grid of s||."""

    values: torch.Tensor  # (S, t_out, N_max, C)

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__(task, params)
        self.register_buffer("values", torch.empty(0, dtype=torch.float64))

    def closed_form(self, batch: gb.Batch) -> torch.Tensor:
        known = self.values[batch.geometry["sample"][:, 0]]  # (B, t_out, N_max, C)
        match = batch.geometry["match"][:, None]  # (B, 1, N, C)
        frames = known.gather(2, match.expand(-1, known.shape[1], -1, -1))  # (B or 1, t_out, N, C)
        return frames.expand(batch.size, -1, -1, -1)


def solve(module: nn.Module, fit: gb.Fit) -> None:
    """Keep the training targets; of a sample with several evaluated windows, their mean."""

    def solve_target(target: Target) -> Buffers:
        samples = range(len(fit.train))
        means = [fitted_windows(fit, index, target).mean(axis=0) for index in samples]
        return {"values": torch.from_numpy(np.stack(means))}

    solve_best_target(module, fit, solve_target)


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
        revision=2,
        title="Nearest training geometry",
        cites="Cover and Hart, Nearest neighbor pattern classification, IEEE Transactions on "
        "Information Theory 13, 1967",
    )
