"""registry.toml: tracks, settings, committed steps, and a writer that changes one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import gsnobench as gb
from gsnobench.datasets.tasks import resolve
from gsnobench.plugins import dataset_named, load
from gsnobench.registry import read_registry, registry_path, write_steps


def test_the_committed_registry_names_known_models_tasks_and_floors() -> None:
    registry = read_registry()
    assert set(registry.tracks) == {"smoke", "laptop", "workstation", "paper"}
    for floor in registry.floors:
        assert load("model", floor).is_floor
    for track, tasks in registry.steps.items():
        registry.track(track)
        for rows in tasks.values():
            for row in rows:
                model, _, preset = row.partition("@")
                assert preset in load("model", model).presets


def test_board_tasks_exist_on_every_track() -> None:
    registry = read_registry()
    assert len(set(registry.board_tasks)) == len(registry.board_tasks) == 10
    for task in registry.board_tasks:
        for track in registry.tracks:
            assert resolve(dataset_named(task), task, track=track).base == task


def test_the_reference_row_and_the_checked_model_exist() -> None:
    registry = read_registry()
    model, _, preset = registry.reference_row.partition("@")
    assert preset in load("model", model).presets
    assert not load("model", registry.checked_model).is_floor
    blind, _, preset = registry.blind_floor.partition("@")
    assert blind in registry.floors and preset in load("model", blind).presets


def test_an_unknown_track_is_one_line() -> None:
    with pytest.raises(gb.ParamError, match="did you mean 'laptop'"):
        read_registry().track("labtop")


def test_written_steps_are_read_back_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "registry.toml"
    before = registry_path().read_text()
    path.write_text(before)
    write_steps("smoke", "x@5-46", "a@plus", {"fit": 7}, path)
    write_steps("smoke", "x@5-46", "b@plus", {"one": 1, "two": 2}, path)
    write_steps("laptop", "x@5-46", "a@plus", {"fit": 9}, path)
    write_steps("smoke", "x@5-46", "a@plus", {"fit": 8}, path)
    registry = read_registry(path)
    assert registry.calibrated("smoke", "x@5-46", "a@plus") == {"fit": 8}
    assert registry.calibrated("smoke", "x@5-46", "b@plus") == {"one": 1, "two": 2}
    assert registry.calibrated("laptop", "x@5-46", "a@plus") == {"fit": 9}
    assert registry.calibrated("laptop", "x@5-46", "c@plus") is None
    assert path.read_text().startswith(before.rstrip())


def test_a_broken_registry_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "registry.toml").write_text("[track.smoke\n")
    with pytest.raises(gb.DataError) as caught:
        read_registry(tmp_path / "registry.toml")
    assert "\n" not in str(caught.value)
