"""Small real problems that many tests share, steady and unsteady, on one mesh of a square."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse.linalg
import scipy.spatial

from gsnobench.data import Field, Mesh, Samples, Task
from gsnobench.meshes.modes import eigenbasis
from gsnobench.meshes.operators import lumped_mass, stiffness

SIZES = {"train": 24, "valid": 8, "test": 8}


def square(side: int = 11, seed: int = 0) -> Mesh:
    """A triangulated unit square with slightly moved interior nodes."""
    axis = np.linspace(0, 1, side)
    points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    inside = ((points > 0) & (points < 1)).all(axis=1)
    points[inside] += np.random.default_rng(seed).uniform(-0.2, 0.2, (inside.sum(), 2)) / side
    cells = scipy.spatial.Delaunay(points).simplices.astype(np.int64)
    return Mesh(points, cells, {"boundary": ~inside})


def steady(sizes: dict[str, int] = SIZES, mesh: Mesh | None = None) -> dict[str, Samples]:
    """-Laplace(u) = exp(a), u = 0 on the boundary."""
    mesh = mesh or square()
    head, source = Field("head", "m", boundary={"boundary": "dirichlet"}), Field("source", "1/s")
    task = Task(
        id="poisson",
        dataset="poisson",
        fields=(head,),
        static=(source,),
        dim=2,
        tags=("boundary",),
        resolution=mesh.size,
    )
    basis, mass = eigenbasis(mesh, 12), lumped_mass(mesh)
    free = np.flatnonzero(~mesh.tags["boundary"])
    solve = scipy.sparse.linalg.splu(stiffness(mesh)[free][:, free].tocsc()).solve
    splits = {}
    for number, (split, count) in enumerate(sizes.items()):
        draw = np.random.default_rng([7, number])
        a = (draw.normal(size=(count, 12)) / (1 + 0.1 * basis.values)) @ basis.vectors.T  # (S, N)
        u = np.zeros_like(a)
        u[:, free] = solve((mass * np.exp(a))[:, free].T).T
        frames, static = u[:, None, :, None].astype("f4"), a[:, :, None].astype("f4")
        scalars = np.zeros((count, 0), "f4")
        splits[split] = Samples(replace(task, sizes=sizes), (mesh,), frames, static, scalars)
    return splits


def unsteady(sizes: dict[str, int] = SIZES, frames: int = 9) -> dict[str, Samples]:
    """Standing waves around a height of 5 m: two frames given."""
    mesh = square()
    field = Field("height", "m", reference=5.0, boundary={"boundary": "neumann"})
    times = tuple(np.linspace(0, 1, frames).tolist())
    task = Task(
        id="waves@2-7",
        dataset="waves",
        fields=(field,),
        dim=2,
        tags=("boundary",),
        t_in=2,
        t_out=frames - 2,
        times=times,
    )
    basis = eigenbasis(mesh, 12)
    turns = np.cos(np.sqrt(np.abs(basis.values)) * np.array(times)[:, None])  # (T, k)
    splits = {}
    for number, (split, count) in enumerate(sizes.items()):
        a = np.random.default_rng([8, number]).normal(size=(count, 12)) / (1 + basis.values)
        h = 5 + np.einsum("sk,tk,nk->stn", a, turns, basis.vectors)[..., None]
        whole = replace(task, sizes=sizes, resolution=mesh.size)
        static, scalars = np.zeros((count, mesh.size, 0), "f4"), np.zeros((count, 0), "f4")
        splits[split] = Samples(whole, (mesh,), h.astype("f4"), static, scalars)
    return splits
