"""Geo-FNO elasticity: point clouds with a void and their stress, sample axis last.

No cells are shipped. They are the Delaunay triangles of each cloud, without those in the void (its
radius at 42 angles is part of the data) and without slivers.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from scipy.spatial import Delaunay

import gsnobench as gb
from gsnobench.meshes.simplices import fullness
from gsnobench.meshes.topology import boundary_edges
from gsnobench_plugins.importers import npy

GSNOBENCH_API = 1
NAME = "elasticity_official"
POINTS, RADII = 972, 42
CENTRE = 0.5
SLIVER = 1e-3  # fullness below which a Delaunay triangle is an artefact of a straight side
FILES = ("Random_UnitCell_XY_10.npy", "Random_UnitCell_sigma_10.npy", "Random_UnitCell_rr_10.npy")


class Params(gb.Params):
    """Inputs, and how many samples the protocol uses."""

    radii: bool = gb.knob(default=True, help="the void's radii are inputs, as in Geo-FNO")
    train: int = gb.knob(default=1000, low=1, help="first samples, for training")
    test: int = gb.knob(default=200, low=1, help="last samples, for the test")


def read(folder: Path, params: Params) -> gb.Imported:
    """Train: the first samples, test: the last; those between are for validation."""
    path = npy.find(folder, FILES[0])
    xy = npy.load(path, (POINTS, 2, None))
    count = xy.shape[2]
    stress = npy.load(npy.find(folder, FILES[1]), (POINTS, count))
    path_radii = npy.find(folder, FILES[2])
    radii = npy.load(path_radii, (RADII, count))
    if not (np.asarray(radii) > 0).all():
        raise gb.DataError(f"{path_radii}: holds a radius that is not above 0; download it again")
    if count <= params.train + params.test:
        raise gb.DataError(
            f"{path}: holds {count} samples; expected more than {params.train} for training and "
            f"{params.test} for the test; lower data.train"
        )
    clouds, voids = np.ascontiguousarray(xy.transpose(2, 0, 1)), np.asarray(radii).T
    for sample in range(count):
        npy.check_finite(path, sample, clouds[sample])
    meshes = [_mesh(points, void) for points, void in zip(clouds, voids, strict=True)]
    rows: dict[gb.Split, slice] = {
        "train": slice(0, params.train),
        "valid": slice(params.train, count - params.test),
        "test": slice(count - params.test, count),
    }
    task = _task(params)
    samples = {
        split: gb.Samples(
            task=task,
            meshes=tuple(meshes[part]),
            frames=np.asarray(stress[:, part]).T[:, None, :, None].astype(np.float32),
            static=np.zeros((len(meshes[part]), POINTS, 0), dtype=np.float32),
            scalars=voids[part].astype(np.float32)[:, : RADII if params.radii else 0],
        )
        for split, part in rows.items()
    }
    return gb.Imported(samples, _notes(clouds, voids, meshes, stress))


def _task(params: Params) -> gb.Task:
    radius = partial(gb.Field, help="radius of the void at one of 42 angles")
    return gb.Task(
        id=NAME,
        dataset=NAME,
        fields=(gb.Field("stress", help="von Mises stress"),),
        scalars=tuple(radius(f"radius_{k}") for k in range(RADII)) if params.radii else (),
        dim=2,
        tags=("outer", "void"),
        corresponds=False,
        fixed_mesh=False,
        resolution=POINTS,
    )


def _notes(
    clouds: gb.Array, voids: gb.Array, meshes: list[gb.Mesh], stress: gb.Array
) -> dict[str, object]:
    inside = [
        int((_depth(points, void) < 0.95).sum()) for points, void in zip(clouds, voids, strict=True)
    ]
    triangles = [len(mesh.cells) for mesh in meshes if mesh.cells is not None]
    return {
        "triangles per sample": f"{min(triangles)} to {max(triangles)}",
        "nodes inside the void": sum(inside),
        "samples with stress below zero": int((np.asarray(stress) < 0).any(axis=0).sum()),
    }


def _depth(points: gb.Array, void: gb.Array) -> gb.Array:
    """Distance from the centre over the void's radius in that direction, (n,)."""
    offset = points - CENTRE
    angle = np.mod(np.arctan2(offset[:, 1], offset[:, 0]), 2 * np.pi)
    radius = np.interp(angle, np.linspace(0, 2 * np.pi, len(void)), void)
    return np.hypot(*offset.T) / radius


def _mesh(points: gb.Array, void: gb.Array) -> gb.Mesh:
    points = points.astype(np.float64)
    cells = _triangles(points, void)
    on_edge = np.zeros(len(points), dtype=bool)
    on_edge[boundary_edges(gb.Mesh(points, cells)).ravel()] = True
    is_near = _depth(points, void) < 1.2
    return gb.Mesh(points, cells, {"outer": on_edge & ~is_near, "void": on_edge & is_near})


def _triangles(points: gb.Array, void: gb.Array) -> gb.Array:
    """Delaunay triangles outside the void; a node that only slivers touch keeps its best one."""
    cells = Delaunay(points).simplices.astype(np.int64)
    corners = points[cells]
    cells, corners = (part[_depth(corners.mean(axis=1), void) >= 1] for part in (cells, corners))
    quality = fullness(corners)
    is_kept = quality > SLIVER
    for _ in range(len(points)):
        lonely = np.setdiff1d(np.arange(len(points)), cells[is_kept])
        if not len(lonely):
            break
        touching = np.flatnonzero((cells == lonely[0]).any(axis=1))
        if not len(touching):
            raise gb.DataError(f"{NAME}: a node lies in the void of its sample; the files disagree")
        is_kept[touching[np.argmax(quality[touching])]] = True
    return cells[is_kept]


@gb.hookimpl
def gsnobench_importer() -> gb.Importer:
    return gb.Importer(
        name=NAME,
        read=read,
        params=Params,
        layout=f"{', '.join(FILES)}, as in elasticity/Meshes",
        title="Geo-FNO elasticity",
        licence="not stated for the data; the authors' code is MIT",
        cites="Li et al., Fourier Neural Operator with Learned Deformations, JMLR 24 (2023) 388",
        url="https://drive.google.com/drive/folders/1YBuaoTdOSr_qzaow-G-iwvbUI7fiUzu8",
    )
