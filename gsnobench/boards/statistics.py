"""What errors of several seeds and test samples allow us to say: intervals, separation, ranks, how
many seeds are missing.

Two rows are separated only if two tests agree: a paired bootstrap over test samples (would other
samples have ordered them otherwise?) and a Welch t-test of the log error over seeds (would other
seeds?). The larger of the two p-values counts, corrected by Holm's method over all pairs of a
board. A closed form has no seed: its error is a fixed number to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from gsnobench.data import Array

LEVEL = 0.05
DRAWS = 2000  # bootstrap draws
# draws on the other side: fewer do not tell a p-value, the normal tail of their spread does
FEW = 20
MOST_SEEDS = 30  # beyond this many, "needs more seeds" is no advice


@dataclass(frozen=True, eq=False)
class Scores:
    """All that is known of one row on one board."""

    errors: Array  # (seeds,) headline of each seed
    samples: Array  # (seeds, S) headline of each test sample
    is_exact: bool = False  # a closed form: no seed, no spread

    @property
    def mean(self) -> float:
        return float(self.errors.mean())

    @property
    def is_testable(self) -> bool:
        """A single seed says nothing about other seeds."""
        return self.is_exact or len(self.errors) > 1

    @property
    def sample_means(self) -> Array:
        """Mean over seeds of each test sample, (S,)."""
        means: Array = self.samples.mean(axis=0)
        return means


def interval(errors: Array, level: float = LEVEL) -> tuple[float, float] | None:
    """t-interval over seeds of the log error, as errors; None for a single seed."""
    if len(errors) < 2:
        return None
    logs = np.log(errors)
    half = stats.t.ppf(1 - level / 2, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


# --------------------------------------------------------------------------------------- separation


def separation(rows: Sequence[Scores], seed: int = 0) -> Array:
    """p-values of all pairs after Holm's correction, (R, R): below LEVEL, two rows are separated."""
    count = len(rows)
    raw = np.maximum(_sample_p_values(rows, seed), _seed_p_values(rows))
    testable = np.array([row.is_testable for row in rows])
    # no test is made of a single seed, so none is corrected for
    is_tested = np.triu(testable[:, None] & testable[None], 1)
    corrected = np.ones((count, count))
    corrected[is_tested] = holm(raw[is_tested])
    return np.minimum(corrected, corrected.T)


def _sample_p_values(rows: Sequence[Scores], seed: int) -> Array:
    """Two-sided paired bootstrap over test samples of the difference of seed means, (R, R)."""
    table = np.stack([row.sample_means for row in rows])  # (R, S)
    size = table.shape[1]
    # (DRAWS, S)
    weights = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), DRAWS) / size
    drawn = table @ weights.T  # (R, DRAWS): the same draw for all rows, which is what pairs them
    values = np.ones((len(rows), len(rows)))
    for one in range(1, len(rows)):
        gaps = drawn[:one] - drawn[one]  # (rows before, DRAWS)
        crossing = np.minimum((gaps <= 0).sum(axis=1), (gaps >= 0).sum(axis=1))
        counted = np.minimum(1.0, 2 * (crossing + 1) / (DRAWS + 1))
        z = np.abs((table[:one] - table[one]).mean(axis=1)) / np.maximum(gaps.std(axis=1), 1e-300)
        values[one, :one] = np.where(
            crossing < FEW, np.minimum(counted, 2 * stats.norm.sf(z)), counted
        )
        values[:one, one] = values[one, :one]
    return values


def _seed_p_values(rows: Sequence[Scores]) -> Array:
    """Two-sided t-test over seeds of the log error, (R, R)."""
    values = np.ones((len(rows), len(rows)))
    for one, first in enumerate(rows):
        for other, second in enumerate(rows[:one]):
            values[one, other] = values[other, one] = seed_p_value(first, second)
    return values


def pair_p_value(first: Scores, second: Scores, seed: int = 0) -> float:
    """Of two rows on their own; different test samples cannot be paired, so that only seeds speak."""
    if first.samples.shape[1] != second.samples.shape[1]:
        return seed_p_value(first, second)
    return max(float(_sample_p_values([first, second], seed)[0, 1]), seed_p_value(first, second))


def seed_p_value(first: Scores, second: Scores) -> float:
    """Welch's test; a closed form is a number that seeds cannot move; a single seed tells nothing."""
    if not (first.is_testable and second.is_testable):
        return 1.0
    moving = [row for row in (first, second) if not row.is_exact]
    gap = np.log(first.errors).mean() - np.log(second.errors).mean()
    parts = [np.log(row.errors).var(ddof=1) / len(row.errors) for row in moving]
    return _two_sided(abs(gap), parts, [len(row.errors) for row in moving])


def _two_sided(gap: float, parts: Sequence[float], counts: Sequence[int]) -> float:
    """p-value of a gap with these squared standard errors, by Welch and Satterthwaite."""
    squared = sum(parts)
    if squared == 0:
        return 1.0 if gap == 0 else 0.0
    freedom = squared**2 / sum(
        part**2 / (count - 1) for part, count in zip(parts, counts, strict=True)
    )
    return float(2 * stats.t.sf(gap / math.sqrt(squared), freedom))


def holm(p_values: Array | Sequence[float]) -> Array:
    """Holm's step-down correction."""
    p_values = np.asarray(p_values, dtype=float)
    order = np.argsort(p_values, kind="stable")
    count = len(p_values)
    stepped = np.maximum.accumulate(p_values[order] * (count - np.arange(count)))
    corrected = np.empty(count)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


# -------------------------------------------------------------------------------------------- ranks


@dataclass(frozen=True)
class Rank:
    """The places a row may hold: `low` is the rank it is given, shared by all that cannot be told
    apart.
    """

    low: int
    high: int


def ranks(rows: Sequence[Scores], p_values: Array) -> list[Rank | None]:
    """One more than the rows surely better, and what the rows surely worse leave; a single seed
    gets no rank and takes none.
    """
    means = np.array([row.mean for row in rows])
    # [i, j]: j is better than i
    surely_better = (p_values < LEVEL) & (means[None] < means[:, None])
    count = sum(row.is_testable for row in rows)
    places = zip(surely_better.sum(axis=1), surely_better.sum(axis=0), rows, strict=True)
    return [
        Rank(1 + int(better), count - int(worse)) if row.is_testable else None
        for better, worse, row in places
    ]


def seeds_needed(row: Scores, better: Scores, pairs: int, seed: int = 0) -> int | None:
    """More seeds, of both rows, that would separate a row from the one above it if nothing else
    changed; None: no number would.

    Held against the strictest level of Holm's correction, so rather too many than too few.
    """
    level = LEVEL / max(pairs, 1)
    if _sample_p_values([row, better], seed)[0, 1] >= LEVEL:
        return None  # the test samples, not the seeds, leave it open
    moving = [one for one in (row, better) if not one.is_exact]
    least = min((len(one.errors) for one in moving), default=0)
    if not moving or least < 2:
        return 3 - least if moving else None
    gap = abs(np.log(row.errors).mean() - np.log(better.errors).mean())
    spread = [np.log(one.errors).var(ddof=1) for one in moving]
    for count in range(least, MOST_SEEDS + 1):
        if _two_sided(gap, [value / count for value in spread], [count] * len(moving)) < level:
            return count - least
    return None


# ------------------------------------------------------------------------------------- across tasks


@dataclass(frozen=True)
class Comparison:
    """Mean ranks over tasks, and the difference that chance alone explains (Friedman, then
    Nemenyi).
    """

    rows: tuple[str, ...]
    mean_ranks: tuple[float, ...]
    tasks: int
    p_value: float
    critical_difference: float


def across(table: Array, rows: Sequence[str]) -> Comparison | None:
    """Errors (R, tasks) of rows that have all tasks; None where there are too few to say anything."""
    count, tasks = table.shape
    if count < 3 or tasks < 2:
        return None
    mean_ranks = stats.rankdata(table, axis=0).mean(axis=1)
    spread = stats.studentized_range.ppf(1 - LEVEL, count, np.inf) / math.sqrt(2)
    critical = spread * math.sqrt(count * (count + 1) / (6 * tasks))
    friedman = stats.friedmanchisquare(*table)
    return Comparison(
        tuple(rows),
        tuple(float(one) for one in mean_ranks),
        tasks,
        float(friedman.pvalue),
        float(critical),
    )
