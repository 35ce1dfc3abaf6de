"""Intervals and p-values of studies are those of scipy, and of the exact cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gsnobench.studies.statistics import geometric_mean, paired_difference, paired_ratio, slope

ERRORS = {0: 0.0119, 1: 0.0131, 2: 0.0102, 5: 0.0125}
REFERENCE = {0: 0.0083, 1: 0.0101, 2: 0.0079, 4: 0.0090}


def test_a_paired_ratio_is_the_paired_t_test_of_the_logarithms_on_common_seeds() -> None:
    ratio = paired_ratio(ERRORS, REFERENCE)
    assert ratio is not None
    logs = [np.log([table[seed] for seed in (0, 1, 2)]) for table in (ERRORS, REFERENCE)]
    test = stats.ttest_rel(*logs)
    interval = test.confidence_interval(0.95)
    assert ratio.p == pytest.approx(test.pvalue, rel=1e-9)
    assert (ratio.low, ratio.high) == pytest.approx(np.exp([interval.low, interval.high]))
    assert ratio.value == pytest.approx(stats.gmean(np.exp(logs[0] - logs[1])))


def test_a_single_seed_has_no_interval_and_no_common_seed_no_ratio() -> None:
    ratio = paired_ratio({0: 0.2}, {0: 0.1})
    assert ratio is not None and ratio.value == pytest.approx(2.0)
    assert not ratio.is_known and math.isnan(ratio.p) and str(ratio) == "2"
    assert paired_ratio({0: 0.2}, {1: 0.1}) is None
    equal = paired_ratio({0: 0.2, 1: 0.3}, {0: 0.2, 1: 0.3})
    assert equal is not None and (equal.value, equal.p) == (1.0, 1.0)


def test_the_geometric_mean_has_the_t_interval_of_the_logarithms() -> None:
    errors = list(ERRORS.values())
    mean = geometric_mean(errors)
    logs = np.log(errors)
    expected = stats.t.interval(0.95, len(logs) - 1, logs.mean(), stats.sem(logs))
    assert (mean.low, mean.high) == pytest.approx(np.exp(expected))


def test_the_interval_of_a_slope_covers_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    x = np.repeat([298.0, 600.0, 1184.0, 1800.0], 3)
    inside = 0
    for _ in range(400):
        errors = x**-0.7 * np.exp(0.1 * draw.normal(size=len(x)))
        estimate = slope(x.tolist(), errors.tolist())
        assert estimate is not None
        inside += estimate.low <= -0.7 <= estimate.high
    low, high = stats.binom.ppf([0.001, 0.999], 400, 0.95)
    assert low <= inside <= high
    exact = slope([1.0, 2.0, 4.0], [8.0, 2.0, 0.5])
    assert exact is not None and exact.value == pytest.approx(-2.0)
    assert slope([1.0, 2.0], [1.0, 2.0]) is None


def test_a_paired_difference_agrees_with_scipys_bootstrap() -> None:
    draw = np.random.default_rng(1)
    second = draw.uniform(0.1, 0.2, 64)
    first = second + 0.005 * draw.normal(size=64) + 0.002
    ours = paired_difference(first.tolist(), second.tolist())
    theirs = stats.bootstrap(
        (first - second,), np.mean, n_resamples=4000, method="percentile", rng=draw
    ).confidence_interval
    assert ours.value == pytest.approx(np.mean(first - second))
    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) < 0.1 * width and abs(ours.high - theirs.high) < 0.1 * width
    assert paired_difference([1.0, 2.0], [1.0, 2.0]).p == 1.0
