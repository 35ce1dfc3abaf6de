"""What MGKN computes once per mesh: node sets, edges and weights, as parts of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import KDTree

import gsnobench as gb
from gsnobench_plugins.models.mgkn import levels as build

if TYPE_CHECKING:
    from gsnobench_plugins.models.mgkn.model import Params

SOME_MESHES = 16  # training meshes whose mean volume decides the radii, if samples have their own


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """Sizes and radii of the levels; of a mesh shared by all samples also its coarse nodes."""
    task, size = train.task, int(np.median([mesh.size for mesh in train.meshes]))
    counts = [max(1, round(size / 2 ** (task.dim * level))) for level in range(params.levels)]
    boxes = [[mesh.points.min(axis=0), mesh.points.max(axis=0)] for mesh in train.meshes]
    stored = {
        "counts": np.array(counts),
        "extent": np.ptp(np.concatenate(boxes), axis=0),
        "radii": _radii(train, counts, params),
    }
    if not task.fixed_mesh:
        return stored
    domain = build.Domain(train.mesh(0))
    coarse = build.farthest(domain, counts[1]) if params.levels > 1 else np.arange(0)
    return {
        **stored,
        "places": domain.points[coarse],
        "points": domain.points,
        "ring": build.REACH * domain.spacing,
    }


def _radii(train: gb.Samples, counts: list[int], params: Params) -> gb.Array:
    """Radius of the balls on every level, (levels,); 0 without balls."""
    volume = 0.0
    if params.neighbours:
        some = np.unique(np.linspace(0, len(train.meshes) - 1, SOME_MESHES).astype(int))
        volumes = [build.Domain(train.meshes[index]).volume.sum() for index in some]
        volume = float(np.mean(volumes))
    dim = train.task.dim
    return np.array([build.ball_radius(volume, count, params.neighbours, dim) for count in counts])


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Node sets of a mesh, and for every kind of edge the sources of each target with weights."""
    domain, counts = build.Domain(mesh), [int(count) for count in summary["counts"]]
    rule = build.Rule(
        parents=params.parents,
        neighbours=params.neighbours,
        radii=tuple(float(radius) for radius in summary["radii"]),
        most=int(2 * params.neighbours * max(1.0, mesh.size / counts[0])) + 1,
    )
    chosen, ring = _coarse(domain, counts, summary), _ring(domain, summary)
    hierarchy = build.hierarchy(domain, chosen, tuple(counts[1:]), rule, ring)
    parts = {
        f"level{level}": gb.Part(nodes, (f"level{level}",), "node")
        for level, nodes in enumerate(hierarchy.levels)
        if level
    }
    mass = [_mass(domain, nodes, params) for nodes in hierarchy.levels]
    for name in kinds(params.levels):
        parts |= _edges(name, domain, hierarchy, mass, params.gamma, is_shared=task.fixed_mesh)
    if params.slopes:
        parts["smooth"] = gb.Part(build.smoothing(domain), ("node", "node"))
        slopes = zip(build.slopes(domain), summary["extent"], strict=True)
        for axis, (matrix, extent) in enumerate(slopes):
            parts[f"slope{axis}"] = gb.Part(matrix * extent, ("node", "node"))
    return parts


def kinds(levels: int) -> dict[str, tuple[int, int]]:
    """Every kind of edge, with the levels of its sources and its targets."""
    inside = {f"mid{level}": (level, level) for level in range(levels)}
    down = {f"down{level}": (level, level + 1) for level in range(levels - 1)}
    return inside | down | {f"up{level}": (level + 1, level) for level in range(levels - 1)}


def _edges(
    name: str,
    domain: build.Domain,
    hierarchy: build.Hierarchy,
    mass: list[gb.Array],
    gamma: float,
    *,
    is_shared: bool,
) -> gb.Geometry:
    """The edges of one kind as lists of sources per target, and one by one for a shared mesh."""
    a, b = kinds(len(hierarchy.levels))[name]
    sets = ["node", *(f"level{level}" for level in range(1, len(hierarchy.levels)))]
    links_of = {"mid": hierarchy.inside, "down": hierarchy.down, "up": hierarchy.up}
    links = links_of[name.rstrip("0123456789")][min(a, b)]
    targets, sources = domain.points[hierarchy.levels[b]], domain.points[hierarchy.levels[a]]
    lengths = np.linalg.norm(sources[links.source] - targets[links.target], axis=1)
    share = build.shares(links, lengths, mass[a], gamma)  # (E,)
    source, shares = build.lists(links, share, len(targets))  # (M, D)
    parts = {
        f"{name}.source": gb.Part(source, (sets[b], f"{name} list"), sets[a]),
        f"{name}.share": gb.Part(shares, (sets[b], f"{name} list")),
    }
    if is_shared:
        parts[f"{name}.edge_source"] = gb.Part(links.source, (f"{name} edge",), sets[a])
        parts[f"{name}.edge_target"] = gb.Part(links.target, (f"{name} edge",), sets[b])
        parts[f"{name}.edge_share"] = gb.Part(share, (f"{name} edge",))
    return parts


def _coarse(domain: build.Domain, counts: list[int], summary: gb.Summary) -> gb.Array:
    """Nodes from which the coarse levels are chosen; those of the training mesh if there is one."""
    if "places" in summary:
        return build.nearest_nodes(domain, summary["places"])
    return build.farthest(domain, counts[1]) if len(counts) > 1 else np.arange(0)


def _ring(domain: build.Domain, summary: gb.Summary) -> gb.Array | None:
    """Radius of each finest neighbourhood on a new mesh, as on the training mesh; None on that."""
    if "ring" not in summary or np.array_equal(domain.points, summary["points"]):
        return None
    _, closest = KDTree(summary["points"]).query(domain.points)
    return np.asarray(summary["ring"][closest])


def _mass(domain: build.Domain, nodes: gb.Array, params: Params) -> gb.Array:
    """Weight of each node of a level, (m,): one, or the volume of its cell."""
    if params.weights == "nodes":
        return np.ones(len(nodes))
    owner = domain.owners(nodes)
    return np.bincount(owner[owner >= 0], domain.volume[owner >= 0], len(nodes))
