"""Rows across tasks: coverage, mean ranks and ratios, over tasks that can be compared."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fake_results import made_result, save
from scipy import stats
from toy_boards import tracks_of

from gsnobench.api.boards import board_named
from gsnobench.boards.board import BoardTrack, Standing
from gsnobench.errors import ParamError

TASKS = ("darcy", "swe", "car", "pipe")
ERRORS = {  # row -> error on darcy, swe, car
    "gsno": (0.01, 0.05, 0.20),
    "amg": (0.02, 0.04, 0.40),
    "coral": (0.04, 0.08, None),
    "mean": (0.50, 0.06, 0.80),
}


def track_of(root: Path, **declared: object) -> BoardTrack:
    for model, errors in ERRORS.items():
        form = {"preset": "default", "steps": {"fit": 0}} if model == "mean" else {}
        for task, error in zip(("darcy", "swe@5-46", "car"), errors, strict=True):
            if error is not None:
                save(root, made_result(model, errors=error, task=task, **form))
    (track,) = tracks_of(root, **declared)
    return track


def standing(track: BoardTrack, row: str) -> Standing:
    return next(standing for standing in track.standings if standing.row == row)


def test_complete_rows_come_first_by_mean_rank_with_coverage_and_ratio(tmp_path: Path) -> None:
    track = track_of(tmp_path, board_tasks=TASKS)
    assert track.tasks == 4 and track.compared == ("darcy", "swe@5-46", "car")
    assert track.rows == ("gsno@compact", "amg@compact", "mean@default", "coral@compact")
    complete = ["gsno", "amg", "mean"]
    table = [[ERRORS[model][task] for model in complete] for task in range(3)]
    mean_ranks = stats.rankdata(table, axis=1).mean(axis=0)
    best = [min(e[task] for e in ERRORS.values() if e[task]) for task in range(3)]
    for name, mean_rank in zip(track.rows, mean_ranks, strict=False):
        row, errors = standing(track, name), ERRORS[name.split("@")[0]]
        assert row.is_complete and row.tasks == 3 and row.mean_rank == pytest.approx(mean_rank)
        assert row.ratio == pytest.approx(
            stats.gmean([error / low for error, low in zip(errors, best, strict=True)])
        )
    coral = standing(track, "coral@compact")
    assert not coral.is_complete and coral.tasks == 2 and math.isnan(coral.mean_rank)
    assert coral.ratio == pytest.approx(stats.gmean([4, 2]))


def test_tasks_beyond_the_benchmark_have_boards_and_count_nowhere(tmp_path: Path) -> None:
    """Another window, another dataset: shown, but not part of ranks, ratios and wins."""
    before = track_of(tmp_path, board_tasks=TASKS)
    save(tmp_path, made_result("amg", errors=0.001, task="swe@1-50"))
    save(tmp_path, made_result("amg", errors=0.001, task="own"))
    (after,) = tracks_of(tmp_path, board_tasks=TASKS)
    assert after.standings == before.standings and after.wins == before.wins
    assert [board.slug for board in after.main] == ["darcy", "swe@5-46", "car"]
    assert [board.slug for board in after.extra] == ["swe@1-50", "own"]
    assert [*after.main, *after.extra] == list(after.boards), "tasks of the benchmark first"
    assert track_of(tmp_path).tasks == 5, "without declared tasks all of them count"


def test_the_short_name_of_a_task_is_the_window_that_counts(tmp_path: Path) -> None:
    for window, models in (("1-50", ("gsno",)), ("5-46", ("gsno", "amg"))):
        for model in models:
            save(tmp_path, made_result(model, errors=0.1, task=f"swe@{window}"))
    (track,) = tracks_of(tmp_path, board_tasks=TASKS)
    assert board_named("swe", track).slug == "swe@5-46"
    assert board_named("swe@1-50", track).slug == "swe@1-50"
    (undeclared,) = tracks_of(tmp_path, board_tasks=())
    with pytest.raises(ParamError, match="known: swe@1-50, swe@5-46"):
        board_named("swe", undeclared)


def test_where_no_task_of_the_benchmark_was_run_all_tasks_count(tmp_path: Path) -> None:
    for model, error in (("gsno", 0.1), ("amg", 0.2)):
        save(tmp_path, made_result(model, errors=error, task="own"))
    (track,) = tracks_of(tmp_path, board_tasks=TASKS)
    assert track.tasks == 1 and track.compared == ("own",)
    assert [row.ratio for row in track.standings] == [1, pytest.approx(2)]


def test_a_task_that_one_model_has_tried_makes_no_row_incomplete(tmp_path: Path) -> None:
    before = track_of(tmp_path, board_tasks=TASKS)
    save(tmp_path, made_result("gsno", errors=0.1, task="pipe"))
    (after,) = tracks_of(tmp_path, board_tasks=TASKS)
    assert after.compared == before.compared and after.rows == before.rows
    assert standing(after, "gsno@compact").tasks == 4
    # where there is nothing else, one model is enough
    save(tmp_path / "alone", made_result("gsno", errors=0.1, task="pipe"))
    (alone,) = tracks_of(tmp_path / "alone", board_tasks=TASKS)
    assert alone.compared == ("pipe",) and standing(alone, "gsno@compact").ratio == 1


def test_floors_alone_are_compared_on_no_task(tmp_path: Path) -> None:
    save(tmp_path, made_result("mean", task="car", preset="default", steps={"fit": 0}))
    (track,) = tracks_of(tmp_path, board_tasks=TASKS)
    (row,) = track.standings
    assert track.compared == () and track.comparison is None and track.converged is None
    assert row.tasks == 1 and not row.is_complete and math.isnan(row.ratio)


def test_mean_ranks_are_also_given_without_rows_that_are_not_converged(tmp_path: Path) -> None:
    errors = {"gsno": 0.01, "amg": 0.02, "coral": 0.03, "gnot": 0.04, "mgkn": 0.05}
    for task in ("darcy", "car"):
        for model, error in errors.items():
            epochs = 20 if (model, task) == ("amg", "car") else 100
            save(tmp_path, made_result(model, errors=error, task=task, epochs=epochs))
    (track,) = tracks_of(tmp_path)
    with_all, without = track.comparison, track.converged
    assert with_all is not None and without is not None
    ranks = dict(zip(with_all.rows, with_all.mean_ranks, strict=True))
    assert ranks["amg@compact"] == 2 and ranks["mgkn@compact"] == 5
    ranks = dict(zip(without.rows, without.mean_ranks, strict=True))
    assert ranks == {"gsno@compact": 1, "coral@compact": 2, "gnot@compact": 3, "mgkn@compact": 4}
