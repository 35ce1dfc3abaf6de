"""The paragraph of a board says what its numbers say; every number is computed here again."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from fake_results import made_result, save
from scipy import stats
from toy_boards import board_of, tracks_of

from gsnobench.boards.reading import _p_value, across_tasks, reading, verdict
from gsnobench.boards.wording import is_bold


def _save(root: Path, name: str, error: float, seeds: int = 3, **more: object) -> None:
    for seed in range(seeds):
        save(root, made_result(name, errors=error, seed=seed, **more))


def test_a_reading_counts_the_models_that_a_floor_beats(tmp_path: Path) -> None:
    _save(tmp_path, "gnot", 0.01)
    _save(tmp_path, "amg", 0.4)
    _save(tmp_path, "mean", 0.1, seeds=1, preset="default", steps={})
    board = board_of(tmp_path, blind_floor="mean@default")
    floor = board.best_floor
    assert floor is not None and floor.name == "mean@default"
    text = reading(board)
    assert "nothing but the last given frame: amg@compact with 0.400." in text
    assert "1 of 2 trained rows does not reach the best floor, mean@default" in text
    assert text.index("gnot@compact has") == 0 and ": amg@compact." in text


def test_a_reading_names_what_is_not_separated_from_the_best(tmp_path: Path) -> None:
    for seed, (first, second) in enumerate([(0.010, 0.011), (0.013, 0.012), (0.011, 0.0115)]):
        save(tmp_path, made_result("gnot", errors=first, seed=seed))
        save(tmp_path, made_result("amg", errors=second, seed=seed))
    _save(tmp_path, "coral", 0.5)
    board = board_of(tmp_path)
    best, other, _ = board.compared
    words = f"Not significantly worse than {best.name}, the best ranked row: {other.name} (p = "
    assert words in reading(board)
    far = tmp_path / "far"
    _save(far, "gnot", 0.01)
    _save(far, "coral", 0.5)
    assert "gnot@compact is significantly better than every other ranked row." in reading(
        board_of(far)
    )


@pytest.mark.parametrize(
    ("value", "text"), [(0.134, "0.13"), (0.0504, "0.0504"), (0.04996, "0.04996"), (0.05, "0.05")]
)
def test_a_p_value_is_told_from_the_level(value: float, text: str) -> None:
    assert _p_value(value) == text


def test_a_board_of_floors_has_nothing_to_read(tmp_path: Path) -> None:
    _save(tmp_path, "mean", 0.1, seeds=1, preset="default", steps={})
    assert reading(board_of(tmp_path)) == ""


def test_ratios_across_tasks_have_a_t_interval_over_tasks(tmp_path: Path) -> None:
    errors = {"darcy": 0.02, "nse": 0.05, "car": 0.03}
    for task, error in errors.items():
        _save(tmp_path, "gnot", 0.01, task=task)
        _save(tmp_path, "amg", error, task=task)
    (track,) = tracks_of(tmp_path)
    by_row = {
        name: [row.error for board in track.boards for row in board.compared if row.name == name]
        for name in ("gnot@compact", "amg@compact")
    }
    logs = np.log(np.array(by_row["amg@compact"]) / np.array(by_row["gnot@compact"]))
    standing = next(row for row in track.standings if row.row == "amg@compact")
    low, high = stats.t.interval(0.95, 2, logs.mean(), logs.std(ddof=1) / math.sqrt(3))
    assert math.exp(low) < 1, "the data must reach below 1"
    assert standing.ratio_interval == pytest.approx((1.0, math.exp(high)))
    sentences = list(across_tasks(track))
    assert (
        "over 3 tasks, " in sentences[0]
        and ": gnot@compact 1.00 and 1.00 (1.00 to " in sentences[0]
    )
    assert "gnot@compact is significantly better than amg@compact on 3 of 3 tasks" in sentences[1]


def test_a_sentence_about_many_rows_names_the_best_of_them(tmp_path: Path) -> None:
    for number in range(8):
        for task in ("darcy", "car"):
            _save(tmp_path, f"model{number}", 0.01 * 1.5**number, task=task)
    (track,) = tracks_of(tmp_path)
    first = next(iter(across_tasks(track)))
    assert first.count("@compact") == 5 and first.endswith("; the other 3 are in the table.")


def test_one_seed_proves_nothing_and_floors_alone_are_no_contest(tmp_path: Path) -> None:
    _save(tmp_path, "gnot", 0.01, seeds=1)
    _save(tmp_path, "amg", 0.02, seeds=1)
    for floor, error in (("ridge", 0.1), ("mean", 0.5)):
        _save(tmp_path, floor, error, seeds=1, preset="default", steps={})
    (track,) = tracks_of(tmp_path, floors=("ridge", "mean"))
    (board,) = track.boards
    assert "better than every other ranked row" not in reading(board)
    assert not any(is_bold(row, board) for row in board.compared)
    assert not any(row.rank for row in board.compared), "floors alone have no places among models"
    assert "so no difference has been tested yet" in " ".join(verdict(track))
    _save(tmp_path, "gnot", 0.01, seeds=3)
    (track,) = tracks_of(tmp_path, floors=("ridge", "mean"))
    (board,) = track.boards
    assert [row.name for row in board.compared if is_bold(row, board)] == ["gnot@compact"]
    assert "so no difference has been tested yet" not in " ".join(verdict(track))
    _save(tmp_path, "coral", 0.005, seeds=2)
    board = board_of(tmp_path, floors=("ridge", "mean"))
    assert not any(is_bold(row, board) for row in board.compared), "two seeds say little"


def test_a_verdict_says_where_a_single_seed_leaves_it_open(tmp_path: Path) -> None:
    for task, seeds in (("darcy", 3), ("swe@5-46", 1)):
        _save(tmp_path, "gnot", 0.01, seeds=seeds, task=task)
        _save(tmp_path, "amg", 0.5, task=task)
    (track,) = tracks_of(tmp_path)
    text = " ".join(verdict(track, is_long=True))
    assert "On 1 of 2 tasks it has one seed, so nothing has been tested there yet." in text
    assert "better than every other model on 1 of 2 tasks (darcy)" in text


def test_one_task_is_not_read_across(tmp_path: Path) -> None:
    _save(tmp_path, "gnot", 0.01)
    _save(tmp_path, "amg", 0.5)
    (track,) = tracks_of(tmp_path)
    assert list(across_tasks(track)) == []
