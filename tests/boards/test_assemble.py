"""Boards from results: what is grouped, what is never mixed, who is ranked above whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_results import made_result, made_spec, save, spread
from toy_boards import board_of, tracks_of

from gsnobench.boards import markdown
from gsnobench.records import RunResult


def test_rows_are_ranked_by_their_mean_over_seeds_beside_the_floors(evidence: Path) -> None:
    board = board_of(evidence)
    names = ["gsno@compact", "amg@compact", "coral@compact", "mean@default"]
    assert [row.name for row in board.rows] == names
    assert [row.rank.low for row in board.rows if row.rank] == [1, 2, 3, 4]
    assert [row.is_floor for row in board.rows] == [False, False, False, True]
    assert board.rows[-1].is_exact and not board.rows[-1].has_few_seeds
    assert board.promotion is not None
    assert (board.promotion.first, board.promotion.second) == ("gsno@compact", "amg@compact")
    assert board.promotion.percent == pytest.approx(50, abs=3) and board.promotion.is_separated


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"resolution": 1184},
        {"data_seed": 1},
        {"data": {"psi": "threshold"}},
        {"source": "f" * 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_results_on_another_task_or_data_appear_on_another_board(
    evidence: Path, change: dict[str, object]
) -> None:
    save(evidence, made_result("gsno", errors=0.001, seed=0, **change))
    (track,) = tracks_of(evidence)
    assert len(track.boards) == 2 and len({board.slug for board in track.boards}) == 2
    for board in track.boards:
        assert len({entry.error < 0.002 for row in board.rows for entry in row.entries}) == 1


def test_tracks_and_data_origins_are_never_mixed(evidence: Path) -> None:
    save(evidence, made_result("gsno", errors=0.001, track="workstation"))
    official = made_result("gsno", errors=0.001, seed=7)
    save(evidence, replace(official, data={**official.data, "origin": "official"}))
    counts = {track.name: len(track.boards) for track in tracks_of(evidence)}
    assert counts == {"laptop": 2, "workstation": 1}


def test_another_setting_of_the_knobs_is_a_variant_of_its_own(evidence: Path) -> None:
    for width in (16, 64):
        knobs = {"model_params": {"width": width}, "changed": {"model.width": width}}
        save(evidence, made_result("gsno", errors=0.001, **knobs))
    board = board_of(evidence)
    variants = [row for row in board.rows if row.is_variant]
    names = ["gsno@compact [width=16]", "gsno@compact [width=64]"]
    assert [row.name for row in variants] == names == [row.name for row in board.variants]
    assert all(row.rank is None for row in variants)
    assert board.rows[0].name == "gsno@compact" and board.rows[0].seeds == 3


def test_results_of_an_older_revision_are_left_out_and_counted(evidence: Path) -> None:
    save(evidence, made_result("gsno", errors=0.3, revision=2))
    board = board_of(evidence)
    assert board.outdated == 3
    assert next(row for row in board.rows if row.model == "gsno").error == pytest.approx(0.3)


def test_rows_without_an_error_stay_with_their_reason(evidence: Path) -> None:
    save(evidence, RunResult(made_spec("gnot"), "declined", "it cannot"))
    save(evidence, RunResult(made_spec("mgkn"), "failed", "memory"))
    save(evidence, RunResult(made_spec("gsno", seed=3), "diverged", "the loss was inf"))
    board = board_of(evidence)
    assert {row.name: (row.state, row.reason) for row in board.rows if not row.seeds} == {
        "gnot@compact": ("declined", "it cannot"),
        "mgkn@compact": ("failed", "memory"),
    }
    assert board.rows[0].reason == "1 of 4 seeds diverged: the loss was inf"
    assert "memory" in markdown.board_section(board)


def test_a_single_seed_is_marked_and_says_what_it_needs(evidence: Path) -> None:
    save(evidence, made_result("gnot", errors=spread(0.03, 5)))
    row = next(row for row in board_of(evidence).rows if row.model == "gnot")
    assert row.has_few_seeds and row.rank is None and row.needs == "2 more seeds"


def test_wins_count_separated_tasks_and_mean_ranks_span_them(evidence: Path) -> None:
    for index, (model, mean) in enumerate((("gsno", 0.2), ("amg", 0.1), ("coral", 0.4))):
        for seed in range(3):
            errors = spread(mean, 50 + 10 * index + seed)
            save(evidence, made_result(model, errors=errors, seed=seed, task="pipe"))
    (track,) = tracks_of(evidence)
    assert track.wins["gsno@compact", "coral@compact"] == (2, 2)
    assert track.wins["gsno@compact", "amg@compact"] == (1, 2)
    comparison = track.comparison
    assert comparison is not None and comparison.tasks == 2
    mean_ranks = dict(zip(comparison.rows, comparison.mean_ranks, strict=True))
    assert mean_ranks["coral@compact"] == 3
