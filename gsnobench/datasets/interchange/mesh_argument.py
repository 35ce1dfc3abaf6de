"""The meshes that `mesh=` of `gb.write_file` means: points, points and cells, or Mesh objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.datasets.interchange.raw import as_array
from gsnobench.errors import DataError

EXPECTED = (
    "expected points (nodes, dim), a pair (points, cells), a gb.Mesh, a mapping of points, cells "
    "and tag_NAME, or a list with one of them per sample"
)
KEYS = ("points", "cells")


def as_meshes(mesh: Any, subject: str) -> tuple[Mesh, ...]:
    """One mesh for all samples, or one per sample."""
    if mesh is None:
        raise DataError(f"{subject}: holds no mesh; give mesh=; {EXPECTED}")
    if isinstance(mesh, Sequence) and not isinstance(mesh, str) and not _is_pair(mesh):
        return tuple(part for single in mesh for part in as_meshes(single, subject))
    points, cells, tags = _parts(mesh, subject)
    if points.ndim == 3:  # (S, N, d): node i of every sample, with cells of all or of each
        return tuple(
            new_mesh(points[i], _of_sample(cells, i, 3), _tags_of(tags, i), subject)
            for i in range(len(points))
        )
    return (new_mesh(points, cells, tags, subject),)


def new_mesh(
    points: Array, cells: Array | None, tags: Mapping[str, Array], subject: str = "mesh"
) -> Mesh:
    """A checked mesh; quadrilaterals of the plane are cut into triangles."""
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3 or not len(points):
        raise DataError(f"{subject}: points have the shape {points.shape}; {EXPECTED}")
    if cells is not None:
        if cells.ndim != 2 or cells.dtype.kind not in "iu":
            raise DataError(
                f"{subject}: cells are {cells.dtype} of the shape {cells.shape}; expected whole "
                "numbers (cells, nodes per cell), counted from 0"
            )
        cells = cells.astype(np.int64)
        if points.shape[1] == 2 and cells.shape[1] == 4:
            cells = split_quads(cells)
    for name, member in tags.items():
        if not np.isin(member, (0, 1)).all():
            raise DataError(
                f"{subject}: tag {name} holds other numbers than 0 and 1; expected 1 "
                "at its nodes, 0 elsewhere"
            )
    members = {name: np.asarray(member, dtype=bool) for name, member in tags.items()}
    return Mesh(points.astype(np.float64), cells, members)


def split_quads(cells: Array) -> Array:
    """Two triangles per quadrilateral, (2M, 3)."""
    return np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])


def in_plane(mesh: Mesh) -> Mesh:
    """The mesh without its third coordinate, if that is the same everywhere."""
    is_flat = mesh.dim == 3 and np.ptp(mesh.points[:, 2]) == 0
    return replace(mesh, points=np.ascontiguousarray(mesh.points[:, :2])) if is_flat else mesh


def _is_pair(mesh: Sequence[Any]) -> bool:
    """(points, cells), and not a list of two meshes."""
    is_pair = isinstance(mesh, tuple) and len(mesh) == 2
    return is_pair and not isinstance(mesh[0], (Mesh, Mapping, tuple))


def _parts(mesh: Any, subject: str) -> tuple[Array, Array | None, dict[str, Array]]:
    if isinstance(mesh, Mesh):
        return mesh.points, mesh.cells, dict(mesh.tags)
    if isinstance(mesh, Mapping):
        names = [str(name) for name in mesh]
        unknown = [name for name in names if name not in KEYS and not name.startswith("tag_")]
        if unknown or "points" not in mesh:
            raise DataError(f"{subject}: mesh has the entries {sorted(names)}; {EXPECTED}")
        tags = {
            name.removeprefix("tag_"): as_array(member)
            for name, member in mesh.items()
            if name.startswith("tag_")
        }
        cells = mesh.get("cells")
        return as_array(mesh["points"]), None if cells is None else as_array(cells), tags
    if isinstance(mesh, tuple) and len(mesh) == 2:
        return as_array(mesh[0]), as_array(mesh[1]), {}
    return as_array(mesh), None, {}


def _of_sample(values: Array | None, index: int, own_ndim: int) -> Array | None:
    return values[index] if values is not None and values.ndim == own_ndim else values


def _tags_of(tags: Mapping[str, Array], index: int) -> dict[str, Array]:
    return {name: member[index] if member.ndim == 2 else member for name, member in tags.items()}
