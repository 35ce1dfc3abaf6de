"""What a NetCDF file must hold to be a dataset; each fault is one line that says what to add."""

from __future__ import annotations

from collections.abc import Iterator

from gsnobench.data import SPLITS, Task
from gsnobench.datasets.netcdf import AXES, Handle
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import DataError


def structure_faults(handle: Handle) -> list[str]:
    """What is missing or misshapen; values are not read. A file that cannot be opened raises a
    DataError.
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
    if not set(codes.tolist()) <= set(range(len(SPLITS))):
        yield f"variable split holds {sorted(set(codes.tolist()) - set(range(len(SPLITS))))}; expected 0 to {len(SPLITS) - 1}"
    if not len(codes):
        yield "holds no sample"


def _data_faults(handle: Handle, task: Task) -> Iterator[str]:
    wanted: list[tuple[str, tuple[str, ...]]] = []
    wanted += [(f"field_{one.name}", ("sample", "frame", "node")) for one in task.fields]
    wanted += [(f"static_{one.name}", ("sample", "node")) for one in task.static]
    wanted += [(f"scalar_{one.name}", ("sample",)) for one in task.scalars]
    for name, dims in wanted:
        fault = _shape_fault(handle, name, dims, kinds="fiu")
        if fault:
            yield fault


def _mesh_faults(handle: Handle, task: Task) -> Iterator[str]:
    variables = handle.file.variables
    own = ("sample",) if "node_x" in variables and variables["node_x"].ndim == 2 else ()
    wanted = [(f"node_{axis}", (*own, "node")) for axis in AXES[: task.dim]]
    wanted += [(name, (*own, "node")) for name in variables if name.startswith("tag_")]
    wanted += [(f"tag_{tag}", (*own, "node")) for tag in task.tags if f"tag_{tag}" not in variables]
    wanted += [("mesh_cells", (*own, "cell", "vertex"))] if "mesh_cells" in variables else []
    wanted += [("node_count", ("sample",))] if own else []
    wanted += [("cell_count", ("sample",))] if own and "mesh_cells" in variables else []
    for name, dims in wanted:
        fault = _shape_fault(handle, name, dims, kinds="fiu")
        if fault:
            yield fault
    for role in ("face_node_connectivity", "volume_node_connectivity"):
        named = getattr(variables.get("mesh"), role, "mesh_cells")
        if named != "mesh_cells" or (
            "mesh" in variables and hasattr(variables["mesh"], role) and named not in variables
        ):
            yield f"keeps its cells in {named!r}; expected the variable mesh_cells(cell, vertex)"


def _window_faults(handle: Handle, task: Task) -> Iterator[str]:
    if "frame" not in handle.file.dimensions:
        return
    frames = int(handle.file.dimensions["frame"].size)
    fault = (
        _shape_fault(handle, "time", ("frame",), kinds="fiu")
        if "time" in handle.file.variables
        else None
    )
    if fault:
        yield fault
    if "time" not in handle.file.variables and len(task.times) != frames:
        yield f"has {frames} frames but no variable time, and the task names {len(task.times)} times; add time(frame)"
    last = max(task.starts, default=0)
    if (
        min((task.t_in, *task.starts)) < 0
        or task.t_out < 1
        or last + task.t_in + task.t_out > frames
    ):
        window = f"t_in {task.t_in} + t_out {task.t_out} frames from frame {last}"
        yield f"asks for {window} in gsnobench_task, but holds {frames} frames"


def _shape_fault(handle: Handle, name: str, dims: tuple[str, ...], kinds: str = "iu") -> str | None:
    expected = f"{name}({', '.join(dims)})"
    variable = handle.file.variables.get(name)
    if variable is None:
        return f"has no variable {expected}"
    if tuple(variable.dimensions) != dims:
        return f"has {name}({', '.join(variable.dimensions)}); expected {expected}"
    kind = getattr(variable.dtype, "kind", "O")
    return (
        None if kind in kinds else f"variable {name} is of type {variable.dtype}; expected numbers"
    )
