"""Samples <-> NetCDF: one file holds all splits, its mesh, its task and where it came from.

A file is checked when it is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from gsnobench import __version__
from gsnobench.data import SPLITS, Array, Mesh, Samples, Split, Task
from gsnobench.datasets.checksums import Checksums
from gsnobench.datasets.faults import structure_faults
from gsnobench.datasets.netcdf import (
    AXES,
    READABLE,
    Handle,
    Layout,
    LazyArray,
    add_columns,
    create,
)
from gsnobench.datasets.sample_blocks import bare_mesh, feed, layout_of
from gsnobench.datasets.task_json import task_from_json, task_to_json
from gsnobench.errors import DataError
from gsnobench.files import atomic
from gsnobench.reading import guarded, parse_json

FORMAT = 1
NEEDED: tuple[Split, ...] = ("train", "valid", "test")

# ------------------------------------------------------------------------------------------ writing


def write(
    path: Path,
    samples_by_split: Mapping[Split, Samples],
    *,
    provenance: Mapping[str, str],
    time_unit: str = "s",
    length_unit: str = "1",
    level: int = 2,
) -> str:
    """Write all splits to one file, atomically, and return its content hash.

    `level` is that of the compression, 0 for none.
    """
    layout = layout_of(path, samples_by_split, time_unit=time_unit, length_unit=length_unit)
    if not (np.diff(layout.task.times) > 0).all():
        raise DataError(f"{path}: the times of the frames do not increase; expected them in order")
    checksums = Checksums(str(path))
    with atomic(path) as part, create(part, path) as file:
        add_columns(file, layout, level=level)

        def put(name: str, row: int, values: Array) -> None:
            variable = file.variables[name]
            variable[row : row + len(values)] = values

        feed(samples_by_split, layout, checksums, put)
        file.setncatts(_attributes(layout, checksums, provenance))
    return checksums.content_hash


def _attributes(
    layout: Layout, checksums: Checksums, provenance: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "Conventions": "CF-1.11 UGRID-1.0" if layout.is_ugrid else "CF-1.11",
        **{name: text for name, text in provenance.items() if text},
        "gsnobench_format": np.int32(FORMAT),
        "gsnobench_version": __version__,
        "gsnobench_task": task_to_json(layout.task),
        "content_hash": checksums.content_hash,
        "split_hashes": json.dumps(checksums.split_hashes, sort_keys=True),
        "fingerprint": checksums.fingerprint,
    }


# ------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True, eq=False)
class Opened:
    """A file open for reading; its arrays are read when they are indexed."""

    path: Path
    task: Task
    attributes: Mapping[str, Any]
    content_hash: str
    fingerprint: str
    handle: Handle

    def split(self, name: Split) -> Samples:
        """The samples of one split."""
        codes = self.handle.read("split")
        rows = np.flatnonzero(codes == SPLITS.index(name))[: self.task.sizes.get(name)]
        if not len(rows):
            sizes = ", ".join(f"{split} {size}" for split, size in self.task.sizes.items())
            raise DataError(
                f"{self.path}: holds no {name} split; it has {sizes}; mark samples as {name} in "
                "`split`"
            )
        with guarded(self.path, expected=READABLE):
            return _samples(self.handle, self.task, rows)

    @property
    def time_unit(self) -> str:
        """Unit of the times of frames; seconds if the file names none."""
        return str(getattr(self.handle.file.variables.get("time"), "units", "s"))

    def read(self, name: Split) -> Samples:
        """The samples of one split, in memory: they outlive the file."""
        return self.split(name).take(slice(None))

    def close(self) -> None:
        """Free the file."""
        self.handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_file(path: Path, task: Task | None = None) -> Opened:
    """Open a file of ours or a user's own; `task` may be another one of the same data.

    Tasks of the same data differ in their window, and in how many samples of a split they take: the
    first ones. A file that was not written by `write` is read once, to hash it and to refuse what
    cannot be trained on.
    """
    handle = Handle(Path(path))
    try:
        with guarded(path, expected=READABLE):
            faults = structure_faults(handle)
            if faults:
                others = f" (and {len(faults) - 1} more: `gsnobench show {path}`)"
                raise DataError(f"{path}: {faults[0]}{others if len(faults) > 1 else ''}")
            return _opened(handle, task)
    except BaseException:
        handle.close()
        raise


def _opened(handle: Handle, requested: Task | None) -> Opened:
    attributes = {name: handle.file.getncattr(name) for name in handle.file.ncattrs()}
    stored = _completed(handle, task_from_json(attributes["gsnobench_task"]))
    if {"content_hash", "split_hashes", "fingerprint"} <= set(attributes):
        content, fingerprint = str(attributes["content_hash"]), str(attributes["fingerprint"])
        hashes = _hashes(str(attributes["split_hashes"]))
    else:
        checksums = _scan(handle, stored)
        content, fingerprint = checksums.content_hash, checksums.fingerprint
        hashes = checksums.split_hashes
    task = requested or stored
    for kind in ("fields", "static", "scalars"):
        expected, names = ([field.name for field in getattr(of, kind)] for of in (task, stored))
        if expected != names:
            raise DataError(
                f"{handle.path}: its {kind} are {names}; the task asks for {expected}; make the "
                "file again"
            )
    sizes = {split: min(size, task.sizes.get(split, size)) for split, size in stored.sizes.items()}
    whole = {split: text for split, text in hashes.items() if sizes[split] == stored.sizes[split]}
    task = replace(task, sizes=sizes, split_hashes=whole, fixed_mesh=stored.fixed_mesh)
    return Opened(handle.path, task, attributes, content, fingerprint, handle)


def _hashes(text: str) -> Mapping[str, str]:
    hashes = parse_json(text, label="split_hashes", expected="a table of hashes")
    if not isinstance(hashes, dict):
        raise DataError("split_hashes: is no table; expected a hash per split")
    return {str(split): str(value) for split, value in hashes.items()}


def _completed(handle: Handle, task: Task) -> Task:
    """The task with what the file itself holds: sizes, times, tags, the kind of mesh."""
    variables, codes = handle.file.variables, handle.read("split")
    sizes = {split: int((codes == code).sum()) for code, split in enumerate(SPLITS)}
    tags = tuple(sorted(name.removeprefix("tag_") for name in variables if name.startswith("tag_")))
    return replace(
        task,
        sizes={split: size for split, size in sizes.items() if size},
        times=tuple(handle.read("time").tolist()) if "time" in variables else task.times,
        tags=task.tags or tags,
        fixed_mesh=variables["node_x"].ndim == 1,
        resolution=task.resolution or int(handle.file.dimensions["node"].size),
    )


def _samples(handle: Handle, task: Task, rows: Array) -> Samples:
    frames, nodes = (int(handle.file.dimensions[name].size) for name in ("frame", "node"))
    counts = None if task.fixed_mesh else handle.read("node_count")
    fields = tuple(f"field_{field.name}" for field in task.fields)
    static = tuple(f"static_{field.name}" for field in task.static)
    scalars = tuple(f"scalar_{field.name}" for field in task.scalars)
    return Samples(
        task=task,
        meshes=_meshes(handle, task, rows),
        frames=LazyArray(handle, fields, rows, (frames, nodes), counts),
        static=LazyArray(handle, static, rows, (nodes,), counts),
        scalars=LazyArray(handle, scalars, rows, ()),
    )


def _meshes(handle: Handle, task: Task, rows: Array) -> tuple[Mesh, ...]:
    variables = handle.file.variables

    def per_mesh(name: str) -> Array:
        return handle.read(name)[None] if task.fixed_mesh else handle.read(name, rows)

    coordinates = [per_mesh(f"node_{axis}") for axis in AXES[: task.dim]]
    points = np.stack(coordinates, axis=-1).astype(np.float64)  # (1 or S, N, d)
    cells = per_mesh("mesh_cells") if "mesh_cells" in variables else None
    first = int(getattr(variables.get("mesh_cells"), "start_index", 0))
    names = [name for name in variables if name.startswith("tag_")]
    tags = {name.removeprefix("tag_"): per_mesh(name).astype(bool) for name in names}
    nodes = np.full(1, points.shape[1]) if task.fixed_mesh else handle.read("node_count")[rows]
    if nodes.min() < 1 or nodes.max() > points.shape[1]:
        raise DataError(
            f"{handle.path}: node_count holds {nodes.min()} to {nodes.max()}; expected 1 to "
            f"{points.shape[1]}"
        )
    counts = nodes if cells is None else np.full(1, cells.shape[1])
    if cells is not None and not task.fixed_mesh:
        counts = handle.read("cell_count")[rows]
        if counts.min() < 0 or counts.max() > cells.shape[1]:
            raise DataError(
                f"{handle.path}: cell_count holds {counts.min()} to {counts.max()}; expected 0 to "
                f"{cells.shape[1]}"
            )

    def mesh(index: int, count: int) -> Mesh:
        own = None if cells is None else cells[index, : counts[index]].astype(np.int64) - first
        members = {tag: member[index, :count] for tag, member in tags.items()}
        return bare_mesh(Mesh(points[index, :count], own, members))

    return tuple(mesh(index, count) for index, count in enumerate(nodes.tolist()))


def _scan(handle: Handle, task: Task) -> Checksums:
    """Read everything: hashes, and a DataError for what must not be in a file."""
    codes = handle.read("split")
    splits = {split: np.flatnonzero(codes == code) for code, split in enumerate(SPLITS)}
    samples = {split: _samples(handle, task, rows) for split, rows in splits.items() if len(rows)}
    checksums = Checksums(str(handle.path))
    layout = layout_of(handle.path, samples, time_unit="s", length_unit="1")
    feed(samples, layout, checksums, lambda name, row, values: None)
    return checksums


def verify(path: Path) -> None:
    """Read everything and compare with the hashes in the file; a DataError says what is wrong."""
    with open_file(path) as opened, guarded(path, expected=READABLE):
        checksums = _scan(opened.handle, opened.task)
        is_same = checksums.content_hash == opened.content_hash
        if not is_same or dict(checksums.split_hashes) != dict(opened.task.split_hashes):
            raise DataError(
                f"{path}: its content has the hash {checksums.content_hash[:12]}, its attribute "
                f"says {opened.content_hash[:12]}; it was changed after it was made; make it again"
            )


def problems(path: Path) -> list[str]:
    """What keeps a file from being trained on, one line each; none if it is complete."""
    handle = Handle(Path(path))
    try:
        with guarded(path, expected=READABLE):
            faults = structure_faults(handle)
        if not faults:
            with open_file(path) as opened, guarded(path, expected=READABLE):
                missing = [split for split in NEEDED if split not in opened.task.sizes]
                faults = [
                    f"no sample is marked as {split} in `split`; a run needs it"
                    for split in missing
                ]
                _scan(opened.handle, opened.task)
        return faults
    except DataError as error:
        return [str(error).removeprefix(f"{path}: ")]
    finally:
        handle.close()
