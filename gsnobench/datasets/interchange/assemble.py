"""Raw data -> samples by split: the kind of every array, padding of ragged samples, the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gsnobench.data import SPLITS, Array, Field, Samples, Split, Task
from gsnobench.datasets.interchange.raw import Raw
from gsnobench.datasets.netcdf import AXES
from gsnobench.datasets.rows import Rows
from gsnobench.errors import DataError

FIELD_SHAPES = "(nodes), (frames, nodes), (nodes, components) or (frames, nodes, components)"
INPUT_SHAPES = "one number, (numbers), (nodes) or (nodes, components)"
Row = Callable[[int], Array]  # sample -> array


@dataclass(frozen=True)
class Column:
    """One scalar quantity of every sample, as an array of one kind."""

    field: Field
    row: Row  # fields: (T, n_i); static inputs: (n_i,); scalars: ()


@dataclass(frozen=True)
class Question:
    """What `gb.write_file` is told beside the data: names, window, id."""

    name: str
    fields: tuple[Field, ...]
    inputs: tuple[Field, ...]
    t_in: int | None
    times: tuple[float, ...] | None
    corresponds: bool | None


def samples_by_split(raw: Raw, question: Question, codes: Array) -> dict[Split, Samples]:
    """The samples of each split, lazily; every misfit is one line."""
    fields = [column for field in question.fields for column in _field_columns(raw, field)]
    static, scalars = _input_columns(raw, question.inputs)
    frames = fields[0].row(0).shape[0]
    for column in fields:
        if column.row(0).shape[0] != frames:
            raise DataError(
                f"{raw.subject}: {column.field.name} has {column.row(0).shape[0]} frames, "
                f"{fields[0].field.name} {frames}; expected equal numbers"
            )
    task = _task(raw, question, frames, (fields, static, scalars))
    return {
        split: _samples(raw, task, np.flatnonzero(codes == code), (fields, static, scalars))
        for code, split in enumerate(SPLITS)
        if (codes == code).any()
    }


# ------------------------------------------------------------------------------------------ columns


def _field_columns(raw: Raw, field: Field) -> list[Column]:
    """A quantity to predict: itself, or its components."""
    first, nodes = raw.value(field.name, 0), raw.mesh(0).size
    is_node_last = first.ndim in (1, 2) and first.shape[-1] == nodes
    if is_node_last:
        return [Column(_with_unit(raw, field), _checked_row(raw, field.name, first, 1))]
    if first.ndim in (2, 3) and first.shape[-2] == nodes and first.shape[-1]:
        return _components(raw, field, first)
    raise DataError(
        f"{raw.subject}: {field.name} has the shape {first.shape} in sample 0, whose mesh has "
        f"{nodes} nodes; expected {FIELD_SHAPES}"
    )


def _input_columns(raw: Raw, inputs: Sequence[Field]) -> tuple[list[Column], list[Column]]:
    """Static inputs and scalars."""
    static: list[Column] = []
    scalars: list[Column] = []
    for field in inputs:
        first, nodes = raw.value(field.name, 0), raw.mesh(0).size
        if first.ndim == 1 and first.shape[0] == nodes:
            row = _checked_row(raw, field.name, first, 1)
            static.append(Column(_with_unit(raw, field), _flat(row)))
        elif first.ndim == 2 and first.shape[0] == nodes:
            static += [
                replace(column, row=_flat(column.row)) for column in _components(raw, field, first)
            ]
        elif first.ndim <= 1:
            scalars += _numbers(raw, field, first)
        else:
            raise DataError(
                f"{raw.subject}: the input {field.name} has the shape {first.shape} in sample 0, "
                f"whose mesh has {nodes} nodes; expected {INPUT_SHAPES}"
            )
    return static, scalars


def _components(raw: Raw, field: Field, first: Array) -> list[Column]:
    """The components of a vector (..., N, c); a third one in the plane must be zero."""
    width, dim = first.shape[-1], raw.mesh(0).dim
    row = _checked_row(raw, field.name, first, 2)
    is_padded = width == 3 and dim == 2 and not first[..., 2].any()
    is_vector = width == dim or is_padded

    def component(position: int) -> Row:
        def pick(index: int) -> Array:
            array = row(index)  # (T, n, c)
            if is_padded and array[..., 2].any():
                raise DataError(
                    f"{raw.subject}: {field.name} of sample {index} leaves the plane, that of "
                    "sample 0 does not; expected a third component of zeros in all or none"
                )
            return np.asarray(array[..., position])

        return pick

    plain = _with_unit(raw, field)
    if width == 1:
        return [Column(plain, component(0))]
    if is_vector:
        vector = field.vector or field.name
        named = [replace(plain, name=f"{field.name}_{axis}", vector=vector) for axis in AXES[:dim]]
    else:
        named = [replace(plain, name=f"{field.name}_{number}") for number in range(width)]
    return [Column(single, component(number)) for number, single in enumerate(named)]


def _numbers(raw: Raw, field: Field, first: Array) -> list[Column]:
    """A scalar, or the numbers of a short list."""

    def number(position: int) -> Row:
        def pick(index: int) -> Array:
            array = raw.value(field.name, index)
            if array.shape != first.shape:
                raise DataError(
                    f"{raw.subject}: {field.name} has the shape {array.shape} in sample {index}; "
                    f"expected {first.shape} as in sample 0"
                )
            return np.asarray(array.reshape(-1)[position])

        return pick

    plain = _with_unit(raw, field)
    if first.ndim == 0:
        return [Column(plain, number(0))]
    return [
        Column(replace(plain, name=f"{field.name}_{position}"), number(position))
        for position in range(first.shape[0])
    ]


def _checked_row(raw: Raw, name: str, first: Array, node_axis: int) -> Row:
    """Sample -> (T, n_i) or (T, n_i, c): of the same kind as the first, on the sample's own mesh.

    `node_axis` counts from the end.
    """

    def expected(index: int) -> tuple[int, ...]:
        shape = list(first.shape)
        shape[-node_axis] = raw.mesh(index).size
        return tuple(shape)

    def row(index: int) -> Array:
        array = raw.value(name, index)
        if array.shape != expected(index):
            raise DataError(
                f"{raw.subject}: {name} has the shape {array.shape} in sample {index}, whose mesh "
                f"has {raw.mesh(index).size} nodes; expected {expected(index)}"
            )
        return array if first.ndim > node_axis else array[None]

    return row


def _flat(row: Row) -> Row:
    """The only frame of a static input."""
    return lambda index: row(index)[0]


def _with_unit(raw: Raw, field: Field) -> Field:
    unit = raw.units.get(field.name)
    return replace(field, unit=unit) if unit and field.unit == "1" else field


# ------------------------------------------------------------------------------------------ samples

Columns = tuple[list[Column], list[Column], list[Column]]  # fields, static inputs, scalars


def _task(raw: Raw, question: Question, frames: int, columns: Columns) -> Task:
    fields, static, scalars = (tuple(column.field for column in part) for part in columns)
    times = question.times or raw.times or tuple(float(frame) for frame in range(frames))
    if len(times) != frames:
        raise DataError(
            f"{raw.subject}: {len(times)} times for {frames} frames; expected one per frame"
        )
    t_in = question.t_in
    if t_in is None and frames > 1:
        raise DataError(
            f"{raw.subject}: a trajectory has {frames} frames; say how many of them are given, "
            "such as t_in=1"
        )
    if not 0 <= (t_in or 0) < frames:
        raise DataError(
            f"{raw.subject}: t_in is {t_in}, but a trajectory has {frames} frames; expected 0 to "
            f"{frames - 1}"
        )
    is_fixed = len({mesh.key for mesh in raw.meshes}) == 1
    if is_fixed and not t_in and not static and not scalars:
        raise DataError(
            f"{raw.subject}: all samples have the same mesh and no input; name what is given in "
            "inputs="
        )
    return Task(
        id=question.name,
        dataset=question.name,
        fields=fields,
        static=static,
        scalars=scalars,
        dim=raw.mesh(0).dim,
        tags=tuple(sorted({tag for mesh in raw.meshes for tag in mesh.tags})),
        t_in=t_in or 0,
        t_out=frames - (t_in or 0),
        times=times,
        corresponds=is_fixed if question.corresponds is None else question.corresponds,
        fixed_mesh=is_fixed,
        resolution=max(mesh.size for mesh in raw.meshes),
    )


def _samples(raw: Raw, task: Task, chosen: Array, columns: Columns) -> Samples:
    fields, static, scalars = columns
    meshes = (raw.meshes[0],) if task.fixed_mesh else tuple(raw.mesh(i) for i in chosen)
    nodes = max(mesh.size for mesh in meshes) if task.fixed_mesh else task.resolution

    def frames_of(index: int) -> Array:
        parts = [column.row(int(chosen[index])) for column in fields]
        return _padded(np.stack(parts, axis=-1), nodes)  # (T, N, C)

    def static_of(index: int) -> Array:
        parts = [column.row(int(chosen[index])) for column in static]
        return _padded(np.stack(parts, axis=-1), nodes)  # (N, F)

    def scalars_of(index: int) -> Array:
        return np.array([column.row(int(chosen[index])) for column in scalars])  # (P,)

    count = len(chosen)
    return Samples(
        task=task,
        meshes=meshes,
        frames=Rows(count, (len(task.times), nodes, len(fields)), frames_of),
        static=Rows(count, (nodes, len(static)), static_of if static else _nothing(nodes, 0)),
        scalars=Rows(count, (len(scalars),), scalars_of if scalars else _nothing(0)),
    )


def _padded(array: Array, nodes: int) -> Array:
    """(..., n, C) -> (..., N, C) with zeros behind the sample's own nodes."""
    missing = nodes - array.shape[-2]
    return np.pad(array, [(0, 0)] * (array.ndim - 2) + [(0, missing), (0, 0)])


def _nothing(*shape: int) -> Row:
    return lambda index: np.zeros(shape)
