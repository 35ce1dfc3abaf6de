"""Effects of changes: paired, corrected, against the right reference; controls as large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_studies import made_row
from scipy import stats

from gsnobench.studies.base import Row
from gsnobench.studies.changes import UNCHANGED, conclude, effects

FULL, WORSE, SAME = (0.010, 0.012, 0.011), (0.020, 0.025, 0.021), (0.011, 0.0115, 0.0112)


def rows(*labels: str) -> list[Row]:
    table = {UNCHANGED: FULL, "worse": WORSE, "same": SAME}
    return [
        made_row({"task": task, "change": label}, table[label])
        for task in ("darcy", "nse")
        for label in labels
    ]


def test_an_effect_is_the_paired_ratio_to_the_unchanged_preset_after_holm() -> None:
    measured = effects(
        rows(UNCHANGED, "worse", "same"), {("darcy", "worse"): 1.66}, is_ladder=False
    )
    first, worse, same = measured[:3]
    assert first.ratio is None and first.p is None
    raw = [stats.ttest_rel(np.log(errors), np.log(FULL)).pvalue for errors in (WORSE, SAME)]
    assert worse.ratio is not None and worse.ratio.p == pytest.approx(raw[0])
    # four tests: the two smallest p-values are equal, each task has the same errors
    assert worse.p == pytest.approx(min(1.0, 4 * raw[0])) and worse.printed == 1.66
    assert same.p == pytest.approx(min(1.0, 2 * raw[1]))
    assert worse.is_separated and not same.is_separated


def test_a_rung_is_compared_with_the_one_below_and_not_across_tasks() -> None:
    measured = effects(rows(UNCHANGED, "worse", "same"), {}, is_ladder=True)
    factors = [effect.factor for effect in measured]
    down = stats.gmean(np.array(SAME) / np.array(WORSE))
    assert factors[2] == factors[5] == pytest.approx(down)
    assert measured[3].ratio is None  # the first of the second task


def test_the_answer_names_what_is_separated_and_draws_it(tmp_path: Path) -> None:
    findings = conclude("toy", "What every part brings", rows(UNCHANGED, "worse", "same"))
    assert findings.sentence.startswith("darcy: worse with worse (2 [")
    assert "1 of 2 changes are not separated from none" in findings.sentence
    assert [table.title for table in findings.tables] == ["toy, darcy", "toy, nse"]
    findings.draw(tmp_path / "changes.png")
    assert (tmp_path / "changes.png").read_bytes().startswith(b"\x89PNG")


def test_a_single_seed_is_tested_against_nothing() -> None:
    single = [
        made_row({"task": "darcy", "change": label}, [error])
        for label, error in ((UNCHANGED, 0.1), ("other", 0.2))
    ]
    (_, other) = effects(single, {}, is_ladder=False)
    assert other.factor == pytest.approx(2.0) and other.p is None and not other.is_separated
    sentence = conclude("toy", "What every part brings", single).sentence
    assert sentence == "darcy: 1 of 1 changes have one seed and are not tested."
