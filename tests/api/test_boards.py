"""`gb.leaderboard`: the numbers of the boards as a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_results import made_evidence

import gsnobench as gb
from gsnobench.boards.build import read_tracks


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    return made_evidence(tmp_path / "evidence")


def test_a_board_is_a_table_of_its_rows(evidence: Path, tmp_path: Path) -> None:
    (track,), _ = read_tracks([evidence])
    (board,) = track.boards
    table = gb.leaderboard(track.name, task=board.task, results=evidence, home=tmp_path)
    assert list(table.index) == [row.name for row in board.rows if not row.is_variant]
    best = board.compared[0]
    assert table.loc[best.name, "error"] == best.error and table.loc[best.name, "place"] == 1
    floor = next(row for row in board.compared if row.is_floor)
    assert table.loc[floor.name, "times_the_best_floor"] == 1
    ratio = table.loc[best.name, "times_the_best_floor"]
    assert ratio == pytest.approx(best.error / floor.error)
    assert not table["own"].any()


def test_an_overview_has_a_column_per_task(evidence: Path, tmp_path: Path) -> None:
    (track,), _ = read_tracks([evidence])
    table = gb.leaderboard(track.name, results=[evidence], home=tmp_path)
    assert list(table.index) == list(track.rows)
    slug = track.boards[0].slug
    best = track.boards[0].compared[0]
    assert table[slug].min() == best.error and table[slug].idxmin() == best.name


def test_own_runs_are_marked(tmp_path: Path) -> None:
    made_evidence(tmp_path / "results")
    (track,), _ = read_tracks([tmp_path / "results"])
    task = track.boards[0].task
    folders = [tmp_path / "results"]
    assert gb.leaderboard(track.name, task, results=folders, home=tmp_path)["own"].all()


def test_unknown_names_are_one_line(evidence: Path, tmp_path: Path) -> None:
    with pytest.raises(gb.ParamError, match="track: no results on 'laptopp'"):
        gb.leaderboard("laptopp", results=evidence, home=tmp_path)
    with pytest.raises(gb.ParamError, match="name it with task="):
        gb.leaderboard(variants=True, results=evidence, home=tmp_path)
