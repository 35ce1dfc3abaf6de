"""Results of schema 1 keep their numbers, their pictures and their weights under today's key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import gsnobench as gb
from gsnobench.home import Home, open_home
from gsnobench.plugins import load
from gsnobench.records import RunResult, evidence_path
from gsnobench.registry import read_registry
from gsnobench.runs import plan
from gsnobench.runs.machine import Machine
from gsnobench.runs.migrate import migrate_folder, migrate_home
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.run import run_plan

pytestmark = pytest.mark.usefixtures("untracked")
SCALING = {
    "scale_window": "inputs",
    "scale_outputs": "outputs",
    "scale_points": "points",
    "impose_boundary": "impose_boundary",
}
LATER = ("scale_static", "predict", "decay", "decays", "beta1_cycle")  # knobs that came with 2


def as_schema_1(body: dict[str, Any]) -> dict[str, Any]:
    """A result of today as the version before wrote it; keys then were of all knobs."""
    old = {**body, "schema": 1, "key": "0" * 64, "spec": old_spec(body["spec"])}
    old["samples"] = body["samples"].get("test", {})
    costs = dict(body["costs"])
    costs["prepare_s"] = costs.pop("prepare_warm_s")
    del costs["prepare_cold_s"], costs["reference_step_s"]
    old["costs"] = costs
    for name in ("digest", "changed", "steps_from", "code"):
        del old[name]
    return old


def old_spec(spec: dict[str, Any]) -> dict[str, Any]:
    old = {name: value for name, value in spec.items() if name not in ("defaults", "origin")}
    train = {name: value for name, value in spec["train_params"].items() if name not in LATER}
    old["scaling"] = {old_name: train.pop(name) for name, old_name in SCALING.items()}
    return {**old, "train_params": train}


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Home, RunResult]:
    machine = Machine(open_home(tmp_path / "home"), torch.device("cpu"))
    knobs = {"train.steps": "3"}
    request = Request("gsno", "darcy", track="smoke", preset="paper", knobs=knobs)
    return machine.home, run_plan(make_plan(request), machine)


def test_a_result_file_and_its_picture_get_the_key_of_today(
    finished: tuple[Home, RunResult], tmp_path: Path
) -> None:
    _, result = finished
    folder = tmp_path / "evidence" / "smoke" / "darcy" / "gsno@paper"
    folder.mkdir(parents=True)
    (folder / "000000000000.json").write_text(json.dumps(as_schema_1(json.loads(result.to_json()))))
    (folder / "000000000000.png").write_bytes(b"picture")
    with pytest.raises(gb.DataError, match="`gsnobench migrate FOLDER`"):
        RunResult.load(folder / "000000000000.json")
    (moved,) = migrate_folder(tmp_path / "evidence", read_registry())
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [f"{result.spec.short}.json", f"{result.spec.short}.png"]
    )
    migrated = RunResult.load(moved.new)
    assert migrated.spec == result.spec and migrated.scores == result.scores
    assert migrated.changed == result.changed == {"steps.fit": 3}
    assert migrated.samples == {"test": result.samples["test"]}
    assert list(migrate_folder(tmp_path / "evidence", read_registry())) == []  # nothing is left


def test_a_home_keeps_its_weights(finished: tuple[Home, RunResult]) -> None:
    home, result = finished
    folder = home.run_folder(result.spec.key)
    weights = folder.weights.read_bytes()
    body = json.loads(folder.result.read_text())
    old = folder.path.with_name("0" * 12)
    folder.path.rename(old)
    (old / "result.json").write_text(json.dumps(as_schema_1(body)))
    (old / "spec.json").write_text(json.dumps(old_spec(body["spec"])))
    moves = list(migrate_home(home, read_registry()))
    assert [move.problem for move in moves] == [""]
    assert folder.weights.read_bytes() == weights and not old.exists()
    assert gb.load(str(folder.path), home=home.root).plan.spec.key == result.spec.key


def test_results_of_a_preset_that_has_changed_become_variants(
    finished: tuple[Home, RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, result = finished
    path = evidence_path(tmp_path / "evidence", result.spec)
    result.save(path)
    assert list(migrate_folder(tmp_path / "evidence", read_registry())) == []
    model = load("model", "gsno")
    width = result.spec.model_params["width"]
    settings = {**model.settings, "darcy": {"paper": {"model.width": width + 1}}}
    monkeypatch.setattr(plan, "load", lambda kind, name: replace(model, settings=settings))
    (moved,) = migrate_folder(tmp_path / "evidence", read_registry())
    restated = RunResult.load(moved.new)
    assert restated == replace(result, changed={"model.width": width, "steps.fit": 3})
    assert [moved.problem for moved in migrate_home(home, read_registry())] == [""] * 2
    assert RunResult.load(home.run_folder(result.spec.key).result) == restated
    monkeypatch.undo()  # the preset has its former width again
    assert len(list(migrate_folder(tmp_path / "evidence", read_registry()))) == 1
    assert RunResult.load(path) == result


def test_what_cannot_be_read_stays_and_is_named(tmp_path: Path) -> None:
    body = {"schema": 1, "spec": {"scaling": {}}}
    (tmp_path / "a.json").write_text(json.dumps(body))
    (tmp_path / "b.json").write_text("{")
    (moved,) = migrate_folder(tmp_path, read_registry())
    assert moved.problem and (tmp_path / "a.json").exists() and (tmp_path / "b.json").exists()
