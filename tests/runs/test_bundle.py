"""A bundle holds all that others need to verify a run, in the same bytes whenever it is made."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from command_line import command, run_folder
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets.store import open_file
from gsnobench.home import Home, RunFolder
from gsnobench.runs.bundle import damaged, opened_run, predictions_of, unpack

MEMBERS = {
    "manifest.json",
    "predictions.nc",
    "reference.safetensors",
    "result.json",
    "spec.json",
    "task.json",
    "weights.safetensors",
}


@pytest.fixture(scope="module")
def folder(unsteady_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_folder("gsno", unsteady_file, tmp_path_factory.mktemp("home"), "--train.steps", "5")


def test_a_bundle_holds_the_run_and_its_checksums(
    folder: Path, unsteady_file: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(folder / "bundle.zip") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    manifest = json.loads(content["manifest.json"])
    assert set(content) == MEMBERS
    assert manifest["gsnobench"] == gb.__version__
    assert manifest["sha256"] == {
        name: hashlib.sha256(content[name]).hexdigest() for name in MEMBERS - {"manifest.json"}
    }
    assert content["result.json"] == (folder / "result.json").read_bytes()
    (tmp_path / "p.nc").write_bytes(content["predictions.nc"])
    with open_file(tmp_path / "p.nc") as opened, open_file(unsteady_file) as data:
        stored = np.asarray(opened.split("test").frames[:])
        expected = gb.load(folder, home=tmp_path, device="cpu").predict(data.split("test"))
        assert opened.task.times == data.task.times[2:]
    np.testing.assert_array_equal(stored, expected)


def test_a_bundle_made_again_for_the_finished_run_is_the_same_bytes(
    folder: Path, unsteady_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = folder / "bundle.zip"
    before, result = bundle.read_bytes(), (folder / "result.json").read_bytes()
    bundle.unlink()
    options = ("--track", "smoke", "--no-floors", "--device", "cpu", "--train.steps", "5")
    options += ("--home", str(folder.parent.parent))
    ended = command(
        capsys, "run", "--model", "gsno", "--dataset", unsteady_file, *options, "--bundle", "--json"
    )
    assert ended.json["bundle"] == str(bundle)
    assert ended.err == ""
    assert bundle.read_bytes() == before
    assert (folder / "result.json").read_bytes() == result
    assert not list(folder.glob(".*"))


def test_a_run_that_did_not_end_well_has_no_bundle(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--track", "smoke", "--no-floors", "--home", tmp_path, "--bundle")
    ended = command(capsys, "run", "--model", "persistence", "--dataset", steady_file, *options)
    assert ended.code == 0
    assert "ended declined; there is nothing to bundle" in ended.err
    assert not list(tmp_path.rglob("*.zip"))


def test_a_changed_member_is_named(folder: Path, unsteady_file: Path, tmp_path: Path) -> None:
    unpack(folder / "bundle.zip", tmp_path)
    unpacked = RunFolder(tmp_path)
    assert damaged(unpacked) == []
    (tmp_path / "task.json").write_text("{}")
    (tmp_path / "reference.safetensors").unlink()
    assert damaged(unpacked) == ["reference.safetensors", "task.json"]
    with open_file(unsteady_file) as data, pytest.raises(gb.DataError) as caught:
        predictions_of(unpacked, data.split("test"), home=Home(tmp_path), device="cpu")
    one_line(caught, "reference.safetensors, task.json changed since it was packed")
    (tmp_path / "manifest.json").write_text("[]")
    assert damaged(unpacked) == ["manifest.json"]


def test_what_is_no_bundle_is_one_line_and_writes_nothing_elsewhere(
    folder: Path, tmp_path: Path
) -> None:
    whole = (folder / "bundle.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    (tmp_path / "flipped.zip").write_bytes(flipped)
    (tmp_path / "text.zip").write_text("hello")
    with zipfile.ZipFile(tmp_path / "escape.zip", "w") as archive:
        archive.writestr("../evil.json", "{}")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", "0" * 10_000_000)
    with zipfile.ZipFile(tmp_path / "poor.zip", "w") as archive:
        archive.writestr("result.json", "{}")
    parts = {
        "cut": "not a readable bundle",
        "flipped": "not a readable bundle",
        "text": "not a readable bundle",
        "escape": "holds '../evil.json'",
        "packed": "holds 'result.json' as no bundle does",
        "poor": "spec.json, task.json, predictions.nc, manifest.json missing",
        "absent": "no such file",
    }
    for name, part in parts.items():
        with (
            pytest.raises(gb.DataError) as caught,
            opened_run(str(tmp_path / f"{name}.zip"), Home(tmp_path)),
        ):
            pass
        one_line(caught, f"{name}.zip", part)
    assert not list(tmp_path.rglob("evil.json"))
