"""`leaderboard diff`: a verdict on every row of two folders of evidence."""

from __future__ import annotations

import shutil
from pathlib import Path

from fake_results import made_result, save, spread
from toy_boards import tracks_of

from gsnobench.boards.diff import diff


def test_diff_tells_better_worse_new_and_gone(evidence: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(evidence, other)
    for row in ("amg@compact", "coral@compact"):
        for path in (other / "laptop" / "darcy" / row).glob("*.json"):
            path.unlink()
    for seed in range(3):
        save(other, made_result("amg", errors=spread(0.06, 30 + seed), seed=seed))
    save(other, made_result("gnot", errors=0.1))
    before, after = (tracks_of(root) for root in (evidence, other))
    verdicts = {change.row: change.verdict for change in diff(before, after)}
    expected = {"amg@compact": "worse", "coral@compact": "gone", "gnot@compact": "new"}
    assert verdicts == {**expected, "gsno@compact": "same", "mean@default": "same"}
    back = {change.row: change.verdict for change in diff(after, before)}
    assert back["amg@compact"] == "better"
    assert {change.verdict for change in diff(before, before)} == {"same"}
