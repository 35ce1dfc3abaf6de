"""Committed evidence: every file is a valid, small result, in its place.

It is done with a score, or declined with a reason.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gsnobench.records import RunResult, evidence_path

RESULTS = Path(__file__).resolve().parents[2] / "leaderboards" / "results"
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
