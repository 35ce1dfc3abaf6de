"""Verdicts on files: what is sound passes, and each planted fault fails in its own check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from command_line import command
from toy_samples import TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.data import Mesh, Samples, Split, Task
from gsnobench.datasets import store
from gsnobench.datasets.verification import verify_file
from gsnobench.declare import Invariant, Sample

PROVENANCE = {"title": "Toy"}


def written(folder: Path, parts: dict[Split, Samples]) -> Path:
    store.write(folder / "v.nc", parts, provenance=PROVENANCE)
    return folder / "v.nc"


def with_walls(parts: dict[Split, Samples]) -> dict[Split, Samples]:
    """u is 0 on the wall, as its declaration says."""
    for samples in parts.values():
        for index in range(len(samples)):
            wall = np.flatnonzero(samples.mesh(index).tags["wall"])
            np.asarray(samples.frames)[index, :, wall, 1] = 0.0
    return parts


def failed(path: Path, *invariants: Invariant) -> dict[str, str]:
    verdicts = verify_file(path, invariants)
    return {verdict.check: verdict.detail for verdict in verdicts if not verdict.passed}


@pytest.mark.parametrize("make", [fixed, ragged])
def test_a_sound_file_passes_every_check(tmp_path: Path, make: object) -> None:
    path = written(tmp_path, with_walls(make()))  # type: ignore[operator]
    verdicts = verify_file(path, ())
    assert [verdict.check for verdict in verdicts] == [
        *("hashes", "values", "splits", "units", "times", "walls")
    ]
    assert all(verdict.passed for verdict in verdicts)


def test_a_value_at_a_wall_fails(tmp_path: Path) -> None:
    parts = with_walls(fixed())
    wall = np.flatnonzero(parts["test"].meshes[0].tags["wall"])[0]
    np.asarray(parts["test"].frames)[2, 1, wall, 1] = 0.5
    (check,) = failed(written(tmp_path, parts)).items()
    assert check[0] == "walls" and "test 2" in check[1]


def test_wrong_units_and_times_fail(tmp_path: Path) -> None:
    fields = (replace(TASK.fields[0], unit="?!"), TASK.fields[1])
    task = replace(TASK, fields=fields, times=(0.0, 1.0, 2.0))
    parts = with_walls(fixed(task=task))
    path = written(tmp_path, parts)
    with netCDF4.Dataset(path, "a") as file:
        file["field_u"].units = "km"
        file["time"][:] = [0.0, 2.0, 1.0]
        for name in ("content_hash", "split_hashes", "fingerprint"):  # a file of somebody else
            file.delncattr(name)
    found = failed(path)
    assert set(found) == {"units", "times"}
    assert "'km'" in found["units"] and "'?!'" in found["units"]


def test_an_invariant_sees_samples_without_padding_and_reports_the_worst(tmp_path: Path) -> None:
    sizes: list[int] = []

    def largest(sample: Sample, mesh: Mesh, task: Task) -> float:
        sizes.append(mesh.size)
        assert sample.frames.shape == (3, mesh.size, 2) and sample.frames.dtype == np.float64
        return float(np.abs(sample.frames).max())

    path = written(tmp_path, with_walls(ragged()))
    invariant = Invariant("largest", largest, limit=0.1, help="largest value")
    detail = failed(path, invariant)["largest"]
    assert sizes == [9, 25, 16, 9, 16, 9]
    with store.open_file(path) as opened:
        sizes_of = {s: np.abs(opened.read(s).frames).max() for s in ("train", "valid", "test")}
    assert detail.startswith(f"{max(sizes_of.values()):.2g} in {max(sizes_of, key=sizes_of.get)}")
    absent = replace(invariant, applies=lambda task, mesh: False)
    nothing = Invariant("nothing", lambda *_: float("nan"), limit=1.0)
    assert set(failed(path, absent, nothing)) == {"nothing"}


def test_a_changed_number_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, fixed())
    with netCDF4.Dataset(path, "a") as file:
        file["field_h"][0, 0, 0] += 1
    with pytest.raises(gb.DataError) as caught:
        verify_file(path, ())
    one_line(caught, "it was changed after it was made")


def test_the_command_measures_what_the_solver_must_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ("--home", tmp_path / "home")
    words = ("data", "verify", "darcy", "--track", "smoke", "--jobs", "1", *home)
    sound = command(capsys, *words, "--json")
    assert sound.code == 0 and sound.json["passed"]
    assert {"walls", "darcy_energy"} <= {check["check"] for check in sound.json["checks"]}
    with store.open_file(Path(sound.json["file"])) as opened:
        parts = {split: opened.read(split) for split in ("train", "valid", "test")}
    wrong = {split: replace(s, frames=1.2 * s.frames[:]) for split, s in parts.items()}
    ended = command(capsys, "data", "verify", written(tmp_path, wrong), *home)
    assert ended.code == 3 and "FAIL" in ended.out and "darcy_energy" in ended.out
    assert "0.2" in ended.out
