"""Inputs without truth are predicted as those with it; what is missing is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray
from command_line import command, run_folder
from toy_samples import one_line, write_toy

import gsnobench as gb
from gsnobench.datasets import store
from gsnobench.datasets.inputs import read_inputs


def without_truth(path: Path, out: Path, given: int, *dropped: str) -> Path:
    """A copy with the first frames only, without some variables; no frame: without the fields."""
    with xarray.open_dataset(path, decode_times=False) as data:
        kept = data.isel(frame=slice(0, given)) if given else data.drop_dims("frame")
        kept.drop_vars(dropped).to_netcdf(out)
    return out


def test_the_given_frames_are_enough(tmp_path: Path) -> None:
    path = write_toy(tmp_path)
    with store.open_file(path) as opened:
        task, test = opened.task, opened.read("test")
    whole = read_inputs(path, "test", task)
    assert whole.has_truth
    np.testing.assert_array_equal(whole.samples.frames[:], test.frames[:])
    blind = read_inputs(without_truth(path, tmp_path / "in.nc", 1), "test", task)
    assert not blind.has_truth
    assert blind.samples.task.times == task.times
    np.testing.assert_array_equal(blind.samples.frames[:, :1], test.frames[:, :1])
    assert not np.any(blind.samples.frames[:, 1:])
    np.testing.assert_array_equal(blind.samples.static[:], test.static[:])
    assert blind.samples.mesh(0).key == test.mesh(0).key
    unnamed = read_inputs(without_truth(path, tmp_path / "u.nc", 1, "split"), "test", task)
    assert len(unnamed.samples) == 10  # all of them


def test_what_a_run_needs_is_one_line(tmp_path: Path) -> None:
    path = write_toy(tmp_path)
    with store.open_file(path) as opened:
        task = opened.task
    for given, dropped, expected in (
        (1, ("field_u",), "no variable field_u; the run needs the first 1 frames"),
        (0, (), "no variable field_h"),
        (1, ("static_bed",), "static_bed"),
        (1, ("node_y",), "node_y"),
    ):
        lacking = without_truth(path, tmp_path / f"lacks{given}{len(dropped)}.nc", given, *dropped)
        with pytest.raises(gb.DataError) as caught:
            read_inputs(lacking, "test", task)
        one_line(caught, expected, lacking.name)
    (tmp_path / "text.nc").write_text("no")
    with pytest.raises(gb.DataError) as caught:
        read_inputs(tmp_path / "text.nc", "test", task)
    one_line(caught, "not a readable NetCDF file")


def test_predictions_do_not_depend_on_the_truth(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    folder = run_folder("ridge", steady_file, home)
    blind = without_truth(steady_file, tmp_path / "blind.nc", 0)
    written = []
    for inputs in (steady_file, blind):
        out = tmp_path / f"p{len(written)}.nc"
        ended = command(
            capsys, "predict", folder, "--inputs", inputs, "--out", out, "--home", home, "--json"
        )
        assert ended.code == 0, ended.err
        assert ("rel_l2" in ended.json) == (inputs == steady_file)
        with xarray.open_dataset(out, decode_times=False) as data:
            fields = [name for name in data if str(name).startswith("field_")]
            written.append(data[fields[0]].to_numpy())
    np.testing.assert_array_equal(*written)
    mistake = command(capsys, "predict", folder, "--inputs", blind, "--home", home).mistake
    assert "has no truth to compare with; add --out" in mistake
