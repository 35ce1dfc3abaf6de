"""A home has a folder per run, found by its key; the folder names its files and its lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_samples import one_line

import gsnobench as gb
from gsnobench.home import Home, RunFolder, open_home

ROOT = Path(__file__).resolve().parents[2]


def started(home: Home, key: str) -> RunFolder:
    folder = home.run_folder(key)
    folder.path.mkdir(parents=True)
    folder.spec.write_text("{}")
    return folder


def test_a_run_is_found_by_its_folder_and_by_a_prefix_of_its_key(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, second = started(home, "ab" * 32), started(home, "ac" * 32)
    (home.runs / "adadadadadad").mkdir()  # nothing was started in it
    assert first.name == "abababababab"
    assert home.find_run("ab") == home.find_run(str(first.path)) == first
    assert home.run_folders() == [first, second]
    with pytest.raises(gb.RunError) as caught:
        home.find_run("a")
    one_line(caught, "matches 2 runs (abababababab, acacacacacac); type more of the key")
    with pytest.raises(gb.RunError) as caught:
        home.find_run("ad")
    one_line(caught, "ad: no such run")


def test_the_lock_of_a_run_is_beside_its_folder_and_outlives_it(tmp_path: Path) -> None:
    folder = Home(tmp_path).run_folder("f" * 64)
    assert folder.lock == tmp_path / "runs" / ".ffffffffffff.lock"


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(gb.RunError) as caught:
        open_home(tmp_path / "file")
    one_line(caught, "cannot be used as home", "set --home or GSNOBENCH_HOME")


@pytest.mark.parametrize("room", ["runs", "matrix", "tracking", "training"])
def test_no_room_spells_the_name_of_a_file_in_a_run_folder(room: str) -> None:
    folder = RunFolder(Path())
    files = (folder.spec, folder.task, folder.result, folder.trial, folder.checkpoint, folder.curve)
    files += (folder.weights, folder.summary, folder.traceback, folder.picture, folder.gif)
    files += (folder.bundle, folder.predictions, folder.manifest)
    for path in (ROOT / "gsnobench" / room).rglob("*.py"):
        text = path.read_text()
        spelled = [file.name for file in files if f'"{file.name}"' in text]
        assert not spelled, f"{path.name} spells {spelled}; use gsnobench.home.RunFolder"
