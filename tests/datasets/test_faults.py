"""What a user's own file must hold: the least is enough, and whatever is missing is said, all at
once.
"""

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
    """As somebody would write it by hand, with the least that is asked for."""
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
        task = task or {
            "id": "mine",
            "fields": ["p"],
            "static": [{"name": "k", "unit": "m2"}],
            "dim": 2,
            "t_in": 1,
            "t_out": 3,
        }
        if without != "gsnobench_task":
            file.gsnobench_task = json.dumps(task)


def test_the_least_that_is_asked_for_is_enough(tmp_path: Path) -> None:
    _user_file(tmp_path / "mine.nc")
    assert store.problems(tmp_path / "mine.nc") == []
    store.verify(tmp_path / "mine.nc")
    with store.open_file(tmp_path / "mine.nc") as opened:
        task = opened.task
        assert (task.dataset, task.times, task.tags, task.resolution) == (
            "mine",
            (0.0, 1.0, 2.0, 3.0),
            ("wall",),
            9,
        )
        assert task.sizes == {"train": 3, "valid": 1, "test": 2} and task.fixed_mesh
        # start_index 1 is honoured
        np.testing.assert_array_equal(opened.split("train").mesh(0).cells, square(3).cells)


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
def test_what_a_users_file_lacks_is_said(tmp_path: Path, without: str, line: str) -> None:
    _user_file(tmp_path / "mine.nc", without)
    assert [line in problem for problem in store.problems(tmp_path / "mine.nc")] == [True]
    with pytest.raises(gb.DataError) as error:
        store.open_file(tmp_path / "mine.nc")
    one_line(error, "mine.nc: ", line)


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    task = {"id": "mine", "fields": ["p", "q"], "static": ["z"], "dim": 3, "t_in": 3, "t_out": 3}
    _user_file(tmp_path / "mine.nc", "split", task)
    found = store.problems(tmp_path / "mine.nc")
    for part in ("split(sample)", "field_q", "static_z", "node_z", "holds 4 frames"):
        assert any(part in line for line in found), part
    assert len(found) == 5 and not any("\n" in line for line in found)
    with pytest.raises(gb.DataError) as error:
        store.open_file(tmp_path / "mine.nc")
    one_line(error, "4 more", "gsnobench show")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("{}", "id, fields, dim missing"),
        ('{"id": "a", "fields": ["p"], "dim": 2, "tin": 3}', "did you mean 't_in'"),
        ('{"id": "a", "fields": "p", "dim": 2}', "expected a list"),
        ('{"id": "a", "fields": [], "dim": 2}', "fields is empty"),
        ('{"id": "a", "fields": [{"nam": "p"}], "dim": 2}', "is not a field"),
        (
            '{"id": "a", "fields": [{"name": "p", "boundary": {"wall": "open"}}], "dim": 2}',
            "dirichlet | neumann | none",
        ),
        ('{"id": "a", "fields": ["p", "p"], "dim": 2}', "each name once"),
        ('{"id": "../a", "fields": ["p"], "dim": 2}', "id is '../a'"),
        ('{"id": "a", "fields": ["p"], "dim": 4}', "expected 1, 2 or 3"),
        ('{"id": "a", "fields": ["p"], "dim": true}', "expected a whole number"),
        ('{"id": "a", "fields": ["p"], "dim": 2, "times": ["x"]}', "expected a list of numbers"),
    ],
)
def test_a_wrong_task_is_one_line(text: str, line: str) -> None:
    with pytest.raises(gb.DataError) as error:
        store.task_from_json(text)
    one_line(error, "gsnobench_task: ", line)


def test_problems_of_content_are_listed_too(tmp_path: Path) -> None:
    _user_file(tmp_path / "mine.nc")
    with netCDF4.Dataset(tmp_path / "mine.nc", "a") as file:
        file["field_p"][3] = file["field_p"][0]
        file["static_k"][3] = file["static_k"][0]
    assert [
        "valid sample 0 is the same as train sample 0" in line
        for line in store.problems(tmp_path / "mine.nc")
    ] == [True]
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
        assert opened.split("train").frames[0].shape == (6, 50, 1)
