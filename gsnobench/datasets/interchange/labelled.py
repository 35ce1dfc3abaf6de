"""xarray datasets: files and tasks opened as labelled arrays, and labelled arrays as raw data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gsnobench.data import SPLITS, Array
from gsnobench.datasets import store
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.imported import stored_file
from gsnobench.datasets.interchange.mesh_argument import as_meshes
from gsnobench.datasets.interchange.own_dataset import ordered
from gsnobench.datasets.interchange.raw import Raw
from gsnobench.datasets.netcdf import AXES
from gsnobench.datasets.tasks import named_task
from gsnobench.errors import DataError, ParamError
from gsnobench.home import open_home

if TYPE_CHECKING:
    import xarray

EXPECTED = (
    "expected the dimensions sample, node and, of a trajectory, frame or time; "
    "use dataset.rename or transpose"
)


def open_file(path: str | os.PathLike[str]) -> xarray.Dataset:
    """A data file as a lazy xarray.Dataset, checked as before a run.

    Variables: `field_NAME` (sample, frame, node), `static_NAME` (sample, node), `scalar_NAME`
    (sample), `mesh_cells` (cell, vertex) and `tag_NAME` (node) as integers, all with units.
    Coordinates: `time` (frame), `node_x`, `node_y`, `node_z` (node), and `split` (sample), a name:

        data = gb.open_file("mine.nc")
        train = data.sel(sample=data.split == "train")

    Where every sample has its own mesh, mesh variables have the dimension sample in front and are
    padded; `node_count` and `cell_count` say how much of a sample is data. Attributes hold the
    task, its source, licence and hashes. Values are read when they are used; close the dataset, or
    use it in a `with` block, to free the file. `gb.write_file(path, data)` writes it again.
    """
    import xarray

    with store.open_file(Path(path)) as opened:  # says in one line what is wrong with the file
        names = [name for name in opened.handle.file.variables if name.startswith(("mesh", "tag"))]
    data = xarray.open_dataset(
        path, mask_and_scale=dict.fromkeys(names, False), decode_timedelta=False
    )
    words = np.array(SPLITS)[data["split"].to_numpy().astype(int)]
    coordinates = [f"node_{axis}" for axis in AXES] + ["node_count", "cell_count", "time"]
    data = data.set_coords([name for name in coordinates if name in data])
    return data.assign_coords(split=("sample", words, {"long_name": "split of the sample"}))


def open_task(
    task: str,
    *,
    track: str = "laptop",
    samples: int | None = None,
    knobs: Mapping[str, object] | None = None,
    jobs: int = 0,
    home: str | os.PathLike[str] | None = None,
) -> xarray.Dataset:
    """The data of a task such as "swe" as an xarray.Dataset; its solver makes missing data first.

    An imported task such as "pipe_official" is opened as it was imported. Of the others `samples`
    is the number of training samples, `knobs` are those of the dataset ({"data.resolution": 600}),
    `jobs` the processes of the solver (0: one per core). See `gb.open_file` for what the dataset
    holds.
    """
    opened = open_home(None if home is None else Path(home))
    if (stored := stored_file(task, opened)) is not None:
        if knobs or samples is not None:
            raise ParamError(f"{task}: a file has no knobs and no number of samples; drop them")
        return open_file(stored)
    texts = {name: str(value) for name, value in (knobs or {}).items()}
    dataset, resolved = named_task(task, track=track, samples=samples, knobs=texts)
    return open_file(ensure(dataset, resolved, home=opened.root, jobs=jobs))


# ----------------------------------------------------------------------------------------- raw data


def raw_of_dataset(data: xarray.Dataset, mesh: Any, names: Sequence[str]) -> Raw:
    """The named variables of a labelled dataset, in the order sample, frame, node, components."""
    subject = "xarray dataset"
    data = ordered(data.rename(_renamed(data)))
    if "node_count" in data:
        raise DataError(
            f"{subject}: its samples are padded to node_count; leave fields= out if it is an "
            "opened data file, else give arrays without padding and mesh="
        )
    for name in names:
        if name not in data:
            known = ", ".join(str(key) for key in data.variables)
            raise DataError(f"{subject}: holds no {name!r}; known: {known}")
    arrays = {name: _by_sample(data[name], name, subject) for name in names}
    meshes = as_meshes(_mesh_of(data, subject) if mesh is None else mesh, subject)
    units = {name: str(data[name].attrs.get("units", "")) for name in names}
    positions = _axis_names(data)
    length = str(data[positions[0]].attrs.get("units", "1")) if positions else "1"
    times, time_unit = _times(data)
    return Raw(
        subject=subject,
        meshes=meshes,
        values=arrays,
        units=units,
        times=times,
        splits=data["split"].to_numpy() if "split" in data else None,
        length_unit=length,
        time_unit=time_unit,
    )


def _renamed(data: xarray.Dataset) -> dict[str, str]:
    """`time` is a usual name for the dimension frame."""
    return {"time": "frame"} if "time" in data.dims and "frame" not in data.dims else {}


def _by_sample(array: xarray.DataArray, name: str, subject: str) -> Any:
    if "sample" not in array.dims:
        shape = ", ".join(str(dimension) for dimension in array.dims)
        raise DataError(f"{subject}: {name} has the dimensions ({shape}); {EXPECTED}")
    return _Lazy(array)


class _Lazy:
    """A labelled array as a sequence of samples; one sample is read at a time."""

    def __init__(self, array: xarray.DataArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return int(self._array.sizes["sample"])

    def __getitem__(self, index: int) -> Array:
        return self._array[index].to_numpy()


def _axis_names(data: xarray.Dataset) -> list[str]:
    for prefix in ("node_", ""):
        names = [f"{prefix}{axis}" for axis in AXES if f"{prefix}{axis}" in data.variables]
        if names:
            return names
    return []


def _mesh_of(data: xarray.Dataset, subject: str) -> dict[str, Array]:
    """Points, cells and tags of the dataset itself."""
    names = _axis_names(data)
    if not names:
        raise DataError(
            f"{subject}: holds no coordinates node_x, node_y or x, y of the nodes; add them with "
            "assign_coords or give mesh="
        )
    columns = [data[name].to_numpy() for name in names]
    mesh = {"points": np.stack(columns, axis=-1)}
    cells = next((name for name in ("mesh_cells", "cells") if name in data.variables), None)
    if cells is not None:
        mesh["cells"] = data[cells].to_numpy() - int(data[cells].attrs.get("start_index", 0))
    for name in data.variables:
        if str(name).startswith("tag_"):
            mesh[str(name)] = data[name].to_numpy()
    return mesh


def _times(data: xarray.Dataset) -> tuple[tuple[float, ...] | None, str]:
    """The times of the frames since the first, with their unit; dates become seconds."""
    name = next((name for name in ("time", "frame") if name in data.variables), None)
    if name is None:
        return None, "s"
    values = data[name].to_numpy()
    if values.dtype.kind == "M":
        values = (values - values[0]) / np.timedelta64(1, "s")
    elif values.dtype.kind == "m":
        values = values / np.timedelta64(1, "s")
    return tuple(values.astype(float).tolist()), str(data[name].attrs.get("units", "s"))
