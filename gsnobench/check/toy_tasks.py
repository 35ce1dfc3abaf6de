"""Tiny synthetic tasks on which every model is checked, one for each kind of data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsnobench.data import Array, Field, Mesh, Samples, Task
from gsnobench.declare import Capability

TRAIN, FURTHER = 4, 2  # samples of the training split and of each other set


@dataclass(frozen=True, eq=False)
class ToyTask:
    """A tiny task with its samples."""

    name: str
    task: Task
    train: Samples
    valid: Samples
    other_meshes: Samples  # on meshes that the training split does not have
    needs: frozenset[Capability]  # of a model that accepts the task


@dataclass(frozen=True)
class _Kind:
    """What makes one toy task differ from the others."""

    name: str
    dim: int
    t_in: int
    t_out: int
    fixed_mesh: bool
    corresponds: bool


_KINDS = (
    _Kind("steady", dim=2, t_in=0, t_out=1, fixed_mesh=True, corresponds=True),
    _Kind("unsteady", dim=2, t_in=3, t_out=4, fixed_mesh=True, corresponds=True),
    _Kind("deformed", dim=2, t_in=0, t_out=1, fixed_mesh=False, corresponds=True),
    _Kind("ragged", dim=2, t_in=0, t_out=1, fixed_mesh=False, corresponds=False),
    _Kind("moving", dim=2, t_in=3, t_out=4, fixed_mesh=False, corresponds=False),
    _Kind("solid", dim=3, t_in=3, t_out=4, fixed_mesh=True, corresponds=True),
    _Kind("body", dim=3, t_in=0, t_out=1, fixed_mesh=False, corresponds=False),
)


def make_toy_tasks() -> tuple[ToyTask, ...]:
    """All toy tasks, the same in every call."""
    return tuple(_toy(kind, np.random.default_rng(number)) for number, kind in enumerate(_KINDS))


def _toy(kind: _Kind, draw: np.random.Generator) -> ToyTask:
    # more than 64 inner nodes: enough for the usual number of modes
    base = (13, 12) if kind.dim == 2 else (6, 7, 7)
    task = _task(kind, resolution=math.prod(base))
    shared = (box_mesh(base, draw),)

    def samples(count: int, sizes: tuple[int, ...], fixed: tuple[Mesh, ...]) -> Samples:
        meshes = fixed if kind.fixed_mesh else _varied(kind, count, sizes, draw)
        return _samples(task, meshes, count, draw)

    larger = tuple(size + 1 for size in base)
    train, valid = samples(TRAIN, base, shared), samples(FURTHER, base, shared)
    other_meshes = samples(FURTHER, larger, (box_mesh(larger, draw),))
    needs = {
        Capability.UNSTEADY if kind.t_in else Capability.STEADY,
        Capability.FIXED_GEOMETRY if kind.fixed_mesh else Capability.VARYING_GEOMETRY,
        *({Capability.THREE_DIMENSIONS} if kind.dim == 3 else ()),
    }
    return ToyTask(kind.name, task, train, valid, other_meshes, frozenset(needs))


def _varied(
    kind: _Kind, count: int, sizes: tuple[int, ...], draw: np.random.Generator
) -> tuple[Mesh, ...]:
    """One mesh per sample: the same nodes on bent domains, or fewer nodes in all but the last."""
    if kind.corresponds:
        like = box_mesh(sizes, np.random.default_rng(7))
        return tuple(_bent(like, draw.uniform(0.05, 0.3)) for _ in range(count))
    smaller = [
        tuple(size - int(draw.integers(1, 5 - kind.dim)) for size in sizes)
        for _ in range(count - 1)
    ]
    shapes = [*smaller, sizes]
    return tuple(_bent(box_mesh(shape, draw), draw.uniform(0.05, 0.3)) for shape in shapes)


def _task(kind: _Kind, resolution: int) -> Task:
    heat = Field("heat", unit="K", reference=2.0, boundary={"wall": "none"})
    potential = Field("potential", unit="V", boundary={"wall": "dirichlet"})
    velocity = tuple(
        Field(name, unit="m/s", vector="velocity", boundary={"wall": "dirichlet"})
        for name in ("u", "v")
    )
    pressure = Field("pressure", unit="Pa", support="wall")
    steady = (pressure,) if kind.dim == 3 else (potential,) if kind.fixed_mesh else (heat,)
    return Task(
        id=f"check{kind.name}",
        dataset=f"check{kind.name}",
        fields=velocity if kind.t_in else steady,
        dim=kind.dim,
        static=(Field("source", unit="1"),) if kind.dim == 3 or not kind.t_in else (),
        scalars=() if kind.corresponds else (Field("strength", unit="1"),),
        tags=("wall", "inlet"),
        t_in=kind.t_in,
        t_out=kind.t_out,
        times=tuple(0.1 * frame for frame in range(kind.t_in + kind.t_out)),
        corresponds=kind.corresponds,
        fixed_mesh=kind.fixed_mesh,
        resolution=resolution,
        sizes={"train": TRAIN, "valid": FURTHER, "test": FURTHER},
    )


def box_mesh(sizes: Sequence[int], draw: np.random.Generator) -> Mesh:
    """Simplices on the unit box; random shifts of the inner nodes break every symmetry."""
    axes = [np.linspace(0.0, 1.0, size) for size in sizes]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sizes))  # (N, d)
    wall = np.any((points == 0.0) | (points == 1.0), axis=1)
    spacing = 1.0 / (np.asarray(sizes) - 1)
    points[~wall] += draw.uniform(-0.15, 0.15, points[~wall].shape) * spacing
    return Mesh(points, _simplices(sizes), {"wall": wall, "inlet": points[:, 0] == 0.0})


def _simplices(sizes: Sequence[int]) -> Array:
    """Every grid cell cut along its diagonal, one simplex for each order of the axes, (M, d+1)."""
    number = np.arange(int(np.prod(sizes))).reshape(sizes)
    axes = np.meshgrid(*[np.arange(size - 1) for size in sizes], indexing="ij")
    corner = np.stack(axes, axis=-1).reshape(-1, len(sizes))  # (cells, d)
    cells = []
    for order in itertools.permutations(range(len(sizes))):
        steps = np.zeros((len(sizes) + 1, len(sizes)), dtype=np.int64)
        for position, axis in enumerate(order):
            steps[position + 1 :, axis] += 1
        cells.append(np.stack([number[tuple((corner + step).T)] for step in steps], axis=1))
    return np.concatenate(cells)


def _bent(mesh: Mesh, amount: float) -> Mesh:
    """The same mesh on a domain with a curved upper side."""
    points = mesh.points.copy()
    points[:, -1] *= 1 + amount * np.sin(np.pi * points[:, 0])
    return Mesh(points, mesh.cells, mesh.tags)


def _samples(
    task: Task, meshes: tuple[Mesh, ...], count: int, draw: np.random.Generator
) -> Samples:
    """Smooth random fields that decay in time and depend on the inputs; zero at padding."""
    nodes = max(mesh.size for mesh in meshes)
    frames = np.zeros((count, len(task.times), nodes, len(task.fields)))
    static = np.zeros((count, nodes, len(task.static)))
    scalars = draw.uniform(0.5, 1.5, (count, len(task.scalars)))
    for index in range(count):
        mesh = meshes[index % len(meshes)]
        strength = scalars[index].sum() if task.scalars else 1.0
        inside = 1.0 - np.asarray(mesh.tags["wall"], dtype=float)
        for channel, field in enumerate(task.fields):
            wave = strength * _wave(mesh.points, draw)  # (N,)
            wave *= inside if field.boundary.get("wall") == "dirichlet" else 1.0
            decay = np.exp(-np.asarray(task.times) * (1 + channel))  # (T,)
            frames[index, :, : mesh.size, channel] = field.reference + decay[:, None] * wave
            static[index, : mesh.size] = (wave**2)[:, None]
    return Samples(task, meshes, frames, static, scalars)


def _wave(points: Array, draw: np.random.Generator) -> Array:
    rates, phases = draw.uniform(1.0, 5.0, (3, points.shape[1])), draw.uniform(0.0, 6.0, 3)
    return np.sin(points @ rates.T + phases) @ draw.normal(size=3)
