"""What people try to get a better number under a row's name: none of it works."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import gsnobench as gb
from gsnobench.api.boards import installation
from gsnobench.boards.board import Board, Row
from gsnobench.boards.build import read_tracks
from gsnobench.home import open_home
from gsnobench.registry import write_steps
from gsnobench.runs.machine import Machine
from gsnobench.runs.request import Request
from gsnobench.sweeps.search import make_search, open_trials, search_result, work

pytestmark = pytest.mark.usefixtures("untracked")
ROW = "deeponet@compact"


def run(home: Path, seed: int, **knobs: str) -> gb.RunResult:
    dotted = {name.replace("_", ".", 1): value for name, value in knobs.items()}
    options: dict[str, Any] = {"track": "smoke", "home": home, "device": "cpu"}
    return gb.run("deeponet", "darcy", seed=seed, knobs=dotted, **options)


def board_of(home: Path) -> Board:
    tracks, problems = read_tracks([home / "results"], installation(open_home(home)))
    assert problems == ()
    ((board,),) = (track.boards for track in tracks)
    return board


def row_of(home: Path) -> Row:
    return next(row for row in board_of(home).rows if row.name == ROW)


@pytest.fixture(scope="module")
def honest_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three honest seeds."""
    home = tmp_path_factory.mktemp("honest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSNOBENCH_TRACKING_URI", "none")
        for seed in range(3):
            assert run(home, seed).changed == {}
    return home


@pytest.fixture
def home(honest_home: Path, tmp_path: Path) -> Path:
    """A copy of the honest home, to be abused."""
    return Path(shutil.copytree(honest_home, tmp_path / "home"))


def test_more_steps_under_the_same_name_are_a_variant_however_many_seeds_they_have(
    home: Path,
) -> None:
    honest = row_of(home).error
    for seed in range(5):
        assert run(home, seed, train_steps="60").changed == {"steps.fit": 60}
    assert row_of(home).error == honest and row_of(home).seeds == 3
    (variant,) = (row for row in board_of(home).rows if row.is_variant)
    assert variant.name == f"{ROW} [steps=60]" and variant.rank is None and variant.seeds == 5


def test_a_swept_winner_does_not_take_the_presets_name(home: Path) -> None:
    honest = row_of(home).error
    machine = Machine(open_home(home), torch.device("cpu"))
    request = Request("deeponet", "darcy", track="smoke")
    over = ["train.lr=0.001:0.02:0.05"]
    search = make_search(request, over, name="s", trials=3, refit_top=1, refit_seeds=(0, 1, 2, 3))
    trials = open_trials(search, machine.home, "")
    work(search, trials, machine, lambda *_: None)
    search_result(search, trials, machine)
    assert row_of(home).error == honest and row_of(home).seeds in (3, 4)
    variants = [row for row in board_of(home).rows if row.is_variant]
    assert [row.name.split(" [")[0] for row in variants] == [f"{ROW} (tuned, 3 trials)"]


def test_an_edited_result_is_named_and_left_out(home: Path) -> None:
    (path, *_) = sorted((home / "results").rglob("*.json"))
    path.write_text(path.read_text().replace('"changed":{}', '"changed":{} ').replace("0.", "0.0"))
    tracks, problems = read_tracks([home / "results"])
    assert len(problems) == 1 and "its digest does not match" in problems[0]


def test_steps_that_another_home_counted_are_not_ranked(tmp_path: Path) -> None:
    """A stranger's pair on a track with counted steps, three times as dear as it should be."""
    home = open_home(tmp_path)
    name = "darcy [data.resolution=298, data.samples=8]"
    write_steps("laptop", name, "mean@default", {}, home.steps)
    write_steps("laptop", name, "deeponet@official", {"fit": 3}, home.steps)
    options: dict[str, Any] = {"home": tmp_path, "device": "cpu", "samples": 8}
    result = gb.run(
        "deeponet", "darcy", preset="official", knobs={"data.resolution": "298"}, **options
    )
    assert (result.steps_from, result.changed, result.spec.steps) == ("home", {}, {"fit": 3})
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "results").rename(elsewhere)
    ((board,),) = (track.boards for track in read_tracks([elsewhere])[0])
    assert [row.is_variant for row in board.rows] == [True]


def test_an_edited_plugin_keeps_its_old_number_and_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = row_of(home).error
    monkeypatch.setattr("gsnobench.runs.run.source_digest", lambda kind, name: "edited")
    assert run(home, 0).headline == pytest.approx(run(home, 0).headline)
    assert row_of(home).error == honest
    for seed in range(10, 14):  # more seeds than the honest row has
        run(home, seed)
    assert (row_of(home).error, row_of(home).seeds) == (honest, 3)
    (variant,) = (row for row in board_of(home).rows if row.is_variant)
    assert (variant.name, variant.seeds) == (f"{ROW} (other code)", 4)
