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
    assert verified.json == {"file": str(file), "state": "whole"}


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
