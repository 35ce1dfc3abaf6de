"""ShapeNet car, the water-tight surfaces of the GINO set: 3586 vertices with pressure."""

from __future__ import annotations

import re
from pathlib import Path

import meshio
import numpy as np

import gsnobench as gb
from gsnobench_plugins.importers import npy

GSNOBENCH_API = 1
NAME = "car_surface_official"
STORED = 3682  # pressures of a file, of which some belong to no vertex
UNUSED = slice(16, 112)
VALID = 0.1  # share of the training cars: the protocol has no validation set and leaves none unused


def read(folder: Path, params: gb.NoParams) -> gb.Imported:
    """Test: the cars of test.txt; training and validation: those of train.txt."""
    train, test = (_manifest(npy.find(folder, f"{name}.txt")) for name in ("train", "test"))
    kept = len(train) - max(1, round(VALID * len(train)))
    cars: dict[gb.Split, list[str]] = {"train": train[:kept], "valid": train[kept:], "test": test}
    parts = {split: [_car(folder, car) for car in chosen] for split, chosen in cars.items()}
    nodes = max(mesh.size for part in parts.values() for mesh, _ in part)
    task = gb.Task(
        id=NAME,
        dataset=NAME,
        fields=(gb.Field("pressure", unit="Pa"),),
        dim=3,
        corresponds=False,
        fixed_mesh=False,
        resolution=nodes,
    )
    samples = {split: _samples(task, part, nodes) for split, part in parts.items()}
    notes = {"validation": f"the last {len(train) - kept} cars of train.txt: the set has none"}
    return gb.Imported(samples, notes, length_unit="m")


def _manifest(path: Path) -> list[str]:
    cars = re.findall(r"\d+", path.read_text(errors="replace"))
    if len(cars) < 2:
        raise gb.DataError(f"{path}: names {len(cars)} cars; expected their numbers, 001,002,...")
    if len(set(cars)) < len(cars):
        raise gb.DataError(f"{path}: names a car twice; download it again")
    return cars


def _car(folder: Path, car: str) -> tuple[gb.Mesh, gb.Array]:
    path = npy.find(folder, f"press_{car}.npy")
    pressure = np.asarray(npy.load(path, _flat_shape(path))).reshape(-1)
    pressure = np.delete(pressure, UNUSED) if len(pressure) == STORED else pressure
    file = npy.find(folder, f"mesh_{car}.ply")
    try:
        plain = meshio.read(file)
        triangles = plain.cells_dict["triangle"].astype(np.int64)
    except (Exception, SystemExit) as error:  # meshio has no error class of its own for this
        reason = " ".join(f"{type(error).__name__} {error}".split())
        raise gb.DataError(f"{file}: not a readable surface ({reason}); unpack it again") from error
    points = np.asarray(plain.points, dtype=np.float64)
    npy.check_finite(file, 0, points)
    if len(points) != len(pressure):
        raise gb.DataError(
            f"{path}: holds {len(pressure)} pressures, {file.name} {len(points)} vertices; "
            f"expected as many, or {STORED}"
        )
    return gb.Mesh(points, triangles), pressure


def _flat_shape(path: Path) -> tuple[int | None, ...]:
    """(N,) or (1, N): both occur."""
    return (1, None) if gb.read_npy(path).ndim == 2 else (None,)


def _samples(task: gb.Task, part: list[tuple[gb.Mesh, gb.Array]], nodes: int) -> gb.Samples:
    frames = np.zeros((len(part), 1, nodes, 1), dtype=np.float32)
    for number, (_, pressure) in enumerate(part):
        frames[number, 0, : len(pressure), 0] = pressure
    return gb.Samples(
        task=task,
        meshes=tuple(mesh for mesh, _ in part),
        frames=frames,
        static=np.zeros((len(part), nodes, 0), dtype=np.float32),
        scalars=np.zeros((len(part), 0), dtype=np.float32),
    )


@gb.hookimpl
def gsnobench_importer() -> gb.Importer:
    return gb.Importer(
        name=NAME,
        read=read,
        layout="train.txt, test.txt, mesh_NUMBER.ply and press_NUMBER.npy",
        title="ShapeNet car, surface pressure",
        licence="CC-BY-4.0",
        cites="Li et al., Geometry-Informed Neural Operator, NeurIPS 2023; data of Umetani and "
        "Bickel 2018",
        url="https://zenodo.org/records/13936501",
    )
