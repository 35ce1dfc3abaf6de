"""Random samples in memory, on one mesh or on many, for tests of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from toy_datasets import square

import gsnobench as gb
from gsnobench.data import Samples, Task
from gsnobench.datasets import store

FIELDS = (
    gb.Field("h", unit="m", reference=5.0, help="depth"),
    gb.Field("u", unit="m s-1", boundary={"wall": "dirichlet"}, vector="velocity"),
)
TASK = Task(
    id="toy@1-2",
    dataset="toy",
    fields=FIELDS,
    dim=2,
    static=(gb.Field("bed", unit="m"),),
    scalars=(gb.Field("inflow", unit="m3 s-1"),),
    tags=("wall", "left"),
    t_in=1,
    t_out=2,
    times=(0.0, 0.5, 1.5),
    resolution=16,
    version=2,
    data={"psi": "exp", "depth": 5.0, "is_rough": True},
    data_seed=4,
)


def fixed(
    seed: int = 0, train: int = 5, task: Task = TASK, mesh: gb.Mesh | None = None
) -> dict[str, Samples]:
    """Random samples of three splits on one square."""
    mesh = mesh or square(4)
    draw = np.random.default_rng(seed)

    def samples(count: int) -> Samples:
        frames = draw.normal(size=(count, len(task.times), mesh.size, len(task.fields)))
        static = draw.normal(size=(count, mesh.size, len(task.static)))
        scalars = draw.normal(size=(count, len(task.scalars)))
        return Samples(task, (mesh,), *(part.astype("f4") for part in (frames, static, scalars)))

    return {"train": samples(train), "valid": samples(2), "test": samples(3)}


def ragged(seed: int = 0, padding: float = 0.0) -> dict[str, Samples]:
    """Random samples, each on a square of its own size; `padding` is where a sample has no node."""
    task = replace(TASK, fixed_mesh=False, corresponds=False)
    draw = np.random.default_rng(seed)

    def samples(sides: tuple[int, ...]) -> Samples:
        meshes = tuple(square(side) for side in sides)
        nodes = max(mesh.size for mesh in meshes)
        frames = draw.normal(size=(len(sides), 3, nodes, 2)).astype("f4")
        static = draw.normal(size=(len(sides), nodes, 1)).astype("f4")
        for index, mesh in enumerate(meshes):
            frames[index, :, mesh.size :] = padding
            static[index, mesh.size :] = padding
        return Samples(task, meshes, frames, static, draw.normal(size=(len(sides), 1)).astype("f4"))

    return {"train": samples((3, 5, 4)), "valid": samples((3,)), "test": samples((4, 3))}


def write_toy(folder: Path) -> Path:
    """The fixed samples as a file with all attributes."""
    provenance = {"title": "Toy", "source": "a random generator", "licence": "CC0-1.0"}
    store.write(folder / "toy.nc", fixed(), provenance=provenance, time_unit="s", length_unit="m")
    return folder / "toy.nc"


def without_hashes(path: Path) -> Path:
    """Make a file of ours one that a user could have written."""
    with netCDF4.Dataset(path, "a") as file:
        for name in ("content_hash", "split_hashes", "fingerprint"):
            file.delncattr(name)
        for name in ("gsnobench_format", "gsnobench_version"):
            file.delncattr(name)
    return path


def one_line(error: pytest.ExceptionInfo[gb.GsnobenchError], *parts: str) -> None:
    """The message is one line and says this."""
    text = str(error.value)
    assert "\n" not in text and all(part in text for part in parts), text
