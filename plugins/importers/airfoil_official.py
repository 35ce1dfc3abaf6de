"""MeshGraphNets airfoil: TFRecord files with meta.json, or their re-pack as NumPy arrays.

Every record is one trajectory; `meta.json` says the type and shape of each feature. The re-pack
keeps every 20th frame as data (S, N, T, 4) in the order u, v, density, pressure; it has no
validation set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gsnobench as gb
from gsnobench_plugins.importers import npy
from gsnobench_plugins.importers.tfrecord import RecordFile, open_records

GSNOBENCH_API = 1
NAME = "airfoil_official"
FIELDS = (
    gb.Field("density", unit="kg m-3"),
    gb.Field("pressure", unit="Pa"),
    gb.Field("velocity_x", unit="m s-1", vector="velocity"),
    gb.Field("velocity_y", unit="m s-1", vector="velocity"),
)
MESH = ("mesh_pos", "cells", "node_type")
WHOLE = ("cells", "node_type")  # features of whole numbers
NEEDED = (*MESH, "velocity", "density", "pressure")
FILES: dict[gb.Split, str] = {"train": "train", "valid": "valid", "test": "test"}
TAGS = {2: "foil", 4: "far"}  # node types of MeshGraphNets
REPACKED_TAGS = {1: "foil", 2: "far"}
REPACKED_VALID = 0.1  # share of the training trajectories that the re-pack must give up


class Params(gb.Params):
    """Which frames of a trajectory are kept."""

    frames: int = gb.knob(default=11, low=2, high=601, help="first frames that are kept")
    every: int = gb.knob(default=1, low=1, high=600, help="keep one frame of so many")


@dataclass(frozen=True)
class Meta:
    """What meta.json says."""

    features: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]  # name -> type and shape
    length: int  # frames of a trajectory
    dt: float

    def array(self, name: str, data: bytes | memoryview, label: str) -> gb.Array:
        """Raw bytes as the array that meta.json declares."""
        dtype, shape = self.features[name]
        row = int(np.prod([size for size in shape if size >= 0])) * dtype.itemsize
        if not len(data) or len(data) % row:
            raise gb.DataError(
                f"{label}: {name} has {len(data)} bytes; expected a multiple of {row} for the "
                f"shape {shape} of meta.json"
            )
        return np.frombuffer(data, dtype=dtype).reshape(shape)


def read(folder: Path, params: Params) -> gb.Imported:
    """Trajectories of the three files, the first frames of each."""
    if list(folder.rglob("train_data.npy")):
        return _read_repacked(folder, params)
    meta = _meta(npy.find(folder, "meta.json"))
    files = {
        split: open_records(npy.find(folder, f"{name}.tfrecord")) for split, name in FILES.items()
    }
    rows = _kept(params, meta.length)
    kept: dict[str, gb.Mesh] = {}  # one object for equal meshes: a thousand would fill memory

    def shared(mesh: gb.Mesh) -> gb.Mesh:
        return kept.setdefault(mesh.key, mesh)

    meshes = {
        split: [shared(_mesh(file, number, meta)) for number in range(len(file))]
        for split, file in files.items()
    }
    task, distinct = _task(meshes, times=tuple(row * meta.dt for row in rows))

    def samples(split: gb.Split) -> gb.Samples:
        file = files[split]

        def row(number: int) -> gb.Array:
            return _trajectory(file, number, meta, rows, len(meshes[split][number].points))

        return _samples(task, meshes[split], row)

    return gb.Imported(
        {split: samples(split) for split in files}, {"distinct meshes": distinct}, "s", "1"
    )


def _meta(path: Path) -> Meta:
    try:
        plain = gb.read_json(path, expected="the meta.json of the data")
        features = {
            name: (
                np.dtype(plain["features"][name]["dtype"]).newbyteorder("<"),
                tuple(int(size) for size in plain["features"][name]["shape"]),
            )
            for name in NEEDED
        }
        for name, (dtype, _) in features.items():
            if (dtype.kind in "iu") != (name in WHOLE) or dtype.kind not in "fiu":
                raise ValueError(f"{name} is of type {dtype}")
        return Meta(features, int(plain["trajectory_length"]), float(plain["dt"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = f"{type(error).__name__} {error}"
        raise gb.DataError(
            f"{path}: not the meta.json of MeshGraphNets ({reason}); it needs trajectory_length, "
            f"dt and the features {', '.join(NEEDED)}"
        ) from error


def _kept(params: Params, length: int) -> list[int]:
    rows = list(range(0, params.frames * params.every, params.every))
    if rows[-1] >= length:
        raise gb.DataError(
            f"data.frames: {params.frames} frames, every {params.every}, end behind the last of "
            f"{length}; lower one of them"
        )
    return rows


def _features(
    file: RecordFile, number: int, present: Mapping[str, Any], names: tuple[str, ...]
) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise gb.DataError(f"{file.path}: record {number} has no feature {', '.join(missing)}")


def _mesh(file: RecordFile, number: int, meta: Meta) -> gb.Mesh:
    label = f"{file.path}: record {number}"
    raw = file.peek(number, MESH)
    _features(file, number, raw, MESH)
    parts = {name: meta.array(name, raw[name], label)[0] for name in MESH}
    npy.check_finite(file.path, number, parts["mesh_pos"])
    return _tagged(parts["mesh_pos"], parts["cells"], parts["node_type"][:, 0], TAGS)


def _tagged(
    points: gb.Array, cells: gb.Array, kinds: gb.Array, names: Mapping[int, str]
) -> gb.Mesh:
    tags = {"boundary": kinds != 0, **{name: kinds == code for code, name in names.items()}}
    return gb.Mesh(points.astype(np.float64), cells.astype(np.int64), tags)


def _trajectory(file: RecordFile, number: int, meta: Meta, rows: list[int], nodes: int) -> gb.Array:
    """The kept frames of a record, (T, N, 4), checked against its checksum."""
    label = f"{file.path}: record {number}"
    raw = file.features(number)
    names = ("density", "pressure", "velocity")
    _features(file, number, raw, names)
    parts = [meta.array(name, raw[name], label)[rows] for name in names]
    for name, part in zip(names, parts, strict=True):
        if part.shape[1] != nodes:
            raise gb.DataError(
                f"{label}: {name} has {part.shape[1]} nodes, mesh_pos {nodes}; expected as many"
            )
    return np.concatenate(parts, axis=-1)


def _task(
    meshes: Mapping[gb.Split, list[gb.Mesh]], times: tuple[float, ...]
) -> tuple[gb.Task, int]:
    """The task of single steps, and the number of distinct meshes."""
    sizes = [mesh.size for part in meshes.values() for mesh in part]
    distinct = len({mesh.key for part in meshes.values() for mesh in part})
    task = gb.Task(
        id=f"{NAME}@1-1",
        dataset=NAME,
        fields=FIELDS,
        dim=2,
        tags=("boundary", *TAGS.values()),
        t_in=1,
        t_out=1,
        times=times,
        starts=tuple(range(len(times) - 1)),
        corresponds=distinct == 1,
        fixed_mesh=distinct == 1,
        resolution=max(sizes, default=0),
    )
    return task, distinct


def _samples(task: gb.Task, meshes: list[gb.Mesh], row: Callable[[int], gb.Array]) -> gb.Samples:
    count, nodes = len(meshes), task.resolution

    def padded(number: int) -> gb.Array:
        frames = row(number)
        return np.pad(frames, [(0, 0), (0, nodes - frames.shape[1]), (0, 0)])

    return gb.Samples(
        task=task,
        meshes=tuple(meshes[:1] if task.fixed_mesh else meshes),
        frames=gb.Rows(count, (len(task.times), nodes, len(FIELDS)), padded),
        static=np.zeros((count, nodes, 0), dtype=np.float32),
        scalars=np.zeros((count, 0), dtype=np.float32),
    )


# ------------------------------------------------------------------------------------------ re-pack


def _read_repacked(folder: Path, params: Params) -> gb.Imported:
    parts: dict[str, tuple[gb.Array, list[gb.Mesh]]] = {}
    for split in ("train", "test"):
        data = npy.load(npy.find(folder, f"{split}_data.npy"), (None, None, None, len(FIELDS)))
        parts[split] = data, _repacked_meshes(folder, split, data.shape)
    step = 20 * 0.008  # seconds between stored frames, by the authors of the re-pack
    rows = _kept(params, parts["train"][0].shape[2])
    count = len(parts["train"][0])
    kept = count - max(1, round(REPACKED_VALID * count))
    chosen: dict[gb.Split, tuple[str, slice]] = {
        "train": ("train", slice(0, kept)),
        "valid": ("train", slice(kept, count)),
        "test": ("test", slice(None)),
    }
    meshes = {split: parts[source][1][part] for split, (source, part) in chosen.items()}
    task, distinct = _task(meshes, times=tuple(row * step for row in rows))

    def samples(split: gb.Split) -> gb.Samples:
        source, part = chosen[split]
        data = parts[source][0][part]  # (S, N, T, 4): u, v, density, pressure
        order = [2, 3, 0, 1]
        return _samples(
            task, meshes[split], lambda number: data[number][:, rows][..., order].transpose(1, 0, 2)
        )

    notes = {
        "distinct meshes": distinct,
        "validation": f"the last {count - kept} training trajectories: the re-pack has none",
    }
    return gb.Imported({split: samples(split) for split in chosen}, notes, "s", "1")


def _repacked_meshes(folder: Path, split: str, shape: tuple[int, ...]) -> list[gb.Mesh]:
    count, nodes, frames, _ = shape
    path = npy.find(folder, f"{split}_grid.npy")
    grid = npy.load(path, (count, nodes, frames, 2))
    cells = npy.load(npy.find(folder, f"{split}_cells.npy"), (count, None, frames, 3))
    kinds = npy.load(npy.find(folder, f"{split}_node_type.npy"), (count, nodes, frames, None))
    meshes = []
    for number in range(count):
        npy.check_finite(path, number, grid[number, :, 0])
        codes = np.asarray(kinds[number, :, 0, 0])
        meshes.append(_tagged(grid[number, :, 0], cells[number, :, 0], codes, REPACKED_TAGS))
    return meshes


@gb.hookimpl
def gsnobench_importer() -> gb.Importer:
    return gb.Importer(
        name=NAME,
        read=read,
        params=Params,
        layout="meta.json, train.tfrecord, valid.tfrecord and test.tfrecord; or "
        "{train,test}_{data,grid,cells,node_type}.npy",
        title="MeshGraphNets airfoil",
        licence="not stated by its authors",
        cites="Pfaff et al., Learning Mesh-Based Simulation with Graph Networks, ICLR 2021",
        url="https://storage.googleapis.com/dm-meshgraphnets/airfoil",
    )
