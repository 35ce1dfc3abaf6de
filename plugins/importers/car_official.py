"""ShapeNet car of Umetani and Bickel: raw VTK folders, or arrays prepared as for Transolver.

Both give the same points: those of the air that are no point of the surface, then those of the
surface. Inputs are the distance to the nearest surface point and a direction: from that point to
the air, or the normal of the surface. Velocity is known everywhere, pressure on the surface.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

import gsnobench as gb
from gsnobench_plugins.importers import npy
from gsnobench_plugins.importers.legacy_vtk import Grid, read_grid

GSNOBENCH_API = 1
NAME = "car_official"
SURFACE, AIR = "quadpress_smpl.vtk", "hexvelo_smpl.vtk"
PREPARED = ("x.npy", "y.npy", "surf.npy")
DISTANCE, NORMAL = slice(3, 4), slice(4, 7)  # columns of a prepared x; the first are coordinates
Splits = dict[gb.Split, list[Path]]
FOLDS: dict[str, gb.Split] = {"param0": "test", "param1": "valid"}
FIELDS = (
    *(gb.Field(f"velocity_{axis}", unit="m s-1", vector="velocity") for axis in "xyz"),
    gb.Field("pressure", unit="Pa", support="surface"),
)
STATIC = (
    gb.Field("distance", unit="m", help="distance to the nearest point of the surface"),
    *(gb.Field(f"normal_{axis}", help="direction away from the surface") for axis in "xyz"),
)


@dataclass(frozen=True, eq=False)
class Case:
    """One car."""

    points: gb.Array  # (N, 3) float32
    is_surface: gb.Array  # (N,) bool
    static: gb.Array  # (N, 4)
    values: gb.Array  # (N, 4): velocity, pressure


def read(folder: Path, params: gb.NoParams) -> gb.Imported:
    """Test: the folder param0; validation: param1, as AMG does; training: the others."""
    is_prepared = bool(next(iter(folder.rglob(PREPARED[0])), None))
    needed = PREPARED if is_prepared else (SURFACE, AIR)
    splits, empty = _cases(folder, needed)
    load = lru_cache(maxsize=128)(
        _prepared_case if is_prepared else _raw_case
    )  # a block of samples
    samples = _samples(splits, load)
    notes = {"layout": "prepared arrays" if is_prepared else "VTK", "empty folders": len(empty)}
    return gb.Imported(samples, notes, length_unit="m")


def _cases(folder: Path, needed: Sequence[str]) -> tuple[Splits, list[Path]]:
    """The folders of all cars by split, and the empty ones, which the authors ship too."""
    splits: Splits = {"train": [], "valid": [], "test": []}
    empty = []
    for fold in sorted(
        path
        for path in folder.rglob("param*")
        if re.fullmatch(r"param\d", path.name) and path.is_dir()
    ):
        for case in sorted(path for path in fold.iterdir() if path.is_dir()):
            present = [name for name in needed if (case / name).is_file()]
            if not present:
                empty.append(case)
            elif len(present) < len(needed):
                missing = sorted(set(needed) - set(present))
                raise gb.DataError(f"{case}: holds no {missing[0]}; unpack it again")
            else:
                splits[FOLDS.get(fold.name, "train")].append(case)
    for split, cases in splits.items():
        if not cases:
            raise gb.DataError(
                f"{folder}: holds no car for {split}; expected folders param0 to param8 with "
                f"{' and '.join(needed)} per car; unpack all param*.tar.gz"
            )
    return splits, empty


def _samples(splits: Splits, load: Callable[[Path], Case]) -> dict[gb.Split, gb.Samples]:
    meshes = {split: [_mesh(load(case)) for case in cases] for split, cases in splits.items()}
    nodes = max(mesh.size for part in meshes.values() for mesh in part)
    task = gb.Task(
        id=NAME,
        dataset=NAME,
        fields=FIELDS,
        static=STATIC,
        dim=3,
        tags=("surface",),
        corresponds=False,
        fixed_mesh=False,
        resolution=nodes,
    )

    def samples(split: gb.Split) -> gb.Samples:
        cases = splits[split]

        def frames(number: int) -> gb.Array:
            return _padded(load(cases[number]).values, nodes)[None]  # (1, N, 4)

        def static(number: int) -> gb.Array:
            return _padded(load(cases[number]).static, nodes)  # (N, 4)

        return gb.Samples(
            task=task,
            meshes=tuple(meshes[split]),
            frames=gb.Rows(len(cases), (1, nodes, len(FIELDS)), frames),
            static=gb.Rows(len(cases), (nodes, len(STATIC)), static),
            scalars=np.zeros((len(cases), 0), dtype=np.float32),
        )

    return {split: samples(split) for split in splits}


def _mesh(case: Case) -> gb.Mesh:
    return gb.Mesh(case.points.astype(np.float64), None, {"surface": case.is_surface})


def _padded(values: gb.Array, nodes: int) -> gb.Array:
    return np.pad(values, [(0, nodes - len(values)), (0, 0)])


# --------------------------------------------------------------------------------------- both forms


def _prepared_case(folder: Path) -> Case:
    x = npy.load(folder / "x.npy", (None, 7))
    y = npy.load(folder / "y.npy", (len(x), 4))
    surface = np.asarray(gb.read_npy(folder / "surf.npy")).reshape(-1)
    if len(surface) != len(x):
        raise gb.DataError(f"{folder}: surf.npy has {len(surface)} entries, x.npy {len(x)} rows")
    npy.check_finite(folder / "x.npy", 0, x)
    static = np.concatenate([x[:, DISTANCE], x[:, NORMAL]], axis=1)
    return Case(np.asarray(x[:, :3], dtype=np.float32), surface > 0, static, np.asarray(y))


def _raw_case(folder: Path) -> Case:
    body, air = read_grid(folder / SURFACE), read_grid(folder / AIR)
    pressure, velocity = _only(folder / SURFACE, body, 1), _only(folder / AIR, air, 2)
    on_surface, on_body = _coinciding(air.points, body.points)
    is_outside = np.ones(len(air.points), dtype=bool)
    is_outside[on_surface] = False
    outside = air.points[is_outside]
    distance, nearest = KDTree(body.points).query(outside)
    away = (outside - body.points[nearest]) / (distance[:, None] + 1e-8)
    body_velocity = np.zeros((len(body.points), 3), dtype=np.float32)
    body_velocity[on_body] = velocity[on_surface]
    count = len(outside)
    static = np.zeros((count + len(body.points), 4), dtype=np.float32)
    static[:count, 0], static[:count, 1:] = distance, away
    static[count:, 1:] = _normals(body)
    values = np.zeros((len(static), 4), dtype=np.float32)
    values[:count, :3], values[count:, :3] = velocity[is_outside], body_velocity
    values[count:, 3] = pressure
    points = np.concatenate([outside, body.points])
    return Case(points, np.arange(len(points)) >= count, static, values)


def _only(path: Path, grid: Grid, ndim: int) -> gb.Array:
    """The one point array of this rank: pressure or velocity, whatever it is called."""
    arrays = [array for array in grid.data.values() if array.ndim == ndim]
    if len(arrays) != 1:
        kind = "scalars" if ndim == 1 else "vectors"
        raise gb.DataError(f"{path}: holds {len(arrays)} {kind} at points; expected one")
    return arrays[0]


def _coinciding(a: gb.Array, b: gb.Array) -> tuple[gb.Array, gb.Array]:
    """Indices of the points that are the same in both, to the last bit."""
    row = np.dtype((np.void, a.dtype.itemsize * 3))
    rows_a, rows_b = (np.ascontiguousarray(part + 0).view(row).ravel() for part in (a, b))
    _, in_a, in_b = np.intersect1d(rows_a, rows_b, return_indices=True)  # + 0 makes -0 to 0
    return in_a, in_b


def _normals(body: Grid) -> gb.Array:
    """Unit normals of the cells, averaged at their points; zero at a point of no cell, (N, 3)."""
    corners = body.points[body.cells].astype(np.float64)
    normal = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-30
    total = np.zeros((len(body.points), 3))
    np.add.at(total, body.cells.ravel(), np.repeat(normal, body.cells.shape[1], axis=0))
    return total / (np.linalg.norm(total, axis=1, keepdims=True) + 1e-30)


@gb.hookimpl
def gsnobench_importer() -> gb.Importer:
    return gb.Importer(
        name=NAME,
        read=read,
        layout=f"param0 to param8 with {SURFACE} and {AIR} per car, or with {', '.join(PREPARED)}",
        title="ShapeNet car, surface pressure and velocity of the air",
        licence="not stated by its authors",
        cites="Umetani and Bickel, Learning Three-Dimensional Flow for Interactive Aerodynamic "
        "Design, ACM Transactions on Graphics 37 (2018) 89; points as in Wu et al. 2024",
        url="http://www.nobuyuki-umetani.com/publication/mlcfd_data.zip",
    )
