"""A model's card says what its declaration says, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsnobench.cli.card import card, write_into
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


def test_a_metric_has_no_card() -> None:
    with pytest.raises(ParamError, match="mass: is a metric"):
        card("mass")


def test_the_card_of_a_dataset_replaces_what_is_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- card of darcy -->\nold\n<!-- end of the card -->\nafter\n")
    write_into(page, "darcy", card("darcy"))
    text = page.read_text()
    assert text.startswith("before\n<!-- card of darcy") and text.endswith("card -->\nafter\n")
    assert "| given | `permeability` | m s⁻¹ |" in text and "\nold\n" not in text
    write_into(page, "darcy", card("darcy"))
    assert page.read_text() == text


def test_a_page_without_marks_stays_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("by hand\n")
    with pytest.raises(ParamError, match="the page has no marks"):
        write_into(page, "darcy", card("darcy"))
    with pytest.raises(ParamError, match="cannot be read"):
        write_into(tmp_path / "none.md", "darcy", card("darcy"))
    assert page.read_text() == "by hand\n"


def test_card_shows_what_a_search_started_from_and_what_it_came_to(tmp_path: Path) -> None:
    tried = [
        {"point": {"train.lr": 0.005, "train.batch": 8}, "valid": 0.2},
        {"point": {"train.lr": 0.0123456, "train.batch": 4}, "valid": 0.1},
        {"point": {"train.lr": 0.05, "train.batch": 2}, "valid": None},
    ]
    search = {"task": "nse@5-46", "row": "gsno@compact", "tried": tried, "best": tried[1]}
    (tmp_path / "nse--gsno@compact.json").write_text(json.dumps(search))
    (tmp_path / "nse--gnot@compact.json").write_text(json.dumps({**search, "row": "gnot@compact"}))
    lines = [line for line in card("gsno", tuning=tmp_path).splitlines() if "nse@5-46" in line]
    assert lines == [
        "| nse@5-46 | compact | 3 | `train.lr` 0.005, `train.batch` 8 | 0.2000 "
        "| `train.lr` 0.012, `train.batch` 4 | 0.1000 | - |"
    ]
    (tmp_path / "families").mkdir()
    check = {"row": "gsno@compact", "tasks": {"nse": {}, "swe": {}}, "times": 1.0625}
    (tmp_path / "families" / "unsteady--gsno@compact.json").write_text(json.dumps(check))
    (line,) = [line for line in card("gsno", tuning=tmp_path).splitlines() if "nse@5-46" in line]
    assert line.endswith("| 0.1000 | 1.062: not taken |")
    assert "## Tuning" not in card("gsno")
