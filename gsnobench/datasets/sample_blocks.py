"""Samples as the arrays of a file: checked, padded, and passed on in blocks that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gsnobench.data import SPLITS, Array, Mesh, Samples, Split, Task
from gsnobench.datasets.checksums import Ledger
from gsnobench.datasets.netcdf import AXES, Layout, without_padding
from gsnobench.datasets.task_json import check_names
from gsnobench.errors import DataError

BLOCK_BYTES = 1 << 25
Sink = Callable[[str, int, Array], None]  # variable, first row, rows


def layout_of(
    path: Path, samples_by_split: Mapping[Split, Samples], *, time_unit: str, length_unit: str
) -> Layout:
    """The dimensions of the file that holds these samples; a DataError if they do not fit their
    task.
    """
    sizes = {split: len(samples_by_split[split]) for split in SPLITS if split in samples_by_split}
    if not sum(sizes.values()):
        raise DataError(f"{path}: there is no sample to write")
    held = [samples_by_split[split] for split in SPLITS if sizes.get(split)]
    task, meshes = held[0].task, [mesh for samples in held for mesh in samples.meshes]
    check_names(task, str(path))
    _check_shapes(path, task, held)
    for mesh in meshes:
        _check_mesh(path, mesh)
    carried = {tag for mesh in meshes for tag in bare_mesh(mesh).tags}
    cells = [mesh.cells for mesh in meshes if mesh.cells is not None]
    if len({one.shape[1] for one in cells}) > 1 or len(cells) not in (0, len(meshes)):
        raise DataError(
            f"{path}: meshes hold cells of several kinds; expected all with k nodes a cell, or "
            "none with cells"
        )
    return Layout(
        task=task,
        sizes=sizes,
        nodes=max(mesh.size for mesh in meshes),
        cells=max((len(one) for one in cells), default=0),
        vertices=cells[0].shape[1] if cells else 0,
        tags=tuple(sorted({*task.tags, *carried})),
        time_unit=time_unit,
        length_unit=length_unit,
    )


def _check_shapes(path: Path, task: Task, held: Sequence[Samples]) -> None:
    keys = (
        {bare_mesh(mesh).key for samples in held for mesh in samples.meshes}
        if task.fixed_mesh
        else set()
    )
    if len(keys) > 1:
        raise DataError(
            f"{path}: the task says fixed_mesh, but its samples hold {len(keys)} meshes; set "
            "fixed_mesh to false"
        )
    for samples in held:
        count, nodes = len(samples), _padded_nodes(samples)
        wanted = {
            "frames": (count, len(task.times), nodes, len(task.fields)),
            "static": (count, nodes, len(task.static)),
            "scalars": (count, len(task.scalars)),
        }
        for name, shape in wanted.items():
            found = tuple(getattr(samples, name).shape)
            if found != shape:
                raise DataError(
                    f"{path}: {name} has the shape {found}; expected {shape} from the task and the "
                    "mesh"
                )
        if len(samples.meshes) not in (1, count) or any(
            mesh.dim != task.dim for mesh in samples.meshes
        ):
            raise DataError(
                f"{path}: expected one mesh or {count}, of {task.dim} dimensions; got "
                f"{len(samples.meshes)}"
            )


def _check_mesh(path: Path, mesh: Mesh) -> None:
    if (
        mesh.cells is not None
        and mesh.cells.size
        and (mesh.cells.min() < 0 or mesh.cells.max() >= mesh.size)
    ):
        found = f"{mesh.cells.min()} to {mesh.cells.max()}"
        raise DataError(
            f"{path}: cells point to the nodes {found}; expected 0 to {mesh.size - 1}; look at "
            "start_index"
        )
    for tag, member in mesh.tags.items():
        if member.shape != (mesh.size,):
            raise DataError(
                f"{path}: tag {tag} has the shape {member.shape}; expected {(mesh.size,)}"
            )


def bare_mesh(mesh: Mesh) -> Mesh:
    """The mesh without tags that no node carries: a file has all tags of its task, so these say
    nothing.
    """
    carried = {tag: member for tag, member in mesh.tags.items() if member.any()}
    return mesh if len(carried) == len(mesh.tags) else replace(mesh, tags=carried)


def _padded_nodes(samples: Samples) -> int:
    """Nodes of the arrays: those of the largest mesh, or more where another split has a larger one."""
    largest = max(mesh.size for mesh in samples.meshes)
    return largest if samples.task.fixed_mesh else max(largest, int(samples.frames.shape[2]))


def feed(
    samples_by_split: Mapping[Split, Samples], layout: Layout, ledger: Ledger, put: Sink
) -> None:
    """Pass every array of the file to the ledger and to `put`, in blocks of samples."""
    codes = [np.full(size, SPLITS.index(split), dtype="i1") for split, size in layout.sizes.items()]
    shared = {"split": np.concatenate(codes), "time": np.asarray(layout.task.times, dtype="f8")}
    if layout.task.fixed_mesh:
        mesh = next(samples for samples in samples_by_split.values() if len(samples)).meshes[0]
        shared |= {
            name: values[0]
            for name, values in _mesh_arrays([mesh], layout).items()
            if not name.endswith("_count")
        }
        shared |= (
            {"mesh_shapes": np.zeros(layout.cells, dtype="i1")}
            if layout.is_ugrid and layout.is_solid
            else {}
        )
    for name, values in shared.items():
        ledger.add_shared(name, values)
        put(name, 0, values)
    row = 0
    for split, size in layout.sizes.items():
        samples = replace(
            samples_by_split[split], meshes=tuple(map(bare_mesh, samples_by_split[split].meshes))
        )
        for first, count, arrays, meshes in _blocks(samples, layout, size):
            for name, values in arrays.items():
                nodes = (
                    np.array([mesh.size for mesh in meshes])
                    if name.startswith(("field_", "static_"))
                    else None
                )
                ledger.add(name, values, split=split, first=first, counts=nodes)
                put(name, row, values)
            for position, mesh in enumerate(meshes):
                parts = [
                    arrays[f"field_{one.name}"][position, :, : mesh.size]
                    for one in layout.task.fields
                ]
                parts += [
                    arrays[f"static_{one.name}"][position, : mesh.size]
                    for one in layout.task.static
                ]
                parts += [arrays[f"scalar_{one.name}"][position] for one in layout.task.scalars]
                ledger.add_sample(split, first + position, parts, mesh.key)
            row += count


def _blocks(
    samples: Samples, layout: Layout, size: int
) -> Iterator[tuple[int, int, dict[str, Array], list[Mesh]]]:
    """(first sample, samples, arrays by variable, meshes) of as many samples as a block may hold."""
    task = layout.task
    step = max(1, BLOCK_BYTES // (4 * len(task.times) * layout.nodes * len(task.fields)))
    for first in range(0, size, step):
        block = samples.take(slice(first, min(first + step, size)))
        padding = [(0, 0), (0, max(0, layout.nodes - block.frames.shape[2])), (0, 0)]
        # (S, T, N, C)
        frames = np.pad(
            np.asarray(block.frames[:, :, : layout.nodes], dtype="f4"), [(0, 0), *padding]
        )
        # (S, N, F)
        static = np.pad(np.asarray(block.static[:, : layout.nodes], dtype="f4"), padding)
        scalars = np.asarray(block.scalars, dtype="f4")  # (S, P)
        meshes = [block.mesh(index) for index in range(len(block))]
        if not task.fixed_mesh:
            counts = np.array([mesh.size for mesh in meshes])
            frames, static = without_padding(frames, counts), without_padding(static, counts)
        arrays = {
            f"field_{one.name}": frames[..., channel] for channel, one in enumerate(task.fields)
        }
        arrays |= {
            f"static_{one.name}": static[..., channel] for channel, one in enumerate(task.static)
        }
        arrays |= {
            f"scalar_{one.name}": scalars[..., channel] for channel, one in enumerate(task.scalars)
        }
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
    arrays = {
        f"node_{axis}": points[..., position]
        for position, axis in enumerate(AXES[: layout.task.dim])
    }
    arrays |= {f"tag_{tag}": tags[..., position] for position, tag in enumerate(layout.tags)}
    arrays |= {"mesh_cells": cells, "cell_count": counts[:, 1]} if layout.cells else {}
    return {**arrays, "node_count": counts[:, 0]}
