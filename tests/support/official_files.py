"""Small files in the formats of public datasets, written without the code that reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import meshio
import numpy as np
from numba import njit
from scipy.spatial import Delaunay

Arrays = Mapping[str, Any]


# ----------------------------------------------------------------------------------------- TFRecord


def bitwise_crc32c(data: bytes) -> int:
    """The checksum bit by bit: the definition itself."""
    return int(_bitwise(np.frombuffer(data, dtype=np.uint8)))


@njit
def _bitwise(data: np.ndarray) -> np.uint32:
    rest = np.uint32(0xFFFFFFFF)
    for byte in data:
        rest ^= np.uint32(byte)
        for _ in range(8):
            last = rest & np.uint32(1)
            rest = (rest >> np.uint32(1)) ^ (np.uint32(0x82F63B78) * last)
    return rest ^ np.uint32(0xFFFFFFFF)


def _mask(data: bytes) -> bytes:
    crc = bitwise_crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _part(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def example(features: Mapping[str, bytes]) -> bytes:
    """A tf.train.Example whose features are lists of one byte string."""
    entries = b"".join(
        _part(1, _part(1, name.encode()) + _part(2, _part(1, _part(1, value))))
        for name, value in features.items()
    )
    return _part(1, entries)


def record(payload: bytes) -> bytes:
    """A payload with its length and both checksums."""
    length = struct.pack("<Q", len(payload))
    return length + _mask(length) + payload + _mask(payload)


FRAMES = 6
SIZES = {"train": 3, "valid": 2, "test": 2}


def trajectory(seed: int, nodes: int = 9) -> dict[str, np.ndarray]:
    """Random values on a fixed strip of triangles, as in MeshGraphNets."""
    draw = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(3.0), np.arange(nodes // 3), indexing="ij")
    cells = [[0, 1, 3], [1, 4, 3], [1, 2, 4], [2, 5, 4], [3, 4, 6], [4, 7, 6], [4, 5, 7], [5, 8, 7]]
    return {
        "mesh_pos": np.stack([x.ravel(), y.ravel()], axis=1).astype("<f4")[None],
        "cells": np.array(cells, dtype="<i4")[None],
        "node_type": np.array([2, 0, 4, 0, 0, 0, 4, 4, 2], dtype="<i4")[None, :, None],
        "velocity": draw.normal(size=(FRAMES, nodes, 2)).astype("<f4"),
        "density": draw.normal(size=(FRAMES, nodes, 1)).astype("<f4"),
        "pressure": draw.normal(size=(FRAMES, nodes, 1)).astype("<f4"),
    }


def real_trajectory(seed: int) -> dict[str, np.ndarray]:
    """Random values in the real sizes: 601 frames, 5233 nodes, 10216 triangles."""
    draw, nodes, cells = np.random.default_rng(seed), 5233, 10216
    points = np.random.default_rng(0).uniform(-20, 20, size=(nodes, 2)).astype("<f4")
    kinds = np.repeat([2, 4, 0], [200, 50, nodes - 250])
    return {
        "mesh_pos": points[None],
        "cells": Delaunay(points).simplices[None, :cells].astype("<i4"),
        "node_type": kinds.astype("<i4")[None, :, None],
        "velocity": draw.standard_normal((601, nodes, 2), dtype="f4"),
        "density": draw.standard_normal((601, nodes, 1), dtype="f4"),
        "pressure": draw.standard_normal((601, nodes, 1), dtype="f4"),
    }


def meta(frames: int = FRAMES) -> dict[str, Any]:
    static = {"mesh_pos": 2, "cells": 3, "node_type": 1}
    dynamic = {"velocity": 2, "density": 1, "pressure": 1}
    kind = {"cells": "int32", "node_type": "int32"}
    features = {
        name: {"type": "static", "shape": [1, -1, width], "dtype": kind.get(name, "float32")}
        for name, width in static.items()
    }
    features |= {
        name: {"type": "dynamic", "shape": [frames, -1, width], "dtype": "float32"}
        for name, width in dynamic.items()
    }
    return {"trajectory_length": frames, "dt": 0.008, "features": features}


Trajectories = dict[str, list[dict[str, np.ndarray]]]


def write_airfoil(folder: Path) -> Trajectories:
    """meta.json and three small TFRecord files; returns what is in them."""
    written = {
        split: [trajectory(ord(split[0]) * 100 + ord(split[-1]) + number) for number in range(size)]
        for split, size in SIZES.items()
    }
    write_trajectories(folder, written, FRAMES)
    return written


def write_trajectories(folder: Path, written: Trajectories, frames: int) -> None:
    """meta.json and one TFRecord file per split."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(meta(frames)))
    for split, trajectories in written.items():
        parts = [{n: array.tobytes() for n, array in part.items()} for part in trajectories]
        (folder / f"{split}.tfrecord").write_bytes(b"".join(record(example(p)) for p in parts))


def write_repacked(folder: Path, part: Mapping[str, np.ndarray], frames: int) -> np.ndarray:
    """The re-pack as NumPy arrays, all on the mesh of one trajectory; returns the test data."""
    folder.mkdir(parents=True)
    draw, nodes = np.random.default_rng(0), part["mesh_pos"].shape[1]
    kinds = np.select([part["node_type"] == 2, part["node_type"] == 4], [1, 2])
    repeated = {"grid": part["mesh_pos"], "cells": part["cells"], "node_type": kinds}
    for split, count in (("train", 10), ("test", 2)):
        for name, array in repeated.items():
            whole = np.repeat(array[:, :, None], frames, axis=2).repeat(count, axis=0)
            np.save(folder / f"{split}_{name}.npy", whole)
        data = draw.standard_normal((count, nodes, frames, 4), dtype="f4")
        np.save(folder / f"{split}_data.npy", data)
    return data


# ------------------------------------------------------------------------------------------- arrays


def write_elasticity(folder: Path, count: int = 6) -> Arrays:
    """Clouds of 972 points around a round void; returns the arrays."""
    folder = folder / "elasticity" / "Meshes"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    radii = np.tile(np.linspace(0.2, 0.3, count), (42, 1))
    clouds = np.stack([_cloud(draw, radius) for radius in radii[0]])
    arrays = {
        "XY": clouds.transpose(1, 2, 0),
        "sigma": draw.uniform(1, 9, size=(972, count)),
        "rr": radii,
        "theta": draw.normal(size=(count, 10)),
    }
    for name, array in arrays.items():
        np.save(folder / f"Random_UnitCell_{name}_10.npy", array)
    return arrays


def _cloud(draw: np.random.Generator, radius: float) -> np.ndarray:
    """972 points of the unit square: on its sides, on the void, and between."""
    t = np.arange(20) / 20
    sides = [
        np.stack(p, 1) for p in ((t, 0 * t), (1 - t, 1 + 0 * t), (0 * t, 1 - t), (1 + 0 * t, t))
    ]
    angle = 2 * np.pi * np.arange(41) / 41
    void = 0.5 + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inner = draw.uniform(0.02, 0.98, size=(4000, 2))
    inner = inner[np.hypot(*(inner - 0.5).T) > radius * 1.05]
    return np.concatenate([*sides, void, inner])[:972]


def write_pipe(folder: Path, count: int = 4) -> Arrays:
    """Straight channels of several heights with a parabola; returns the arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    s = np.linspace(0, 1, 129)
    height = np.linspace(1, 1.2, count)[:, None, None]
    x = np.broadcast_to(10 * s[:, None], (count, 129, 129)).copy()
    y = np.broadcast_to(height * s, (count, 129, 129)).copy()
    flow = np.zeros((count, 3, 129, 129))
    flow[:, 0] = s * (1 - s) / height
    flow[:, 2] = 7.0
    for name, array in (("X", x), ("Y", y), ("Q", flow)):
        np.save(folder / f"Pipe_{name}.npy", array)
    return {"X": x, "Y": y, "Q": flow}


# --------------------------------------------------------------------------------------------- cars


def cube_surface(side: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and quadrilaterals of a dented grid of side x side nodes in space."""
    u, v = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side), indexing="ij")
    dent = np.random.default_rng(seed).normal(scale=0.02, size=u.size)
    points = np.stack([u.ravel(), v.ravel(), dent], axis=1).astype("f4")
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    quads = np.stack([corner, corner + side, corner + side + 1, corner + 1], axis=1)
    return points, quads


def vtk_text(points: Any, cells: Any, kind: int, name: str, values: Any) -> str:
    """A legacy VTK file in ASCII."""

    def lines(table: Any) -> str:
        return "\n".join(" ".join(f"{value:.9g}" for value in row) for row in table)

    table = np.column_stack([np.full(len(cells), cells.shape[1]), cells])
    head = "SCALARS {} float\nLOOKUP_TABLE default" if values.ndim == 1 else "VECTORS {} float"
    return (
        "# vtk DataFile Version 3.0\nvtk output\nASCII\nDATASET UNSTRUCTURED_GRID\n"
        f"POINTS {len(points)} float\n{lines(points)}\n\nCELLS {len(cells)} {table.size}\n"
        f"{lines(table)}\n\nCELL_TYPES {len(cells)}\n{lines(np.full((len(cells), 1), kind))}\n\n"
        f"POINT_DATA {len(points)}\n{head.format(name)}\n{lines(values.reshape(len(points), -1))}\n"
    )


def write_car(case: Path, seed: int, side: int = 5) -> dict[str, np.ndarray]:
    """Surface and air of one car; the lowest layer of the air lies on the surface."""
    case.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    body, quads = cube_surface(side, seed)
    layers = [body + np.array([0, 0, 0.5 * k], dtype="f4") for k in range(3)]
    air = np.concatenate(layers)
    shift = np.arange(2)[:, None, None] * side**2
    hexes = np.concatenate([quads + shift, quads + shift + side**2], axis=2).reshape(-1, 8)
    pressure = draw.normal(size=len(body)).astype("f4")
    velocity = draw.normal(size=(len(air), 3)).astype("f4")
    (case / "quadpress_smpl.vtk").write_text(vtk_text(body, quads, 9, "pressure", pressure))
    (case / "hexvelo_smpl.vtk").write_text(vtk_text(air, hexes, 12, "point_vectors", velocity))
    return {"body": body, "quads": quads, "air": air, "pressure": pressure, "velocity": velocity}


def write_real_car(case: Path, seed: int = 0) -> None:
    """A car in the real sizes: 3586 of 3682 points in quadrilaterals, 994 of 29498 on the body."""
    case.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    body = draw.normal(size=(3682, 3)).astype("f4")
    used = np.delete(np.arange(3682), np.s_[16:112])
    quads = used[np.stack([np.arange(3584) + corner for corner in (0, 1, 2, -1)], axis=1)]
    air = np.concatenate([body[used[:994]], 9 + draw.normal(size=(28504, 3)).astype("f4")])
    hexes = np.arange(29491)[:, None] + np.arange(8)
    pressure = draw.normal(size=3682).astype("f4")
    velocity = draw.normal(size=(29498, 3)).astype("f4")
    (case / "quadpress_smpl.vtk").write_text(vtk_text(body, quads, 9, "pressure", pressure))
    (case / "hexvelo_smpl.vtk").write_text(vtk_text(air, hexes, 12, "point_vectors", velocity))


def write_surface_cars(folder: Path, count: int = 8) -> dict[str, np.ndarray]:
    """Triangulated surfaces of 3586 vertices with 3682 stored pressures; returns the pressures."""
    data = folder / "data"
    data.mkdir(parents=True)
    draw = np.random.default_rng(0)
    pressures = {}
    for number in range(1, count + 1):
        points = draw.normal(size=(3586, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        triangles = np.stack([np.arange(3584), np.arange(3584) + 1, np.arange(3584) + 2], axis=1)
        name = f"{number:03d}"
        meshio.Mesh(points, [("triangle", triangles)]).write(data / f"mesh_{name}.ply")
        pressures[name] = draw.normal(size=(1, 3682)).astype("f4")
        np.save(data / f"press_{name}.npy", pressures[name])
    (folder / "train.txt").write_text(",".join(f"{n:03d}" for n in range(1, count - 1)))
    (folder / "test.txt").write_text(",".join(f"{n:03d}" for n in range(count - 1, count + 1)))
    return pressures
