"""Multipole graph kernel network: messages with matrix-valued kernels in V-cycles over a hierarchy
of node sets.

Operator  nodes and nested coarser sets of them; inside a level and between two, a node adds the mean of what its neighbours
          say, each through a matrix that a small network makes of the two places (and, in `official`, of the inputs there)
Formula   (K v)_i = sum_j rho_ij k(e_ij)^T v_j, sum_j rho_ij = 1;  k(e) = sum_q h_q(e) A_q + A_0;  v_l = P f on every level l;
          T times  down: v_{l+1} <- relu(v_{l+1} + K_{l,l+1} v_l),  then from the coarsest: v_l <- relu(v_l + K_{l,l} v_l),
          v_{l-1} <- relu(v_{l-1} + K_{l,l-1} v_l);  u = Q v_0
Cost      one mesh for all samples: the E matrices k once a step, then T B E w^2 products; else sum_q A_q^T (sum_j rho h_q v_j),
          T B N K w^2 products and never a matrix an edge
Start     compact on a CPU; `paper` has 64 channels, 4 cycles, 3 levels with 4 (in space 8) times fewer nodes each
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor, nn
from torch.nn import functional

import gsnobench as gb
from gsnobench_plugins.models.mgkn import levels as build
from gsnobench_plugins.models.mgkn.kernels import Kernel, Sum

GSNOBENCH_API = 1
# training meshes whose mean volume decides the radii, where every sample has its own
LOOKED_AT = 16
UNIT = 1024  # nodes, where a task does not say
# of shared kernel matrices; beyond, the other order of the sums takes less memory
MOST_BYTES = 3 << 29


class Params(gb.Params):
    """The defaults are the paper's table, as we read it."""

    width: int = gb.knob(
        64, low=8, high=256, log=True, help="channels w of a node; cost grows with w^2"
    )
    kernel_width: int = gb.knob(
        64,
        low=4,
        high=1024,
        log=True,
        help="hidden units K of a finest kernel; halved on every level",
    )
    cycles: int = gb.knob(4, low=1, high=10, help="V-cycles T, with the same kernels")
    levels: int = gb.knob(
        3,
        low=1,
        high=6,
        geometry=True,
        help="node sets, each with 2^d times fewer nodes than the last",
    )
    kernel: Literal["mlp", "rbf"] = gb.knob(
        "mlp", help="matrices from a network of the edge, or one matrix times its weight"
    )
    edges: Literal["places", "inputs"] = gb.knob(
        "places", help="what a kernel sees of its two nodes: inputs is places and inputs"
    )
    offsets: bool = gb.knob(
        False, help="kernels see the edge's vector in mean edge lengths, in place of its first end"
    )
    gamma: float = gb.knob(
        1.0,
        low=0.0,
        high=10.0,
        geometry=True,
        help="edge weight exp(-gamma (d / farthest)^2); 0: plain mean",
    )
    weights: Literal["nodes", "area"] = gb.knob(
        "nodes", geometry=True, search=False, help="what a node counts in the mean"
    )
    neighbours: int = gb.knob(
        0,
        low=0,
        high=200,
        geometry=True,
        help="nodes in a ball, about; 0: mesh edges, touching cells",
    )
    parents: int = gb.knob(
        4,
        low=1,
        high=16,
        geometry=True,
        search=False,
        help="nearest visible coarse nodes that a node talks to",
    )
    leak: float = gb.knob(
        0.0,
        low=0.0,
        high=0.5,
        search=False,
        help="slope below zero of a kernel's hidden units; 0: ReLU",
    )
    root: bool = gb.knob(
        False,
        help="inside a level W v instead of v is kept, and no relu on the finest (authors' second "
        "variant)",
    )
    slopes: bool = gb.knob(
        False, geometry=True, help="smoothed inputs and their gradients are inputs too"
    )
    lift: Literal["mlp", "linear"] = gb.knob(
        "mlp", search=False, help="three layers and GELU, or one layer and ReLU in the head"
    )
    head: int = gb.knob(
        64, low=8, high=1024, search=False, help="hidden channels of the projection"
    )
    small_start: bool = gb.knob(
        True,
        search=False,
        help="kernel matrices begin w^-1/2 times smaller: a first error of about 1",
    )
    frames: int = gb.knob(
        0,
        low=0,
        search=False,
        help="frames a call finds, the next ones from its own answer; 0: all at once",
    )
    form: Literal["auto", "shared", "gram"] = gb.knob(
        "auto", search=False, help="order of the sums; auto: by mesh and memory"
    )
    checkpoint: bool = gb.knob(
        False, search=False, help="kernels are computed again at every use instead of kept"
    )


# ----------------------------------------------------------------------------------------- geometry


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """Sizes and radii of the levels; of one mesh for all samples also its coarse nodes and their
    neighbourhoods.
    """
    task, size = train.task, int(np.median([mesh.size for mesh in train.meshes]))
    counts = [max(1, round(size / 2 ** (task.dim * level))) for level in range(params.levels)]
    corners = np.concatenate(
        [[mesh.points.min(axis=0), mesh.points.max(axis=0)] for mesh in train.meshes]
    )
    found = {"counts": np.array(counts), "extent": np.ptp(corners, axis=0)}
    some = np.unique(np.linspace(0, len(train.meshes) - 1, LOOKED_AT).astype(int))
    volume = (
        np.mean([build.Domain(train.meshes[index]).volume.sum() for index in some])
        if params.neighbours
        else 0.0
    )
    found["radii"] = np.array(
        [build.ball_radius(float(volume), count, params.neighbours, task.dim) for count in counts]
    )
    if not task.fixed_mesh:
        return found
    domain = build.Domain(train.mesh(0))
    places = (
        domain.points[build.farthest(domain, counts[1])] if params.levels > 1 else domain.points[:0]
    )
    return {
        **found,
        "places": places,
        "points": domain.points,
        "ring": build.REACH * domain.spacing,
    }


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """The hierarchy of a mesh: for every kind of edge the sources of each target and their weights,
    zero where a list ends.
    """
    domain, counts = build.Domain(mesh), [int(one) for one in summary["counts"]]
    rule = build.Rule(
        parents=params.parents,
        neighbours=params.neighbours,
        radii=tuple(float(one) for one in summary["radii"]),
        most=int(2 * params.neighbours * max(1.0, mesh.size / counts[0])) + 1,
    )
    found = build.hierarchy(
        domain,
        _coarse(domain, counts, summary),
        tuple(counts[1:]),
        rule,
        _ring(domain, summary),
    )
    sets = ["node", *(f"level{level}" for level in range(1, params.levels))]
    parts = {
        name: gb.Part(nodes, (name,), "node")
        for name, nodes in zip(sets, found.levels, strict=True)
        if name != "node"
    }
    mass = [_mass(domain, nodes, params) for nodes in found.levels]
    for name, (a, b) in kinds(params.levels).items():
        links = {"mid": found.inside, "down": found.down, "up": found.up}[
            name.rstrip("0123456789")
        ][min(a, b)]
        here, there = domain.points[found.levels[b]], domain.points[found.levels[a]]
        share = build.shares(
            links,
            np.linalg.norm(there[links.source] - here[links.target], axis=1),
            mass[a],
            params.gamma,
        )
        source, shares = build.lists(links, share, len(here))
        parts[f"{name}.source"] = gb.Part(source, (sets[b], f"{name} list"), sets[a])
        parts[f"{name}.share"] = gb.Part(shares, (sets[b], f"{name} list"))
        if task.fixed_mesh:  # the same, edge by edge
            parts[f"{name}.edge_source"] = gb.Part(links.source, (f"{name} edge",), sets[a])
            parts[f"{name}.edge_target"] = gb.Part(links.target, (f"{name} edge",), sets[b])
            parts[f"{name}.edge_share"] = gb.Part(share, (f"{name} edge",))
    if params.slopes:
        parts["smooth"] = gb.Part(build.smoothing(domain), ("node", "node"))
        for axis, (matrix, extent) in enumerate(
            zip(build.slopes(domain), summary["extent"], strict=True)
        ):
            parts[f"slope{axis}"] = gb.Part(matrix * extent, ("node", "node"))
    return parts


def kinds(levels: int) -> dict[str, tuple[int, int]]:
    """Every kind of edge, with the levels of its sources and its targets."""
    inside = {f"mid{level}": (level, level) for level in range(levels)}
    down = {f"down{level}": (level, level + 1) for level in range(levels - 1)}
    return inside | down | {f"up{level}": (level + 1, level) for level in range(levels - 1)}


def _coarse(domain: build.Domain, counts: list[int], summary: gb.Summary) -> gb.Array:
    """Nodes to choose the coarse levels from; where training had one mesh, those at the places of
    its own.
    """
    if "places" in summary:
        return build.placed(domain, summary["places"])
    return build.farthest(domain, counts[1]) if len(counts) > 1 else np.arange(0)


def _ring(domain: build.Domain, summary: gb.Summary) -> gb.Array | None:
    """How far a finest node hears on another mesh than the training's: as far as the nodes there
    did; None on that mesh.
    """
    if "ring" not in summary or np.array_equal(domain.points, summary["points"]):
        return None
    _, closest = KDTree(summary["points"]).query(domain.points)
    return np.asarray(summary["ring"][closest])


def _mass(domain: build.Domain, nodes: gb.Array, params: Params) -> gb.Array:
    """What each node of a level counts, (m,): one, or the volume of its cell."""
    if params.weights == "nodes":
        return np.ones(len(nodes))
    owner = domain.owners(nodes)
    return np.bincount(owner[owner >= 0], domain.volume[owner >= 0], len(nodes))


# ------------------------------------------------------------------------------------- the operator


class Mgkn(nn.Module):
    """V-cycles of kernel sums over nested node sets (Li et al., 2020)."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.task, self.params, width = task, params, params.width
        given = task.in_channels - task.dim
        ends = 2 * task.dim + (2 * given if params.edges == "inputs" else 0)
        inputs = task.in_channels + (given * (1 + task.dim) if params.slopes else 0)
        if params.lift == "mlp":
            layers = [
                nn.Linear(inputs, width),
                nn.GELU(),
                nn.Linear(width, width),
                nn.GELU(),
                nn.Linear(width, width),
            ]
        else:
            layers = [nn.Linear(inputs, width)]
        self.lift = nn.Sequential(*layers)
        bend = nn.GELU() if params.lift == "mlp" else nn.ReLU()
        self.project = nn.Sequential(
            nn.Linear(width, params.head), bend, nn.Linear(params.head, task.out_channels)
        )

        def kernel(level: int, layers: int) -> Kernel:
            hidden = max(1, params.kernel_width // 2**level)
            return Kernel(
                ends,
                hidden,
                layers if params.kernel == "mlp" else 0,
                width,
                params.small_start,
                params.leak,
            )

        self.kinds = kinds(params.levels)
        self.kernels = nn.ModuleDict(
            {
                name: kernel(max(ends), 2 if ends[0] == ends[1] else 1)
                for name, ends in self.kinds.items()
            }
        )
        # mean edge lengths in half a box
        self.unit = float(task.resolution or UNIT) ** (1 / task.dim) / 2
        self.roots = nn.ParameterList(
            nn.Parameter(_root(width)) for _ in range(params.levels if params.root else 0)
        )

    def forward(self, batch: gb.Batch) -> Tensor:
        B, N = batch.size, batch.nodes
        # meshes with kernels of their own
        copies = B if self.params.edges == "inputs" else len(batch.points)
        v = self.lift(self.inputs(batch))  # (B, N, w)
        # (G*N, S, w): S samples a mesh
        v = v.reshape(B * N, 1, -1) if copies == B else v.transpose(0, 1).contiguous()
        seen = batch.features if self.params.edges == "inputs" else batch.points
        seen = seen.flatten(0, 1)  # (G*N, features)
        nodes = [
            None,
            *(
                self.index(batch, f"level{level}", N, copies)
                for level in range(1, self.params.levels)
            ),
        ]
        sums = self.sums(batch, [seen if one is None else seen[one] for one in nodes], copies)
        v = self.cycles([v if one is None else v[one] for one in nodes], sums)
        v = v.view(B, N, -1) if copies == B else v.transpose(0, 1)  # (B, N, w)
        return batch.frames(self.project(v))  # (B, t_out, N, C)

    def inputs(self, batch: gb.Batch) -> Tensor:
        """[x, a], with the smoothed a and its gradient if wanted, (B, N, .)."""
        features = batch.features
        if not self.params.slopes or features.shape[-1] == self.task.dim:
            return features
        names = ["smooth", *(f"slope{axis}" for axis in range(self.task.dim))]
        smooth = batch.apply("smooth", features[..., self.task.dim :])
        return torch.cat([features, smooth, *(batch.apply(name, smooth) for name in names[1:])], -1)

    def index(self, batch: gb.Batch, name: str, size: int, copies: int) -> Tensor:
        """Positions in a set of `size` nodes, one mesh behind the other, (G*., ..)."""
        value = batch.geometry[name]  # (1 or B, ..)
        if len(value) < copies:
            shift = torch.arange(copies, device=value.device) * size
            value = value + shift.view(-1, *[1] * (value.dim() - 1))
        return value.flatten(0, 1)

    def sums(self, batch: gb.Batch, seen: list[Tensor], copies: int) -> dict[str, Sum]:
        """The kernel sum of every kind of edge; `seen` (G*m, features) is what kernels see of the
        nodes of each level.
        """
        is_shared = self.is_shared(batch, copies)
        found: dict[str, Sum] = {}
        for name, kernel in self.kernels.items():
            assert isinstance(kernel, Kernel)
            a, b = self.kinds[name]
            unit = self.unit / 2 ** max(a, b)
            if is_shared:
                source, target, share = (
                    batch.geometry[f"{name}.edge_{part}"][0]
                    for part in ("source", "target", "share")
                )
                ends = self.ends(seen[a][source], seen[b][target], unit)  # (E, features)
                found[name] = kernel.shared(ends, share, source, target, len(seen[b]))
            else:
                share = batch.geometry[f"{name}.share"]
                share = share.expand(copies, -1, -1).flatten(0, 1)  # (G*M, D)
                # (G*M, D)
                source = self.index(batch, f"{name}.source", len(seen[a]) // copies, copies)
                found[name] = kernel.gram(
                    partial(self.ends_of_lists, seen[a], seen[b], source, unit),
                    share,
                    source,
                    self.params.checkpoint,
                )
        return found

    def ends_of_lists(self, there: Tensor, here: Tensor, source: Tensor, unit: float) -> Tensor:
        # (G*M, D, features)
        return self.ends(there[source], here[:, None].expand(-1, source.shape[1], -1), unit)

    def ends(self, there: Tensor, here: Tensor, unit: float) -> Tensor:
        """[x_j, x_i, a_j, a_i], or the vector from i to j in edge lengths for x_j."""
        if self.params.offsets:
            dim = self.task.dim
            vector = (there[..., :dim] - here[..., :dim]) * unit
            there = torch.cat([vector, there[..., dim:]], -1)
        return torch.cat([there, here], -1)

    def is_shared(self, batch: gb.Batch, copies: int) -> bool:
        """Whether kernels are made once for all samples: they must be alike, several, and fit into
        memory.
        """
        if (
            self.params.kernel == "rbf"
            or copies == batch.size
            or self.params.checkpoint
            or "mid0.edge_share" not in batch.geometry
        ):
            return False
        edges = sum(batch.geometry[f"{name}.edge_share"].numel() for name in self.kinds)
        return self.params.form == "shared" or (
            self.params.form == "auto" and 4 * edges * self.params.width**2 <= MOST_BYTES
        )

    def cycles(self, v: list[Tensor], sums: dict[str, Sum]) -> Tensor:
        """T V-cycles over the values (G*m_l, S, w) of all levels; the finest at the end."""
        relu, coarsest = functional.relu, len(v) - 1
        for turn in range(self.params.cycles):
            for level in range(coarsest):
                v[level + 1] = relu(v[level + 1] + sums[f"down{level}"](v[level]))
                # as the authors': later ones are positive anyway
                v = [relu(one) for one in v] if turn == level == 0 else v
            for level in range(coarsest, -1, -1):
                heard = sums[f"mid{level}"](v[level])
                kept = v[level] @ self.roots[level] if self.params.root else v[level]
                v[level] = kept + heard if self.params.root and level == 0 else relu(kept + heard)
                if level:
                    v[level - 1] = relu(v[level - 1] + sums[f"up{level - 1}"](v[level]))
        return v[0]


def _root(width: int) -> Tensor:
    return torch.empty(width, width).uniform_(-(width**-0.5), width**-0.5)


# -------------------------------------------------------------------------------------- declaration


def horizon(task: gb.Task, params: Params) -> gb.Horizon:
    """All frames in one call, or a few a call, trained on windows from anywhere in a trajectory."""
    return gb.Horizon(task.t_in, min(params.frames or task.t_out, task.t_out))


DIFFERS = (
    "every node is on the finest level and coarser ones are nested farthest points along mesh "
    "edges, one hierarchy a mesh; the "
    "authors draw 400 of the nodes at random for every sample, and put the rest in further parts",
    "edges inside a level are mesh edges, and coarse nodes whose cells touch; between levels the 4 "
    "nearest visible coarse nodes. "
    "`official`: balls of about 20 nodes, as the authors'; no edge leaves the domain",
    "`paper`: its Gaussian RBF kernel (gamma 1) is read as the weight of an edge, exp(-(d / "
    "farthest)^2), summing to one, on "
    "a network of the two places; `--model.kernel rbf` takes the weight alone, times one matrix a "
    "kind of edge",
    "`paper`: 3-layer encoder and 2-layer decoder are its table; cycles, levels and kernel width "
    "are the authors', or ours",
    "`paper`, `compact`: kernel matrices begin w^-1/2 times smaller (`small_start`, ours); with "
    "torch's start the first error is "
    "about 8",
    "`paper`: loss (relative L2) and schedule (cosine) are ours; the paper states neither",
    "all frames are found in one call, time in the channels; the authors have no recipe "
    "(`--model.frames 1` goes one by one)",
    "`official`: all inputs of a task enter the kernels and the lift, and their smoothed values "
    "are means over two rings of "
    "neighbours; the rate follows a cosine, not steps of 0.8; inputs are scaled by two numbers a "
    "channel, not a node",
    "clouds have no inside to test for: a node hears the nearest ones, 12, or 20 in `official`; "
    "coarse nodes are farthest "
    "points in straight distance, counted in local spacings",
    "`compact` is ours: small, kernels see an edge's vector instead of its first end, and their "
    "hidden units leak below zero, so "
    "that none dies; trained by Muon, known boundary values imposed",
)


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    in_space: dict[str, gb.Value] = {"model.levels": 4}  # 32186, 4023, 503 and 63 nodes
    return gb.Model(
        "mgkn",
        Params,
        Mgkn,
        presets={
            "paper": gb.Preset(
                is_paper=True,
                train={"optimiser": "adam", "lr": 1e-3, "batch": 32, "schedule": "cosine"},
                inputs="minmax",
                outputs="minmax",
                points="minmax",
                impose_boundary=False,
            ),
            "official": gb.Preset(
                model={
                    **{
                        "kernel_width": 256,
                        "edges": "inputs",
                        "gamma": 0.0,
                        "neighbours": 20,
                        "slopes": True,
                        "lift": "linear",
                    },
                    **{"head": 256, "small_start": False},
                },
                train={
                    "optimiser": "adam",
                    "lr": 1e-3,
                    "weight_decay": 5e-4,
                    "batch": 1,
                    "schedule": "cosine",
                },
                points="minmax",
                impose_boundary=False,
            ),
            "compact": gb.Preset(
                model={"width": 32, "kernel_width": 16, "cycles": 2, "offsets": True, "leak": 0.1},
                train={
                    "optimiser": "muon",
                    "lr": 3e-2,
                    "batch": 12,
                    "schedule": "cosine",
                    "warmup": 0.1,
                    "clip": 1.0,
                },
            ),
        },
        settings={"car": {"paper": in_space, "official": in_space, "compact": in_space}},
        geometry=geometry,
        summary=summary,
        horizon=horizon,
        capabilities=frozenset(gb.Capability),
        title="MGKN",
        cites="Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart and Anandkumar, Multipole "
        "Graph Neural Operator for "
        "Parametric Partial Differential Equations, NeurIPS 2020",
        differs=DIFFERS,
    )
