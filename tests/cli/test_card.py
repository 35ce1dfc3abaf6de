"""A model's card says what its declaration says, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsnobench.cli.card import card
from gsnobench.errors import ParamError
from gsnobench.records import RunResult

RESULTS = Path(__file__).resolve().parents[2] / "leaderboards" / "results"


def test_card_counts_parameters_without_data() -> None:
    page = card("gsno")
    assert "| darcy | 17,377 | " in page  # the paper's size, as its fact sheet counts
    assert "## On record" not in page


def test_card_shows_the_runs_on_record() -> None:
    page = card("gsno", RESULTS)
    path = sorted(RESULTS.glob("*/*/gsno@plus/*.json"))[0]
    assert f"| {RunResult.load(path).headline:.4f} |" in page
    assert json.loads(path.read_text())["spec"]["task"] in page


def test_card_escapes_what_would_break_a_table() -> None:
    rows = [line for line in card("gsno").splitlines() if line.startswith("| `--model.basis`")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 5


def test_a_dataset_has_no_card() -> None:
    with pytest.raises(ParamError, match="darcy: is a dataset"):
        card("darcy")
