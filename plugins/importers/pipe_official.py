"""Geo-FNO pipe: 129 x 129 nodes of a curved pipe, thinned by a stride."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

import gsnobench as gb
from gsnobench_plugins.importers import npy

GSNOBENCH_API = 1
NAME = "pipe_official"
SIDE = 129
CHANNELS = 3  # of Pipe_Q: u_x, u_y, p; the benchmark is about the first
FILES = ("Pipe_X.npy", "Pipe_Y.npy", "Pipe_Q.npy")


class Params(gb.Params):
    """Grid, and how many samples the protocol uses."""

    stride: Literal[1, 2, 4, 8] = gb.knob(
        default=2, help="keep one node of so many along each side"
    )
    train: int = gb.knob(default=1000, low=1, help="first samples, for training")
    test: int = gb.knob(default=200, low=1, help="the next samples, for the test")


def read(folder: Path, params: Params) -> gb.Imported:
    """Train: the first samples, test: the next; all later ones are for validation."""
    paths = [npy.find(folder, name) for name in FILES]
    x = npy.load(paths[0], (None, SIDE, SIDE))
    count = len(x)
    y = npy.load(paths[1], (count, SIDE, SIDE))
    flow = npy.load(paths[2], (count, CHANNELS, SIDE, SIDE))
    used = params.train + params.test
    if count <= used:
        raise gb.DataError(
            f"{paths[0]}: holds {count} samples; expected more than {params.train} for training "
            f"and {params.test} for the test; lower data.train"
        )
    step = slice(None, None, params.stride)
    side = (SIDE - 1) // params.stride + 1
    cells, tags = _cells(side), _tags(side)

    def mesh(sample: int) -> gb.Mesh:
        columns = [np.asarray(part[sample, step, step]).ravel() for part in (x, y)]
        points = np.stack(columns, axis=1).astype(np.float64)
        npy.check_finite(paths[0], sample, points)
        return gb.Mesh(points, cells, tags)

    rows: dict[gb.Split, range] = {
        "train": range(params.train),
        "valid": range(used, count),
        "test": range(params.train, used),
    }
    task = _task(side**2)

    def samples(part: range) -> gb.Samples:
        def row(number: int) -> gb.Array:
            return np.asarray(flow[part[number], 0, step, step]).reshape(1, -1, 1)

        return gb.Samples(
            task=task,
            meshes=tuple(mesh(sample) for sample in part),
            frames=gb.Rows(len(part), (1, side**2, 1), row),
            static=np.zeros((len(part), side**2, 0), dtype=np.float32),
            scalars=np.zeros((len(part), 0), dtype=np.float32),
        )

    return gb.Imported({split: samples(part) for split, part in rows.items()}, _notes(flow))


def _task(nodes: int) -> gb.Task:
    return gb.Task(
        id=NAME,
        dataset=NAME,
        fields=(gb.Field("velocity_x", help="velocity along the pipe's axis at the inlet"),),
        dim=2,
        tags=("inlet", "outlet", "wall"),
        fixed_mesh=False,
        resolution=nodes,
    )


def _notes(flow: gb.Array) -> dict[str, object]:
    """What is known of the authors' files, counted."""
    walls, moving, backward = 0.0, 0, 0
    inlet: list[float] = []
    for sample in flow:  # one at a time: the file has a gigabyte
        u = np.asarray(sample[0])
        walls = max(walls, float(np.abs(u[:, [0, -1]]).max()))
        moving += bool((u[:, [0, -1]] != 0).any())
        backward += bool((u < -0.5).any())
        inlet.append(float(u[0].max()))
    return {
        "largest velocity at a wall": walls,
        "samples that move at a wall": moving,
        "samples with velocity below -0.5": backward,
        "largest velocity at the inlet": f"{min(inlet):.4g} to {max(inlet):.4g}",
    }


def _cells(side: int) -> gb.Array:
    """Two triangles per square of the grid, (M, 3)."""
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    lower = np.stack([corner, corner + side, corner + side + 1], axis=1)
    upper = np.stack([corner, corner + side + 1, corner + 1], axis=1)
    return np.concatenate([lower, upper])


def _tags(side: int) -> dict[str, gb.Array]:
    """The first axis runs along the pipe, the second across."""
    i, j = np.divmod(np.arange(side**2), side)
    return {"inlet": i == 0, "outlet": i == side - 1, "wall": (j == 0) | (j == side - 1)}


@gb.hookimpl
def gsnobench_importer() -> gb.Importer:
    return gb.Importer(
        name=NAME,
        read=read,
        params=Params,
        layout=", ".join(FILES),
        title="Geo-FNO pipe",
        licence="not stated for the data; the authors' code is MIT",
        cites="Li et al., Fourier Neural Operator with Learned Deformations, JMLR 24 (2023) 388",
        url="https://drive.google.com/drive/folders/1YBuaoTdOSr_qzaow-G-iwvbUI7fiUzu8",
    )
