"""Committed evidence: every file is a valid, small result, in its place.

It is done with a score, or declined with a reason.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from gsnobench.boards.studies import read_studies
from gsnobench.errors import GsnobenchError
from gsnobench.records import RunResult, evidence_path
from gsnobench.registry import read_registry
from gsnobench.runs.plan import plan_of_spec

ROOT = Path(__file__).resolve().parents[2]
BOARDS = ROOT / "leaderboards"
RESULTS, STUDIES = BOARDS / "results", BOARDS / "studies"
FILES = sorted(RESULTS.rglob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_a_committed_result_is_valid_and_in_its_place(path: Path) -> None:
    result = RunResult.load(path)
    if result.status == "done":
        assert math.isfinite(result.headline)
    else:
        assert result.status == "declined" and result.reason
    assert path == evidence_path(RESULTS, result.spec)
    assert path.stat().st_size <= 25_000


def test_there_is_evidence_for_every_task_of_this_version() -> None:
    assert {"darcy", "darcy_threshold", "swe@5-46"} <= {path.parent.parent.name for path in FILES}


def test_runs_of_committed_studies_have_the_errors_of_their_result_files() -> None:
    """Most studies come without the files of their runs; where one is here, both must agree."""
    by_key = {path.stem: path for path in FILES}
    results, problems = read_studies(STUDIES)
    assert results and not problems
    runs = [run for result in results for run in result.runs if run["key"] in by_key]
    assert runs
    for run in runs:
        stored = RunResult.load(by_key[run["key"]])
        assert run["errors"]["test"] == stored.headline, run["key"]


def test_what_results_say_was_changed_is_what_differs_from_the_preset() -> None:
    """Steps may have been counted again since; boards then rank the result no more.

    Where a preset has changed: `gsnobench migrate leaderboards/results`.
    """
    registry, recomputed = read_registry(), 0
    for result in map(RunResult.load, FILES):
        try:
            plan = plan_of_spec(result.spec, registry)
        except GsnobenchError:  # of an older revision, or with knobs that are gone
            continue
        recounted = {} if plan.changed == result.changed else steps_of(plan.changed)
        assert plan.changed == {**recounted, **result.changed}, result.spec.title
        recomputed += 1
    assert recomputed > 50


def steps_of(changed: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in changed.items() if name.startswith("steps.")}


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_result_that_a_page_repeats_is_a_row_of_its_board(page: str) -> None:
    """Else tier 3 of `verify` finds other steps than the file has."""
    text = (ROOT / page).read_text(encoding="utf-8")
    names = set(re.findall(r"gsnobench verify (leaderboards/results/\S+\.json)", text))
    assert names
    for result in (RunResult.load(ROOT / name) for name in names):
        assert plan_of_spec(result.spec).changed == {}, page


def test_what_a_page_says_of_trials_and_boards_is_so() -> None:
    """Which settings of a family cost how much is a claim about the boards of today."""
    text = (ROOT / "docs/models/gsno.md").read_text(encoding="utf-8")
    with (BOARDS / "tables" / "boards.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["track"] == "laptop"]
    errors = {
        row["board"].replace("@", ""): float(row["error"])
        for row in rows
        if row["row"] == "gsno@plus"
    }
    cited = re.findall(
        r"^\| \[\w+\]\([^)]*#(\S+)\) \| ([\d.]+) \| \d+ \| .* \| (.*) \|$", text, re.MULTILINE
    )
    assert len(cited) == 10
    for name, trial, words in cited:
        times = errors[name] / float(trial)
        stated = re.fullmatch(r"([\d.]+) times", words)
        assert times < 1 if stated is None else abs(times - float(stated[1])) < 0.12, (name, times)
