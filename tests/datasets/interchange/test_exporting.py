"""A data file exported and imported again is the same file; other programs read what is between."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import meshio
import numpy as np
import pytest
from command_line import command
from toy_samples import TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.data import Mesh, Samples, Split
from gsnobench.datasets import store
from gsnobench.datasets.interchange.exporting import FORMATS, export, read_foreign

PROVENANCE = {"title": "Toy", "source": "a random generator", "licence": "CC0-1.0"}


def steady() -> dict[Split, Samples]:
    """One frame, no inputs but a scalar, and a split whose name begins like another one."""
    task = replace(TASK, id="toy", times=(0.0,), t_in=0, t_out=1, static=())
    parts = fixed(task=task)
    return {**parts, "test_ood": fixed(seed=7, task=task)["valid"]}


def solid(cells: list[list[int]] | None) -> dict[Split, Samples]:
    """Points in space, with tetrahedra, triangles or none."""
    points = np.random.default_rng(3).normal(size=(5, 3))
    table = None if cells is None else np.array(cells)
    flow = tuple(gb.Field(f"v{axis}", vector="v") for axis in "xyz")
    task = replace(TASK, dim=3, tags=(), fields=flow)
    return fixed(task=task, mesh=Mesh(points, table))


SAMPLES: dict[str, Mapping[Split, Samples]] = {
    "fixed": fixed(),
    "steady": steady(),
    "ragged": ragged(),
    "tetrahedra": solid([[0, 1, 2, 3], [1, 2, 3, 4]]),
    "surface": solid([[0, 1, 2], [1, 2, 3]]),
    "edges": solid([[0, 1], [1, 4]]),
    "cloud": solid(None),
}


def written(folder: Path, name: str = "fixed") -> Path:
    path = folder / "toy.nc"
    store.write(path, SAMPLES[name], provenance=PROVENANCE, time_unit="h", length_unit="km")
    return path


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_round_trip_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    path, again = written(tmp_path, name), tmp_path / "again.nc"
    options = ("--format", kind, "--out", tmp_path / "out", "--home", tmp_path / "home")
    ended = command(capsys, "data", "export", path, *options, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert command(capsys, "data", "import", again, "--from", tmp_path / "out").code == 0
    with store.open_file(path) as first, store.open_file(again) as second:
        assert second.content_hash == first.content_hash
        assert second.task == first.task
        assert dict(second.attributes) == dict(first.attributes)
        for variable in ("time", "node_x", "field_" + first.task.fields[0].name):
            units = [file.handle.file.variables[variable].units for file in (first, second)]
            assert units[0] == units[1]
    store.verify(again)


@pytest.mark.parametrize("kind", ["vtu", "xdmf"])
def test_meshio_reads_steady_samples(tmp_path: Path, kind: str) -> None:
    export(written(tmp_path, "steady"), tmp_path / "out", kind)
    truth = SAMPLES["steady"]["test_ood"]
    read = meshio.read(tmp_path / "out" / "test_ood" / f"sample0001.{kind}")
    np.testing.assert_array_equal(read.points[:, :2], truth.meshes[0].points)
    np.testing.assert_array_equal(read.cells_dict["triangle"], truth.meshes[0].cells)
    np.testing.assert_array_equal(read.point_data["field_h"], np.asarray(truth.frames)[1, 0, :, 0])
    velocity = read.point_data["field_velocity"]
    assert velocity.shape == (16, 3)
    np.testing.assert_array_equal(velocity[:, 0], np.asarray(truth.frames)[1, 0, :, 1])
    np.testing.assert_array_equal(read.point_data["tag_left"], truth.meshes[0].tags["left"])
    assert set(read.point_data["scalar_inflow"]) == {np.asarray(truth.scalars)[1, 0]}


def test_meshio_reads_every_frame_with_its_time(tmp_path: Path) -> None:
    path = written(tmp_path, "ragged")
    truth = SAMPLES["ragged"]["train"]
    frames = np.asarray(truth.frames)[0, :, :9, 0]  # the first mesh has nine nodes
    export(path, tmp_path / "vtu", "vtu", splits=("train",))
    pvd = ElementTree.parse(tmp_path / "vtu" / "train" / "sample0000.pvd").getroot()
    entries = pvd.findall("./Collection/DataSet")
    assert [float(entry.attrib["timestep"]) for entry in entries] == [0.0, 0.5, 1.5]
    for entry, values in zip(entries, frames, strict=True):
        read = meshio.read(tmp_path / "vtu" / "train" / entry.attrib["file"])
        np.testing.assert_array_equal(read.point_data["field_h"], values)
    export(path, tmp_path / "xdmf", "xdmf", samples=[0])
    with meshio.xdmf.TimeSeriesReader(tmp_path / "xdmf" / "train" / "sample0000.xdmf") as reader:
        points, _ = reader.read_points_cells()
        assert len(points) == 9
        for step, (time, values) in enumerate(zip((0.0, 0.5, 1.5), frames, strict=True)):
            at, data, _ = reader.read_data(step)
            assert at == time
            np.testing.assert_array_equal(data["field_h"], values)


def test_the_npy_files_are_those_of_the_public_re_pack(tmp_path: Path) -> None:
    export(written(tmp_path), tmp_path / "out", "npy")
    truth = SAMPLES["fixed"]["train"]
    data = np.load(tmp_path / "out" / "train_data.npy")
    np.testing.assert_array_equal(data, np.asarray(truth.frames).transpose(0, 2, 1, 3))
    grid = np.load(tmp_path / "out" / "train_grid.npy")
    cells = np.load(tmp_path / "out" / "train_cells.npy")
    kinds = np.load(tmp_path / "out" / "train_node_type.npy")
    assert grid.shape == (5, 16, 3, 2) and kinds.shape == (5, 16, 3, 1)
    for sample, frame in ((0, 0), (4, 2)):
        np.testing.assert_array_equal(grid[sample, :, frame], truth.meshes[0].points)
        np.testing.assert_array_equal(cells[sample, :, frame], truth.meshes[0].cells)
    tags = truth.meshes[0].tags
    np.testing.assert_array_equal(kinds[0, :, 0, 0], np.where(tags["wall"], 2, tags["left"]))


def test_numpy_alone_opens_the_archive(tmp_path: Path) -> None:
    export(written(tmp_path, "ragged"), tmp_path / "out", "npz", splits=("test",))
    with np.load(tmp_path / "out" / "arrays.npz", allow_pickle=False) as archive:
        assert archive["node_count"].tolist() == [16, 9]
        assert archive["frames"].shape == (2, 3, 16, 2)
        np.testing.assert_array_equal(archive["split"], [2, 2])


def test_a_chosen_task_is_generated_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ("--track", "smoke", "--split", "test", "--samples", "0,2", "--jobs", "1")
    words = ("data", "export", "darcy", *options, "--out", out, "--home", tmp_path / "home")
    assert command(capsys, *words, "--json").json["samples"] == {"test": 2}
    assert sorted(path.name for path in (out / "test").iterdir()) == [
        "sample0000.vtu",
        "sample0001.vtu",
    ]


def test_mistakes_are_one_line_and_leave_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, home = written(tmp_path), ("--home", tmp_path / "home")
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    out = ("--out", tmp_path / "out", *home)
    for words, expected in (
        ((path, "--out", full, *home), "not an empty folder"),
        ((path, "--samples", "9", *out), "no sample is chosen"),
        ((path, "--split", "tset", *out), "did you mean 'test'?"),
        ((path, "--data.seed", "1", *out), "a file has no knobs"),
        ((tmp_path / "none.nc", *out), "no such file"),
        (("pipe_official", *out), "data import pipe_official"),
        (("darci", *out), "did you mean 'darcy'?"),
    ):
        assert expected in command(capsys, "data", "export", *words).mistake, words
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["full", "home", "toy.nc"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_folder_is_one_line(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    export(written(tmp_path), out, kind)
    largest = max(
        (path for path in out.rglob("*") if path.is_file()), key=lambda p: p.stat().st_size
    )
    largest.write_bytes(largest.read_bytes()[:-400])
    with pytest.raises(gb.DataError) as caught:
        foreign = read_foreign(out, None)
        store.write(tmp_path / "again.nc", foreign.samples, provenance=foreign.provenance)
    one_line(caught, "out")
    assert not (tmp_path / "again.nc").exists()


def test_a_folder_without_its_task_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    export(written(tmp_path), out, "npy")
    task = json.loads((out / "task.json").read_text())
    (out / "task.json").unlink()
    words = ("data", "import", tmp_path / "again.nc", "--from", out)
    assert "--task FILE.json" in command(capsys, *words).mistake
    (tmp_path / "own.json").write_text(json.dumps(task))
    assert command(capsys, *words, "--task", tmp_path / "own.json").code == 0
