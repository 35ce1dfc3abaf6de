"""Committed evidence: every file is a valid, small result, in its place.

It is done with a score, or declined with a reason.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gsnobench.boards.studies import read_studies
from gsnobench.records import RunResult, evidence_path

BOARDS = Path(__file__).resolve().parents[2] / "leaderboards"
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
