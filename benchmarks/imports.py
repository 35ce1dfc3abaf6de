"""How fast public files are read, and whether memory grows with them.

    python benchmarks/imports.py [--gigabytes 1 4] [--json FILE]

Synthetic files in the real shapes, in a temporary folder. All times are CPU-seconds.
TFRecord: trajectories of 601 frames on 5233 nodes; the speed of reading all features over that of
reading the bytes and computing their checksum alone (at least 0.5).
Memory: the peak of a process that imports a small and a large set; the difference is at most 50 MB.
Car: one case of about 3682 surface and 29498 air points as legacy VTK, at most 2 s.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gsnobench_plugins.importers.crc32c import masked
from gsnobench_plugins.importers.tfrecord import open_records

FRAMES, NODES, CELLS = 601, 5233, 10216
SURFACE, LAYERS = (58, 63), 8  # 3654 points of the body, 29232 of the air


def seconds(*works: Callable[[], object], repeats: int = 5) -> list[float]:
    """CPU-seconds of each call: the shortest of some, in turn, as a busy machine slows all."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for number, work in enumerate(works):
            started = time.process_time()
            work()
            best[number] = min(best[number], time.process_time() - started)
    return best


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(seed: int) -> bytes:
    """One trajectory of random numbers on random triangles, as its authors store it."""
    draw = np.random.default_rng(seed)
    mesh = np.random.default_rng(0)
    arrays = {
        "mesh_pos": mesh.normal(size=(1, NODES, 2)).astype("<f4"),
        "cells": mesh.integers(0, NODES, size=(1, CELLS, 3)).astype("<i4"),
        "node_type": np.zeros((1, NODES, 1), dtype="<i4"),
        "velocity": draw.standard_normal((FRAMES, NODES, 2), dtype="f4"),
        "density": draw.standard_normal((FRAMES, NODES, 1), dtype="f4"),
        "pressure": draw.standard_normal((FRAMES, NODES, 1), dtype="f4"),
    }
    entries = b"".join(
        part(1, part(1, name.encode()) + part(2, part(1, part(1, array.tobytes()))))
        for name, array in arrays.items()
    )
    payload = part(1, entries)
    length = struct.pack("<Q", len(payload))
    sums = [struct.pack("<I", masked(content)) for content in (length, payload)]
    return length + sums[0] + payload + sums[1]


def meta() -> dict[str, object]:
    widths = {"mesh_pos": 2, "cells": 3, "node_type": 1, "velocity": 2, "density": 1, "pressure": 1}
    whole = ("cells", "node_type")
    features = {
        name: {
            "type": "static" if index < 3 else "dynamic",
            "shape": [1 if index < 3 else FRAMES, -1, width],
            "dtype": "int32" if name in whole else "float32",
        }
        for index, (name, width) in enumerate(widths.items())
    }
    return {"trajectory_length": FRAMES, "dt": 0.008, "features": features}


def write_set(folder: Path, gigabytes: float) -> int:
    """Files of three splits; the training file has about this size. Returns its records."""
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps(meta()))
    first = record(1)
    count = max(1, round(gigabytes * 1e9 / len(first)))
    with (folder / "train.tfrecord").open("wb") as file:
        for _ in range(count):
            file.write(first)
    for seed, split in ((2, "valid"), (3, "test")):
        (folder / f"{split}.tfrecord").write_bytes(record(seed))
    return count


def read_speed(path: Path) -> dict[str, float]:
    """Reading with features beside reading and checksum alone."""

    def bare() -> None:
        with path.open("rb") as file:
            while header := file.read(12):
                (length,) = struct.unpack("<Q", header[:8])
                payload = file.read(length)
                masked(payload)
                file.read(4)

    def whole() -> None:
        records = open_records(path)
        for number in range(len(records)):
            for value in records.features(number).values():
                np.frombuffer(value, dtype="<f4")

    masked(b"warm")
    floor, ours = seconds(bare, whole)
    return {"bare_s": floor, "features_s": ours, "ratio of speeds": floor / ours}


def import_peak_mb(folder: Path, home: Path) -> float:
    """Peak memory of a process that imports a set, MB."""
    words = ["data", "import", "airfoil_official", "--from", str(folder), "--home", str(home)]
    code = (
        "import sys\n"
        f"sys.argv = {['gsnobench', *words]!r}\n"
        "from gsnobench.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "lines = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "print('peak', lines['VmHWM'].split()[0])\n"  # getrusage counts the parent's memory too
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(ended.stdout.rsplit("peak", 1)[1]) / 1024


def write_case(case: Path) -> None:
    """Body and air of one car in the real sizes."""
    case.mkdir(parents=True)
    draw = np.random.default_rng(0)
    rows, columns = SURFACE
    u, v = np.meshgrid(np.linspace(0, 4, rows), np.linspace(0, 2, columns), indexing="ij")
    body = np.stack([u.ravel(), v.ravel(), draw.normal(scale=0.02, size=u.size)], axis=1)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    quads = np.stack([corner, corner + columns, corner + columns + 1, corner + 1], axis=1)
    air = np.concatenate([body + [0, 0, 0.2 * layer] for layer in range(LAYERS)])
    shift = np.arange(LAYERS - 1)[:, None, None] * len(body)
    hexes = np.concatenate([quads + shift, quads + shift + len(body)], axis=2).reshape(-1, 8)
    for name, points, cells, kind, values in (
        ("quadpress_smpl.vtk", body, quads, 9, draw.normal(size=len(body))),
        ("hexvelo_smpl.vtk", air, hexes, 12, draw.normal(size=(len(air), 3))),
    ):
        table = np.column_stack([np.full(len(cells), cells.shape[1]), cells])
        head = "SCALARS p float\nLOOKUP_TABLE default" if values.ndim == 1 else "VECTORS v float"
        with (case / name).open("w") as file:
            file.write("# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\n")
            file.write(f"POINTS {len(points)} float\n")
            np.savetxt(file, points, fmt="%.9g")
            file.write(f"\nCELLS {len(cells)} {table.size}\n")
            np.savetxt(file, table, fmt="%d")
            file.write(f"\nCELL_TYPES {len(cells)}\n")
            np.savetxt(file, np.full(len(cells), kind), fmt="%d")
            file.write(f"\nPOINT_DATA {len(points)}\n{head}\n")
            np.savetxt(file, values.reshape(len(points), -1), fmt="%.9g")


def car_s(folder: Path) -> dict[str, float]:
    """Seconds per case to read its VTK files, and as a ratio to parsing their words alone."""
    from gsnobench_plugins.importers.car_official import _raw_case

    case = folder / "case"
    write_case(case)
    texts = [path.read_bytes() for path in case.iterdir()]
    words, ours = seconds(lambda: [text.split() for text in texts], lambda: _raw_case(case))
    return {"case_s": ours, "words_s": words, "ratio": ours / words}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs=2, default=(1.0, 4.0))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    facts: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peaks = []
        for gigabytes in options.gigabytes:
            source = folder / f"set{gigabytes}"
            records = write_set(source, gigabytes)
            if not peaks:
                facts["tfrecord"] = read_speed(source / "test.tfrecord")
            peaks.append(import_peak_mb(source, folder / f"home{gigabytes}"))
            facts[f"peak MB, {records} trajectories"] = round(peaks[-1], 1)
            (source / "train.tfrecord").unlink()
        facts["growth MB"] = round(peaks[1] - peaks[0], 1)
        facts["car"] = car_s(folder)
    print(json.dumps(facts, indent=1))
    if options.json:
        options.json.write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
