"""What a user's own file must hold: the minimum is enough, and all that is missing is listed."""

from __future__ import annotations

import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from toy_datasets import square
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store


def _user_file(path: Path, without: str = "", task: dict | None = None) -> None:
    """A file as somebody would write it by hand, with the minimum that is needed."""
    draw = np.random.default_rng(0)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("sample", 6), ("frame", 4), ("node", 9), ("cell", 8), ("vertex", 3)):
            file.createDimension(name, size)
        mesh = square(3)
        values = {
            "split": ("i4", ("sample",), [0, 0, 0, 1, 2, 2]),
            "node_x": ("f8", ("node",), mesh.points[:, 0]),
            "node_y": ("f8", ("node",), mesh.points[:, 1]),
            "mesh_cells": ("i4", ("cell", "vertex"), mesh.cells + 1),
            "tag_wall": ("i1", ("node",), mesh.tags["wall"]),
            "time": ("f4", ("frame",), [0.0, 1.0, 2.0, 3.0]),
            "field_p": ("f8", ("sample", "frame", "node"), draw.normal(size=(6, 4, 9))),
            "static_k": ("f4", ("sample", "node"), draw.normal(size=(6, 9))),
        }
        for name, (kind, dims, array) in values.items():
            if name != without:
                file.createVariable(name, kind, dims)[:] = array
        if "mesh_cells" in file.variables:
            file["mesh_cells"].start_index = 1
        static = [{"name": "k", "unit": "m2"}]
        minimum = {"id": "mine", "fields": ["p"], "static": static, "dim": 2, "t_in": 1, "t_out": 3}
        if without != "gsnobench_task":
            file.gsnobench_task = json.dumps(task or minimum)


def test_the_minimum_is_enough(tmp_path: Path) -> None:
    _user_file(tmp_path / "mine.nc")
    assert store.problems(tmp_path / "mine.nc") == []
    store.verify(tmp_path / "mine.nc")
    with store.open_file(tmp_path / "mine.nc") as opened:
        task = opened.task
        assert (task.dataset, task.tags, task.resolution) == ("mine", ("wall",), 9)
        assert task.times == (0.0, 1.0, 2.0, 3.0)
        assert task.sizes == {"train": 3, "valid": 1, "test": 2} and task.fixed_mesh
        cells = opened.split("train").mesh(0).cells
        np.testing.assert_array_equal(cells, square(3).cells)  # start_index 1 is honoured


@pytest.mark.parametrize(
    ("without", "line"),
    [
        ("gsnobench_task", "has no attribute gsnobench_task"),
        ("split", "has no variable split(sample)"),
        ("node_y", "has no variable node_y(node)"),
        ("field_p", "has no variable field_p(sample, frame, node)"),
        ("static_k", "has no variable static_k(sample, node)"),
        ("time", "no variable time"),
    ],
)
def test_what_a_users_file_lacks_is_named(tmp_path: Path, without: str, line: str) -> None:
    _user_file(tmp_path / "mine.nc", without)
    assert [line in problem for problem in store.problems(tmp_path / "mine.nc")] == [True]
    with pytest.raises(gb.DataError) as error:
        store.open_file(tmp_path / "mine.nc")
    one_line(error, "mine.nc: ", line)


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    task = {"id": "mine", "fields": ["p", "q"], "static": ["z"], "dim": 3, "t_in": 3, "t_out": 3}
    _user_file(tmp_path / "mine.nc", "split", task)
    lines = store.problems(tmp_path / "mine.nc")
    for part in ("split(sample)", "field_q", "static_z", "node_z", "holds 4 frames"):
        assert any(part in line for line in lines), part
    assert len(lines) == 5 and not any("\n" in line for line in lines)
    with pytest.raises(gb.DataError) as error:
        store.open_file(tmp_path / "mine.nc")
    one_line(error, "4 more", "gsnobench show")


def test_problems_of_content_are_listed_too(tmp_path: Path) -> None:
    _user_file(tmp_path / "mine.nc")
    with netCDF4.Dataset(tmp_path / "mine.nc", "a") as file:
        file["field_p"][3] = file["field_p"][0]
        file["static_k"][3] = file["static_k"][0]
    (line,) = store.problems(tmp_path / "mine.nc")
    assert "valid sample 0 is the same as train sample 0" in line
    (tmp_path / "text.nc").write_text("no")
    assert "not a readable NetCDF file" in store.problems(tmp_path / "text.nc")[0]


def test_the_example_of_the_documentation_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "data-format.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})
    assert store.problems(tmp_path / "mine.nc") == []
    with store.open_file(tmp_path / "mine.nc") as opened:
        assert opened.task.sizes == {"train": 20, "valid": 4, "test": 6}
        assert opened.split("train").frames[0].shape == (6, 150, 1)
