"""The searches on record: all rows have the same allowance, and presets hold what is better."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import gmean

from gsnobench.registry import read_registry
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request

ROOT = Path(__file__).parent.parent.parent
TUNING = runpy.run_path(str(ROOT / "benchmarks" / "tuning.py"))
RECORDS: dict[tuple[str, str], dict[str, Any]] = TUNING["records"]()
TASKS: dict[str, str] = TUNING["FAMILIES"]
BOARD_SEEDS = range(10)
RESULTS = ROOT / "leaderboards" / "results"
CHECKS: dict[tuple[str, str], dict[str, Any]] = TUNING["checks"]()


def settings_of_preset(row: str, task: str) -> dict[str, Any]:
    """Every knob of the unmodified preset on a task, dotted."""
    model, _, preset = row.partition("@")
    spec = make_plan(Request(model, task, preset=preset), read_registry()).spec
    knobs = {f"model.{name}": value for name, value in spec.model_params.items()}
    return knobs | {f"train.{name}": value for name, value in spec.train_params.items()}


@pytest.mark.parametrize(("row", "family"), RECORDS)
def test_a_preset_holds_what_is_better_over_its_family(row: str, family: str) -> None:
    should, held = TUNING["held"](row, family), settings_of_preset(row, TASKS[family])
    assert {name: held[name] for name in should} == should


def test_all_that_a_search_changed_was_checked_on_the_family() -> None:
    """Which of two settings a preset holds is not left to one task."""
    settings_of = TUNING["settings_of"]
    changed = {
        pair
        for pair, search in RECORDS.items()
        if settings_of(search["tried"][0]["point"]) != settings_of(search["best"]["point"])
    }
    assert set(CHECKS) == changed


@pytest.mark.parametrize(("row", "family"), RECORDS)
def test_a_search_is_what_all_were_allowed(row: str, family: str) -> None:
    """Twelve answers of the same budget, chosen on validation, with a seed of their own."""
    record = RECORDS[row, family]
    assert record["trials"]["answered"] == TUNING["TRIALS"] == len(record["tried"])
    assert record["seed"] not in BOARD_SEEDS
    scored = [trial for trial in record["tried"] if trial["valid"] is not None]
    best = min(scored, key=lambda trial: trial["valid"])
    assert record["best"] == {"point": best["point"], "valid": best["valid"]}
    assert set(record["over"]) == set(TUNING["axes_of"](row))


def test_every_row_was_searched_on_every_family() -> None:
    assert set(RECORDS) == {(row, family) for row in TUNING["ROWS"] for family in TASKS}


def test_the_page_of_the_searches_is_up_to_date() -> None:
    """`python benchmarks/tuning.py --page` writes it again."""
    assert TUNING["PAGE"].read_text() == TUNING["page"]()


@pytest.mark.parametrize(("row", "family"), CHECKS)
def test_a_check_of_a_family_quotes_its_search_and_the_results_on_record(
    row: str, family: str
) -> None:
    check, search = CHECKS[row, family], RECORDS[row, family]
    found = TUNING["settings_of"](search["best"]["point"])
    assert check["before"] == TUNING["settings_of"](search["tried"][0]["point"])
    differs = {name: value for name, value in found.items() if check["before"][name] != value}
    for task, pair in check["tasks"].items():
        (result,) = RESULTS.glob(f"laptop/{task}*/{row}/{pair['key']}.json")
        stated = json.loads(result.read_text())
        assert stated["spec"]["seed"] == 0
        assert stated["changed"] == ({} if check["times"] < 1 else differs)
        assert stated["scores"]["valid"]["headline"]["rel_l2"] == pair["became"]
    ratios = [pair["became"] / pair["was"] for pair in check["tasks"].values() if pair["was"]]
    is_sound = len(ratios) == len(check["tasks"])
    assert check["times"] == (pytest.approx(gmean(ratios), abs=1e-4) if is_sound else 0)
