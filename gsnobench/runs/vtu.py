"""Truth, prediction and error for ParaView: one VTU file per frame, and a PVD with their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import meshio
import numpy as np

from gsnobench.data import Array, Field, Mesh, Samples
from gsnobench.errors import ParamError
from gsnobench.files import atomic, write_text

PLANE = {1: "vertex", 2: "line", 3: "triangle", 4: "quad"}  # nodes of a cell -> its name in VTK
SPACE = {**PLANE, 4: "tetra", 8: "hexahedron"}


def export_vtu(out: Path, truth: Samples, predicted: Array, chosen: Sequence[int]) -> list[Path]:
    """Write the frames of some samples; predicted is (S, T, N, C). Returns one .pvd per sample."""
    for index in chosen:
        if index >= len(truth):
            raise ParamError(f"samples: {index} is out of range; expected 0 to {len(truth) - 1}")
    return [_export_sample(out, truth, predicted[index], index) for index in chosen]


def _export_sample(out: Path, truth: Samples, predicted: Array, index: int) -> Path:
    task, mesh = truth.task, truth.mesh(index)
    trajectory = np.asarray(truth.frames[index])[:, : mesh.size]  # (all frames, N, C)
    entries = []
    for number, frame in enumerate(task.predicted_frames()):
        last_given = frame - number % task.t_out - 1
        columns = dict(_inputs(truth, index))
        if task.t_in:
            columns |= _columns(truth, mesh, trajectory[last_given], "given")
        columns |= _columns(truth, mesh, trajectory[frame], "truth")
        prediction = predicted[number, : mesh.size]  # (N, C)
        columns |= _columns(truth, mesh, prediction, "prediction")
        columns |= _columns(truth, mesh, prediction - trajectory[frame], "error")
        path = out / f"sample{index:04d}_frame{number:04d}.vtu"
        _write(path, mesh, columns)
        time = f'timestep="{task.times[frame]:.12g}"'
        entries.append(f'    <DataSet {time} part="0" file={quoteattr(path.name)}/>')
    collection = out / f"sample{index:04d}.pvd"  # written last: all files that it names exist
    lines = (
        '<?xml version="1.0"?>',
        '<VTKFile type="Collection" version="0.1" byte_order="LittleEndian">',
        "  <Collection>",
        *entries,
        "  </Collection>",
        "</VTKFile>\n",
    )
    write_text(collection, "\n".join(lines))
    return collection


def _inputs(truth: Samples, index: int) -> Iterator[tuple[str, Array]]:
    """Static inputs, and the sample's scalars repeated at every node: VTU has no scalars."""
    nodes = truth.mesh(index).size
    static, scalars = np.asarray(truth.static[index])[:nodes], np.asarray(truth.scalars[index])
    for position, field in enumerate(truth.task.static):
        yield f"input_{field.name}", static[:, position].astype(np.float32)
    for position, field in enumerate(truth.task.scalars):
        yield f"input_{field.name}", np.full(nodes, scalars[position], dtype=np.float32)


def _columns(truth: Samples, mesh: Mesh, values: Array, prefix: str) -> dict[str, Array]:
    """Fields (N, C) by name: those of a vector group as one vector of three components."""
    columns: dict[str, Array] = {}
    for name, group in truth.task.scored.items():
        fields = [truth.task.fields[position] for position in group]
        parts = [
            _supported(mesh, field, values[:, position])
            for field, position in zip(fields, group, strict=True)
        ]
        if fields[0].vector is None:
            columns[f"{prefix}_{name}"] = parts[0]
        else:
            parts += [np.zeros(mesh.size, dtype=np.float32)] * (3 - len(parts))
            columns[f"{prefix}_{name}"] = np.stack(parts, axis=1)  # (N, 3)
    return columns


def _supported(mesh: Mesh, field: Field, values: Array) -> Array:
    """NaN outside the support of the field: ParaView leaves those nodes blank."""
    return np.where(field.nodes(mesh), values, np.nan).astype(np.float32)


def _write(path: Path, mesh: Mesh, columns: dict[str, Array]) -> None:
    points = np.zeros((mesh.size, 3))  # VTK knows three dimensions only
    points[:, : mesh.dim] = mesh.points
    cells = np.arange(mesh.size)[:, None] if mesh.cells is None else mesh.cells
    kinds = SPACE if mesh.dim == 3 else PLANE
    kind = kinds.get(cells.shape[1])
    if kind is None:
        raise ParamError(
            f"format: vtu has no cell of {cells.shape[1]} nodes in {mesh.dim} dimensions; known: "
            f"{sorted(kinds)}"
        )
    whole = meshio.Mesh(points, [(kind, cells)], point_data=columns)
    with atomic(path) as part:
        meshio.write(part, whole, file_format="vtu")
