"""Sentences and numbers that all views share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_results import made_result, save
from toy_boards import tracks_of

from gsnobench.boards import markdown, wording
from gsnobench.boards.site.task_page import task_page
from gsnobench.boards.statistics import Rank, shared_letters


def test_a_board_says_what_computed_inputs_change(tmp_path: Path) -> None:
    """Of rows that are equal otherwise, variants too; amg has nothing to be compared with."""
    long = {"preset": "compact", "steps": {"fit": 5000}}
    for seed in (0, 1):
        save(tmp_path, made_result("gnot", errors=0.04, seed=seed, **long))
    short = {"steps": {"fit": 100}, "changed": {"steps.fit": 100}}
    runs = [
        ("gnot", "compact", 0.08),
        ("gnot", "compact+features", 0.02),
        ("amg", "compact+features", 0.05),
    ]
    for name, preset, error in runs:
        save(tmp_path, made_result(name, errors=error, preset=preset, **short))
    (track,) = tracks_of(tmp_path)
    (board,) = track.boards
    (line,) = wording.computed_inputs(board)
    assert line[0] == "gnot@compact [steps=100]" and (line[2], line[4]) == ("1", "1")
    assert float(line[5]) == pytest.approx(0.25, abs=0.02)
    assert f" | {' | '.join(line[1:])} |" in markdown.board_section(board)
    assert "Layers or inputs" in task_page(track, board, ())


@pytest.mark.parametrize(
    ("letters", "shown"),
    [
        ("a", "a"),
        ("abc", "abc"),
        ("abcd", "a-d"),
        ("acdeghijkn", "acde g-k n"),
        ("abcdfghi", "a-d f-i"),
        ("yzAB[54]", "y-B [54]"),
        ("YZ[53][54]", "Y-[54]"),
    ],
)
def test_long_runs_of_letters_are_written_by_their_ends(letters: str, shown: str) -> None:
    assert wording.letters(Rank(1, 1, 9, letters)) == shown


def test_letters_beyond_the_alphabet_tie_only_rows_that_share_one() -> None:
    """Sixty rows that all differ: the last ones have numbers, whose digits are no letters."""
    ranks = [Rank(1, 1, 1, text) for text in shared_letters(~np.eye(60, dtype=bool))]
    assert ranks[-1].letters == "[60]" and ranks[-1].groups == ("[60]",)
    assert not ranks[-1].is_tied(ranks[-2]) and ranks[-1].is_tied(ranks[-1])
