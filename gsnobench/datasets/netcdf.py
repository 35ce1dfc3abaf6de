"""The NetCDF layout of samples (CF-1.11, UGRID-1.0); library errors become one line."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from gsnobench.data import SPLITS, Array, Field, Split, Task
from gsnobench.errors import DataError
from gsnobench.reading import guarded, require_memory

LIBRARY = threading.RLock()  # the NetCDF library is not safe for threads, whatever the file
CHUNK_BYTES = 1 << 18
# no compression makes a number so small: what declares more was never written
MOST_RATIO, SMALL_BYTES = 4096, 1 << 24
LARGE_BYTES = 1 << 26  # worth a look at the free memory before it is allocated
READABLE = "a data file of gsnobench that is whole; make it again"
AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Layout:
    """The dimensions of a file.

    Without a shared mesh every mesh variable has the sample dimension in front.
    """

    task: Task
    sizes: Mapping[Split, int]  # split -> samples, in the order of data.SPLITS
    nodes: int
    cells: int  # 0: a point cloud
    vertices: int
    tags: tuple[str, ...]
    time_unit: str = "s"
    length_unit: str = "1"

    @property
    def dimensions(self) -> dict[str, int]:
        """Size of each dimension that is in use."""
        samples, frames = sum(self.sizes.values()), len(self.task.times)
        dimensions = {"sample": samples, "frame": frames, "node": self.nodes}
        if self.cells:
            dimensions |= {"cell": self.cells, "vertex": self.vertices}
        return dimensions

    @property
    def is_solid(self) -> bool:
        """Whether cells are tetrahedra and not faces."""
        return self.task.dim == 3 and self.vertices == 4

    @property
    def connectivity(self) -> tuple[str, int]:
        """The role of the cells in UGRID, and their dimension: edges, faces or volumes."""
        if self.is_solid:
            return "volume_node_connectivity", 3
        return (
            ("edge_node_connectivity", 1) if self.vertices == 2 else ("face_node_connectivity", 2)
        )

    @property
    def is_ugrid(self) -> bool:
        """Whether UGRID can describe the mesh: it knows one mesh per file."""
        return self.task.fixed_mesh and self.cells > 0


@dataclass(frozen=True)
class Column:
    """One variable of the file."""

    name: str
    dims: tuple[str, ...]
    dtype: str
    attributes: Mapping[str, Any]


def columns(layout: Layout) -> tuple[Column, ...]:
    """Every variable of a file of this layout."""
    return (*_sample_columns(layout), *_mesh_columns(layout), *_data_columns(layout))


def _sample_columns(layout: Layout) -> Iterator[Column]:
    flags = {"flag_values": np.arange(len(SPLITS), dtype="i1"), "flag_meanings": " ".join(SPLITS)}
    yield Column("split", ("sample",), "i1", {"long_name": "split of the sample", **flags})
    since = {"long_name": "time since the start", "units": layout.time_unit, "axis": "T"}
    yield Column("time", ("frame",), "f8", since)
    if not layout.task.fixed_mesh:
        nodes = {"long_name": "nodes of the sample; the rest is padding", "units": "1"}
        yield Column("node_count", ("sample",), "i4", nodes)
        if layout.cells:
            cells = {"long_name": "cells of the sample", "units": "1"}
            yield Column("cell_count", ("sample",), "i4", cells)


def _mesh_columns(layout: Layout) -> Iterator[Column]:
    own = () if layout.task.fixed_mesh else ("sample",)
    role, dimension = layout.connectivity
    coordinates = _coordinates(layout.task)
    topology: dict[str, Any] = {"long_name": "nodes and cells", "node_coordinates": coordinates}
    if layout.is_ugrid:
        topology |= {"cf_role": "mesh_topology", "topology_dimension": np.int32(dimension)}
        topology |= {role: "mesh_cells"}
        topology |= {"volume_shape_type": "mesh_shapes"} if layout.is_solid else {}
    yield Column("mesh", (), "i4", topology)
    for axis in AXES[: layout.task.dim]:
        position = {"long_name": f"{axis} of the node", "units": layout.length_unit}
        yield Column(f"node_{axis}", (*own, "node"), "f8", position)
    if layout.cells:
        connectivity = {"long_name": "nodes of the cell", "start_index": np.int32(0)}
        connectivity |= {} if own else {"cf_role": role}
        yield Column("mesh_cells", (*own, "cell", "vertex"), "i4", connectivity)
    if layout.is_ugrid and layout.is_solid:
        shape: dict[str, Any] = {"long_name": "shape of the cell", "cf_role": "volume_shape_type"}
        shape |= {"flag_values": np.array([0], dtype="i1"), "flag_meanings": "tetrahedron"}
        yield Column("mesh_shapes", ("cell",), "i1", shape)
    for tag in layout.tags:
        flags = {"flag_values": np.array([0, 1], dtype="i1"), "flag_meanings": f"elsewhere {tag}"}
        membership = {"long_name": f"node is on {tag}", **flags, **_location(layout)}
        yield Column(f"tag_{tag}", (*own, "node"), "i1", membership)


def _data_columns(layout: Layout) -> Iterator[Column]:
    nodes = _coordinates(layout.task)
    for field in layout.task.fields:
        meaning = {**_meaning(field), **_location(layout), "coordinates": f"time {nodes}"}
        yield Column(f"field_{field.name}", ("sample", "frame", "node"), "f4", meaning)
    for field in layout.task.static:
        meaning = {**_meaning(field), **_location(layout), "coordinates": nodes}
        yield Column(f"static_{field.name}", ("sample", "node"), "f4", meaning)
    for field in layout.task.scalars:
        yield Column(f"scalar_{field.name}", ("sample",), "f4", _meaning(field))


def _coordinates(task: Task) -> str:
    return " ".join(f"node_{axis}" for axis in AXES[: task.dim])


def _location(layout: Layout) -> dict[str, str]:
    return {"mesh": "mesh", "location": "node"} if layout.is_ugrid else {}


def _meaning(field: Field) -> dict[str, str]:
    return {"long_name": field.help or field.name, "units": field.unit}


def chunks(column: Column, dimensions: Mapping[str, int]) -> tuple[int, ...]:
    """Whole samples, about a quarter of a megabyte; a larger sample is cut evenly along time."""
    shape = [max(dimensions[name], 1) for name in column.dims]
    sizes = []
    for axis, length in enumerate(shape):
        row_bytes = np.dtype(column.dtype).itemsize * math.prod(shape[axis + 1 :])
        pieces = math.ceil(length / max(1, CHUNK_BYTES // row_bytes))
        sizes.append(math.ceil(length / pieces))
    return tuple(sizes)


# ------------------------------------------------------------------------------------------ writing


@contextmanager
def create(part: Path, path: Path) -> Iterator[netCDF4.Dataset]:
    """A new file at `part`, to be moved to `path`; errors of the library become one line."""
    file = None
    try:
        file = netCDF4.Dataset(str(part), "w", format="NETCDF4")
        yield file
        file.close()
    except (RuntimeError, OSError) as error:  # a full disk is a RuntimeError "NetCDF: HDF error"
        raise DataError(
            f"{path}: cannot be written ({error}); free some space or choose another --home"
        ) from error
    finally:
        with suppress(RuntimeError, OSError):
            if file is not None and file.isopen():
                file.close()


def add_columns(file: netCDF4.Dataset, layout: Layout, *, level: int) -> None:
    """Dimensions and empty variables; `level` is that of zlib, 0 for none."""
    for name, length in layout.dimensions.items():
        file.createDimension(name, length)
    for column in columns(layout):
        settings: dict[str, Any] = {}
        if column.dims:
            settings |= {"chunksizes": chunks(column, layout.dimensions)}
            settings |= {"chunk_cache": 4 * CHUNK_BYTES}  # chunks are written once, in order
        if column.dims and level:
            settings |= {"compression": "zlib", "complevel": level, "shuffle": True}
        settings |= {"fill_value": False}  # with a fill value xarray makes floats of node numbers
        variable = file.createVariable(column.name, column.dtype, column.dims, **settings)
        variable.set_auto_maskandscale(False)
        variable.setncatts(column.attributes)


# ------------------------------------------------------------------------------------------ reading


class Handle:
    """A file open for reading; each process that uses it (fork, unpickled copy) opens it itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: netCDF4.Dataset | None = None
        self._process = 0
        self._is_closed = False

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_file": None, "_process": 0, "_is_closed": self._is_closed}

    @property
    def file(self) -> netCDF4.Dataset:
        """The open file."""
        if self._is_closed:
            raise DataError(
                f"{self.path}: the file was closed; read what is needed before closing it"
            )
        if self._file is None or self._process != os.getpid():
            self._file, self._process = self._open(), os.getpid()
        return self._file

    def _open(self) -> netCDF4.Dataset:
        if not self.path.is_file():
            raise DataError(f"{self.path}: no such file")
        try:
            with LIBRARY:
                file = netCDF4.Dataset(str(self.path), "r")
                file.set_auto_mask(False)
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{self.path}: not a readable NetCDF file ({reason}); it is truncated or of "
                "another format; make it again"
            ) from error
        try:
            with guarded(self.path, expected=READABLE):
                self._check_declared(file)
        except DataError:
            file.close()
            raise
        return file

    def _check_declared(self, file: netCDF4.Dataset) -> None:
        """Refuse dimensions that the bytes of the file cannot fill."""
        size = self.path.stat().st_size
        declared = sum(_bytes(variable, variable.shape) for variable in file.variables.values())
        if declared > MOST_RATIO * size + SMALL_BYTES:
            raise DataError(
                f"{self.path}: declares {declared / 1e9:.3g} GB of values, but has {size:,} bytes; "
                f"expected {READABLE}"
            )

    def read(self, name: str, rows: Any = slice(None)) -> Array:
        """Rows of one variable."""
        if isinstance(rows, np.ndarray) and len(rows) and (np.diff(rows) == 1).all():
            rows = slice(int(rows[0]), int(rows[-1]) + 1)
        with guarded(f"{self.path}: {name}", expected=READABLE), LIBRARY:
            variable = self.file.variables[name]
            if isinstance(rows, slice) and variable.ndim:
                count = len(range(*rows.indices(variable.shape[0])))
                require(self.path, _bytes(variable, (count, *variable.shape[1:])))
            return np.asarray(variable[rows])

    def missing_values(self, name: str) -> list[float]:
        """The numbers that stand for "no value" in a variable of a user's file."""
        variable = self.file.variables[name]
        names = [word for word in ("_FillValue", "missing_value") if word in variable.ncattrs()]
        values = [np.ravel(variable.getncattr(word)) for word in names]
        return [float(value) for array in values for value in array]

    def close(self) -> None:
        """Free the file; what was read stays valid."""
        with LIBRARY:
            if self._file is not None and self._process == os.getpid() and self._file.isopen():
                self._file.close()
        self._file, self._is_closed = None, True


def _bytes(variable: netCDF4.Variable, shape: tuple[int, ...]) -> int:
    """The size of so many values; those of variable length count as pointers."""
    return math.prod(shape) * getattr(variable.dtype, "itemsize", 8)


def require(subject: object, needed: int) -> None:
    """Refuse what the memory cannot hold; small amounts are not worth a look."""
    if needed > LARGE_BYTES:
        require_memory(subject, needed)


def without_padding(block: Array, counts: Array) -> Array:
    """(S, ..., N, C) with zeros where a sample has no node, whatever was there; counts (S,)."""
    per_sample = counts.reshape(-1, *(1,) * (block.ndim - 2))
    is_node = np.arange(block.shape[-2]) < per_sample  # (S, ..., N)
    return np.where(is_node[..., None], block, np.zeros((), dtype=block.dtype))


@dataclass(frozen=True, eq=False)
class LazyArray:
    """Variables of a file as one float32 array (rows, *tail, variables), read when indexed."""

    handle: Handle
    names: tuple[str, ...]
    rows: Array  # rows of the file that belong to the split
    tail: tuple[int, ...]
    counts: Array | None = None  # nodes of every row of the file, if the last axis is padded

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), *self.tail, len(self.names))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, index: Any) -> Array:
        first, *others = index if isinstance(index, tuple) else (index,)
        rows = self.rows[first]
        block = self._read(np.atleast_1d(rows))
        block = block[0] if np.ndim(rows) == 0 else block
        return block[(slice(None),) * np.ndim(rows) + tuple(others)] if others else block

    def _read(self, rows: Array) -> Array:
        unique, positions = np.unique(rows, return_inverse=True)
        require(self.handle.path, 4 * math.prod((len(unique), *self.tail, len(self.names))))
        block = np.empty((len(unique), *self.tail, len(self.names)), dtype=np.float32)
        cuts = [0, *(np.flatnonzero(np.diff(unique) != 1) + 1).tolist(), len(unique)]
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
            if stop > start:
                run = slice(int(unique[start]), int(unique[stop - 1]) + 1)
                for channel, name in enumerate(self.names):
                    block[start:stop, ..., channel] = self.handle.read(name, run)
        if self.counts is not None:
            block = without_padding(block, self.counts[unique])
        self._refuse_missing(block)
        is_sorted = len(unique) == len(rows) and (positions == np.arange(len(rows))).all()
        return block if is_sorted else block[positions]

    def _refuse_missing(self, block: Array) -> None:
        """A number that stands for "no value" must not be trained on; padding is zero."""
        for channel, name in enumerate(self.names):
            for value in self.handle.missing_values(name):
                is_missing = block[..., channel] == np.float32(value)
                if is_missing.any() and not (value == 0 and self.counts is not None):
                    raise DataError(
                        f"{self.handle.path}: {name} holds missing values ({value:g} by its "
                        "_FillValue); only finite numbers can be trained on; mend or drop them"
                    )
