"""Samples <-> NetCDF: round trips, conventions, and one clear line for whatever is wrong."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray
from toy_datasets import square
from toy_samples import FIELDS, TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.datasets import netcdf, store

# -------------------------------------------------------------------------------------- round trips


def test_a_fixed_geometry_comes_back_as_it_was(path: Path) -> None:
    with store.open_file(path) as opened:
        for split, before in fixed().items():
            after = opened.split(split)
            assert len(after.meshes) == 1 and after.mesh(0).key == before.mesh(0).key
            for name in ("frames", "static", "scalars"):
                np.testing.assert_array_equal(getattr(after, name)[:], getattr(before, name))


def test_the_task_comes_back_as_it_was(path: Path) -> None:
    with store.open_file(path) as opened:
        assert opened.task.sizes == {"train": 5, "valid": 2, "test": 3}
        assert set(opened.task.split_hashes) == {"train", "valid", "test"}
        assert replace(opened.task, sizes={}, split_hashes={}) == TASK


def test_varying_geometry_comes_back_as_it_was(tmp_path: Path) -> None:
    before = ragged()
    store.write(tmp_path / "r.nc", before, provenance={})
    with store.open_file(tmp_path / "r.nc") as opened:
        for split, samples in before.items():
            after = opened.split(split)
            assert [mesh.key for mesh in after.meshes] == [mesh.key for mesh in samples.meshes]
            assert after.frames.shape[2] == 25  # padded to the largest mesh of the file
            for index, mesh in enumerate(samples.meshes):
                read, written = after.frames[index], samples.frames[index]
                np.testing.assert_array_equal(read[:, : mesh.size], written[:, : mesh.size])
                assert not read[:, mesh.size :].any()
                assert not after.static[index, mesh.size :].any()
        assert not opened.task.fixed_mesh


def test_padding_is_zero_whatever_was_there(tmp_path: Path) -> None:
    clean = store.write(tmp_path / "clean.nc", ragged(), provenance={})
    assert store.write(tmp_path / "nan.nc", ragged(padding=np.nan), provenance={}) == clean
    with netCDF4.Dataset(tmp_path / "nan.nc", "a") as file:
        file["field_h"][0, :, 9:] = np.nan  # a user's own padding
    store.verify(tmp_path / "nan.nc")


def test_points_without_cells_and_solids_are_held(tmp_path: Path) -> None:
    cloud = gb.Mesh(np.random.default_rng(0).normal(size=(16, 2)))
    task = replace(TASK, tags=())
    store.write(tmp_path / "cloud.nc", fixed(task=task, mesh=cloud), provenance={})
    solid = gb.Mesh(np.eye(4, 3), np.arange(4)[None])
    store.write(tmp_path / "solid.nc", fixed(task=replace(task, dim=3), mesh=solid), provenance={})
    quads = gb.Mesh(square(2).points, np.array([[0, 2, 3, 1]]))
    store.write(tmp_path / "quads.nc", fixed(task=task, mesh=quads), provenance={})
    for name, mesh in (("cloud", cloud), ("solid", solid), ("quads", quads)):
        store.verify(tmp_path / f"{name}.nc")
        with store.open_file(tmp_path / f"{name}.nc") as opened:
            assert opened.split("test").mesh(0).key == mesh.key
    with netCDF4.Dataset(tmp_path / "solid.nc") as file:
        assert file["mesh"].topology_dimension == 3
        assert file["mesh"].volume_node_connectivity == "mesh_cells"


def test_another_window_reads_the_same_file(path: Path) -> None:
    other = TASK.narrowed(2, 1)
    with store.open_file(path, other) as opened:
        assert (opened.task.t_in, opened.task.t_out) == (2, 1)
        assert opened.split("valid").task.split_hashes == opened.task.split_hashes != {}
    with pytest.raises(gb.DataError) as error:
        store.open_file(path, replace(TASK, fields=FIELDS[:1]))
    one_line(error, "fields are ['h', 'u']", "asks for ['h']")


# -------------------------------------------------------------------------------------- conventions


def test_xarray_reads_the_file_without_a_warning(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_dataset(path) as data:
            height = data["field_h"]
            assert height.dims == ("sample", "frame", "node") and height.attrs["units"] == "m"
            assert {"time", "node_x", "node_y"} <= set(height.coords)
            np.testing.assert_array_equal(data["time"], [0.0, 0.5, 1.5])
            np.testing.assert_array_equal(height.values[:5], fixed()["train"].frames[..., 0])
            assert int((data["split"] == 2).sum()) == 3


def test_the_mesh_is_described_as_ugrid_asks(path: Path) -> None:
    with netCDF4.Dataset(path) as file:
        assert "UGRID-1.0" in file.Conventions and "CF-1.11" in file.Conventions
        mesh, cells = file["mesh"], file["mesh_cells"]
        assert mesh.cf_role == "mesh_topology" and mesh.topology_dimension == 2
        assert mesh.node_coordinates == "node_x node_y"
        assert mesh.face_node_connectivity == "mesh_cells"
        assert cells.cf_role == "face_node_connectivity" and cells.start_index == 0
        assert cells.dimensions == ("cell", "vertex")
        assert not hasattr(cells, "_FillValue") and cells.dtype == np.int32  # xarray: integers
        assert (file["node_x"].units, file["time"].units) == ("m", "s")
        for name in ("field_h", "static_bed", "tag_wall"):
            assert (file[name].mesh, file[name].location) == ("mesh", "node")
        assert file["split"].flag_meanings == "train valid test test_ood"
        assert list(file["split"].flag_values) == [0, 1, 2, 3]
        assert file.source == "a random generator" and file.licence == "CC0-1.0"
        assert file.gsnobench_version == gb.__version__
        assert json.loads(file.gsnobench_task)["id"] == "toy@1-2"


def test_varying_geometry_does_not_claim_to_be_ugrid(tmp_path: Path) -> None:
    store.write(tmp_path / "r.nc", ragged(), provenance={})
    with netCDF4.Dataset(tmp_path / "r.nc") as file:
        assert "UGRID" not in file.Conventions and not hasattr(file["mesh"], "cf_role")
        assert file["mesh_cells"].dimensions == ("sample", "cell", "vertex")
        assert file["node_count"].dimensions == ("sample",)


def test_tags_that_no_node_carries_change_nothing(tmp_path: Path) -> None:
    task = replace(TASK, tags=("wall", "left", "outer"))
    plain = square(4)
    empty = replace(plain, tags={**plain.tags, "inner": np.zeros(16, dtype=bool)})
    for name, mesh in (("plain", plain), ("empty", empty)):
        store.write(tmp_path / f"{name}.nc", fixed(task=task, mesh=mesh), provenance={})
        store.verify(tmp_path / f"{name}.nc")
        with store.open_file(tmp_path / f"{name}.nc") as opened:
            assert opened.split("train").mesh(0).key == plain.key and opened.task.tags == task.tags


def test_chunks_hold_whole_samples_and_are_compressed(tmp_path: Path) -> None:
    layout = netcdf.Layout(replace(TASK, times=tuple(range(51))), {"train": 100}, 2000, 0, 0, ())
    columns = {column.name: column for column in netcdf.columns(layout)}
    chunks = {name: netcdf.chunks(columns[name], layout.dimensions) for name in columns}
    assert chunks["field_h"] == (1, 26, 2000)  # a sample of 408 kB is cut along time
    assert chunks["static_bed"] == (25, 2000)
    assert chunks["scalar_inflow"] == (100,)
    store.write(tmp_path / "a.nc", fixed(), provenance={})
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["field_h"].filters()["zlib"] and file["field_h"].filters()["shuffle"]
        assert file["field_h"].dtype == np.float32


# ----------------------------------------------------------------------------- what must be refused


@pytest.mark.parametrize("content", [b"", b"no such thing" * 99, b"CDF\x01"])
def test_what_is_not_netcdf_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.nc").write_bytes(content)
    with pytest.raises(gb.DataError) as error:
        store.open_file(tmp_path / "x.nc")
    one_line(error, "x.nc: not a readable NetCDF file")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(gb.DataError) as error:
        store.open_file(tmp_path / "nowhere.nc")
    one_line(error, "nowhere.nc: no such file")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_truncated_file_is_one_line_and_nothing_else(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    program = "import sys; from gsnobench.datasets import store; from pathlib import Path\n"
    program += "try: store.verify(Path(sys.argv[1]))\nexcept store.DataError as error: print(error)"
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""  # HDF5 likes to print its own stack of errors
    assert done.stdout.count("\n") == 1 and "truncated" in done.stdout


def test_a_damaged_block_is_reported(tmp_path: Path) -> None:
    store.write(tmp_path / "big.nc", fixed(train=200), provenance={})
    content = bytearray((tmp_path / "big.nc").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = bytes(3000)
    (tmp_path / "big.nc").write_bytes(content)
    with pytest.raises(gb.DataError) as error:
        store.verify(tmp_path / "big.nc")
    one_line(error, "big.nc")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, netCDF4.default_fillvals["f4"]])
def test_numbers_that_are_not_finite_are_named(own: Path, value: float) -> None:
    with netCDF4.Dataset(own, "a") as file:
        file["field_u"][8, 2, 5] = value
    with pytest.raises(gb.DataError) as error:
        store.open_file(own)
    one_line(error, "field_u", "test sample 1")


@pytest.mark.parametrize("name", ["frames", "static", "scalars"])
def test_nothing_that_is_not_finite_is_written(tmp_path: Path, name: str) -> None:
    samples = fixed()
    getattr(samples["valid"], name)[1] = np.nan
    with pytest.raises(gb.DataError) as error:
        store.write(tmp_path / "x.nc", samples, provenance={})
    one_line(error, "valid sample 1", "nan")
    assert list(tmp_path.iterdir()) == []


def test_a_sample_in_two_splits_is_refused(tmp_path: Path) -> None:
    samples = fixed()
    for name in ("frames", "static", "scalars"):
        getattr(samples["test"], name)[2] = getattr(samples["train"], name)[4]
    with pytest.raises(gb.DataError) as error:
        store.write(tmp_path / "x.nc", samples, provenance={})
    one_line(error, "test sample 2 is the same as train sample 4", "overlap")
    assert not (tmp_path / "x.nc").exists()


def test_equal_values_on_other_meshes_are_not_an_overlap(tmp_path: Path) -> None:
    samples = ragged()
    wide = replace(samples["train"].mesh(0), points=2 * samples["train"].mesh(0).points)
    twin = replace(samples["train"].take([0]), meshes=(wide,))
    store.write(tmp_path / "x.nc", {"train": samples["train"], "test": twin}, provenance={})
    with store.open_file(tmp_path / "x.nc") as opened:
        assert opened.split("test").mesh(0).key == wide.key


@pytest.mark.parametrize("change", ["frames", "static", "scalars", "mesh", "dim", "cells", "name"])
def test_samples_that_do_not_fit_their_task_are_refused(tmp_path: Path, change: str) -> None:
    samples = fixed()
    valid, mesh = samples["valid"], samples["valid"].mesh(0)
    wrong = {
        "frames": replace(valid, frames=valid.frames[:, :2]),
        "static": replace(valid, static=valid.static[:, :9]),
        "scalars": replace(valid, scalars=valid.scalars[:, :0]),
        "mesh": replace(valid, meshes=(replace(mesh, points=mesh.points + 1),)),
        "dim": replace(valid, meshes=(gb.Mesh(np.zeros((16, 3))),)),
        "cells": replace(valid, meshes=(replace(mesh, cells=mesh.cells + 1),)),
        "name": replace(valid, task=replace(TASK, fields=(gb.Field("a/b"), gb.Field("u")))),
    }[change]
    others = {} if change in ("cells", "name") else samples
    with pytest.raises(gb.DataError) as error:
        store.write(tmp_path / "x.nc", {**others, "valid": wrong}, provenance={})
    one_line(error, "expected" if change not in ("mesh", "dim") else "x.nc")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(gb.DataError) as error:
            store.write(tmp_path / "x.nc", fixed(train=2000), provenance={}, level=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    one_line(error, "cannot be written", "free some space")
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(gb.DataError) as error:
        store.write(tmp_path / "file" / "x.nc", fixed(), provenance={})
    one_line(error, "cannot be written")


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    store.write(tmp_path / "x.nc", {"train": fixed()["train"]}, provenance={})
    with store.open_file(tmp_path / "x.nc") as opened, pytest.raises(gb.DataError) as error:
        opened.split("test")
    one_line(error, "holds no test split", "train 5")
    assert [line.split()[5] for line in store.problems(tmp_path / "x.nc")] == ["valid", "test"]


def test_missing_values_and_impossible_counts_are_refused(own: Path, tmp_path: Path) -> None:
    with netCDF4.Dataset(own, "a") as file:
        values = file["field_h"][:]
        values[0, 0, 3] = -999.0
        file["field_h"][:] = values
        file["field_h"].setncattr("missing_value", np.float32(-999.0))
    with pytest.raises(gb.DataError) as caught:
        store.verify(own)
    one_line(caught, "field_h holds missing values (-999")
    for name, count in (("cell_count", -1), ("cell_count", 10**9), ("node_count", 0)):
        path = tmp_path / f"{name}{count}.nc"
        store.write(path, ragged(), provenance={"title": "a", "source": "b"})
        with netCDF4.Dataset(path, "a") as file:
            file[name][0] = count
        with pytest.raises(gb.DataError) as caught:
            store.verify(path)
        one_line(caught, f"{name} holds")


def test_a_field_that_is_called_as_the_mean_of_all_is_refused(tmp_path: Path) -> None:
    task = replace(TASK, fields=(gb.Field("headline"),))
    with pytest.raises(gb.DataError) as caught:
        store.write(tmp_path / "a.nc", fixed(task=task), provenance={})
    one_line(caught, "'headline'")
