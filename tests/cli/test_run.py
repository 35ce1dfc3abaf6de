"""`gsnobench run`: its knobs, its forecast, its table and its JSON document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import call, call_here, the_mistake

from gsnobench.home import open_home
from gsnobench.records import RunResult
from gsnobench.registry import write_steps
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request

pytestmark = pytest.mark.usefixtures("untracked")


def run_words(model: str, file: Path, *more: str) -> list[str]:
    words = ["run", "--model", model, "--dataset", str(file), "--track", "smoke", "--no-floors"]
    return [*words, *more]


def test_help_shows_the_knobs_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    text = call_here(capsys, "run", "--model", "gsno", "--dataset", "darcy", "--help").stdout
    knobs = ("--model.k_s", "--model.k_t", "--train.lr", "4..256")
    for part in (*knobs, "presets: paper, compact, plus"):
        assert part in text
    assert "Data of darcy (also --data.seed, --data.resolution)" in text


def test_help_of_an_unknown_model_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call_here(capsys, "run", "--model", "gsnoo", "--help")
    assert "did you mean 'gsno'?" in the_mistake(ended)


def test_more_modes_than_nodes_is_one_line_and_leaves_no_run(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = run_words("gsno", steady_file, "--model.k_s", "200")
    ended = call_here(capsys, *words, home=tmp_path)
    assert "200" in the_mistake(ended)
    assert not list(tmp_path.glob("runs/*/spec.json"))


def test_json_is_one_document_and_nothing_else(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(*run_words("mean", steady_file, "--json"), home=tmp_path)
    body = json.loads(ended.stdout)
    assert ended.returncode == 0
    assert ended.stderr == ""
    assert body["result"]["status"] == "done"
    shown = call_here(capsys, "show", body["result"]["key"][:10], "--json", home=tmp_path)
    assert json.loads(shown.stdout)["status"] == "done"


def test_steps_counted_here_are_said_with_the_file_that_keeps_them(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = make_plan(Request("deeponet", str(steady_file))).count_name
    kept = open_home(tmp_path).steps
    write_steps("laptop", name, "deeponet@compact", {"fit": 3}, kept)
    words = ["run", "--model", "deeponet", "--dataset", str(steady_file), "--no-floors"]
    shown = call_here(capsys, *words, home=tmp_path).stdout
    assert f"counted on this machine and are kept in {kept}" in shown
    changed = call_here(capsys, *words, "--train.steps", "4", home=tmp_path).stdout
    assert "not ranked as it: steps.fit=4" in changed and str(kept) not in changed


def test_a_dry_run_shows_what_would_happen_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--model", "gsno", "--dataset", "darcy", "--dry-run", "--json"]
    ended = call_here(capsys, *words, home=tmp_path)
    body = json.loads(ended.stdout)
    assert body["state"] == "new"
    assert body["disk_mb"] > 0
    assert body["memory_mb"] > 0
    assert not list(tmp_path.rglob("*.nc"))


def test_output_that_is_not_a_terminal_is_plain(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call_here(capsys, *run_words("mean", steady_file), home=tmp_path)
    assert ended.stdout.isascii()
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "mean@default  " in ended.stdout
    assert "  ms per sample" in ended.stdout


def test_floors_of_the_registry_are_run_beside_the_model(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in run_words("mean", steady_file, "--json") if word != "--no-floors"]
    ended = call_here(capsys, *words, "--home", str(tmp_path))
    names = [floor["spec"]["model"] for floor in json.loads(ended.stdout)["floors"]]
    assert "ridge" in names
    assert "mean" not in names


def test_force_mends_a_damaged_result(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*run_words("mean", steady_file), "--home", str(tmp_path))
    call_here(capsys, *words)
    (path,) = tmp_path.glob("runs/*/result.json")
    scores = RunResult.load(path).scores
    path.write_text("{")
    assert "--force repeats the run" in the_mistake(call_here(capsys, *words))
    assert call_here(capsys, *words, "--force").returncode == 0
    assert RunResult.load(path).scores == scores


def test_a_run_is_set_against_the_best_floor_and_a_shown_one_is_said_to_be(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in run_words("deeponet", steady_file) if word != "--no-floors"]
    first = call_here(capsys, *words, "--home", str(tmp_path)).stdout
    assert re.search(r"deeponet@compact: 0\.\d+, .* the best floor, \w+ \(0\.\d+\)", first)
    assert "steps on track smoke test the machinery; they are no result" in first
    assert "finished before" not in first
    again = call_here(capsys, *words, "--home", str(tmp_path)).stdout
    assert "finished before, shown from its record; --force repeats it" in again
    assert re.search(
        r"\d of \d other rows ha(s|ve) a lower error; places need more than one", again
    )
    assert "gsnobench leaderboard show --track smoke" in again
