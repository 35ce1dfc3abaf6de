"""Deep Operator Network: weights read at fixed sensors (branch) times basis functions (trunk).

Operator  input function and shape at m sensors -> weights b of p basis functions t, which depend
          only on the point and the time
Formula   u_c(x, t) = sum_k b_ck(a) t_k(x, t) + b0_c
          branch b: m -> width -> .. -> C p;  trunk t: (x, t) -> width -> .. -> p
Cost      the trunk once for all samples of a mesh, the branch once per sample, then one product
          (B C, p) x (p, T N)
Start     width 100, basis 100; the nodes are the sensors where they are fixed or correspond, other
          geometries are read on a grid of 1024 points
Family    branch and trunk
Means     partly any mesh at inference
Paper     https://arxiv.org/abs/1910.03193
Code      https://github.com/lululxvi/deeponet

Where samples have meshes of their own, the shape is an input too: the positions of corresponding
nodes, or the signed distance from the boundary at each point of the grid. On a mesh that was not
in the training split, inputs are interpolated to the training sensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor, nn

import gsnobench as gb
from gsnobench.meshes.interpolation import interpolation
from gsnobench.meshes.simplices import nearest
from gsnobench.meshes.topology import boundary_facets, triangulation

GSNOBENCH_API = 1
# training shapes that define the mean shape, and with which a shape with other nodes is compared
MOST_SHAPES = 64
MARGIN = 0.05  # of the sensor grid around the box of all training nodes, relative to the box
# in place where the gradient can be computed from the result
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": partial(nn.ReLU, inplace=True),
    "leaky_relu": partial(nn.LeakyReLU, inplace=True),
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


class Params(gb.Params):
    """Knobs of all presets; the defaults are the paper's."""

    width: int = gb.knob(100, low=16, high=1024, log=True, help="hidden units of both networks")
    basis: int = gb.knob(
        100,
        low=8,
        high=1024,
        log=True,
        help="basis functions p of the trunk, weighted by the branch",
    )
    branch_layers: int = gb.knob(2, low=1, high=8, help="linear maps of the branch")
    trunk_layers: int = gb.knob(3, low=2, high=8, help="linear maps of the trunk")
    activation: Literal["relu", "leaky_relu", "gelu", "silu", "tanh"] = gb.knob(
        "relu", help="between the linear maps"
    )
    activated_basis: bool = gb.knob(
        True, help="the trunk's last map is activated too, as in DeepXDE"
    )
    sensors: int = gb.knob(
        1024,
        low=16,
        high=65536,
        log=True,
        geometry=True,
        help="approximate number of grid sensors; unused where nodes are the sensors",
    )


# ------------------------------------------------------------------------------------- the operator


class DeepONet(nn.Module):
    """u_c(x, t) = sum_k b_ck(sensor readings) t_k(x, t) + b0_c; all fields share the trunk."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        side = grid_side(task, params)
        sensors = side**task.dim or task.resolution
        if sensors < 1:
            raise gb.DataError(
                f"{task.id}: its resolution is {task.resolution}; expected its number of nodes, "
                "which are the sensors; set it"
            )
        shape = 0 if task.fixed_mesh and not side else sensors if side else sensors * task.dim
        channels = task.t_in * len(task.fields) + len(task.static)
        readings = sensors * channels + shape + len(task.scalars)
        self.fields, self.frames = len(task.fields), task.t_out
        hidden = (params.width,) * (params.branch_layers - 1)
        self.branch = perceptron((readings, *hidden, self.fields * params.basis), params)
        self.trunk = Trunk(task, params)
        self.offset = nn.Parameter(torch.zeros(self.fields))

    def forward(self, batch: gb.Batch) -> Tensor:
        t = self.trunk(batch.points)  # (G, T*N, p): G = 1 for one mesh, else B
        b = self.branch(sensed(batch)).view(len(t), -1, t.shape[-1])  # (G, S*C, p), S samples each
        u = torch.bmm(b, t.mT).view(batch.size, self.fields, self.frames, -1)  # (B, C, T, N)
        return u.permute(0, 2, 3, 1) + self.offset  # (B, T, N, C)


class Trunk(nn.Module):
    """Basis functions at all points and frames.

    The first map acts on points and on times by themselves, and the two are added.
    """

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        clocks = min(1, task.t_out - 1)  # a single frame needs no time
        self.first = linear(task.dim + clocks, params.width)
        activation = ACTIVATIONS[params.activation]
        hidden = (params.width,) * (params.trunk_layers - 1)
        last = [activation()] if params.activated_basis else []
        self.rest = nn.Sequential(activation(), *perceptron((*hidden, params.basis), params), *last)
        self.clock: Tensor
        clock = torch.linspace(0, 1, task.t_out)[:, None][:, :clocks]  # (T, 0 or 1)
        self.register_buffer("clock", clock, persistent=False)

    def forward(self, points: Tensor) -> Tensor:
        """(G, N, d) -> (G, T*N, p)."""
        spatial, temporal = self.first.weight.split([points.shape[-1], self.clock.shape[1]], 1)
        at_times = torch.addmm(self.first.bias, self.clock, temporal.mT)  # (T, width)
        at_points = points.flatten(0, 1) @ spatial.mT  # (G*N, width)
        at_points = at_points.view(len(points), 1, -1, spatial.shape[0])  # (G, 1, N, width)
        rows = (at_points + at_times[:, None]).flatten(0, 2)  # (G*T*N, width)
        y: Tensor = self.rest(rows)  # (G*T*N, p)
        return y.view(len(points), -1, y.shape[-1])


def perceptron(sizes: tuple[int, ...], params: Params) -> nn.Sequential:
    """Linear maps with activations between them."""
    maps = [linear(*pair) for pair in zip(sizes[:-1], sizes[1:], strict=True)]
    layers = [layer for matrix in maps for layer in (matrix, ACTIVATIONS[params.activation]())]
    return nn.Sequential(*layers[:-1])


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear map that starts from Glorot's normal weights and bias 0, as the authors' do."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def sensed(batch: gb.Batch) -> Tensor:
    """Inputs of the branch: window and static fields at the sensors, scalars, shape; (B, m)."""
    window = batch.window.transpose(1, 2).flatten(2)  # (B, N, t_in*C)
    values = torch.cat([window, batch.static], -1)  # (B, N, t_in*C + F)
    if "sense" in batch.geometry:
        values = batch.apply("sense", values)  # (B, m, t_in*C + F)
    shape = [batch.geometry["shape"].expand(batch.size, -1)] if "shape" in batch.geometry else []
    return torch.cat([values.flatten(1), batch.scalars, *shape], -1)


# ------------------------------------------------------------------------------------------ sensors


def grid_side(task: gb.Task, params: Params) -> int:
    """Sensors along an axis of the grid, 0 where the nodes themselves are the sensors."""
    return 0 if task.corresponds else max(2, round(params.sensors ** (1 / task.dim)))


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """Positions of the sensors; where shapes vary, also mean and spread of their readings."""
    side = grid_side(train.task, params)
    if train.task.fixed_mesh and not side:
        return {"sensors": train.mesh(0).points}
    chosen = np.unique(np.linspace(0, len(train.meshes) - 1, MOST_SHAPES).astype(int))
    meshes = [train.meshes[index] for index in chosen]
    if side:
        sensors = _grid(np.concatenate([mesh.points for mesh in train.meshes]), side)
        readings = np.stack([signed_distance(mesh, sensors) for mesh in meshes])  # (S, m)
        return {"sensors": sensors, **_statistics(readings)}
    shapes = np.stack([mesh.points for mesh in meshes])  # (S, m, d)
    return {"shapes": shapes, **_statistics(shapes.reshape(len(shapes), -1))}


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """The map from node values to sensors, unless they coincide, and readings of the shape."""
    if "mean" not in summary:
        return _sense(mesh, task, summary["sensors"])
    if "sensors" in summary:
        sensors = summary["sensors"]
        reading, parts = signed_distance(mesh, sensors), _sense(mesh, task, sensors)  # (m,)
    elif mesh.size == summary["shapes"].shape[1]:
        reading, parts = mesh.points.ravel(), {}  # (m*d,)
    else:
        sensors = _closest_shape(mesh, summary["shapes"])
        reading = (interpolation(mesh, sensors) @ mesh.points).ravel()  # (m*d,)
        parts = _sense(mesh, task, sensors)
    shape = (reading - summary["mean"]) / summary["spread"]
    return {"shape": gb.Part(shape, ("reading",)), **parts}


def _sense(mesh: gb.Mesh, task: gb.Task, sensors: gb.Array) -> gb.Geometry:
    """P1 interpolation to the sensors; the nearest node in a cloud, which has no cells."""
    if task.in_channels == task.dim + len(task.scalars) or np.array_equal(mesh.points, sensors):
        return {}
    if mesh.cells is not None:
        return {"sense": gb.Part(interpolation(mesh, sensors), ("sensor", "node"))}
    _, closest = KDTree(mesh.points).query(sensors)
    rows, shape = np.arange(len(sensors) + 1), (len(sensors), mesh.size)
    matrix = csr_array((np.ones(len(sensors)), closest, rows), shape)
    return {"sense": gb.Part(matrix, ("sensor", "node"))}


def _grid(points: gb.Array, side: int) -> gb.Array:
    """A regular grid over the box of all training nodes and a little more, (side^d, d)."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = MARGIN * (high - low)
    axes = np.linspace(low - margin, high + margin, side).T  # (d, side)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, points.shape[1])


def _statistics(readings: gb.Array) -> gb.Summary:
    """One mean per reading, one scale for all: small differences of shapes become visible."""
    mean = readings.mean(axis=0)
    spread = float(np.sqrt(np.mean((readings - mean) ** 2)))
    return {"mean": mean, "spread": np.array([spread if spread > 0 else 1.0])}


def signed_distance(mesh: gb.Mesh, sensors: gb.Array) -> gb.Array:
    """Distance from the boundary, negative inside, (m,); in a cloud unsigned, from tagged nodes."""
    facets = boundary_facets(mesh) if mesh.cells is not None else np.empty((0, mesh.dim), dtype=int)
    if len(facets) == 0:
        tagged = mesh.tag_matrix(sorted(mesh.tags)).any(axis=1)
        nodes = mesh.points[tagged] if tagged.any() else mesh.points
        unsigned: gb.Array = KDTree(nodes).query(sensors)[0]
        return unsigned
    _, _, distance = nearest(sensors, mesh.points[facets])
    _, _, outside = nearest(sensors, mesh.points[triangulation(mesh)])
    return np.where(outside > 0, distance, -distance)


def _closest_shape(mesh: gb.Mesh, shapes: gb.Array) -> gb.Array:
    """The training shape nearest to a mesh that has other nodes, (m, d)."""
    tree = KDTree(mesh.points)
    gaps = [
        tree.query(shape)[0].mean() + KDTree(shape).query(mesh.points)[0].mean() for shape in shapes
    ]
    closest: gb.Array = shapes[int(np.argmin(gaps))]
    return closest


# -------------------------------------------------------------------------------------- declaration


DIFFERS = (
    "`paper`: its 2-layer branch and 3-layer trunk are read as 2 and 3 linear maps, p is 100, the "
    "branch reads all inputs at all nodes; relative L2 and the cosine are our choice where it says "
    "nothing",
    "`official`: sizes of the authors' notched-triangle Darcy, but the branch reads node values, "
    "not 101 boundary values; one scale per field, not per node; a cosine for two drops of the "
    "rate; b0 and the activated basis of DeepXDE",
    "several fields share the trunk and split the branch; all frames at once, their time being an "
    "input of the trunk",
    "varying geometry: the branch reads the positions of corresponding nodes as in Geo-FNO's "
    "comparison, else the signed distance on a grid of sensors, both relative to the mean training "
    "shape",
    "another mesh: inputs are interpolated to the training sensors; a shape whose nodes do not "
    "correspond is read at the nodes of the nearest training shape, moved into it",
    "`compact` is ours: GELU, Muon",
)


# What `compact` holds for the other families, where it is not what it holds for steady tasks: what
# the equal tuning found, or what it was where that is better over the family (leaderboards/tuning).
TUNED: Mapping[str, Mapping[str, gb.Value]] = {
    "unsteady": {
        "model.basis": 64,
        "model.width": 64,
        "train.batch": 12,
        "train.lr": 1.09e-2,
    },
    "varying": {"model.width": 64, "train.batch": 8, "train.lr": 7.45e-3},
}


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "deeponet",
        Params,
        DeepONet,
        presets={
            "paper": gb.Preset(
                train={
                    **gb.MINMAX,
                    "optimiser": "adam",
                    "lr": 1e-3,
                    "batch": 32,
                    "schedule": "cosine",
                    "impose_boundary": False,
                },
                is_paper=True,
            ),
            "official": gb.Preset(
                model={
                    "width": 128,
                    "branch_layers": 3,
                    "trunk_layers": 4,
                    "activation": "leaky_relu",
                },
                train={
                    "optimiser": "adam",
                    "lr": 1e-3,
                    "batch": 100,
                    "schedule": "cosine",
                    "loss": "mse",
                    "impose_boundary": False,
                },
            ),
            "compact": gb.Preset(
                model={
                    "width": 128,
                    "basis": 128,
                    "branch_layers": 3,
                    "trunk_layers": 4,
                    "activation": "gelu",
                },
                train={
                    "optimiser": "muon",
                    "lr": 5e-3,
                    "batch": 16,
                    "schedule": "cosine",
                    "weight_decay": 0.1,
                },
                is_default=True,
            ),
        },
        settings={family: {"compact": knobs} for family, knobs in TUNED.items()},
        geometry=geometry,
        summary=summary,
        capabilities=frozenset(gb.Capability) - {gb.Capability.PERMUTATION_EQUIVARIANT},
        revision=3,  # `compact` takes what the equal tuning found
        title="DeepONet",
        cites="Lu, Jin, Pang, Zhang and Karniadakis, Learning nonlinear operators via DeepONet "
        "based on the universal approximation theorem of operators, Nature Machine Intelligence 3, "
        "2021",
        differs=DIFFERS,
    )
