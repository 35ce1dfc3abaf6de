"""What studies say about numbers: paired ratios, slopes, and differences over test samples.

Errors of trainings scatter by factors, so means and intervals are those of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from gsnobench.boards.statistics import LEVEL
from gsnobench.data import Array
from gsnobench.records import rounded

DRAWS = 4000  # of a bootstrap


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval and the p-value of "no effect"; not a number: unknown."""

    value: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan

    @property
    def is_known(self) -> bool:
        """Whether more than one run stands behind it."""
        return math.isfinite(self.low)

    def __str__(self) -> str:
        """`1.66 [1.41, 1.95]`."""
        interval = f" [{self.low:.3g}, {self.high:.3g}]" if self.is_known else ""
        return f"{self.value:.3g}{interval}"


def geometric_mean(errors: Sequence[float]) -> Estimate:
    """Of the errors of seeds, with the t-interval of their logarithms."""
    return _from_logs(np.log(np.asarray(errors, dtype=float)))


def paired_ratio(errors: Mapping[int, float], reference: Mapping[int, float]) -> Estimate | None:
    """Geometric mean over common seeds of error / reference; None without a common seed."""
    seeds = sorted(set(errors) & set(reference))
    if not seeds:
        return None
    return _from_logs(np.log([errors[seed] / reference[seed] for seed in seeds]))


def _from_logs(logs: Array) -> Estimate:
    value = math.exp(float(logs.mean()))
    if len(logs) < 2:
        return Estimate(value)
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    half = float(stats.t.ppf(1 - LEVEL / 2, len(logs) - 1)) * error
    t = abs(float(logs.mean())) / error if error else math.inf
    p = float(2 * stats.t.sf(t, len(logs) - 1)) if logs.any() else 1.0
    low, high = value * math.exp(-half), value * math.exp(half)
    return Estimate(*(rounded(number, 12) for number in (value, low, high, p)))


def slope(x: Sequence[float], errors: Sequence[float]) -> Estimate | None:
    """Exponent s of error ~ x^s by least squares in logarithms; None for fewer than three points.

    The interval takes all points as independent, seeds and meshes alike.
    """
    if len(x) < 3 or len(set(x)) < 2:
        return None
    fit = stats.linregress(np.log(x), np.log(errors))
    half = float(stats.t.ppf(1 - LEVEL / 2, len(x) - 2)) * float(fit.stderr)
    numbers = (fit.slope, fit.slope - half, fit.slope + half, fit.pvalue)
    return Estimate(*(rounded(float(number), 12) for number in numbers))


def paired_difference(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Estimate:
    """Mean of first - second over test samples, with its bootstrap interval over samples."""
    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)  # (S,)
    draw = np.random.default_rng(seed)
    weights = draw.multinomial(len(gaps), np.full(len(gaps), 1 / len(gaps)), DRAWS) / len(gaps)
    means = weights @ gaps  # (DRAWS,)
    low, high = np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2])
    crossing = min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * (int(crossing) + 1) / (DRAWS + 1))
    return Estimate(float(gaps.mean()), float(low), float(high), p)
