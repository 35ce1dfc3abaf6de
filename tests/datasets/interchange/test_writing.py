"""`gb.write_file`: arrays of every kind become the same file, and a mistake is one line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from toy_datasets import square
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store

MESH = square(5)
DRAW = np.random.default_rng(0)
HEIGHT = DRAW.normal(size=(10, MESH.size))
FLOW = DRAW.normal(size=(10, 3, MESH.size, 2))


def content(path: Path) -> str:
    with store.open_file(path) as opened:
        return opened.content_hash


def test_numpy_torch_and_lists_become_the_same_file(tmp_path: Path) -> None:
    def written(name: str, flow: Any, height: Any) -> str:
        arrays = {"flow": flow, "bed": height}
        options: dict[str, Any] = {"mesh": MESH, "fields": "flow", "inputs": "bed", "t_in": 1}
        return content(gb.write_file(tmp_path / f"{name}.nc", arrays, name="toy", **options))

    expected = written("numpy", FLOW, HEIGHT)
    assert (
        written("torch", torch.tensor(FLOW), torch.tensor(HEIGHT, requires_grad=True)) == expected
    )
    assert written("lists", list(FLOW), HEIGHT.tolist()) == expected


def test_what_is_written_is_what_was_given(tmp_path: Path) -> None:
    speed = DRAW.normal(size=10)
    path = gb.write_file(
        tmp_path / "toy.nc",
        {"flow": FLOW, "bed": HEIGHT, "speed": speed, "pair": FLOW[:, 0, :2, 0]},
        mesh=MESH,
        fields=gb.Field("flow", unit="m s-1"),
        inputs=("bed", gb.Field("speed", unit="m"), "pair"),
        splits=(5, 2, 3),
        t_in=1,
        times=(0, 2, 4),
        length_unit="km",
        time_unit="min",
        provenance={"licence": "CC0-1.0"},
    )
    with store.open_file(path) as opened:
        task, test = opened.task, opened.read("test")
        assert opened.attributes["licence"] == "CC0-1.0"
        assert opened.handle.file["node_x"].units == "km"
        assert opened.handle.file["time"].units == "min"
    assert [field.name for field in task.fields] == ["flow_x", "flow_y"]
    assert {(field.unit, field.vector) for field in task.fields} == {("m s-1", "flow")}
    assert [field.name for field in task.static] == ["bed"]
    assert [field.name for field in task.scalars] == ["speed", "pair_0", "pair_1"]
    assert (task.id, task.t_in, task.t_out, task.times) == ("toy", 1, 2, (0.0, 2.0, 4.0))
    assert dict(task.sizes) == {"train": 5, "valid": 2, "test": 3} and task.fixed_mesh
    np.testing.assert_array_equal(test.frames, FLOW[7:].astype("f4"))
    np.testing.assert_array_equal(test.static[..., 0], HEIGHT[7:].astype("f4"))
    np.testing.assert_array_equal(test.scalars[:, 0], speed[7:].astype("f4"))
    np.testing.assert_array_equal(test.scalars[:, 1:], FLOW[7:, 0, :2, 0].astype("f4"))


def test_ragged_samples_are_padded(tmp_path: Path) -> None:
    meshes = [square(side) for side in (3, 5, 4, 3, 4)]
    values = [DRAW.normal(size=mesh.size) for mesh in meshes]
    path = gb.write_file(
        tmp_path / "r.nc", {"u": values}, mesh=meshes, fields="u", splits=(3, 1, 1)
    )
    with store.open_file(path) as opened:
        assert not opened.task.fixed_mesh and not opened.task.corresponds
        train = opened.read("train")
    for index in range(3):
        assert train.mesh(index).key == meshes[index].key
        own = train.frames[index, 0, : meshes[index].size, 0]
        np.testing.assert_array_equal(own, values[index].astype("f4"))


def test_an_array_larger_than_memory_is_read_by_the_sample(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", HEIGHT)
    reads: list[int] = []

    class Watched:
        def __init__(self) -> None:
            self.rows = np.load(tmp_path / "u.npy", mmap_mode="r")

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, index: int) -> Any:
            reads.append(index)
            return self.rows[index]

    arrays = {"u": Watched(), "a": HEIGHT + 1}
    path = gb.write_file(tmp_path / "u.nc", arrays, mesh=MESH, fields="u", inputs="a")
    assert set(reads) == set(range(10)) and all(np.ndim(index) == 0 for index in reads)
    with store.open_file(path) as opened:
        np.testing.assert_array_equal(
            opened.read("train").frames[:, 0, :, 0], HEIGHT[:6].astype("f4")
        )


def test_quadrilaterals_become_triangles(tmp_path: Path) -> None:
    quads = np.array([[0, 5, 6, 1]])
    arrays = {"u": HEIGHT, "a": HEIGHT + 1}
    path = gb.write_file(
        tmp_path / "q.nc", arrays, mesh=(MESH.points, quads), fields="u", inputs="a"
    )
    with store.open_file(path) as opened:
        cells = opened.read("train").mesh(0).cells
    assert cells is not None and cells.tolist() == [[0, 5, 6], [0, 6, 1]]


GOOD: dict[str, Any] = {"mesh": MESH, "fields": "u", "inputs": "a"}
BOTH = {"u": HEIGHT, "a": HEIGHT + 1}


@pytest.mark.parametrize(
    ("data", "change", "line"),
    [
        (BOTH, {"fields": ()}, "fields: none given"),
        (BOTH, {"fields": "v"}, "holds no 'v'"),
        (BOTH, {"inputs": ()}, "'a' is neither in fields nor in inputs"),
        (BOTH, {"mesh": None}, "holds no mesh"),
        (BOTH, {"mesh": MESH.points[:7]}, "whose mesh has 7 nodes; expected (nodes)"),
        (BOTH, {"mesh": [MESH, MESH]}, "2 meshes for 10 samples"),
        (BOTH, {"mesh": {"point": MESH.points}}, "mesh has the entries ['point']"),
        (BOTH, {"mesh": (MESH.points, MESH.points)}, "cells are float64"),
        (BOTH, {"mesh": (MESH.points, [0, 1, 2])}, "(cells, nodes per cell)"),
        (BOTH, {"mesh": (MESH.points, [[0, 1, 99]])}, "cells point to the nodes 0 to 99"),
        (BOTH, {"times": (0.0, 1.0)}, "2 times for 1 frames"),
        (BOTH, {"t_in": 1}, "t_in is 1"),
        ({**BOTH, "u": HEIGHT[:4]}, {}, "different numbers of samples (u 4, a 10)"),
        ({"u": FLOW, "a": HEIGHT}, {}, "say how many of them are given, such as t_in=1"),
        ({"u": HEIGHT}, {"inputs": ()}, "the same mesh and no input"),
        ({**BOTH, "u": np.where(HEIGHT > 2, np.nan, HEIGHT)}, {}, "only finite numbers"),
        ({**BOTH, "u": HEIGHT.astype(str)}, {}, "expected real numbers"),
        ({**BOTH, "a": FLOW}, {}, "the input a has the shape (3, 25, 2)"),
        ({key: np.repeat(array[:1], 10, 0) for key, array in BOTH.items()}, {}, "splits must not"),
        ({**BOTH, "u": np.ma.masked_greater(HEIGHT, 2)}, {}, "field_u holds nan in train"),
        ({**BOTH, "u": torch.tensor(HEIGHT).bfloat16()}, {}, "in a type that numpy has"),
        ({**BOTH, "a": 3.0}, {}, "a is a float without samples"),
        ({**BOTH, "u": FLOW[:, 0, :, :0]}, {}, "u has the shape (25, 0) in sample 0"),
        (BOTH, {"inputs": ["a", "u"]}, "'u' is named twice"),
        (BOTH, {"fields": {"u": 3}}, "3 is not a name; expected {NAME: SOURCE}"),
        (BOTH, {"fields": None}, "None is not a name"),
        (BOTH, {"t_in": 0.5}, "t_in: 0.5 is no whole number"),
        ({**BOTH, "u": FLOW}, {"t_in": 1, "times": (0, 2, 2)}, "the times of the frames do not"),
        (BOTH, {"mesh": {"points": MESH.points, "tag_a/b": np.ones(25)}}, "tags holds the name"),
        (BOTH, {"mesh": {"points": MESH.points, "tag_a": np.full(25, 2)}}, "tag a holds other"),
        (3, {}, "data: a int was given; expected a mapping"),
        ([1, 2], {}, "data: a list was given; expected a mapping"),
        ("nowhere", {}, "no such file or folder"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_file(
    tmp_path: Path, data: Any, change: dict[str, Any], line: str
) -> None:
    with pytest.raises(gb.GsnobenchError) as error:
        gb.write_file(tmp_path / "x.nc", data, **{**GOOD, **change})
    one_line(error, line)
    assert not list(tmp_path.iterdir())


def test_a_sample_of_another_kind_is_named(tmp_path: Path) -> None:
    values = [*HEIGHT[:9], HEIGHT[9][:-1]]
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "x.nc", {"u": values, "a": HEIGHT}, **GOOD)
    one_line(error, "u has the shape (24,) in sample 9, whose mesh has 25 nodes; expected (25,)")
    assert not list(tmp_path.iterdir())


def test_plain_xarray_becomes_the_same_file_as_its_arrays(tmp_path: Path) -> None:
    data = xarray.Dataset(
        {
            "bed": (("node", "sample"), HEIGHT.T, {"units": "m"}),
            "flow": (("sample", "time", "node", "axis"), FLOW),
            "cells": (("vertex", "cell"), MESH.cells.T),
        },
        coords={
            "x": ("node", MESH.points[:, 0], {"units": "km"}),
            "y": ("node", MESH.points[:, 1]),
        },
    ).assign_coords(time=np.array([0, 1, 2], dtype="datetime64[h]"))
    path = gb.write_file(tmp_path / "x.nc", data, fields="flow", inputs="bed", t_in=2)
    mesh = (MESH.points, MESH.cells)
    arrays = gb.write_file(
        tmp_path / "a.nc",
        {"flow": FLOW, "bed": HEIGHT},
        mesh=mesh,
        fields="flow",
        inputs="bed",
        t_in=2,
        times=(0, 3600, 7200),
    )
    assert content(path) == content(arrays)
    with store.open_file(path) as opened:
        assert opened.task.static[0].unit == "m"
        assert opened.handle.file["node_x"].units == "km"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"u": ("sample", HEIGHT[:, 0]), "node_count": ("sample", range(10))}, "are padded"),
        ({"u": ("s", HEIGHT[:, 0])}, "u has the dimensions (s); expected the dimensions sample"),
        ({"v": ("sample", HEIGHT[:, 0])}, "holds no 'u'; known: v"),
        ({"u": (("sample", "node"), HEIGHT)}, "holds no coordinates node_x, node_y or x, y"),
    ],
)
def test_a_wrong_xarray_is_one_line(tmp_path: Path, change: dict[str, Any], line: str) -> None:
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "x.nc", xarray.Dataset(change), fields="u")
    one_line(error, line)


def test_help_explains_every_argument() -> None:
    text = inspect.getdoc(gb.write_file) or ""
    for name in ("data", "fields", "inputs", "mesh", "splits", "t_in"):
        assert f"`{name}`" in text
