"""meshio meshes, and folders of VTU, VTK or XDMF files: a file or a subfolder is one sample."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import meshio
import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.datasets.interchange.mesh_argument import in_plane, new_mesh, split_quads
from gsnobench.datasets.interchange.raw import Raw
from gsnobench.errors import DataError

ENDINGS = (".vtu", ".vtk", ".xdmf", ".xmf")
SERIES = (".xdmf", ".xmf")  # one file may hold all frames
SOLID, FLAT, LINE = ("tetra",), ("triangle", "quad"), ("line",)  # the best kind that occurs is kept
Trajectory = list[tuple[float, meshio.Mesh]]  # time and mesh of every frame


def raw_of_meshes(
    meshes: Sequence[meshio.Mesh], fields: Sequence[str], inputs: Sequence[str]
) -> Raw:
    """One steady sample per meshio mesh, with its point data."""
    labels = [f"mesh {number}" for number in range(len(meshes))]
    return _raw("meshio meshes", labels, [[(0.0, mesh)] for mesh in meshes], fields, inputs)


def raw_of_folder(folder: Path, fields: Sequence[str], inputs: Sequence[str]) -> Raw:
    """One sample per file; or per subfolder, whose files are the frames of a trajectory."""
    parts = sorted(
        (path for path in _shown(folder) if path.is_dir() or _is_mesh_file(path)),
        key=natural_order,
    )
    parts = [path for path in parts if path.is_file()] or parts
    if not parts:
        raise DataError(f"{folder}: holds no file of {', '.join(ENDINGS)}; name the right folder")
    labels = [path.name for path in parts]
    return _raw(str(folder), labels, [read_frames(path) for path in parts], fields, inputs)


def _shown(folder: Path) -> list[Path]:
    """What a folder holds, without what systems hide beside the files of a person."""
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def _is_mesh_file(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def natural_order(path: Path) -> list[tuple[int, str]]:
    """Order of names in which case_2 comes before case_10."""
    pieces = re.split(r"(\d+)", path.name)
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


def read_frames(path: Path) -> Trajectory:
    """One sample: the frames of a file or of a folder."""
    if path.is_dir():
        files = sorted(filter(_is_mesh_file, _shown(path)), key=natural_order)
        if not files:
            raise DataError(f"{path}: holds no file of {', '.join(ENDINGS)}; expected its frames")
        return [(float(number), read_mesh(file)) for number, file in enumerate(files)]
    if path.suffix.lower() in SERIES:
        frames = _read_series(path)
        if frames:
            return frames
    return [(0.0, read_mesh(path))]


def _read_series(path: Path) -> Trajectory:
    """The frames of an XDMF time series; none if the file holds a single mesh."""
    try:
        with meshio.xdmf.TimeSeriesReader(path) as reader:
            points, cells = reader.read_points_cells()
            steps = [reader.read_data(number) for number in range(reader.num_steps)]
    except meshio.ReadError:
        return []
    except Exception as error:  # an XML parser, h5py and numpy each raise their own
        raise _unreadable(path, error) from error
    return [(time, meshio.Mesh(points, cells, point_data=data)) for time, data, _ in steps]


def read_mesh(path: Path) -> meshio.Mesh:
    """One file; a damaged one is one line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # meshio prints warnings
            return meshio.read(path)
    except SystemExit as error:  # meshio ends the process on some damaged files
        raise _unreadable(path, error) from error
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> DataError:
    if not path.is_file():
        return DataError(f"{path}: no such file")
    reason = " ".join(f"{type(error).__name__} {error}".split())
    return DataError(
        f"{path}: not a readable mesh file ({reason}); it is truncated or of another format"
    )


def _raw(
    subject: str,
    labels: Sequence[str],
    samples: Sequence[Trajectory],
    fields: Sequence[str],
    inputs: Sequence[str],
) -> Raw:
    meshes = tuple(
        _mesh(frames[0][1], label) for frames, label in zip(samples, labels, strict=True)
    )
    times = tuple(time for time, _ in samples[0])
    values: dict[str, list[Array]] = {name: [] for name in (*fields, *inputs)}
    for label, frames in zip(labels, samples, strict=True):
        if len(frames) != len(times):
            raise DataError(
                f"{subject}: {label} has {len(frames)} frames, {labels[0]} {len(times)}; expected "
                "equal numbers"
            )
        _check_one_mesh(subject, label, frames)
        for name, rows in values.items():
            rows.append(_point_data(subject, label, frames, name, name in inputs))
    return Raw(subject, meshes, values, times=times)


def _check_one_mesh(subject: str, label: str, frames: Trajectory) -> None:
    """Refuse a mesh that moves or changes during a trajectory: only its first would be kept."""
    first = frames[0][1]
    for number, (_, mesh) in enumerate(frames[1:], start=1):
        if not np.array_equal(mesh.points, first.points) or not _same_cells(mesh, first):
            raise DataError(
                f"{subject}: {label} has another mesh in frame {number} than in frame 0; expected "
                "one mesh per trajectory; interpolate to one, or write how it moves as a field"
            )


def _same_cells(mesh: meshio.Mesh, other: meshio.Mesh) -> bool:
    return len(mesh.cells) == len(other.cells) and all(
        a.type == b.type and np.array_equal(a.data, b.data)
        for a, b in zip(mesh.cells, other.cells, strict=True)
    )


def _point_data(subject: str, label: str, frames: Trajectory, name: str, is_input: bool) -> Array:
    """Point data of all frames, (T, n) or (T, n, c); without T for one frame and for an input."""
    columns = []
    for _, mesh in frames:
        if name not in mesh.point_data:
            kept = ", ".join(sorted(mesh.point_data)) or "none"
            is_in_cells = name in mesh.cell_data
            remedy = "average its cell data to the points" if is_in_cells else "correct the name"
            raise DataError(f"{subject}: {label} has no point data {name!r} but {kept}; {remedy}")
        columns.append(np.asarray(mesh.point_data[name]))
    if len(columns) == 1:
        return columns[0]
    if is_input and all(np.array_equal(columns[0], column) for column in columns[1:]):
        return columns[0]
    return np.stack(columns)


def _mesh(mesh: meshio.Mesh, label: str) -> Mesh:
    """Points and the cells of the highest dimension; point sets become tags."""
    blocks: dict[str, list[Array]] = {}
    for block in mesh.cells:
        blocks.setdefault(block.type, []).append(np.asarray(block.data))
    tables = {kind: np.concatenate(parts) for kind, parts in blocks.items()}
    tags = {
        name: np.isin(np.arange(len(mesh.points)), members)
        for name, members in mesh.point_sets.items()
    }
    return in_plane(new_mesh(np.asarray(mesh.points), _cells(tables, label), tags, label))


def _cells(tables: dict[str, Any], label: str) -> Array | None:
    known = {kind for kinds in (SOLID, FLAT, LINE) for kind in kinds} | {"vertex"}
    unknown = sorted(set(tables) - known)
    if unknown:
        raise DataError(
            f"{label}: has cells of the kind {unknown[0]}; expected tetra, triangle, quad or line; "
            "split them, or pass the points as arrays"
        )
    if "tetra" in tables:
        return np.asarray(tables["tetra"])
    faces = [tables["triangle"]] if "triangle" in tables else []
    faces += [split_quads(tables["quad"])] if "quad" in tables else []
    if faces:
        return np.concatenate(faces)
    return np.asarray(tables["line"]) if "line" in tables else None
