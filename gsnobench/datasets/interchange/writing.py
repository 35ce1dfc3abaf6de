"""`gb.write_file`: anybody's data as a file that every command takes for a dataset."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsnobench.data import Field
from gsnobench.datasets.interchange.assemble import Question, samples_by_split
from gsnobench.datasets.interchange.graph_objects import is_graph, raw_of_graphs
from gsnobench.datasets.interchange.hdf5 import ENDINGS as HDF5_ENDINGS
from gsnobench.datasets.interchange.hdf5 import raw_of_hdf5
from gsnobench.datasets.interchange.mesh_argument import as_meshes
from gsnobench.datasets.interchange.own_dataset import is_own, own_samples, provenance_of
from gsnobench.datasets.interchange.raw import Raw, as_array
from gsnobench.datasets.interchange.split_argument import SHARES, split_codes
from gsnobench.datasets.store import write
from gsnobench.errors import DataError, ParamError

if TYPE_CHECKING:
    import meshio
    import xarray

    from gsnobench.data import Array, Mesh

    Names = str | Field | Sequence[str | Field] | Mapping[str, str]
    Source = (
        xarray.Dataset
        | Mapping[str, Any]
        | Sequence[meshio.Mesh]
        | Sequence[Any]
        | str
        | os.PathLike[str]
    )
    MeshLike = Mesh | Array | tuple[Any, Any] | Mapping[str, Any] | Sequence[Any]

KINDS = (
    "a mapping of names to arrays, an xarray.Dataset, a list of meshio meshes or of graphs, a "
    "folder of .vtu, .vtk or .xdmf files, or an .h5 file"
)


@dataclass(frozen=True)
class Entry:
    """A quantity, and its name in the source."""

    field: Field
    source: str


def write_file(
    path: str | os.PathLike[str],
    data: Source,
    *,
    mesh: MeshLike | None = None,
    fields: Names = (),
    inputs: Names = (),
    splits: Any = None,
    t_in: int | None = None,
    times: Sequence[float] | None = None,
    name: str | None = None,
    corresponds: bool | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
    provenance: Mapping[str, str] | None = None,
) -> Path:
    """Write data as a NetCDF file for `gsnobench run --dataset FILE.nc`, and return its path.

    `data` is one of
      - a mapping of names to arrays or torch tensors; the first axis is the sample. Samples of
        different sizes are lists of arrays; they are padded here;
      - an xarray.Dataset with the dimensions sample, node and frame (or time); one that comes from
        `gb.open_file` needs no other argument;
      - a list of meshio meshes with point data, one per sample;
      - a folder of .vtu, .vtk or .xdmf files: each is a sample. Or of subfolders: each is a
        trajectory, its files are the frames. Or of .xdmf time series;
      - a list of graphs with `pos` (nodes, dim) and `edge_index` (2, edges), as objects of PyTorch
        Geometric or as mappings;
      - an .h5 file, with the names of arrays inside it, or with one group per sample.

    `fields` names what is to be predicted, `inputs` what is given beside the mesh: names,
    `gb.Field` objects with unit, boundary condition and more, or a mapping from names to those in
    the source, {"u": "results/velocity"}. A sample of a field has the shape
    (nodes), (frames, nodes), (nodes, components) or (frames, nodes, components); of an input
    (nodes), (nodes, components), or it is a number or some numbers. Components become fields
    `u_x`, `u_y` of one vector.

    `mesh` is points (nodes, dim), a pair (points, cells), a `gb.Mesh`, a mapping of points, cells
    and tag_NAME, or a list of them, one per sample. Files, meshio meshes and graphs bring theirs;
    for an .h5 file it names entries: {"points": "xy", "cells": "triangles"}.

    `splits` is (0.6, 0.2, 0.2) of the samples in their order unless you give other shares, counts
    (20, 4, 6), "train", "valid", "test" or "test_ood" per sample, or a mapping from these to
    sample numbers. `t_in` is the number of frames given; the others are to be predicted.

    What cannot be trained on (numbers that are not finite, a sample in two splits, a mesh that
    does not fit) is a `gb.DataError` of one line, and no file is left behind.
    """
    target = Path(path)
    if target.suffix != ".nc":
        raise ParamError(f"{target}: a data file ends in .nc; choose such a name")
    if is_own(data) and not fields:
        _refuse_given(
            "an opened data file says itself",
            {
                "mesh": mesh,
                "inputs": inputs or None,
                "t_in": t_in,
                "times": times,
                "name": name,
                "corresponds": corresponds,
            },
        )
        samples = own_samples(data, splits)  # type: ignore[arg-type]
        attributes = provenance_of(data)  # type: ignore[arg-type]
        units = _unit(data, "node_x") or "1", _unit(data, "time") or "s"
    else:
        named, given = _entries(fields, "fields"), _entries(inputs, "inputs")
        question = Question(
            name=name or re.sub(r"\W", "_", target.stem),
            fields=tuple(entry.field for entry in named),
            inputs=tuple(entry.field for entry in given),
            t_in=None if t_in is None else _frame_count(t_in),
            times=None if times is None else tuple(as_array(times).astype(float).ravel().tolist()),
            corresponds=corresponds,
        )
        raw = _raw(data, mesh, named, given)
        chosen = splits if splits is not None else raw.splits if raw.splits is not None else SHARES
        samples = samples_by_split(raw, question, split_codes(chosen, len(raw), raw.subject))
        attributes = {"title": question.name, "source": f"written from {raw.subject}"}
        units = raw.length_unit, raw.time_unit
    write(
        target,
        samples,
        provenance={**attributes, **{str(k): str(v) for k, v in (provenance or {}).items()}},
        length_unit=length_unit or units[0],
        time_unit=time_unit or units[1],
    )
    return target


def _refuse_given(why: str, options: Mapping[str, Any]) -> None:
    """Refuse options that would not be used."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ParamError(f"{given[0]}: {why} what it is; drop the option")


def _frame_count(t_in: Any) -> int:
    try:
        return operator.index(t_in)
    except TypeError as error:
        raise ParamError(f"t_in: {t_in!r} is no whole number; expected for example 1") from error


def _raw(data: Any, mesh: Any, fields: Sequence[Entry], inputs: Sequence[Entry]) -> Raw:
    """The source by its kind, with the names that its values shall have."""
    if not fields:
        raise ParamError("fields: none given; name what is to be predicted, such as fields='u'")
    entries = (*fields, *inputs)
    names = [entry.field.name for entry in entries]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ParamError(
            f"fields, inputs: {twice[0]!r} is named twice; expected each name once, in fields to "
            "be predicted or in inputs to be given"
        )
    sources = [entry.source for entry in fields], [entry.source for entry in inputs]
    raw = _raw_of_source(data, mesh, *sources)
    return replace(
        raw,
        values={entry.field.name: raw.values[entry.source] for entry in entries},
        units={entry.field.name: raw.units.get(entry.source, "") for entry in entries},
    )


def _raw_of_source(data: Any, mesh: Any, fields: list[str], inputs: list[str]) -> Raw:
    if isinstance(data, (str, os.PathLike)):
        return _raw_of_path(Path(data), mesh, fields, inputs)
    if type(data).__module__.startswith("xarray"):
        from gsnobench.datasets.interchange.labelled import raw_of_dataset

        return raw_of_dataset(data, mesh, [*fields, *inputs])
    if isinstance(data, Mapping):
        raw = Raw("arrays", as_meshes(mesh, "arrays"), data)
        raw.check_names([*fields, *inputs])
        return raw
    if isinstance(data, Sequence) and len(data):
        if all(type(single).__module__.startswith("meshio") for single in data):
            _refuse_given("a meshio mesh says itself", {"mesh": mesh})
            from gsnobench.datasets.interchange.mesh_files import raw_of_meshes

            return raw_of_meshes(data, fields, inputs)
        if all(map(is_graph, data)):
            _refuse_given("a graph says itself", {"mesh": mesh})
            return raw_of_graphs(data, [*fields, *inputs])
    raise ParamError(f"data: a {type(data).__name__} was given; expected {KINDS}")


def _raw_of_path(path: Path, mesh: Any, fields: list[str], inputs: list[str]) -> Raw:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected {KINDS}")
    if path.is_dir():
        _refuse_given("a mesh file says itself", {"mesh": mesh})
        from gsnobench.datasets.interchange.mesh_files import raw_of_folder

        return raw_of_folder(path, fields, inputs)
    if path.suffix in HDF5_ENDINGS:
        return raw_of_hdf5(path, mesh, [*fields, *inputs])
    raise DataError(f"{path}: not a folder and not an HDF5 file; expected {KINDS}")


def _entries(names: Names, label: str) -> list[Entry]:
    """Quantities and what the source calls them."""
    if isinstance(names, Mapping):
        for single in (*names, *names.values()):
            if not isinstance(single, str):
                raise ParamError(f"{label}: {single!r} is not a name; expected {{NAME: SOURCE}}")
        return [Entry(Field(name), source) for name, source in names.items()]
    is_list = isinstance(names, Iterable) and not isinstance(names, str)
    listed: list[Any] = list(names) if is_list else [names]  # type: ignore[arg-type]
    for single in listed:
        if not isinstance(single, (str, Field)):
            raise ParamError(f"{label}: {single!r} is not a name; expected names or gb.Field")
    fields = [Field(single) if isinstance(single, str) else single for single in listed]
    return [Entry(field, field.name) for field in fields]


def _unit(data: Any, name: str) -> str:
    return str(data[name].attrs.get("units", "")) if name in data.variables else ""
