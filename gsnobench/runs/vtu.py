"""Truth, prediction and error for ParaView: one VTU file per frame, and a PVD with their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gsnobench.data import Array, Field, Mesh, Samples
from gsnobench.datasets.interchange.paraview import write_pvd, write_vtu
from gsnobench.errors import ParamError


def export_vtu(out: Path, truth: Samples, predicted: Array, chosen: Sequence[int]) -> list[Path]:
    """Write the frames of some samples; predicted is (S, T, N, C). Returns one .pvd per sample."""
    for index in chosen:
        if index >= len(truth):
            raise ParamError(f"samples: {index} is out of range; expected 0 to {len(truth) - 1}")
    return [_export_sample(out, truth, predicted[index], index) for index in chosen]


def _export_sample(out: Path, truth: Samples, predicted: Array, index: int) -> Path:
    task, mesh = truth.task, truth.mesh(index)
    trajectory = np.asarray(truth.frames[index])[:, : mesh.size]  # (all frames, N, C)
    times: list[float] = []
    files: list[str] = []
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
        write_vtu(path, mesh, columns)
        times.append(task.times[frame])
        files.append(path.name)
    collection = out / f"sample{index:04d}.pvd"  # written last: all files that it names exist
    write_pvd(collection, times, files)
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
