"""Samples as mesh files and back: a folder per split, a VTU per frame or an XDMF per sample.

Point data are called as in a data file: `field_NAME` (a vector as three components), `static_NAME`,
`scalar_NAME` (repeated at every node) and `tag_NAME`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import meshio
import numpy as np

from gsnobench.data import SPLITS, Array, Mesh, Samples, Split, Task
from gsnobench.datasets.interchange.mesh_files import natural_order, read_frames
from gsnobench.datasets.interchange.paraview import Columns, write_pvd, write_vtu, write_xdmf
from gsnobench.datasets.rows import Rows
from gsnobench.datasets.sample_blocks import bare_mesh
from gsnobench.errors import DataError

FORMATS = ("vtu", "xdmf")


def write_meshes(folder: Path, parts: Mapping[Split, Samples], kind: str) -> None:
    """`SPLIT/sample0000.xdmf`; or `SPLIT/sample0000.vtu`, for several frames with a PVD file."""
    for split, samples in parts.items():
        (folder / split).mkdir()
        for index in range(len(samples)):
            path = folder / split / f"sample{index:04d}.{kind}"
            mesh, times = samples.mesh(index), samples.task.times
            frames = list(_frames(samples, index))
            if kind == "xdmf":
                write_xdmf(path, mesh, times, frames)
            elif len(frames) == 1:
                write_vtu(path, mesh, frames[0])
            else:
                files = [f"{path.stem}/frame{frame:04d}.vtu" for frame in range(len(frames))]
                for file, columns in zip(files, frames, strict=True):
                    write_vtu(path.parent / file, mesh, columns)
                write_pvd(path.with_suffix(".pvd"), times, files)


def _frames(samples: Samples, index: int) -> Iterator[Columns]:
    """The point data of every frame of a sample."""
    task, mesh = samples.task, samples.mesh(index)
    static = np.asarray(samples.static[index])[: mesh.size]  # (N, F)
    scalars = np.asarray(samples.scalars[index])  # (P,)
    given = {f"static_{field.name}": static[:, i] for i, field in enumerate(task.static)}
    given |= {
        f"scalar_{field.name}": np.full(mesh.size, scalars[i], dtype=np.float32)
        for i, field in enumerate(task.scalars)
    }
    given |= {f"tag_{tag}": member.astype(np.int8) for tag, member in mesh.tags.items()}
    for values in np.asarray(samples.frames[index])[:, : mesh.size]:  # (N, C)
        columns = {}
        for name, group in task.scored.items():
            column = values[:, list(group)]  # (N, c)
            is_vector = task.fields[group[0]].vector is not None
            columns[f"field_{name}"] = _in_space(column) if is_vector else column[:, 0]
        yield {name: np.ascontiguousarray(column) for name, column in (columns | given).items()}


def _in_space(column: Array) -> Array:
    """A vector with at least three components, as VTK wants it, (N, 3)."""
    return np.pad(column, [(0, 0), (0, max(0, 3 - column.shape[1]))])


# ------------------------------------------------------------------------------------------ reading


def read_meshes(folder: Path, task: Task) -> dict[Split, Samples]:
    """The samples of every split; a file is read when it is needed."""
    parts: dict[Split, Samples] = {}
    for split in SPLITS:
        paths = _paths(folder / split)
        if paths:
            parts[split] = _samples(paths, task)
    if not parts:
        raise DataError(
            f"{folder}: holds no VTU or XDMF file in a folder {', '.join(SPLITS)}; name the folder "
            "that `data export` wrote"
        )
    return parts


def _paths(folder: Path) -> list[Path]:
    """Files of steady samples and series, folders of trajectories, in their order."""
    found = [path for kind in FORMATS for path in folder.glob(f"*.{kind}")]
    found += [path for path in folder.glob("*") if path.is_dir()]
    return sorted(found, key=natural_order)


def _samples(paths: list[Path], task: Task) -> Samples:
    read = _Reader(task)
    meshes = tuple(read.mesh(path) for path in (paths[:1] if task.fixed_mesh else paths))
    nodes = max(mesh.size for mesh in meshes)

    def padded(values: Array) -> Array:
        missing = nodes - values.shape[-2]
        if missing < 0:
            raise DataError(
                f"{paths[0].parent}: a sample has {values.shape[-2]} nodes, the mesh {nodes}; the "
                "task says fixed_mesh"
            )
        return np.pad(values, [*[(0, 0)] * (values.ndim - 2), (0, missing), (0, 0)])

    def rows(tail: tuple[int, ...], name: str) -> Rows:
        return Rows(len(paths), tail, lambda index: padded(getattr(read, name)(paths[index])))

    return Samples(
        task=task,
        meshes=meshes,
        frames=rows((len(task.times), nodes, len(task.fields)), "frames"),
        static=rows((nodes, len(task.static)), "static"),
        scalars=Rows(len(paths), (len(task.scalars),), lambda index: read.scalars(paths[index])),
    )


class _Reader:
    """What the files of one sample hold, in the order of the task."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def mesh(self, path: Path) -> Mesh:
        whole = _first(path)
        (block,) = whole.cells
        cells = None if block.type == "vertex" else np.asarray(block.data, dtype=np.int64)
        marks = [name for name in whole.point_data if name.startswith("tag_")]
        tags = {name.removeprefix("tag_"): whole.point_data[name].astype(bool) for name in marks}
        points = np.asarray(whole.points, dtype=np.float64)[:, : self.task.dim]
        return bare_mesh(replace(Mesh(points, cells), tags=tags))

    def frames(self, path: Path) -> Array:
        """(T, N, C) of one sample."""
        meshes = _meshes(path)
        if len(meshes) != len(self.task.times):
            raise DataError(
                f"{path}: holds {len(meshes)} frames, its task {len(self.task.times)} times; "
                "export it again"
            )
        return np.stack([self._fields(path, mesh) for mesh in meshes])

    def _fields(self, path: Path, mesh: meshio.Mesh) -> Array:
        values = np.empty((len(mesh.points), len(self.task.fields)), dtype=np.float32)
        for name, group in self.task.scored.items():
            column = _column(path, mesh, f"field_{name}")
            values[:, list(group)] = column.reshape(len(column), -1)[:, : len(group)]
        return values

    def static(self, path: Path) -> Array:
        """(N, F) of one sample."""
        first = _first(path)
        columns = [_column(path, first, f"static_{field.name}") for field in self.task.static]
        return np.stack(columns, axis=1) if columns else np.zeros((len(first.points), 0))

    def scalars(self, path: Path) -> Array:
        """(P,) of one sample."""
        if not self.task.scalars:
            return np.zeros(0)
        first = _first(path)
        return np.array(
            [_column(path, first, f"scalar_{field.name}")[0] for field in self.task.scalars]
        )


def _first(path: Path) -> meshio.Mesh:
    """The first frame, which has mesh and inputs as every other."""
    return read_frames(min(path.iterdir(), key=natural_order) if path.is_dir() else path)[0][1]


def _meshes(path: Path) -> list[meshio.Mesh]:
    return [mesh for _, mesh in read_frames(path)]


def _column(path: Path, mesh: meshio.Mesh, name: str) -> Array:
    if name not in mesh.point_data:
        known = ", ".join(sorted(mesh.point_data)) or "none"
        raise DataError(f"{path}: has no point data {name}, which its task names, but {known}")
    return np.asarray(mesh.point_data[name])
