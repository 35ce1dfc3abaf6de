"""Files and tasks as xarray: names, units, splits and integers; a round trip loses nothing."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import xugrid
from toy_samples import fixed, one_line, ragged

import gsnobench as gb
from gsnobench.datasets import store


def written(path: Path, kind: str) -> Path:
    samples = {"fixed": fixed, "ragged": ragged}[kind]()
    provenance = {"title": "Toy", "licence": "CC0-1.0"}
    store.write(path, samples, provenance=provenance, time_unit="h", length_unit="m")
    return path


def test_a_file_is_labelled(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = gb.open_file(path)
    expected = fixed()["test"]
    test = data.sel(sample=data.split == "test")
    np.testing.assert_array_equal(test.field_h, expected.frames[..., 0])
    assert data.field_h.dims == ("sample", "frame", "node") and data.field_h.units == "m"
    assert {"split", "time", "node_x", "node_y"} <= set(data.coords)
    assert data.mesh_cells.dtype.kind == "i" and data.tag_wall.dtype.kind == "i"
    assert data.attrs["licence"] == "CC0-1.0" and data.attrs["content_hash"]


def test_values_are_read_when_they_are_used(path: Path) -> None:
    data = gb.open_file(path)
    assert not data.field_h.variable._in_memory
    assert data.field_h[0].to_numpy().shape == (3, 16)


@pytest.mark.parametrize("kind", ["fixed", "ragged"])
def test_a_round_trip_loses_nothing(tmp_path: Path, kind: str) -> None:
    first = written(tmp_path / "a.nc", kind)
    second = gb.write_file(tmp_path / "b.nc", gb.open_file(first))
    with store.open_file(first) as a, store.open_file(second) as b:
        assert a.content_hash == b.content_hash and a.task == b.task
        assert dict(a.attributes) == dict(b.attributes)
        for name, variable in a.handle.file.variables.items():
            assert variable.__dict__.keys() == b.handle.file[name].__dict__.keys()
            assert getattr(variable, "units", "") == getattr(b.handle.file[name], "units", "")


def test_some_samples_with_new_splits_can_be_written(tmp_path: Path) -> None:
    data = gb.open_file(written(tmp_path / "a.nc", "ragged")).isel(sample=slice(1, 5))
    path = gb.write_file(tmp_path / "b.nc", data, splits=["test", "train", "train", "valid"])
    with store.open_file(path) as opened:
        assert dict(opened.task.sizes) == {"train": 2, "valid": 1, "test": 1}
        moved = opened.read("test")
    np.testing.assert_array_equal(moved.frames[0], ragged()["train"].frames[1])
    assert moved.mesh(0).key == ragged()["train"].mesh(1).key


def test_a_variable_that_the_task_names_must_stay(tmp_path: Path, path: Path) -> None:
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "b.nc", gb.open_file(path).drop_vars("field_u"))
    one_line(error, "its task names field_u")


def test_the_order_of_dimensions_does_not_matter(tmp_path: Path) -> None:
    data = gb.open_file(written(tmp_path / "a.nc", "ragged"))
    path = gb.write_file(tmp_path / "b.nc", data.transpose("node", "vertex", ...))
    assert gb.open_file(path).attrs["content_hash"] == data.attrs["content_hash"]


@pytest.mark.parametrize(
    ("option", "value"), [("t_in", 1), ("name", "b"), ("inputs", "bed"), ("mesh", np.eye(2))]
)
def test_an_option_that_would_not_be_used_is_refused(
    tmp_path: Path, path: Path, option: str, value: object
) -> None:
    with pytest.raises(gb.ParamError) as error:
        gb.write_file(tmp_path / "b.nc", gb.open_file(path), **{option: value})
    one_line(error, f"{option}: an opened data file says itself")
    assert not (tmp_path / "b.nc").exists()


def test_a_dimension_that_was_picked_away_is_named(tmp_path: Path, path: Path) -> None:
    for name in ("sample", "frame"):
        with pytest.raises(gb.DataError) as error:
            gb.write_file(tmp_path / "b.nc", gb.open_file(path).isel({name: 0}))
        one_line(error, f"has no dimension {name}; keep it")


def test_xugrid_opens_a_fixed_mesh(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coordinates without a projection
        opened, labelled = xugrid.open_dataset(path), xugrid.UgridDataset(gb.open_file(path))
    mesh = fixed()["train"].mesh(0)
    for data in (opened, labelled):
        grid = data.ugrid.grid
        np.testing.assert_array_equal(np.column_stack([grid.node_x, grid.node_y]), mesh.points)
        np.testing.assert_array_equal(np.sort(grid.face_node_connectivity), np.sort(mesh.cells))
        field = data["field_h"].isel(sample=0, frame=0)
        assert isinstance(field, xugrid.UgridDataArray) and field.ugrid.grid.n_node == mesh.size
        np.testing.assert_array_equal(field.to_numpy(), fixed()["train"].frames[0, 0, :, 0])


def test_a_damaged_file_is_one_line(tmp_path: Path, path: Path) -> None:
    (tmp_path / "cut.nc").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(gb.DataError) as error:
        gb.open_file(tmp_path / "cut.nc")
    one_line(error, "cut.nc: not a readable NetCDF file")


def test_a_task_is_made_once_and_labelled(tmp_path: Path) -> None:
    options = {"track": "tiny", "jobs": 1, "home": tmp_path}
    data = gb.open_task("darcy", **options)
    assert data.attrs["origin"] == "generated" and "field_head" in data
    files = list(tmp_path.rglob("*.nc"))
    times = [file.stat().st_mtime_ns for file in files]
    gb.open_task("darcy", **options)
    assert len(files) == 1 and [file.stat().st_mtime_ns for file in files] == times
    with pytest.raises(gb.ParamError):
        gb.open_task("darcy", knobs={"data.nodes": 3}, home=tmp_path)
