"""What ParaView gets: files that read back as the numbers of the run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import meshio
import numpy as np
import pytest
from command_line import command, run_folder
from toy_samples import TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.data import Mesh, Samples
from gsnobench.runs.vtu import export_vtu

FLOW = replace(
    TASK,
    fields=(
        gb.Field("p", support="wall"),
        gb.Field("u", vector="velocity"),
        gb.Field("v", vector="velocity"),
    ),
)


def predicted_for(truth: Samples) -> np.ndarray:
    true = np.asarray(truth.frames)[:, list(truth.task.predicted_frames())]
    return true + np.random.default_rng(1).normal(size=true.shape).astype("f4")


def test_every_frame_reads_back_as_the_numbers_of_the_sample(tmp_path: Path) -> None:
    truth = fixed(task=FLOW)["test"]
    predicted, frames = predicted_for(truth), np.asarray(truth.frames)
    (pvd,) = export_vtu(tmp_path, truth, predicted, [2])
    entries = ElementTree.parse(pvd).getroot().findall("./Collection/DataSet")
    assert [float(entry.attrib["timestep"]) for entry in entries] == [0.5, 1.5]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "sample0002.pvd",
        *(entry.attrib["file"] for entry in entries),
    ]
    mesh, wall = truth.meshes[0], truth.meshes[0].tags["wall"]
    for number, entry in enumerate(entries):
        read = meshio.read(tmp_path / entry.attrib["file"])
        np.testing.assert_allclose(read.points[:, :2], mesh.points)
        np.testing.assert_array_equal(read.cells_dict["triangle"], mesh.cells)
        data = read.point_data
        assert data["truth_velocity"].shape == (16, 3)
        np.testing.assert_array_equal(data["truth_velocity"][:, :2], frames[2, number + 1, :, 1:])
        np.testing.assert_array_equal(
            data["prediction_velocity"][:, :2], predicted[2, number, :, 1:]
        )
        np.testing.assert_array_equal(data["error_velocity"][:, 2], 0)
        np.testing.assert_array_equal(
            data["error_p"][wall], (predicted[2, number] - frames[2, number + 1])[wall, 0]
        )
        assert np.isnan(data["truth_p"][~wall]).all()  # pressure lives on the wall only
        np.testing.assert_array_equal(data["given_velocity"][:, :2], frames[2, 0, :, 1:])
        np.testing.assert_array_equal(data["input_bed"], np.asarray(truth.static)[2, :, 0])
        np.testing.assert_array_equal(
            data["input_inflow"], np.full(16, np.asarray(truth.scalars)[2, 0])
        )


def test_each_window_is_given_its_own_last_frame(tmp_path: Path) -> None:
    truth = fixed(task=replace(TASK, id="toy@1-1", t_out=1, starts=(0, 1)))["test"]
    export_vtu(tmp_path, truth, predicted_for(truth), [0])
    for number in range(2):
        data = meshio.read(tmp_path / f"sample0000_frame000{number}.vtu").point_data
        np.testing.assert_array_equal(data["given_h"], np.asarray(truth.frames)[0, number, :, 0])
        np.testing.assert_array_equal(
            data["truth_h"], np.asarray(truth.frames)[0, number + 1, :, 0]
        )


def test_padding_is_left_out_and_clouds_and_solids_are_written(tmp_path: Path) -> None:
    truth = ragged()["test"]  # 16 and 9 nodes
    export_vtu(tmp_path / "ragged", truth, predicted_for(truth), [0, 1])
    assert [
        len(meshio.read(tmp_path / "ragged" / f"sample000{i}_frame0000.vtu").points) for i in (0, 1)
    ] == [16, 9]
    points = np.random.default_rng(0).normal(size=(5, 3))
    tetrahedra = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    for kind, cells, expected in (
        ("vertex", None, np.arange(5)[:, None]),
        ("tetra", tetrahedra, tetrahedra),
    ):
        space = fixed(task=replace(TASK, dim=3, tags=()), mesh=Mesh(points, cells))["test"]
        export_vtu(tmp_path / kind, space, predicted_for(space), [1])
        read = meshio.read(tmp_path / kind / "sample0001_frame0001.vtu")
        np.testing.assert_allclose(read.points, points)
        np.testing.assert_array_equal(read.cells_dict[kind], expected)
    with pytest.raises(gb.ParamError) as caught:
        export_vtu(tmp_path / "none", truth, predicted_for(truth), [0, 2])
    one_line(caught, "samples: 2 is out of range; expected 0 to 1")
    assert not (tmp_path / "none").exists()


def test_a_run_and_its_bundle_export_the_same(
    unsteady_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    folder = run_folder("gsno", unsteady_file, home, "--train.steps", "5")
    options = ("--format", "vtu", "--samples", "0,5", "--data", unsteady_file)
    options += ("--device", "cpu", "--home", home)
    ended = command(capsys, "export", folder, *options, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["folder"] == f"{folder.name}-vtu"
    out = ("--out", tmp_path / "b")
    assert command(capsys, "export", folder / "bundle.zip", *options, *out).code == 0
    files = sorted((tmp_path / "b").glob("*.vtu"))
    assert len(files) == 14
    for path in files:
        mine, other = (
            meshio.read(written / path.name).point_data
            for written in (tmp_path / "b", tmp_path / f"{folder.name}-vtu")
        )
        assert set(mine) == {"given_height", "truth_height", "prediction_height", "error_height"}
        for name, values in mine.items():
            np.testing.assert_array_equal(values, other[name])
    known = command(capsys, "export", folder, "--home", home, "--out", tmp_path / "c")
    assert known.code == 0, "the home remembers the file"
    (home / "files.json").unlink()
    assert "--data FILE.nc" in command(capsys, "export", folder, "--home", home).mistake
    far = command(capsys, "export", folder, *options, "--samples", "99")
    assert "samples: 99 is out of range; expected 0 to 7" in far.mistake
