"""A dataset of `gb.open_file`, perhaps cut or changed in xarray, as samples again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gsnobench.data import SPLITS, Array, Field, Mesh, Samples, Split, Task
from gsnobench.datasets.interchange.split_argument import split_codes
from gsnobench.datasets.netcdf import AXES, without_padding
from gsnobench.datasets.rows import Rows
from gsnobench.datasets.sample_blocks import bare_mesh
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import DataError

if TYPE_CHECKING:
    import xarray

MARK = "gsnobench_task"  # the attribute that tells such a dataset from any other
WRITTEN = ("Conventions", "content_hash", "split_hashes", "fingerprint")  # anew, with the file
SUBJECT = "xarray dataset"
DIMENSIONS = ("sample", "frame", "node")  # in the order of a file


def is_own(data: Any) -> bool:
    """Whether a dataset says itself what its variables mean."""
    return MARK in getattr(data, "attrs", {})


def provenance_of(data: xarray.Dataset) -> dict[str, str]:
    """Where the data come from, as the dataset's attributes say it."""
    return kept_attributes(data.attrs)


def kept_attributes(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """The attributes of a file that a copy of it keeps."""
    return {
        str(name): str(text)
        for name, text in attributes.items()
        if name not in WRITTEN and not str(name).startswith("gsnobench_")
    }


def ordered(data: xarray.Dataset) -> xarray.Dataset:
    """The dataset with the dimensions of its variables in the order of a file."""
    return data.transpose(*DIMENSIONS, "cell", "vertex", ..., missing_dims="ignore")


def own_samples(data: xarray.Dataset, splits: Any) -> dict[Split, Samples]:
    """The samples of each split; values are read when they are written."""
    task = task_from_json(str(data.attrs[MARK]))
    names = [f"field_{field.name}" for field in task.fields]
    names += [f"static_{field.name}" for field in task.static]
    names += [f"scalar_{field.name}" for field in task.scalars]
    names += [f"node_{axis}" for axis in AXES[: task.dim]]
    for name in (*names, "split", "time"):
        if name not in data.variables:
            raise DataError(f"{SUBJECT}: its task names {name}, which it lacks; keep it")
    if lost := [name for name in DIMENSIONS if name not in data.dims]:
        raise DataError(
            f"{SUBJECT}: has no dimension {lost[0]}; keep it, with a list or a slice in isel"
        )
    data = ordered(data)
    chosen = data["split"].to_numpy() if splits is None else splits
    codes = split_codes(chosen, data.sizes["sample"], SUBJECT)
    times = tuple(data["time"].to_numpy().astype(float).tolist())
    task = replace(task, times=times, fixed_mesh=data["node_x"].ndim == 1)
    return {
        split: _samples(data, task, np.flatnonzero(codes == code))
        for code, split in enumerate(SPLITS)
        if (codes == code).any()
    }


def _samples(data: xarray.Dataset, task: Task, rows: Array) -> Samples:
    nodes, frames = data.sizes["node"], data.sizes["frame"]

    def values(prefix: str, fields: tuple[Field, ...], tail: tuple[int, ...]) -> Rows:
        shape = (*tail, len(fields))

        def row(index: int) -> Array:
            if not fields:
                return np.zeros(shape)
            sample = {"sample": int(rows[index])}
            parts = [data[f"{prefix}_{field.name}"].isel(sample).to_numpy() for field in fields]
            block = np.stack(parts, axis=-1)
            if task.fixed_mesh or not tail:
                return block
            return without_padding(block[None], data["node_count"].to_numpy()[rows[[index]]])[0]

        return Rows(len(rows), shape, row)

    return Samples(
        task=task,
        meshes=_meshes(data, task, rows),
        frames=values("field", task.fields, (frames, nodes)),
        static=values("static", task.static, (nodes,)),
        scalars=values("scalar", task.scalars, ()),
    )


def _meshes(data: xarray.Dataset, task: Task, rows: Array) -> tuple[Mesh, ...]:
    if task.fixed_mesh:
        return (_mesh(data, task),)
    return tuple(_mesh(data.isel(sample=int(row)), task) for row in rows)


def _mesh(data: xarray.Dataset, task: Task) -> Mesh:
    """The mesh of a dataset without a sample axis in its mesh variables."""
    columns = [data[f"node_{axis}"].to_numpy() for axis in AXES[: task.dim]]
    nodes = slice(None if task.fixed_mesh else int(data["node_count"]))
    cells = None
    if "mesh_cells" in data.variables:
        count = slice(None if task.fixed_mesh else int(data["cell_count"]))
        first = int(data["mesh_cells"].attrs.get("start_index", 0))
        cells = data["mesh_cells"].to_numpy()[count].astype(np.int64) - first
    tags = {
        str(name).removeprefix("tag_"): data[name].to_numpy()[nodes].astype(bool)
        for name in data.variables
        if str(name).startswith("tag_")
    }
    return bare_mesh(Mesh(np.stack(columns, axis=-1)[nodes].astype(np.float64), cells, tags))
