"""Intervals, separation, places and ties of rows, from the errors of their seeds and test samples.

Two rows are separated only if two tests agree: a paired bootstrap over test samples (would other
samples have ordered them otherwise?) and a Welch t-test of the log error over seeds (would other
seeds?). The larger of the two p-values counts, corrected by Holm's method over all pairs of a
board. A closed form has no seed: its error is a fixed number to compare with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters

import numpy as np
from scipy import stats

from gsnobench.data import Array
from gsnobench.records import rounded

LEVEL = 0.05
DRAWS = 2000  # bootstrap draws
FEW = 20  # draws on the other side: fewer give no p-value, the normal tail of their spread does
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
    low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
    # the last bits of exp and log differ between processors, committed pages must not
    return rounded(float(low), 12), rounded(float(high), 12)


# --------------------------------------------------------------------------------------- separation


def separation(rows: Sequence[Scores], seed: int = 0) -> Array:
    """p-values of all pairs after Holm's correction, (R, R): below LEVEL is separated."""
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
    draw = np.random.default_rng(seed)
    weights = draw.multinomial(size, np.full(size, 1 / size), DRAWS) / size  # (DRAWS, S)
    drawn = table @ weights.T  # (R, DRAWS): the same draw for all rows, which is what pairs them
    values = np.ones((len(rows), len(rows)))
    for row in range(1, len(rows)):
        gaps = drawn[:row] - drawn[row]  # (rows before, DRAWS)
        crossing = np.minimum((gaps <= 0).sum(axis=1), (gaps >= 0).sum(axis=1))
        counted = np.minimum(1.0, 2 * (crossing + 1) / (DRAWS + 1))
        z = np.abs((table[:row] - table[row]).mean(axis=1)) / np.maximum(gaps.std(axis=1), 1e-300)
        tail = np.minimum(counted, 2 * stats.norm.sf(z))
        values[row, :row] = np.where(crossing < FEW, tail, counted)
        values[:row, row] = values[row, :row]
    return values


def _seed_p_values(rows: Sequence[Scores]) -> Array:
    """Two-sided t-test over seeds of the log error, (R, R)."""
    values = np.ones((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, other in enumerate(rows[:i]):
            values[i, j] = values[j, i] = seed_p_value(row, other)
    return values


def pair_p_value(first: Scores, second: Scores, seed: int = 0) -> float:
    """Of two rows on their own; if their test samples differ, by seeds alone."""
    if first.samples.shape[1] != second.samples.shape[1]:
        return seed_p_value(first, second)
    return max(float(_sample_p_values([first, second], seed)[0, 1]), seed_p_value(first, second))


def seed_p_value(first: Scores, second: Scores) -> float:
    """Welch's test; a closed form is a fixed number, and a single seed separates nothing."""
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
    pairs = zip(parts, counts, strict=True)
    freedom = squared**2 / sum(part**2 / (count - 1) for part, count in pairs)
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
    """Where a row is on its board, and how sure that is."""

    place: int  # by the error alone; equal errors share it
    low: int  # the best and the worst place that the separated pairs leave
    high: int
    letters: str  # rows that share a letter are not separated

    @property
    def groups(self) -> tuple[str, ...]:
        """The letters one by one; beyond z and Z a letter is a number in brackets."""
        return tuple(re.findall(r"\[\d+\]|[a-zA-Z]", self.letters))

    def is_tied(self, other: Rank) -> bool:
        return not {*self.groups}.isdisjoint(other.groups)


def ranks(rows: Sequence[Scores], p_values: Array) -> list[Rank | None]:
    """The ranks of rows; None for a single seed, which takes nobody's place.

    The best place is one more than the rows that are significantly better, the worst one is what
    the rows that are significantly worse leave.
    """
    tested = [index for index, row in enumerate(rows) if row.is_testable]
    means = np.array([rows[index].mean for index in tested])
    is_separated = p_values[np.ix_(tested, tested)] < LEVEL
    is_better = is_separated & (means[None] < means[:, None])  # [i, j]: j is better than i
    places = (means[None] < means[:, None]).sum(axis=1) + 1
    low, high = is_better.sum(axis=1) + 1, len(tested) - is_better.sum(axis=0)
    letters = shared_letters(is_separated)
    by_row = {
        row: Rank(int(places[index]), int(low[index]), int(high[index]), letters[index])
        for index, row in enumerate(tested)
    }
    return [by_row.get(row) for row in range(len(rows))]


# ------------------------------------------------------------------------------------------ letters


def shared_letters(is_separated: Array) -> list[str]:
    """Compact letter display: two rows share a letter if and only if they are not separated."""
    groups = _without_redundant(_groups(is_separated))
    letters = [_letter(number) for number in range(len(groups))]
    return [
        "".join(letter for letter, group in zip(letters, groups, strict=True) if row in group)
        for row in range(len(is_separated))
    ]


def _groups(is_separated: Array) -> list[frozenset[int]]:
    """Largest sets of rows of which no two are separated.

    By insertion and absorption (Piepho, J. Comput. Graph. Stat. 13, 2004): one set of all rows is
    split at each separated pair, and what lies inside another set is dropped.
    """
    groups = [frozenset(range(len(is_separated)))] if len(is_separated) else []
    for first, second in np.argwhere(np.triu(is_separated, 1)).tolist():
        split = [group for group in groups if first in group and second in group]
        groups = [group for group in groups if group not in split]
        for part in (group - {row} for group in split for row in (second, first)):
            if not any(part <= group for group in groups):
                groups = [group for group in groups if not group < part] + [part]
    return sorted(groups, key=sorted)


def _without_redundant(groups: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Without sets all of whose pairs other sets hold, small ones first."""
    kept = list(groups)
    for group in sorted(groups, key=len):
        others = [other for other in kept if other is not group]
        pairs = [{row, mate} for row in group for mate in group]
        if all(any(pair <= other for other in others) for pair in pairs):
            kept = others
    return kept


def _letter(number: int) -> str:
    """a to z, A to Z, and numbers in brackets for boards that need more."""
    return ascii_letters[number] if number < len(ascii_letters) else f"[{number + 1}]"


def letter_number(letter: str) -> int:
    """The number of a letter, counted from 0."""
    return int(letter[1:-1]) - 1 if letter.startswith("[") else ascii_letters.index(letter)


# -------------------------------------------------------------------------------------------- seeds


def seeds_needed(row: Scores, better: Scores, pairs: int, seed: int = 0) -> int | None:
    """More seeds of both rows that would separate a row from the one above; None: none would.

    Computed for the strictest level of Holm's correction, so rather too many than too few.
    """
    level = LEVEL / max(pairs, 1)
    if _sample_p_values([row, better], seed)[0, 1] >= LEVEL:
        return None  # the test samples, not the seeds, leave it open
    moving = [scores for scores in (row, better) if not scores.is_exact]
    least = min((len(scores.errors) for scores in moving), default=0)
    if not moving or least < 2:
        return 3 - least if moving else None
    gap = abs(np.log(row.errors).mean() - np.log(better.errors).mean())
    spread = [np.log(scores.errors).var(ddof=1) for scores in moving]
    for count in range(least, MOST_SEEDS + 1):
        if _two_sided(gap, [value / count for value in spread], [count] * len(moving)) < level:
            return count - least
    return None


# ------------------------------------------------------------------------------------- across tasks


@dataclass(frozen=True)
class Comparison:
    """Mean ranks over tasks, and the difference that chance explains (Friedman, Nemenyi)."""

    rows: tuple[str, ...]
    mean_ranks: tuple[float, ...]
    tasks: int
    p_value: float
    critical_difference: float


def across(table: Array, rows: Sequence[str]) -> Comparison | None:
    """Compare rows by their errors (R, tasks) on common tasks; None where there are too few."""
    count, tasks = table.shape
    if count < 3 or tasks < 2:
        return None
    spread = stats.studentized_range.ppf(1 - LEVEL, count, np.inf) / math.sqrt(2)
    critical = spread * math.sqrt(count * (count + 1) / (6 * tasks))
    p_value = float(stats.friedmanchisquare(*table).pvalue)
    return Comparison(tuple(rows), mean_ranks(table), tasks, p_value, float(critical))


def mean_ranks(table: Array) -> tuple[float, ...]:
    """Mean over tasks of each row's rank by its error, (R, tasks) -> R; equal errors share one."""
    return tuple(stats.rankdata(table, axis=0).mean(axis=1).tolist())
