"""Predictions of another program on the boards of a home."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import command

from gsnobench.boards.evidence import read_evidence
from gsnobench.datasets.store import open_file
from gsnobench.records import RunResult


@pytest.fixture
def guess(steady_file: Path, tmp_path: Path) -> Path:
    """1.1 times the truth: an error of 0.1 for whoever computes it."""
    with open_file(steady_file) as opened:
        np.save(tmp_path / "guess.npy", 1.1 * opened.read("test").frames)
    return tmp_path / "guess.npy"


def test_saved_predictions_are_on_the_board_of_their_task_without_a_rank(
    steady_file: Path, guess: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ("--track", "smoke", "--home", tmp_path / "home")
    words = ("run", "--model", "mean", "--dataset", steady_file, "--no-floors", *home)
    assert command(capsys, *words).code == 0
    ended = command(
        capsys, "score", guess, "--dataset", steady_file, "--save", "thesis", *home, "--json"
    )
    result = RunResult.load(Path(ended.json["saved"]))
    assert result.headline == pytest.approx(0.1, rel=1e-4)
    assert result.spec.row == "thesis@foreign"
    evidence = read_evidence([tmp_path / "home" / "results"])
    assert not evidence.problems and len(evidence.entries) == 2
    shown = ("leaderboard", "show", "--task", result.spec.task, "--variants", *home)
    board = command(capsys, *shown)
    assert board.code == 0 and "thesis@foreign" in board.out
    assert "predictions of another program" in board.out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--save", "gsno"), "is the name of a model here"),
        (("--save", "a/b"), "is no name of a row"),
        (("--save", "thesis", "--split", "valid"), "boards are about the split test"),
    ],
)
def test_names_that_no_row_can_have_are_one_line(
    steady_file: Path,
    guess: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    expected: str,
) -> None:
    home = ("--track", "smoke", "--home", tmp_path / "home")
    words = ("score", guess, "--dataset", steady_file, *options, *home)
    assert expected in command(capsys, *words).mistake
    assert not list((tmp_path / "home").rglob("*.json"))
