"""Import of NumPy files (one .npz, or a folder of .npy) as samples; nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import SPLITS, Array, Mesh, Samples, Split, Task
from gsnobench.errors import DataError, did_you_mean
from gsnobench.reading import guarded, read_npy, read_npz

SAMPLE_KEYS = ("frames", "times", "static", "scalars")
MESH_KEYS = ("points", "cells", "node_count", "cell_count")
KEYS = (*SAMPLE_KEYS, *MESH_KEYS, "split")


def import_npz(path: Path, task: Task) -> dict[Split, Samples]:
    """The samples of a NumPy file by split, ready for `store.write`.

    Keys: frames (S,T,N,C), points (N,d) or (S,N,d), split (S,) of names or 0..3; optional times
    (T,), static (S,N,F), scalars (S,P), cells (M,k) or (S,M,k), tag_NAME (N,) or (S,N), and
    node_count, cell_count (S,) where meshes are padded.
    """
    return samples_of(path, arrays_of(path), task)


def samples_of(path: Path, arrays: Mapping[str, Any], task: Task) -> dict[Split, Samples]:
    """The samples by split of arrays with the keys above, which came from this path."""
    with guarded(path, expected="arrays of the shapes in docs/data-format.md"):
        return _samples_of(path, arrays, task)


def _samples_of(path: Path, arrays: Mapping[str, Any], task: Task) -> dict[Split, Samples]:
    for name in arrays:
        if name not in KEYS and not name.startswith("tag_"):
            raise DataError(
                f"{path}: the key {name!r} is unknown; {did_you_mean(name, (*KEYS, 'tag_NAME'))}"
            )
    _check_kinds(path, arrays)
    for name in ("frames", "points", "split"):
        if name not in arrays:
            raise DataError(
                f"{path}: the key {name!r} is missing; expected at least frames, points and split"
            )
    frames = arrays["frames"]
    if frames.ndim != 4:
        raise DataError(
            f"{path}: frames has the shape {frames.shape}; expected (samples, frames, nodes, "
            "fields)"
        )
    count, length, nodes, _ = frames.shape
    moments = np.asarray(arrays.get("times", task.times), dtype=np.float64)
    if moments.ndim != 1 or not np.isfinite(moments).all():
        raise DataError(f"{path}: times has the shape {moments.shape}; expected ({length},)")
    times = tuple(moments.tolist())
    if len(times) != length:
        raise DataError(
            f"{path}: frames holds {length} frames, but there are {len(times)} times; add the key "
            "'times'"
        )
    whole = replace(task, times=times, fixed_mesh=arrays["points"].ndim == 2)
    static = arrays.get("static", np.zeros((count, nodes, 0), dtype="f4"))
    scalars = arrays.get("scalars", np.zeros((count, 0), dtype="f4"))
    codes = _codes(path, arrays["split"])
    for name, array in (("static", static), ("scalars", scalars), ("split", codes)):
        if len(array) != count:
            raise DataError(
                f"{path}: {name} holds {len(array)} samples, frames {count}; expected equal numbers"
            )
    samples = Samples(whole, _meshes(path, arrays, count), frames, static, scalars)
    return {
        split: samples.take(np.flatnonzero(codes == code))
        for code, split in enumerate(SPLITS)
        if (codes == code).any()
    }


def _check_kinds(path: Path, arrays: Mapping[str, Any]) -> None:
    """Raise where a conversion would change a number in silence."""
    for name, array in arrays.items():
        kind = array.dtype.kind
        if name in ("cells", "node_count", "cell_count"):
            expected = "whole numbers"
            fits = kind in "iu" or (kind == "f" and np.array_equal(array, np.round(array)))
        elif name.startswith("tag_"):
            expected = "true or false"
            fits = kind == "b" or (kind in "iuf" and bool(np.isin(array, (0, 1)).all()))
        else:
            expected = "real numbers"
            fits = kind in "biuf" or name == "split"
        if not fits:
            raise DataError(
                f"{path}: {name} holds values of type {array.dtype}; expected {expected}"
            )


def arrays_of(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz, or of the .npy files in a folder, by name."""
    if path.is_dir():
        return {file.stem: read_npy(file) for file in sorted(path.glob("*.npy"))}
    return read_npz(path)


def _codes(path: Path, split: Array) -> Array:
    known: dict[object, int] = {name: code for code, name in enumerate(SPLITS)}
    known |= {code: code for code in range(len(SPLITS))}
    values = split.tolist()
    unknown = sorted({str(value) for value in values if value not in known})
    if unknown:
        raise DataError(
            f"{path}: split holds {', '.join(unknown)}; expected 0 to {len(SPLITS) - 1} or "
            f"{', '.join(SPLITS)}"
        )
    return np.array([known[value] for value in values], dtype=np.int64)


def _meshes(path: Path, arrays: Mapping[str, Array], count: int) -> tuple[Mesh, ...]:
    points = np.asarray(arrays["points"], dtype=np.float64)
    tags = {
        name.removeprefix("tag_"): np.asarray(values, dtype=bool)
        for name, values in arrays.items()
        if name.startswith("tag_")
    }
    cells = np.asarray(arrays["cells"], dtype=np.int64) if "cells" in arrays else None
    if points.ndim == 2:
        return (Mesh(points, cells, tags),)
    if points.ndim != 3 or len(points) != count:
        raise DataError(
            f"{path}: points has the shape {points.shape}; expected (nodes, dim) or ({count}, "
            "nodes, dim)"
        )
    nodes = arrays.get("node_count", np.full(count, points.shape[1]))
    counts = arrays.get("cell_count", np.full(count, 0 if cells is None else cells.shape[-2]))

    def mesh(index: int) -> Mesh:
        size, own = int(nodes[index]), None
        if cells is not None:
            own = (cells[index] if cells.ndim == 3 else cells)[: int(counts[index])]
        members = {
            tag: (values[index] if values.ndim == 2 else values)[:size]
            for tag, values in tags.items()
        }
        return Mesh(points[index, :size], own, members)

    return tuple(mesh(index) for index in range(count))
