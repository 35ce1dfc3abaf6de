"""Samples as NumPy files and back: one .npz, or .npy files per split as other projects read them.

The .npz has the keys of `from_numpy`. The .npy files are those of the public re-pack of
MeshGraphNets: `SPLIT_data` (samples, nodes, frames, fields), `SPLIT_grid` (samples, nodes, frames,
dim), `SPLIT_cells` (samples, cells, frames, vertices) and `SPLIT_node_type` (samples, nodes,
frames, 1). What these leave out is in further files: inputs, tags, and counts where meshes differ.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from gsnobench.data import SPLITS, Array, Mesh, Samples, Split, Task
from gsnobench.datasets.from_numpy import arrays_of, samples_of
from gsnobench.datasets.split_by_time import split_by_time
from gsnobench.errors import DataError

FORMATS = ("npz", "npy")
ARCHIVE = "arrays.npz"


@dataclass(frozen=True)
class Stream:
    """An array (S, *tail) that is written row by row, so that it never has to fit in memory."""

    count: int
    tail: tuple[int, ...]
    dtype: str
    row: Callable[[int], Array]

    def write(self, file: IO[bytes]) -> None:
        """The bytes of an .npy file."""
        shape = (self.count, *self.tail)
        header = {"descr": self.dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for index in range(self.count):
            row = np.broadcast_to(self.row(index), self.tail)
            file.write(np.ascontiguousarray(row, dtype=self.dtype).tobytes())


@dataclass(frozen=True)
class _Sizes:
    """The padded sizes of all samples."""

    nodes: int
    cells: int
    vertices: int
    tags: tuple[str, ...]


def _sizes_of(parts: Mapping[Split, Samples]) -> _Sizes:
    meshes = [mesh for samples in parts.values() for mesh in samples.meshes]
    tables = [mesh.cells for mesh in meshes if mesh.cells is not None]
    task = next(iter(parts.values())).task
    return _Sizes(
        nodes=max(mesh.size for mesh in meshes),
        cells=max((len(table) for table in tables), default=0),
        vertices=tables[0].shape[1] if tables else 0,
        tags=tuple(sorted({*task.tags, *(tag for mesh in meshes for tag in mesh.tags)})),
    )


def _padded(values: Array, rows: int, axis: int, fill: int = 0) -> Array:
    """As many rows along the axis as the largest sample has."""
    kept = values[(slice(None),) * axis + (slice(0, rows),)]
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, rows - kept.shape[axis])
    return np.pad(kept, widths, constant_values=fill)


def _cells(mesh: Mesh, sizes: _Sizes) -> Array:
    table = np.zeros((0, sizes.vertices), dtype="<i4") if mesh.cells is None else mesh.cells
    return _padded(table, sizes.cells, 0, fill=-1)


# ---------------------------------------------------------------------------------------------- npz


def write_npz(folder: Path, parts: Mapping[Split, Samples]) -> None:
    """One archive with all splits, read by `data import` and by `numpy.load`."""
    with zipfile.ZipFile(folder / ARCHIVE, "w", zipfile.ZIP_STORED) as archive:
        for name, stream in _archive_streams(parts):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                stream.write(file)


def _archive_streams(parts: Mapping[Split, Samples]) -> Iterator[tuple[str, Stream]]:
    sizes, task = _sizes_of(parts), next(iter(parts.values())).task
    rows = [(samples, index) for samples in parts.values() for index in range(len(samples))]
    total, frames = len(rows), len(task.times)

    def values(name: str, axis: int) -> Callable[[int], Array]:
        def row(position: int) -> Array:
            samples, index = rows[position]
            return _padded(np.asarray(getattr(samples, name)[index]), sizes.nodes, axis)

        return row

    codes = [SPLITS.index(split) for split, samples in parts.items() for _ in range(len(samples))]
    yield "split", Stream(total, (), "|i1", lambda i: np.array(codes[i]))
    yield "times", Stream(frames, (), "<f8", lambda i: np.array(task.times[i]))
    shape = (frames, sizes.nodes, len(task.fields))
    yield "frames", Stream(total, shape, "<f4", values("frames", 1))
    yield "static", Stream(total, (sizes.nodes, len(task.static)), "<f4", values("static", 0))
    scalars = Stream(total, (len(task.scalars),), "<f4", lambda i: rows[i][0].scalars[rows[i][1]])
    yield "scalars", scalars
    if task.fixed_mesh:
        yield from _one_mesh(rows[0][0].meshes[0], sizes)
    else:
        yield from _many_meshes([samples.mesh(index) for samples, index in rows], sizes)


def _one_mesh(mesh: Mesh, sizes: _Sizes) -> Iterator[tuple[str, Stream]]:
    """The shared mesh, without an axis of samples."""
    yield "points", Stream(mesh.size, (mesh.dim,), "<f8", lambda i: mesh.points[i])
    if mesh.cells is not None:
        cells = mesh.cells
        yield "cells", Stream(len(cells), (cells.shape[1],), "<i4", lambda i: cells[i])
    for column, tag in enumerate(sizes.tags):
        member = mesh.tag_matrix(sizes.tags)[:, column]
        yield f"tag_{tag}", Stream(mesh.size, (), "|b1", member.__getitem__)


def _many_meshes(meshes: list[Mesh], sizes: _Sizes) -> Iterator[tuple[str, Stream]]:
    """One mesh per sample, padded, with the numbers that are no padding."""
    count, dim = len(meshes), meshes[0].dim

    def points(index: int) -> Array:
        return _padded(meshes[index].points, sizes.nodes, 0)

    yield "points", Stream(count, (sizes.nodes, dim), "<f8", points)
    yield "node_count", Stream(count, (), "<i4", lambda i: np.array(meshes[i].size))
    if sizes.cells:
        shape = (sizes.cells, sizes.vertices)
        yield "cells", Stream(count, shape, "<i4", lambda i: _cells(meshes[i], sizes))
        yield "cell_count", Stream(count, (), "<i4", lambda i: np.array(_cell_count(meshes[i])))
    for column, tag in enumerate(sizes.tags):

        def member(index: int, column: int = column) -> Array:
            return _padded(meshes[index].tag_matrix(sizes.tags)[:, column], sizes.nodes, 0)

        yield f"tag_{tag}", Stream(count, (sizes.nodes,), "|b1", member)


def _cell_count(mesh: Mesh) -> int:
    return 0 if mesh.cells is None else len(mesh.cells)


# ---------------------------------------------------------------------------------------------- npy


def write_npy(folder: Path, parts: Mapping[Split, Samples]) -> None:
    """The files of every split."""
    sizes = _sizes_of(parts)
    for split, samples in parts.items():
        for name, stream in _split_streams(samples, sizes):
            with (folder / f"{split}_{name}.npy").open("wb") as file:
                stream.write(file)


def _split_streams(samples: Samples, sizes: _Sizes) -> Iterator[tuple[str, Stream]]:
    task, count = samples.task, len(samples)
    frames, nodes = len(task.times), sizes.nodes
    meshes = [samples.mesh(index) for index in range(count)]

    def data(index: int) -> Array:  # (N, T, C)
        return _padded(np.asarray(samples.frames[index]), nodes, 1).transpose(1, 0, 2)

    def grid(index: int) -> Array:  # (N, 1, d), the same for all frames
        return _padded(meshes[index].points, nodes, 0)[:, None]

    def kinds(index: int) -> Array:
        """0, or one more than the position of the node's last tag, (N, 1, 1)."""
        marks = meshes[index].tag_matrix(sizes.tags) * np.arange(1, len(sizes.tags) + 1)
        return _padded(marks.max(axis=1, initial=0), nodes, 0)[:, None, None]

    def static(index: int) -> Array:
        return _padded(np.asarray(samples.static[index]), nodes, 0)

    yield "data", Stream(count, (nodes, frames, len(task.fields)), "<f4", data)
    yield "grid", Stream(count, (nodes, frames, task.dim), "<f8", grid)
    yield "node_type", Stream(count, (nodes, frames, 1), "<i4", kinds)
    if sizes.cells:
        shape = (sizes.cells, frames, sizes.vertices)
        yield "cells", Stream(count, shape, "<i4", lambda i: _cells(meshes[i], sizes)[:, None])
    yield "static", Stream(count, (nodes, len(task.static)), "<f4", static)
    yield "scalars", Stream(count, (len(task.scalars),), "<f4", lambda i: samples.scalars[i])
    kept = ("node_count", "cell_count") if not task.fixed_mesh else ()
    for name, stream in _many_meshes(meshes, sizes):
        if name in kept or name.startswith("tag_"):
            yield name, stream


# ------------------------------------------------------------------------------------------ reading


def holds_split_files(folder: Path) -> bool:
    """Whether a folder has the .npy files of splits."""
    return any((folder / f"{split}_data.npy").exists() for split in SPLITS)


def read_arrays(source: Path, task: Task, *, by_time: bool = False) -> dict[Split, Samples]:
    """The samples of NumPy files in any layout that is known here."""
    archive = source / ARCHIVE
    if source.is_dir() and holds_split_files(source):
        return _read_split_files(source, task)
    path = archive if archive.exists() else source
    arrays = arrays_of(path)
    if by_time:
        arrays, task = split_by_time(path, arrays, task)
    return samples_of(path, arrays, task)


def _read_split_files(folder: Path, task: Task) -> dict[Split, Samples]:
    files, parts = arrays_of(folder), {}
    for code, split in enumerate(SPLITS):
        own = {
            name.removeprefix(f"{split}_"): array
            for name, array in files.items()
            if name.startswith(f"{split}_") and name not in _longer(split, files)
        }
        if own:
            parts[split] = samples_of(folder, _renamed(folder, split, own, code, task), task)[split]
    return parts


def _longer(split: str, names: Mapping[str, Any]) -> set[str]:
    """Files of a split whose name begins with this one: test_ood and test."""
    others = [other for other in SPLITS if other != split and other.startswith(split)]
    return {name for name in names for other in others if name.startswith(f"{other}_")}


def _renamed(
    folder: Path, split: str, own: Mapping[str, Any], code: int, task: Task
) -> dict[str, Any]:
    """The arrays of a split with the keys of `from_numpy`, without repeated frames and meshes."""
    for name in ("data", "grid"):
        if name not in own or own[name].ndim != 4:
            raise DataError(
                f"{folder}: {split}_{name}.npy is missing or has no four axes; expected (samples, "
                "nodes, frames, components)"
            )
    sample = 0 if task.fixed_mesh else slice(None)
    arrays = {
        "frames": own["data"].transpose(0, 2, 1, 3),
        "points": own["grid"][sample, ..., 0, :],
        "times": np.asarray(task.times),
        "split": np.full(len(own["data"]), code),
    }
    arrays |= {"cells": own["cells"][sample, ..., 0, :]} if "cells" in own else {}
    arrays |= {name: array[sample] for name, array in own.items() if name.startswith("tag_")}
    further = ("static", "scalars", "node_count", "cell_count")
    return arrays | {name: own[name] for name in further if name in own}
