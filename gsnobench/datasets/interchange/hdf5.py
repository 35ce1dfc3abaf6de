"""HDF5 files by the names inside them: arrays of all samples, or one group per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from gsnobench.datasets.interchange.mesh_argument import as_meshes
from gsnobench.datasets.interchange.mesh_files import natural_order
from gsnobench.datasets.interchange.raw import Raw
from gsnobench.errors import DataError, did_you_mean

ENDINGS = (".h5", ".hdf5", ".mat")  # a .mat of version 7.3 is HDF5


def raw_of_hdf5(path: Path, mesh: Any, names: Sequence[str]) -> Raw:
    """Arrays (samples, ...) at the top, or in one group per sample; they are read when needed.

    `mesh` may name where points, cells and tags are: {"points": "xy", "cells": "triangles"}.
    """
    file = _open(path)
    if all(name in file for name in names):
        parts = as_meshes(_looked_up(mesh, file, path), str(path))
        return Raw(str(path), parts, {name: file[name] for name in names})
    groups = [file[name] for name in sorted(file, key=lambda key: natural_order(Path(key)))]
    h5py = h5py_library()
    if not groups or not all(isinstance(group, h5py.Group) for group in groups):
        missing = next(name for name in names if name not in file)
        raise DataError(f"{path}: holds no {missing!r}; {did_you_mean(missing, file)}")
    for group in groups:
        for name in names:
            if name not in group:
                raise DataError(
                    f"{path}: the group {group.name} holds no {name!r}; {did_you_mean(name, group)}"
                )
    values = {name: [group[name] for group in groups] for name in names}
    if not _names_entries(mesh):
        return Raw(str(path), as_meshes(mesh, str(path)), values)
    own = [as_meshes(_looked_up(mesh, group, path), str(path)) for group in groups]
    return Raw(str(path), tuple(part for parts in own for part in parts), values)


def h5py_library() -> ModuleType:
    """The package that reads and writes HDF5, which is an extra."""
    try:
        import h5py
    except ImportError as error:
        raise DataError(
            "HDF5 files need the package h5py; pip install 'gsnobench[hdf5]'"
        ) from error
    return h5py


def _open(path: Path) -> Any:
    library = h5py_library()
    try:
        return library.File(path, "r")
    except OSError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a readable HDF5 file ({reason})") from error


def _names_entries(mesh: Any) -> bool:
    return isinstance(mesh, Mapping) and all(isinstance(name, str) for name in mesh.values())


def _looked_up(mesh: Any, group: Any, path: Path) -> Any:
    """The mesh argument with names replaced by what the file holds there."""
    if not _names_entries(mesh):
        return mesh
    for name in mesh.values():
        if name not in group:
            raise DataError(f"{path}: holds no {name!r}; {did_you_mean(name, group)}")
    return {part: group[name][()] for part, name in mesh.items()}
