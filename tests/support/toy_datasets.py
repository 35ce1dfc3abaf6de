"""Small datasets with real solvers: heat on a triangulated square, a disc of varying size."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import gsnobench as gb
from gsnobench.data import SPLITS

TIMES = tuple(round(0.1 * frame, 3) for frame in range(7))


class HeatParams(gb.Params):
    conductivity: float = gb.knob(default=1.0, low=0.1, high=10.0, help="heat conductivity")
    smooth: bool = gb.knob(default=True, help="smooth initial temperature")


def square(side: int) -> gb.Mesh:
    """side x side nodes, two triangles per square."""
    x, y = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side), indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    lower = np.stack([corner, corner + side, corner + 1], axis=1)
    upper = np.stack([corner + side, corner + side + 1, corner + 1], axis=1)
    on_wall = (points == 0).any(axis=1) | (points == 1).any(axis=1)
    tags = {"wall": on_wall, "left": points[:, 0] == 0}
    return gb.Mesh(points, np.concatenate([lower, upper]), tags)


def _heat_setup(params: HeatParams, resolution: int, cache: gb.Cache) -> dict:
    mesh = square(round(resolution**0.5))
    side = round(mesh.size**0.5)
    shape = (side, side)
    second = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=shape)
    second = second * (side - 1) ** 2
    eye = scipy.sparse.eye_array(side)
    laplacian = scipy.sparse.kron(second, eye) + scipy.sparse.kron(eye, second)
    free = scipy.sparse.diags_array((~mesh.tags["wall"]).astype(float))
    step = scipy.sparse.eye_array(mesh.size) - 0.005 * params.conductivity * (free @ laplacian)
    return {"mesh": mesh, "step": scipy.sparse.linalg.splu(step.tocsc()), "smooth": params.smooth}


def _heat_generate(
    setup: dict, seed: int, split: str, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    mesh = setup["mesh"]
    for index in indices:
        _note(split, index)
        draw = np.random.default_rng([seed, SPLITS.index(split), index])
        waves = draw.normal(size=(3, 3)) if setup["smooth"] else draw.normal(size=(9, 9))
        x, y = mesh.points.T
        state = sum(
            amplitude * np.sin(np.pi * (i + 1) * x) * np.sin(np.pi * (j + 1) * y)
            for (i, j), amplitude in np.ndenumerate(waves)
        )
        state = np.where(mesh.tags["wall"], 0.0, state)
        frames = [state]
        for _ in TIMES[1:]:
            frames.append(setup["step"].solve(frames[-1]))
        source = np.abs(waves).sum() * mesh.points[:, :1]
        yield gb.Sample(np.stack(frames)[..., None], source, np.array([waves[0, 0]]))


def _note(split: str, index: int) -> None:
    """Log the sample for tests that count them, and wait for tests that kill the process."""
    if "TOY_LOG" in os.environ:
        with Path(os.environ["TOY_LOG"]).open("a") as log:
            log.write(f"{split} {index}\n")
    time.sleep(float(os.environ.get("TOY_SLEEP", "0")))


def _mesh_of(setup: dict) -> gb.Mesh:
    return setup["mesh"]


WALL = {"wall": "dirichlet"}
TEMPERATURE = gb.Field("temperature", unit="K", boundary=WALL, help="temperature above the wall's")
HEAT = gb.Dataset(
    name="heat",
    fields=(TEMPERATURE,),
    static=(gb.Field("source", unit="K"),),
    scalars=(gb.Field("amplitude", unit="K"),),
    tags=("wall", "left"),
    dim=2,
    sizes={
        "smoke": gb.Sizes(train=6, valid=2, test=3, resolution=49),
        "laptop": gb.Sizes(train=20, valid=4, test=4, test_ood=2, resolution=121),
    },
    tiny=gb.Sizes(train=3, valid=2, test=2, resolution=25),
    setup=_heat_setup,
    generate=_heat_generate,
    mesh=_mesh_of,
    params=HeatParams,
    variants={"rough": {"smooth": False}, "fast": {"conductivity": 4.0}},
    times=TIMES,
    t_in=2,
    resolutions=(25, 49, 121),
    chunk=2,
    title="Heat on a square",
    solver="implicit Euler, five-point Laplacian",
    licence="CC-BY-4.0",
    cites="Fourier 1822",
    revision=3,
)


def _disc_setup(params: object, resolution: int, cache: gb.Cache) -> int:
    return resolution


def _disc_generate(
    setup: int, seed: int, split: str, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    for index in indices:
        draw = np.random.default_rng([seed, SPLITS.index(split), index, 7])
        rim = int(draw.integers(setup, 2 * setup))
        angle = 2 * np.pi * np.arange(rim) / rim
        radius = draw.uniform(0.5, 2.0)
        circle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        points = np.concatenate([[[0.0, 0.0]], circle])
        after = (np.arange(rim) + 1) % rim
        cells = np.stack([np.zeros(rim, dtype=int), 1 + np.arange(rim), 1 + after], axis=1)
        mesh = gb.Mesh(points, cells, {"rim": np.arange(rim + 1) > 0})
        torsion = (radius**2 - (points**2).sum(axis=1)) / 4  # -laplace u = 1 on the disc
        yield gb.Sample(torsion[None, :, None], np.zeros((rim + 1, 0)), np.zeros(0), mesh)


def _no_mesh(setup: int) -> None:
    return None


DISC = gb.Dataset(
    name="disc",
    fields=(gb.Field("u", boundary={"rim": "dirichlet"}),),
    tags=("rim",),
    dim=2,
    sizes={"smoke": gb.Sizes(train=5, valid=2, test=2, resolution=8)},
    tiny=gb.Sizes(train=2, valid=1, test=1, resolution=6),
    setup=_disc_setup,
    generate=_disc_generate,
    mesh=_no_mesh,
    fixed_mesh=False,
    corresponds=False,
    chunk=2,
)
