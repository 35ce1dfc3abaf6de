"""A study is a set of ordinary runs: resumable, on any executor, never ranked as the preset."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import call, command
from made_studies import made_row, made_run
from stranger_plugins import make_strangers

from gsnobench.boards.build import read_tracks
from gsnobench.records import RunResult
from gsnobench.studies.base import Row
from gsnobench.studies.catalogue import STUDIES

WORDS = "study data --dataset heat --track smoke --seeds 0,1 --train.steps 6 --jobs 1"
CELLS = ("--models", "plain,mean", "--samples", "3,6")


def table(folder: Path) -> list[dict[str, str]]:
    """The table of a study without its times."""
    with (folder / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    return [{name: value for name, value in line.items() if "cpu" not in name} for line in lines]


def study(home: Path, strangers: dict[str, str], *words: str) -> dict[str, Any]:
    ended = call(*WORDS.split(), *CELLS, "--json", *words, home=home, **strangers)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.slow
def test_a_killed_study_goes_on_and_ends_in_the_same_table(tmp_path: Path) -> None:
    strangers = make_strangers(tmp_path / "strangers")
    slow = {**os.environ, **strangers, "STRANGE_SLEEP": "0.15"}
    slow["GSNOBENCH_HOME"] = str(tmp_path / "killed")
    process = subprocess.Popen(
        [sys.executable, "-m", "gsnobench", *WORDS.split(), *CELLS],
        env=slow,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "plain@default" in line and "done" in line:  # the next one has just begun
            break
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = set((tmp_path / "killed" / "results").rglob("*.json"))
    resumed = study(tmp_path / "killed", strangers)
    whole = study(tmp_path / "whole", strangers, "--executor", "local")
    assert 0 < len(before) < len(whole["runs"]) == 6  # a closed form has one seed
    assert table(Path(resumed["folder"])) == table(Path(whole["folder"]))
    assert resumed["sentence"] == whole["sentence"] and resumed["tables"] == whole["tables"]


def test_what_is_done_is_not_repeated_and_out_gets_the_same_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "study data --dataset darcy --models mean,ridge --samples 3,5 --track smoke"
    first = command(capsys, *words.split(), "--home", tmp_path, "--executor", "local")
    assert first.code == 0 and first.err.count(": done, ") == 4
    out = tmp_path / "evidence"
    again = command(capsys, *words.split(), "--home", tmp_path, "--out", out, "--json")
    assert again.code == 0 and ": done, " not in again.err
    folder = Path(again.json["folder"])
    copies = out / "data" / folder.name
    names = {str(path.relative_to(copies)) for path in copies.rglob("*") if path.is_file()}
    assert names == {"table.csv", "result.json", "figures/data.png"}
    for name in names:
        assert (copies / name).read_bytes() == (folder / name).read_bytes()
    document = json.loads((copies / "result.json").read_text())
    assert document["study"] == "data" and document["question"].startswith("Error over the number")
    assert document["command"].startswith("gsnobench study data ")
    assert sorted(document["command"].split()) == sorted(["gsnobench", *words.split()])
    ridge = next(run for run in document["runs"] if run["row"] == "ridge@default")
    (result,) = (tmp_path / "results").rglob(f"{ridge['key']}.json")
    stored = json.loads(result.read_text())
    assert ridge["scores"] == stored["scores"]["test"] and ridge["track"] == "smoke"


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("data --samples 4,8 --models mean,deeponet", 2 + 2 * 2),  # a closed form has one seed
        ("budget --cpu 1,2 --models mean,deeponet", 1 + 2 * 2),  # steps that nobody has counted
        ("data --samples 4,8 --models deeponet --hold cpu", 2 * 2),
    ],
)
def test_a_dry_run_says_what_would_be_trained_and_computes_nothing(
    words: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command_line = f"study {words} --dataset darcy --track smoke --seeds 0,1 --dry-run --json"
    ended = command(capsys, *command_line.split(), "--home", tmp_path)
    assert ended.code == 0, ended.err
    assert ended.json["count"] == len(ended.json["cells"]) == count
    made = [path for path in tmp_path.rglob("*") if path.suffix in (".nc", ".json", ".png")]
    assert not made


def test_a_dry_run_leaves_out_what_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "study data --dataset darcy --models mean,ridge --track smoke --home"
    run = (*words.split(), tmp_path, "--executor", "local", "--samples", "3,5")
    assert command(capsys, *run).code == 0
    asked = command(capsys, *words.split(), tmp_path, "--samples", "3,5,7", "--dry-run", "--json")
    assert asked.json["count"] == 2


def test_cells_on_other_data_are_variants_and_the_tracks_own_are_the_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "study data --dataset darcy --models deeponet --samples 4,16 --track smoke --seeds 0"
    ended = command(capsys, *words.split(), "--home", tmp_path, "--executor", "local")
    assert ended.code == 0
    results = [RunResult.load(path) for path in (tmp_path / "results").rglob("*.json")]
    changed = {result.spec.sizes["train"]: result.changed for result in results}
    assert changed == {4: {"data.samples": 4}, 16: {}}
    ((*boards,),) = (track.boards for track in read_tracks([tmp_path / "results"])[0])
    names = {board.sizes["train"]: [row.name for row in board.rows] for board in boards}
    assert names[16] == ["deeponet@compact"]
    assert names[4] == ["deeponet@compact (study data)"]
    (variant,) = next(board.rows for board in boards if board.sizes["train"] == 4)
    assert variant.is_variant and variant.rank is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("data --dataset darcy", "study data: needs --models; for example: gsnobench study data"),
        ("data --dataset darcy --models gsnoo", "gsnoo: no such model; did you mean 'gsno'"),
        ("data --dataset darcy --models gsno --samples 8", "samples: '8' has fewer than two"),
        ("data --dataset darcy --models gsno --samples 0,8", "samples: '0,8' has fewer than two"),
        ("data --dataset darcy --models gsno --samples 8,ü", "samples: 'ü' is not a whole number"),
        ("data --dataset darcy --models gsno --seeds ,", "seeds: none given"),
        ("data --dataset darcy --models gsno --hold time", "hold: 'time' is not allowed; expected"),
        ("data --dataset darcy --models gsno --track desk", "track: 'desk' is unknown"),
        ("data --dataset my.nc --models gsno", "my.nc: no such file; expected a NetCDF file"),
        ("data --dataset darcy --models gsno --executor abacus", "abacus: no such executor"),
        ("data --dataset darcy --models gsno --train.lr fast", "train.lr: 'fast' is not a number"),
        ("budget --dataset darcy --models gsno --hold cpu", "--hold: unknown option"),
        ("budget --dataset darcy --models gsno --train.steps 3", "budget: --train.steps and"),
        ("data --dataset darcy --models gsno --hold cpu --track paper", "hold: track paper is"),
        ("datta --dataset darcy", "No such command 'datta'."),
    ],
)
def test_a_wrong_option_is_one_line(
    words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = command(capsys, "study", *words.split(), "--home", tmp_path)
    assert ended.mistake.startswith(f"gsnobench: {line}"), ended.mistake
    assert not list(tmp_path.rglob("*.nc"))


def test_a_row_says_what_became_of_runs_without_an_error() -> None:
    done = made_row({"row": "toy"}, [0.1, 0.2])
    assert (done.states, done.errors()) == ("2", [0.1, 0.2])
    lost = made_run({"row": "toy"}, seed=2, state="diverged", errors={})
    row = Row(done.point, (*done.runs, lost))
    assert row.states == "2, diverged" and row.by_seed() == {0: 0.1, 1: 0.2}


def test_every_command_of_the_documented_list_is_one() -> None:
    """Names, options and numbers as the command line reads them."""
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\| \d+ \| `(.+?)` \|", page, re.MULTILINE)
    assert len(commands) > 10 and {line.split()[0] for line in commands} >= set(STUDIES) - {
        "sensitivity"  # is on record
    }
    for line in commands:
        name, *words = line.replace("--ladder", "--ladder true").split()
        words = [word for word in words if word != "--eigenbasis"]
        given = {
            flag.removeprefix("--").replace("-", "_"): value
            for flag, value in zip(words[::2], words[1::2], strict=True)
            if "." not in flag
        }
        options = STUDIES[name].make(given, label="")
        assert all(getattr(options, needed) for needed in options.needed), line
