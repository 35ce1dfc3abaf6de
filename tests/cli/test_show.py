"""`gsnobench list` and `gsnobench show` name what is installed and describe it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import call_here
from stranger_plugins import make_strangers

from gsnobench.cli.show import describe
from gsnobench.errors import DataError
from gsnobench.home import Home
from gsnobench.plugins import Listed, listed, load
from gsnobench.registry import remember_file


def test_list_names_every_bundled_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.loads(call_here(capsys, "list", "--json").stdout)
    names = {(entry["kind"], entry["name"]) for entry in body["plugins"]}
    bundled = [("dataset", "darcy"), ("dataset", "swe"), ("model", "gsno"), ("model", "modal")]
    assert {*bundled, ("observer", "mlflow")} <= names
    tracks = {track["name"] for track in body["tracks"]}
    assert tracks == {"smoke", "laptop", "workstation", "paper"}
    known = {preset for name in ("gsno", "mgkn") for preset in load("model", name).presets}
    assert known <= set(body["presets"]) and all(body["presets"].values())


def test_list_of_one_kind_names_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    lines = call_here(capsys, "list", "datasets").stdout.splitlines()
    assert lines[:2] == ["Datasets (--dataset)", "name        what it is"]
    darcy = next(line for line in lines if line.startswith("darcy "))
    assert "Darcy flow in a notched triangle" in darcy and "darcy_threshold" in darcy
    assert not any(line.startswith("gsno ") for line in lines)


def test_a_floor_is_listed_apart_from_models(capsys: pytest.CaptureFixture[str]) -> None:
    models, floors = call_here(capsys, "list", "models").stdout.split("\n\n")[:2]
    assert "\ngsno " in models and "\nridge " not in models
    assert "\nridge " in floors and "\ngsno " not in floors


def test_a_strangers_plugin_is_listed_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in make_strangers(tmp_path)["PYTHONPATH"].split(os.pathsep):
        monkeypatch.syspath_prepend(folder)
    lines = call_here(capsys, "list", "models").stdout.splitlines()
    assert any(line.startswith("plain ") and "stranger" in line for line in lines)


def test_a_model_is_described_with_its_knobs(tmp_path: Path) -> None:
    document = describe("gsno", tmp_path).to_dict()
    assert document["kind"] == "model"
    assert "--model.k_s" in [knob["knob"] for knob in document["Knobs"]]


@pytest.mark.parametrize("entry", listed("importer"), ids=lambda entry: entry.name)
def test_a_public_set_is_described_with_its_files_and_knobs(entry: Listed, tmp_path: Path) -> None:
    document = describe(entry.name, tmp_path).to_dict()
    importer = load("importer", entry.name)
    assert document["files"] == importer.layout and document["imported"] == "not yet"
    assert document["licence"] == importer.licence and document["size"]
    knobs = [knob["knob"] for knob in document["Knobs"]]
    assert knobs == [f"--data.{name}" for name in importer.params().to_dict()]


def test_an_imported_public_set_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "imported.nc"
    remember_file("pipe_official", path, Home(tmp_path))
    assert describe("pipe_official", tmp_path).to_dict()["imported"] == str(path)


def test_a_dataset_is_described_with_its_sizes(tmp_path: Path) -> None:
    document = describe("darcy", tmp_path).to_dict()
    assert "darcy_threshold" in document["tasks"]
    assert document["Sizes"][0].keys() == {
        *("track", "train", "valid", "test", "test_ood", "nodes")
    }


def test_a_dataset_without_input_fields_says_what_is_given(tmp_path: Path) -> None:
    given = {name: describe(name, Home(tmp_path)).facts["inputs"] for name in ("swe", "pipe")}
    assert given == {"swe": "the given frames", "pipe": "the mesh"}


def test_a_file_is_described_by_its_task(steady_file: Path, tmp_path: Path) -> None:
    assert describe(str(steady_file), tmp_path).facts["usable"] == "yes"
    with pytest.raises(DataError, match="no such file"):
        describe(str(tmp_path / "nowhere.nc"), tmp_path)
