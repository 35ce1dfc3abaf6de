"""Meshes with values at their nodes as files for ParaView: VTU, XDMF, and PVD with the times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self
from xml.sax.saxutils import quoteattr

import meshio
import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.datasets.interchange.hdf5 import h5py_library
from gsnobench.errors import ParamError
from gsnobench.files import atomic, write_text

PLANE = {1: "vertex", 2: "line", 3: "triangle", 4: "quad"}  # nodes of a cell -> its name in VTK
SPACE = {**PLANE, 4: "tetra", 8: "hexahedron"}
Columns = Mapping[str, Array]  # name -> (N,) or (N, 3)


def write_vtu(path: Path, mesh: Mesh, columns: Columns) -> None:
    """One frame of one sample."""
    with atomic(path) as part:
        meshio.write(part, _whole(mesh, columns), file_format="vtu")


def write_pvd(path: Path, times: Sequence[float], files: Sequence[str]) -> None:
    """The frames of one sample: names of VTU files relative to this one, with their times."""
    entries = [
        f'    <DataSet timestep="{time:.12g}" part="0" file={quoteattr(file)}/>'
        for time, file in zip(times, files, strict=True)
    ]
    lines = (
        '<?xml version="1.0"?>',
        '<VTKFile type="Collection" version="0.1" byte_order="LittleEndian">',
        "  <Collection>",
        *entries,
        "  </Collection>",
        "</VTKFile>\n",
    )
    write_text(path, "\n".join(lines))


def write_xdmf(path: Path, mesh: Mesh, times: Sequence[float], frames: Sequence[Columns]) -> None:
    """All frames of one sample, with their numbers in an HDF5 file beside it."""
    h5py_library()  # says which package is missing
    if len(frames) == 1:
        meshio.xdmf.write(path, _whole(mesh, frames[0]))
        return
    whole = _whole(mesh, {})
    with _Series(path) as series:
        series.write_points_cells(whole.points, whole.cells)
        for time, columns in zip(times, frames, strict=True):
            series.write_data(time, point_data=dict(columns))


class _Series(meshio.xdmf.TimeSeriesWriter):  # type: ignore[misc]  # meshio has no types
    """meshio's writer of time series, which would put the HDF5 file into the present folder."""

    def __enter__(self) -> Self:
        self.h5_filename = str(self.filename.with_suffix(".h5"))
        self.h5_file = h5py_library().File(self.h5_filename, "w")
        return self


def _whole(mesh: Mesh, columns: Columns) -> meshio.Mesh:
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
    return meshio.Mesh(points, [(kind, cells)], point_data=dict(columns))
