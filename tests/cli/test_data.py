"""`gsnobench data`: generate, verify and import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import command

GENERATE = "data generate darcy --track smoke --samples 2 --jobs 1 --data.seed 3 --json"


def test_generated_data_are_whole_and_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = GENERATE.split()
    first = command(capsys, *words, "--home", tmp_path)
    assert first.code == 0
    assert first.json["samples"]["train"] == 2
    file = Path(first.json["file"])
    written = file.stat().st_mtime_ns
    assert command(capsys, *words, "--home", tmp_path).json == first.json
    assert file.stat().st_mtime_ns == written
    verified = command(capsys, "data", "verify", file, "--json")
    assert verified.json["file"] == str(file) and verified.json["passed"]


def test_a_missing_description_of_the_task_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "a.nc", "--from", tmp_path / "a.npz", "--task", tmp_path / "task.json"]
    assert "expected the task as JSON" in command(capsys, "data", "import", *files).mistake


def test_a_damaged_file_is_one_line(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.nc"
    cut.write_bytes(steady_file.read_bytes()[:2000])
    assert "cut.nc" in command(capsys, "data", "verify", cut).mistake
    assert json.loads(command(capsys, "data", "verify", steady_file, "--json").out)


def test_a_task_and_a_file_are_drawn(
    unsteady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sample alone is the sample of the whole set, so both pictures are the same."""
    home, made = ("--home", tmp_path), GENERATE.split()
    file = command(capsys, *made, *home).json["file"]
    for name, source in {"file": file, "task": "darcy", "moving": str(unsteady_file)}.items():
        out = tmp_path / f"{name}.{'gif' if name == 'moving' else 'png'}"
        options = ("--track", "smoke", "--data.seed", "3") if name == "task" else ()
        ended = command(capsys, "data", "picture", source, "--out", out, *options, *home, "--json")
        assert ended.json == {"picture": str(out), "bytes": out.stat().st_size}
    assert (tmp_path / "file.png").read_bytes() == (tmp_path / "task.png").read_bytes()
    finer = command(
        capsys, "data", "picture", "darcy:600,darcy", "--out", tmp_path / "two.png", *home
    )
    assert finer.code == 0 and (tmp_path / "two.png").exists()


def test_wrong_requests_for_pictures_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {
        ("darcy", "a.jpg"): "expected .png or .gif",
        ("darcy,swe", "a.gif"): "name one of them",
        ("dacy", "a.png"): "did you mean 'darcy'",
        ("darcy:many", "a.png"): "'many' is not a whole number",
        ("burgers3d:99", "a.png"): "known: 533, 1867, 4000",
        ("darcy", "a.gif"): "has one frame; nothing moves",
        (",", "a.png"): "names no task",
        (str(tmp_path / "none.nc"), "a.png"): "none.nc",
    }
    for (tasks, out), text in wrong.items():
        words = ("data", "picture", tasks, "--out", tmp_path / out, "--home", tmp_path / "home")
        assert text in command(capsys, *words, "--track", "smoke").mistake
    both = command(capsys, "data", "picture", "darcy,swe", "--tile", "--out", tmp_path / "a.png")
    assert "tile: is the picture of one task" in both.mistake
    assert not [path for path in tmp_path.iterdir() if path.name != "home"]
