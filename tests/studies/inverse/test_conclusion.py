"""Verdicts and coverage are pure functions of the numbers of the cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_studies import made_run

from gsnobench.studies.base import Row
from gsnobench.studies.inverse.conclusion import covered_text, inside, verdicts
from gsnobench.studies.inverse.inversion import Drawn
from gsnobench.studies.inverse.judgement import fractions, judged


def drawn(shift: float = 0.0, *, width: float = 1.0, seed: int = 0, draws: int = 300) -> Drawn:
    values = np.random.default_rng(seed).normal(size=(4, draws, 22))
    return Drawn(shift + width * values, np.full(9, 1.1), np.ones(9), 0.0, 0.3, 0.1, 2.0)


def test_a_posterior_is_compared_with_the_truth_and_the_reference() -> None:
    truth, inputs = np.zeros(22), np.ones(9)
    numbers = judged(drawn(0.5, width=2.0, seed=1), truth, inputs, drawn())
    assert numbers["error"] == pytest.approx(0.1) and numbers["is_met"]
    assert numbers["offset"] == pytest.approx(0.5, abs=0.1)
    assert numbers["spread"] == pytest.approx(2.0, rel=0.05)
    assert len(numbers["fractions"]) == 20
    assert np.mean(numbers["fractions"]) == pytest.approx(0.401, abs=0.02)  # of N(0.5, 4) below 0
    assert not judged(drawn(draws=40), truth, inputs, None)["is_met"]


def test_truths_of_a_right_posterior_are_inside_as_often_as_the_level_says() -> None:
    truths = np.random.default_rng(5).normal(size=(200, 22))
    ranks = [share for truth in truths for share in fractions(drawn(), truth)]
    for level in (0.5, 0.8, 0.95):
        assert inside(ranks, level) / len(ranks) == pytest.approx(level, abs=0.03)
    assert covered_text(95, 100, 0.95) == "0.95 (0.89 to 1.00)"


def test_one_unmixed_problem_refuses_the_sampler() -> None:
    def case(**changes: Any) -> dict[str, Any]:
        numbers = judged(drawn(), np.zeros(22), np.ones(9), drawn(seed=2))
        return {"sampler": "pcn", "problem": 0, **numbers, **changes}

    cases = [case(), case(problem=1, is_met=False, rhat=1.3, bulk=20.0)]
    point: dict[str, Any] = {"row": "toy"}
    extra = {"cases": cases, "pictures": {}, "calibration": {}}
    (verdict,) = verdicts([Row(point, (made_run(point, seed=0, extra=extra),))])
    assert verdict.word == "refused, 1 of 2 mixed" and not verdict.is_sound
    assert (verdict.rhat, verdict.bulk, verdict.judged) == (1.3, 20.0, 40)
    assert verdict.per_s == pytest.approx((cases[0]["bulk"] + 20.0) / 4.0)
