"""Samples as the arrays of a file: checked, padded, and passed on in blocks that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gsnobench.data import SPLITS, Array, Mesh, Samples, Split, Task
from gsnobench.datasets.checksums import Checksums
from gsnobench.datasets.netcdf import AXES, Layout, without_padding
from gsnobench.datasets.task_json import check_names
from gsnobench.errors import DataError

BLOCK_BYTES = 1 << 23
Sink = Callable[[str, int, Array], None]  # variable, first row, rows


def layout_of(
    path: Path, samples_by_split: Mapping[Split, Samples], *, time_unit: str, length_unit: str
) -> Layout:
    """The dimensions of the file that holds these samples; DataError if they misfit their task."""
    sizes = {split: len(samples_by_split[split]) for split in SPLITS if split in samples_by_split}
    if not sum(sizes.values()):
        raise DataError(f"{path}: there is no sample to write")
    parts = [samples_by_split[split] for split in SPLITS if sizes.get(split)]
    task, meshes = parts[0].task, [mesh for samples in parts for mesh in samples.meshes]
    check_names(task, str(path))
    _check_shapes(path, task, parts)
    for mesh in meshes:
        _check_mesh(path, mesh)
    carried = {tag for mesh in meshes for tag in bare_mesh(mesh).tags}
    cells = [mesh.cells for mesh in meshes if mesh.cells is not None]
    if len({table.shape[1] for table in cells}) > 1 or len(cells) not in (0, len(meshes)):
        raise DataError(
            f"{path}: meshes hold cells of several kinds; expected all with k nodes per cell, or "
            "none with cells"
        )
    return Layout(
        task=task,
        sizes=sizes,
        nodes=max(mesh.size for mesh in meshes),
        cells=max((len(table) for table in cells), default=0),
        vertices=cells[0].shape[1] if cells else 0,
        tags=tuple(sorted({*task.tags, *carried})),
        time_unit=time_unit,
        length_unit=length_unit,
    )


def _check_shapes(path: Path, task: Task, parts: Sequence[Samples]) -> None:
    keys: set[str] = set()
    if task.fixed_mesh:
        keys = {bare_mesh(mesh).key for samples in parts for mesh in samples.meshes}
    if len(keys) > 1:
        raise DataError(
            f"{path}: the task says fixed_mesh, but its samples hold {len(keys)} meshes; set "
            "fixed_mesh to false"
        )
    for samples in parts:
        count, nodes = len(samples), _padded_nodes(samples)
        expected = {
            "frames": (count, len(task.times), nodes, len(task.fields)),
            "static": (count, nodes, len(task.static)),
            "scalars": (count, len(task.scalars)),
        }
        for name, expected_shape in expected.items():
            shape = tuple(getattr(samples, name).shape)
            if shape != expected_shape:
                raise DataError(
                    f"{path}: {name} has the shape {shape}; expected {expected_shape} from the "
                    "task and the mesh"
                )
            if np.iscomplexobj(getattr(samples, name)):
                raise DataError(f"{path}: {name} holds complex numbers; expected real ones")
        dims = {mesh.dim for mesh in samples.meshes}
        if len(samples.meshes) not in (1, count) or dims != {task.dim}:
            raise DataError(
                f"{path}: expected one mesh or {count}, of {task.dim} dimensions; got "
                f"{len(samples.meshes)}"
            )


def _check_mesh(path: Path, mesh: Mesh) -> None:
    if mesh.cells is not None and mesh.cells.ndim != 2:
        raise DataError(
            f"{path}: cells have the shape {mesh.cells.shape}; expected (cells, nodes per cell)"
        )
    if mesh.cells is not None and mesh.cells.size:
        low, high = mesh.cells.min(), mesh.cells.max()
        if low < 0 or high >= mesh.size:
            raise DataError(
                f"{path}: cells point to the nodes {low} to {high}; expected 0 to "
                f"{mesh.size - 1}; look at start_index"
            )
    for tag, member in mesh.tags.items():
        if member.shape != (mesh.size,):
            raise DataError(
                f"{path}: tag {tag} has the shape {member.shape}; expected {(mesh.size,)}"
            )


def bare_mesh(mesh: Mesh) -> Mesh:
    """The mesh without tags that no node carries; a file has all tags of its task anyway."""
    carried = {tag: member for tag, member in mesh.tags.items() if member.any()}
    return mesh if len(carried) == len(mesh.tags) else replace(mesh, tags=carried)


def _padded_nodes(samples: Samples) -> int:
    """Nodes of the arrays: those of the largest mesh, or more if another split has a larger one."""
    largest = max(mesh.size for mesh in samples.meshes)
    return largest if samples.task.fixed_mesh else max(largest, int(samples.frames.shape[2]))


def feed(
    samples_by_split: Mapping[Split, Samples], layout: Layout, checksums: Checksums, put: Sink
) -> None:
    """Pass every array of the file to the checksums and to `put`, in blocks of samples."""
    for name, values in _shared_arrays(samples_by_split, layout).items():
        checksums.add_shared(name, values)
        put(name, 0, values)
    row = 0
    for split, size in layout.sizes.items():
        given = samples_by_split[split]
        samples = replace(given, meshes=tuple(map(bare_mesh, given.meshes)))
        for first, count, arrays, meshes in _blocks(samples, layout, size):
            nodes = np.array([mesh.size for mesh in meshes])
            for name, values in arrays.items():
                counts = nodes if name.startswith(("field_", "static_")) else None
                checksums.add(name, values, split=split, first=first, counts=counts)
                put(name, row, values)
            for position, mesh in enumerate(meshes):
                parts = _unpadded(arrays, layout.task, position, mesh.size)
                checksums.add_sample(split, first + position, parts, mesh.key)
                fields = parts[: len(layout.task.fields)]
                checksums.add_frames(split, first + position, fields, mesh.key)
            row += count


def _shared_arrays(samples_by_split: Mapping[Split, Samples], layout: Layout) -> dict[str, Array]:
    """The arrays that all samples have in common: splits, times and a shared mesh."""
    codes = [np.full(size, SPLITS.index(split), dtype="i1") for split, size in layout.sizes.items()]
    shared = {"split": np.concatenate(codes), "time": np.asarray(layout.task.times, dtype="f8")}
    if layout.task.fixed_mesh:
        mesh = next(samples for samples in samples_by_split.values() if len(samples)).meshes[0]
        arrays = _mesh_arrays([mesh], layout)
        shared |= {name: arrays[name][0] for name in arrays if not name.endswith("_count")}
        if layout.is_ugrid and layout.is_solid:
            shared |= {"mesh_shapes": np.zeros(layout.cells, dtype="i1")}
    return shared


def _unpadded(arrays: Mapping[str, Array], task: Task, row: int, nodes: int) -> list[Array]:
    """The data of one sample in a block, without padding, in the order that is hashed."""
    fields = [arrays[f"field_{field.name}"][row, :, :nodes] for field in task.fields]
    static = [arrays[f"static_{field.name}"][row, :nodes] for field in task.static]
    return [*fields, *static, *(arrays[f"scalar_{field.name}"][row] for field in task.scalars)]


def _blocks(
    samples: Samples, layout: Layout, size: int
) -> Iterator[tuple[int, int, dict[str, Array], list[Mesh]]]:
    """(first sample, count, arrays by variable, meshes) of as many samples as a block may hold."""
    task = layout.task
    step = max(1, BLOCK_BYTES // (4 * len(task.times) * layout.nodes * len(task.fields)))
    for first in range(0, size, step):
        block = samples.take(slice(first, min(first + step, size)))
        padding = [(0, 0), (0, max(0, layout.nodes - block.frames.shape[2])), (0, 0)]
        frames = np.asarray(block.frames[:, :, : layout.nodes], dtype="f4")
        frames = np.pad(frames, [(0, 0), *padding])  # (S, T, N, C)
        static = np.asarray(block.static[:, : layout.nodes], dtype="f4")
        static = np.pad(static, padding)  # (S, N, F)
        scalars = np.asarray(block.scalars, dtype="f4")  # (S, P)
        meshes = [block.mesh(index) for index in range(len(block))]
        if not task.fixed_mesh:
            counts = np.array([mesh.size for mesh in meshes])
            frames, static = without_padding(frames, counts), without_padding(static, counts)
        arrays = {f"field_{field.name}": frames[..., i] for i, field in enumerate(task.fields)}
        arrays |= {f"static_{field.name}": static[..., i] for i, field in enumerate(task.static)}
        arrays |= {f"scalar_{field.name}": scalars[..., i] for i, field in enumerate(task.scalars)}
        arrays |= {} if task.fixed_mesh else _mesh_arrays(meshes, layout)
        yield first, len(block), arrays, meshes


def _mesh_arrays(meshes: Sequence[Mesh], layout: Layout) -> dict[str, Array]:
    """Mesh variables of several meshes, padded: zeros for nodes, -1 for cells."""
    points = np.zeros((len(meshes), layout.nodes, layout.task.dim))  # (S, N, d)
    cells = np.full((len(meshes), layout.cells, layout.vertices), -1, dtype="i4")  # (S, M, k)
    tags = np.zeros((len(meshes), layout.nodes, len(layout.tags)), dtype="i1")  # (S, N, K)
    counts = np.zeros((len(meshes), 2), dtype="i4")
    for index, mesh in enumerate(meshes):
        points[index, : mesh.size] = mesh.points
        tags[index, : mesh.size] = mesh.tag_matrix(layout.tags)
        counts[index] = mesh.size, 0 if mesh.cells is None else len(mesh.cells)
        if mesh.cells is not None:
            cells[index, : len(mesh.cells)] = mesh.cells
    arrays = {f"node_{axis}": points[..., i] for i, axis in enumerate(AXES[: layout.task.dim])}
    arrays |= {f"tag_{tag}": tags[..., i] for i, tag in enumerate(layout.tags)}
    arrays |= {"mesh_cells": cells, "cell_count": counts[:, 1]} if layout.cells else {}
    return {**arrays, "node_count": counts[:, 0]}
