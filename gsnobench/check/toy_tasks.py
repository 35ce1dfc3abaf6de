"""Tiny synthetic tasks on which every model is checked: all combinations that the one shape of data
allows.
"""

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
class Case:
    """A task with training, validation and further samples, and the same question on another mesh."""

    name: str
    task: Task
    train: Samples
    valid: Samples
    elsewhere: Samples  # on meshes that the training never saw
    needs: frozenset[Capability]


@dataclass(frozen=True)
class _Plan:
    name: str
    dim: int
    t_in: int
    t_out: int
    fixed_mesh: bool
    corresponds: bool


_PLANS = (
    _Plan("steady", dim=2, t_in=0, t_out=1, fixed_mesh=True, corresponds=True),
    _Plan("unsteady", dim=2, t_in=3, t_out=4, fixed_mesh=True, corresponds=True),
    _Plan("deformed", dim=2, t_in=0, t_out=1, fixed_mesh=False, corresponds=True),
    _Plan("ragged", dim=2, t_in=0, t_out=1, fixed_mesh=False, corresponds=False),
    _Plan("moving", dim=2, t_in=3, t_out=4, fixed_mesh=False, corresponds=False),
    _Plan("solid", dim=3, t_in=3, t_out=4, fixed_mesh=True, corresponds=True),
    _Plan("body", dim=3, t_in=0, t_out=1, fixed_mesh=False, corresponds=False),
)


def make_cases() -> tuple[Case, ...]:
    """All cases; each is a pure function of its plan."""
    return tuple(
        _case(plan, np.random.default_rng(position)) for position, plan in enumerate(_PLANS)
    )


def _case(plan: _Plan, draw: np.random.Generator) -> Case:
    # more than 64 inner nodes, room for the usual number of modes
    base = (13, 12) if plan.dim == 2 else (6, 7, 7)
    task = _task(plan, resolution=math.prod(base))
    shared = (box_mesh(base, draw),)

    def samples(count: int, sizes: tuple[int, ...], fixed: tuple[Mesh, ...]) -> Samples:
        return _samples(
            task, fixed if plan.fixed_mesh else _varied(plan, count, sizes, draw), count, draw
        )

    larger = tuple(size + 1 for size in base)
    train, valid = samples(TRAIN, base, shared), samples(FURTHER, base, shared)
    elsewhere = samples(FURTHER, larger, (box_mesh(larger, draw),))
    needs = {
        Capability.UNSTEADY if plan.t_in else Capability.STEADY,
        Capability.FIXED_GEOMETRY if plan.fixed_mesh else Capability.VARYING_GEOMETRY,
        *({Capability.THREE_DIMENSIONS} if plan.dim == 3 else ()),
    }
    return Case(plan.name, task, train, valid, elsewhere, frozenset(needs))


def _varied(
    plan: _Plan, count: int, sizes: tuple[int, ...], draw: np.random.Generator
) -> tuple[Mesh, ...]:
    """One mesh a sample: the same nodes on bent domains, or other numbers of nodes, the last one
    largest.
    """
    if plan.corresponds:
        like = box_mesh(sizes, np.random.default_rng(7))
        return tuple(_bent(like, draw.uniform(0.05, 0.3)) for _ in range(count))
    shapes = [
        tuple(size - int(draw.integers(1, 5 - plan.dim)) for size in sizes)
        for _ in range(count - 1)
    ]
    return tuple(
        _bent(box_mesh(shape, draw), draw.uniform(0.05, 0.3)) for shape in [*shapes, sizes]
    )


def _task(plan: _Plan, resolution: int) -> Task:
    heat = Field("heat", unit="K", reference=2.0, boundary={"wall": "none"})
    potential = Field("potential", unit="V", boundary={"wall": "dirichlet"})
    velocity = tuple(
        Field(name, unit="m/s", vector="velocity", boundary={"wall": "dirichlet"})
        for name in ("u", "v")
    )
    pressure = Field("pressure", unit="Pa", support="wall")
    steady = (pressure,) if plan.dim == 3 else (potential,) if plan.fixed_mesh else (heat,)
    return Task(
        id=f"check{plan.name}",
        dataset=f"check{plan.name}",
        fields=velocity if plan.t_in else steady,
        dim=plan.dim,
        static=(Field("source", unit="1"),) if plan.dim == 3 or not plan.t_in else (),
        scalars=() if plan.corresponds else (Field("strength", unit="1"),),
        tags=("wall", "inlet"),
        t_in=plan.t_in,
        t_out=plan.t_out,
        times=tuple(0.1 * frame for frame in range(plan.t_in + plan.t_out)),
        corresponds=plan.corresponds,
        fixed_mesh=plan.fixed_mesh,
        resolution=resolution,
        sizes={"train": TRAIN, "valid": FURTHER, "test": FURTHER},
    )


def box_mesh(sizes: Sequence[int], draw: np.random.Generator) -> Mesh:
    """Simplices on the unit box, inner nodes moved at random so that no symmetry is left."""
    axes = [np.linspace(0.0, 1.0, size) for size in sizes]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sizes))  # (N, d)
    wall = np.any((points == 0.0) | (points == 1.0), axis=1)
    spacing = 1.0 / (np.asarray(sizes) - 1)
    points[~wall] += draw.uniform(-0.15, 0.15, points[~wall].shape) * spacing
    return Mesh(points, _simplices(sizes), {"wall": wall, "inlet": points[:, 0] == 0.0})


def _simplices(sizes: Sequence[int]) -> Array:
    """Every grid cell cut along its diagonal, one simplex for each order of the axes, (M, d+1)."""
    number = np.arange(int(np.prod(sizes))).reshape(sizes)
    corner = np.stack(
        np.meshgrid(*[np.arange(size - 1) for size in sizes], indexing="ij"), axis=-1
    ).reshape(-1, len(sizes))
    cells = []
    for order in itertools.permutations(range(len(sizes))):
        steps = np.zeros((len(sizes) + 1, len(sizes)), dtype=np.int64)
        for position, axis in enumerate(order):
            steps[position + 1 :, axis] += 1
        cells.append(np.stack([number[tuple((corner + step).T)] for step in steps], axis=1))
    return np.concatenate(cells)


def _bent(mesh: Mesh, amount: float) -> Mesh:
    """The mesh on a domain whose upper side is a wave."""
    points = mesh.points.copy()
    points[:, -1] *= 1 + amount * np.sin(np.pi * points[:, 0])
    return Mesh(points, mesh.cells, mesh.tags)


def _samples(
    task: Task, meshes: tuple[Mesh, ...], count: int, draw: np.random.Generator
) -> Samples:
    """Smooth random fields that decay in time and depend on the inputs; padding holds zeros."""
    nodes = max(mesh.size for mesh in meshes)
    frames = np.zeros((count, len(task.times), nodes, len(task.fields)))
    static = np.zeros((count, nodes, len(task.static)))
    scalars = draw.uniform(0.5, 1.5, (count, len(task.scalars)))
    for index in range(count):
        mesh = meshes[index % len(meshes)]
        strength = scalars[index].sum() if task.scalars else 1.0
        inside = 1.0 - np.asarray(mesh.tags["wall"], dtype=float)
        for channel, one in enumerate(task.fields):
            wave = strength * _wave(mesh.points, draw)  # (N,)
            wave *= inside if one.boundary.get("wall") == "dirichlet" else 1.0
            decay = np.exp(-np.asarray(task.times) * (1 + channel))  # (T,)
            frames[index, :, : mesh.size, channel] = one.reference + decay[:, None] * wave
            static[index, : mesh.size] = (wave**2)[:, None]
    return Samples(task, meshes, frames, static, scalars)


def _wave(points: Array, draw: np.random.Generator) -> Array:
    rates, phases = draw.uniform(1.0, 5.0, (3, points.shape[1])), draw.uniform(0.0, 6.0, 3)
    return np.sin(points @ rates.T + phases) @ draw.normal(size=3)
