"""HDF5 files by names: arrays of all samples, or one group per sample."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from toy_datasets import square
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store

MESH = square(4)
DRAW = np.random.default_rng(0)
HEAD, BED = DRAW.normal(size=(2, 10, MESH.size))


def test_arrays_are_found_by_their_names(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["out/head"], file["bed"] = HEAD, BED
        file["grid/xy"], file["grid/tri"] = MESH.points, MESH.cells
    mesh = {"points": "grid/xy", "cells": "grid/tri"}
    with pytest.raises(gb.DataError) as error:
        gb.write_file(
            tmp_path / "x.nc", tmp_path / "a.h5", mesh=mesh, fields="out/head", inputs="bed"
        )
    one_line(error, "fields holds the name 'out/head'")
    names = {"fields": {"head": "out/head"}, "inputs": "bed"}
    path = gb.write_file(tmp_path / "x.nc", tmp_path / "a.h5", mesh=mesh, **names)
    with store.open_file(path) as opened:
        train = opened.read("train")
    np.testing.assert_array_equal(train.frames[:, 0, :, 0], HEAD[:6].astype("f4"))
    np.testing.assert_array_equal(train.mesh(0).cells, MESH.cells)


def test_a_group_is_a_sample(tmp_path: Path) -> None:
    meshes = [square(3 + number % 3) for number in range(12)]
    values = [DRAW.normal(size=(4, mesh.size)) for mesh in meshes]
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for number, (mesh, value) in enumerate(zip(meshes, values, strict=True)):
            group = file.create_group(f"run{number}")
            group["xy"], group["u"] = mesh.points, value
    path = gb.write_file(
        tmp_path / "x.nc", tmp_path / "a.hdf5", mesh={"points": "xy"}, fields="u", t_in=1
    )
    with store.open_file(path) as opened:
        test = opened.read("test")  # run10, run11: in the order of their numbers
    own = test.frames[1, :, : meshes[11].size, 0]
    np.testing.assert_array_equal(own, values[11].astype("f4"))


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["head"] = HEAD
    (tmp_path / "b.h5").write_bytes(b"\x89HDF but not really")
    for name, field, line in (
        ("a.h5", "heat", "holds no 'heat'; did you mean 'head'?"),
        ("b.h5", "head", "b.h5: not a readable HDF5 file"),
    ):
        with pytest.raises(gb.DataError) as error:
            gb.write_file(tmp_path / "x.nc", tmp_path / name, mesh=MESH, fields=field)
        one_line(error, line)
