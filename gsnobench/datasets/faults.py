"""Faults of a NetCDF file that is to be a dataset, one line each that says what to add."""

from __future__ import annotations

from collections.abc import Iterator

from gsnobench.data import SPLITS, Task
from gsnobench.datasets.netcdf import AXES, Handle
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import DataError

AXIS_NAMES = tuple(f"node_{axis}" for axis in AXES)


def structure_faults(handle: Handle) -> list[str]:
    """What is missing or has a wrong shape; values are not read.

    A file that cannot be opened raises a DataError.
    """
    if "gsnobench_task" not in handle.file.ncattrs():
        return [
            "has no attribute gsnobench_task; it must hold the task as JSON with id, fields, dim "
            "(see docs/data-format.md)"
        ]
    try:
        task = task_from_json(str(handle.file.getncattr("gsnobench_task")))
    except DataError as error:
        return [str(error)]
    return [
        *_split_faults(handle),
        *_data_faults(handle, task),
        *_mesh_faults(handle, task),
        *_window_faults(handle, task),
    ]


def _split_faults(handle: Handle) -> Iterator[str]:
    fault = _shape_fault(handle, "split", ("sample",))
    if fault:
        yield f"{fault}; it says 0 (train), 1 (valid), 2 (test) or 3 (test_ood) for each sample"
        return
    codes = handle.read("split")
    unknown = sorted(set(codes.tolist()) - set(range(len(SPLITS))))
    if unknown:
        yield f"variable split holds {unknown}; expected 0 to {len(SPLITS) - 1}"
    if not len(codes):
        yield "holds no sample"


def _data_faults(handle: Handle, task: Task) -> Iterator[str]:
    expected: list[tuple[str, tuple[str, ...]]] = []
    expected += [(f"field_{field.name}", ("sample", "frame", "node")) for field in task.fields]
    expected += [(f"static_{field.name}", ("sample", "node")) for field in task.static]
    expected += [(f"scalar_{field.name}", ("sample",)) for field in task.scalars]
    for name, dims in expected:
        fault = _shape_fault(handle, name, dims, kinds="fiu")
        if fault:
            yield fault


def _mesh_faults(handle: Handle, task: Task) -> Iterator[str]:
    variables = handle.file.variables
    own = ("sample",) if "node_x" in variables and variables["node_x"].ndim == 2 else ()
    tags = [name for name in variables if name.startswith("tag_")]
    tags += [f"tag_{tag}" for tag in task.tags if f"tag_{tag}" not in variables]
    expected = [(name, (*own, "node")) for name in (*AXIS_NAMES[: task.dim], *tags)]
    expected += [("mesh_cells", (*own, "cell", "vertex"))] if "mesh_cells" in variables else []
    expected += [("node_count", ("sample",))] if own else []
    expected += [("cell_count", ("sample",))] if own and "mesh_cells" in variables else []
    for name, dims in expected:
        fault = _shape_fault(handle, name, dims, kinds="fiu")
        if fault:
            yield fault
    mesh = variables.get("mesh")
    for role in ("edge_node_connectivity", "face_node_connectivity", "volume_node_connectivity"):
        named = getattr(mesh, role, "mesh_cells")
        if named != "mesh_cells" or (hasattr(mesh, role) and named not in variables):
            yield f"keeps its cells in {named!r}; expected the variable mesh_cells(cell, vertex)"


def _window_faults(handle: Handle, task: Task) -> Iterator[str]:
    if "frame" not in handle.file.dimensions:
        return
    frames = int(handle.file.dimensions["frame"].size)
    if "time" in handle.file.variables:
        fault = _shape_fault(handle, "time", ("frame",), kinds="fiu")
        if fault:
            yield fault
    elif len(task.times) != frames:
        named = f"the task names {len(task.times)} times"
        yield f"has {frames} frames but no variable time, and {named}; add time(frame)"
    last = max(task.starts, default=0)
    is_possible = min((task.t_in, *task.starts)) >= 0 and task.t_out >= 1
    if not is_possible or last + task.t_in + task.t_out > frames:
        window = f"t_in {task.t_in} + t_out {task.t_out} frames from frame {last}"
        yield f"asks for {window} in gsnobench_task, but holds {frames} frames"


def _shape_fault(handle: Handle, name: str, dims: tuple[str, ...], kinds: str = "iu") -> str | None:
    expected = f"{name}({', '.join(dims)})"
    variable = handle.file.variables.get(name)
    if variable is None:
        return f"has no variable {expected}"
    if tuple(variable.dimensions) != dims:
        return f"has {name}({', '.join(variable.dimensions)}); expected {expected}"
    if getattr(variable.dtype, "kind", "O") not in kinds:
        return f"variable {name} is of type {variable.dtype}; expected numbers"
    return None
