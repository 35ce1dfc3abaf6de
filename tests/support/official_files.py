"""Small files in the formats of public datasets, written without the code that reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import meshio
import numpy as np

Arrays = Mapping[str, Any]


# ----------------------------------------------------------------------------------------- TFRecord


def bitwise_crc32c(data: bytes) -> int:
    """The checksum bit by bit: slow, and the definition itself."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = (rest >> 1) ^ (0x82F63B78 & -(rest & 1))
    return rest ^ 0xFFFFFFFF


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


def meta() -> dict[str, Any]:
    static = {"mesh_pos": 2, "cells": 3, "node_type": 1}
    dynamic = {"velocity": 2, "density": 1, "pressure": 1}
    kind = {"cells": "int32", "node_type": "int32"}
    features = {
        name: {"type": "static", "shape": [1, -1, width], "dtype": kind.get(name, "float32")}
        for name, width in static.items()
    }
    features |= {
        name: {"type": "dynamic", "shape": [FRAMES, -1, width], "dtype": "float32"}
        for name, width in dynamic.items()
    }
    return {"trajectory_length": FRAMES, "dt": 0.008, "features": features}


def write_airfoil(folder: Path) -> dict[str, list[dict[str, np.ndarray]]]:
    """meta.json and three TFRecord files; returns what is in them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(meta()))
    written: dict[str, list[dict[str, np.ndarray]]] = {}
    for split, size in SIZES.items():
        written[split] = [
            trajectory(ord(split[0]) * 100 + ord(split[-1]) + number) for number in range(size)
        ]
        parts = [{n: array.tobytes() for n, array in part.items()} for part in written[split]]
        (folder / f"{split}.tfrecord").write_bytes(b"".join(record(example(p)) for p in parts))
    return written


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
