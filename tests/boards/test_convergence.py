"""Whether a training had ended: the rule on its three clauses, and the numbers that it reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gsnobench.boards.convergence import Ending, ending_of, is_converged, mean_ending


def curve(
    valid: list[float], loss: list[float] | None = None, *, phase: str = "fit", per_epoch: int = 10
) -> list[dict[str, Any]]:
    """One point per epoch."""
    pairs = enumerate(zip(valid, loss or valid, strict=True), 1)
    return [
        {"phase": phase, "epoch": n, "step": n * per_epoch, "valid": v, "loss": train}
        for n, (v, train) in pairs
    ]


def of(valid: list[float], loss: list[float] | None = None) -> Ending:
    ending = ending_of(curve(valid, loss), {"fit": 10 * len(valid)})
    assert ending is not None
    return ending


def test_falls_are_of_the_lowest_value_from_nine_tenths_of_the_steps_to_the_end() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        valid, loss = draw.random(60) + 0.1, draw.random(60) + 0.1
        ending = of(valid.tolist(), loss.tolist())
        # by running minima: step 540 is the last one of the first nine tenths
        lowest = np.minimum.accumulate(valid)
        assert ending.valid_fall == pytest.approx((lowest[53] - lowest[-1]) / lowest[53])
        lowest = np.minimum.accumulate(loss)
        assert ending.loss_fall == pytest.approx((lowest[53] - lowest[-1]) / lowest[53])
        assert ending.best_at == pytest.approx((1 + np.argmin(valid)) / 60)
        assert ending.epochs == pytest.approx(60)


def test_epochs_are_counted_by_the_run_itself_over_all_phases() -> None:
    """Ten pairs of frames per trajectory: an epoch has ten times the steps of one batch each."""
    points = [{"phase": "solve", "epoch": 1, "step": 0, "valid": 0.5}]
    points += curve([0.5, 0.4, 0.3], phase="codec", per_epoch=120)
    points += curve([0.3, 0.2], phase="fit", per_epoch=60)
    points.append({"phase": "fit", "epoch": 3, "step": 150, "valid": 0.1, "loss": 0.1})
    ending = ending_of(points, {"solve": 0, "codec": 360, "fit": 150})
    assert ending is not None and ending.epochs == pytest.approx(3 + 2.5)
    assert ending.best_at == 1.0 and ending.valid_fall == pytest.approx(0.5), "of the last phase"


def test_a_closed_form_has_no_ending_and_missing_values_are_left_out() -> None:
    assert (
        ending_of([{"phase": "solve", "epoch": 1, "step": 0, "valid": 0.5}], {"solve": 0}) is None
    )
    assert ending_of([], {"fit": 100}) is None
    points = curve([0.4, 0.2, 0.1])
    points[1]["valid"] = None  # not a number, as JSON spells it
    del points[2]["valid"], points[2]["loss"]
    ending = ending_of(points, {"fit": 30})
    assert ending is not None and ending.valid_fall == 0 and ending.best_at == pytest.approx(1 / 3)
    late = ending_of([{"phase": "fit", "epoch": 60, "step": 100, "valid": 0.1}], {"fit": 100})
    assert late is not None and math.isnan(late.valid_fall) and is_converged(late)


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (Ending(50.0, 0.05, 0.5, 0.5), True),
        (Ending(49.9, 0.0, 0.0, 1.0), False),  # too few epochs
        (Ending(500.0, 0.051, 0.0, 1.0), False),  # validation still falls
        (Ending(500.0, 0.0, 0.051, 0.49), False),  # best early while the loss still falls
        (Ending(500.0, 0.0, 0.04, 0.49), True),  # best early, and the loss is flat
        (Ending(500.0, math.nan, math.nan, math.nan), True),
    ],
)
def test_a_training_is_converged_unless_a_clause_says_otherwise(
    ending: Ending, expected: bool
) -> None:
    assert is_converged(ending) == expected


def test_a_row_is_judged_by_the_means_of_its_seeds() -> None:
    seeds = [Ending(60.0, 0.0, 0.2, 0.2), Ending(60.0, 0.09, math.nan, 0.6)]
    mean = mean_ending(seeds)
    assert mean == Ending(60.0, pytest.approx(0.045), pytest.approx(0.2), pytest.approx(0.4))
    assert mean is not None and not is_converged(mean), "0.4 < 0.5 while the loss falls"
    assert mean_ending([]) is None
