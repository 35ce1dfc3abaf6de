"""Statistics of boards: against scipy where it has the same test, else by construction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gsnobench.boards.statistics import (
    LEVEL,
    Scores,
    across,
    holm,
    interval,
    mean_ranks,
    pair_p_value,
    ranks,
    seed_p_value,
    seeds_needed,
    separation,
    shared_letters,
)


def scores(
    mean: float, seeds: int = 3, *, scatter: float = 0.02, draw: int = 0, samples: int = 64
) -> Scores:
    """A row with a known mean: samples differ in hardness, seeds scatter."""
    hardness = np.exp(0.3 * np.random.default_rng(7).normal(size=samples))
    noise = np.random.default_rng(draw)
    table = np.stack([mean * hardness * np.exp(scatter * noise.normal()) for _ in range(seeds)])
    table *= np.exp(0.05 * noise.normal(size=table.shape))
    return Scores(table.mean(axis=1), table)


def exact(mean: float, draw: int = 0) -> Scores:
    row = scores(mean, 1, draw=draw)
    return Scores(row.errors, row.samples, is_exact=True)


@pytest.mark.parametrize("count", [3, 5, 10])
def test_the_interval_covers_the_truth_as_often_as_it_says(count: int) -> None:
    draw = np.random.default_rng(count)
    covered = 0
    for _ in range(4000):
        low, high = interval(np.exp(math.log(0.05) + 0.2 * draw.normal(size=count))) or (0.0, 0.0)
        covered += low <= 0.05 <= high
    assert 0.93 <= covered / 4000 <= 0.97


def test_the_interval_is_scipys_of_the_log_error() -> None:
    errors = np.array([0.011, 0.012, 0.0105, 0.013])
    logs = np.log(errors)
    expected = stats.t.interval(0.95, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    assert interval(errors) == pytest.approx(tuple(np.exp(expected)))
    assert interval(errors[:1]) is None


def test_seeds_are_compared_by_welchs_test() -> None:
    first, second = scores(0.1, 4, scatter=0.1, draw=1), scores(0.12, 3, scatter=0.3, draw=2)
    expected = stats.ttest_ind(np.log(first.errors), np.log(second.errors), equal_var=False)
    assert seed_p_value(first, second) == pytest.approx(expected.pvalue)


def test_a_closed_form_is_a_number_to_compare_with() -> None:
    row, floor = scores(0.1, 4, scatter=0.1), exact(0.13)
    expected = stats.ttest_1samp(np.log(row.errors), math.log(floor.errors[0])).pvalue
    assert seed_p_value(row, floor) == pytest.approx(expected)
    assert seed_p_value(exact(0.1), exact(0.2)) == 0.0
    assert seed_p_value(exact(0.1), exact(0.1)) == 1.0


def test_a_single_seed_separates_nothing() -> None:
    rows = [scores(0.01, 1), scores(0.1, 1, draw=3), scores(0.5, 3, draw=4)]
    assert separation(rows).min() == 1.0
    assert [rank is None for rank in ranks(rows, separation(rows))] == [True, True, False]


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]).shape == (0,)


def test_known_ties_share_a_rank_and_known_gaps_do_not() -> None:
    means = (0.05, 0.0502, 0.10, 0.2, 0.2005)
    rows = [scores(mean, 5, draw=draw) for draw, mean in enumerate(means)]
    p_values = separation(rows)
    assert (p_values == p_values.T).all()
    all_ranks = [rank for rank in ranks(rows, p_values) if rank is not None]
    places = [(rank.low, rank.high) for rank in all_ranks]
    assert places == [(1, 2), (1, 2), (3, 3), (4, 5), (4, 5)]
    assert [rank.letters for rank in all_ranks] == ["a", "a", "b", "c", "c"]
    assert [rank.place for rank in all_ranks] == [1, 2, 3, 4, 5]


def test_places_grow_with_the_error_and_lie_in_their_range_whatever_is_separated() -> None:
    draw = np.random.default_rng(3)
    for _ in range(200):
        count = int(draw.integers(1, 9))
        means = draw.choice([0.1, 0.2, 0.3, 0.4, 0.5], size=count)
        rows = [Scores(np.full(2, mean), np.full((2, 4), mean)) for mean in means]
        p_values = np.triu(draw.choice([0.01, 0.2], size=(count, count)), 1)
        p_values = p_values + p_values.T + np.eye(count)
        p_values[means[:, None] == means[None]] = 1.0  # equal errors are never separated
        known = [rank for rank in ranks(rows, p_values) if rank is not None]
        assert [rank.place for rank in known] == stats.rankdata(means, method="min").tolist()
        assert all(rank.low <= rank.place <= rank.high <= count for rank in known)


def test_a_single_seed_takes_no_place_and_no_letter_of_others() -> None:
    rows = [scores(0.01, 1), scores(0.1, 3, draw=3), scores(0.5, 3, draw=4)]
    first, second, third = ranks(rows, separation(rows))
    assert first is None and second is not None and third is not None
    assert (second.place, second.letters) == (1, "a") and (third.place, third.letters) == (2, "b")


def _maximal_sets(is_separated: np.ndarray) -> set[frozenset[int]]:
    """By brute force: sets without a separated pair that no further row can join."""
    count = len(is_separated)
    sets = [
        frozenset(row for row in range(count) if number >> row & 1) for number in range(1, 2**count)
    ]
    free = [group for group in sets if not any(is_separated[i, j] for i in group for j in group)]
    return {group for group in free if not any(group < other for other in free)}


def test_two_rows_share_a_letter_if_and_only_if_they_are_not_separated() -> None:
    draw = np.random.default_rng(0)
    for _ in range(300):
        count = int(draw.integers(1, 9))
        upper = np.triu(draw.random((count, count)) < draw.random(), 1)
        is_separated = upper | upper.T
        letters = shared_letters(is_separated)
        for i in range(count):
            assert letters[i] and len(set(letters[i])) == len(letters[i])
            for j in range(i):
                assert bool(set(letters[i]) & set(letters[j])) != is_separated[i, j]
        # every letter is needed, and none could be given to a further row
        groups = {
            frozenset(row for row in range(count) if letter in letters[row])
            for letter in set("".join(letters))
        }
        assert groups <= _maximal_sets(is_separated)
        for group in groups:
            rest = groups - {group}
            pairs = [{i, j} for i in group for j in group]
            assert not all(any(pair <= other for other in rest) for pair in pairs)


def test_letters_go_down_the_board_and_many_rows_have_enough_of_them() -> None:
    far = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) > 1
    assert shared_letters(far) == ["a", "ab", "bc", "cd", "d"]
    apart = ~np.eye(54, dtype=bool)
    letters = shared_letters(apart)
    assert len(set(letters)) == 54 and (letters[25], letters[51], letters[53]) == ("z", "Z", "[54]")
    assert shared_letters(np.zeros((0, 0), dtype=bool)) == []


def test_equal_rows_are_hardly_ever_separated() -> None:
    """At most one board in twenty, each of ten equal rows, may separate any two of them."""
    wrong = 0
    for turn in range(60):
        rows = [scores(0.1, 3, draw=100 * turn + number) for number in range(10)]
        wrong += bool((separation(rows, seed=turn) < LEVEL).any())
    # 3 expected at most; more than 6 has a chance of 3 in 100 at the level itself
    assert wrong <= 6


def test_a_gap_that_few_test_samples_carry_is_not_separated_though_all_seeds_agree() -> None:
    base = np.full((5, 64), 0.1)
    lucky = base.copy()
    lucky[:, 0] = 0.02  # one sample alone makes the difference
    scatter = 1 + 1e-4 * np.arange(5)[:, None]
    tables = [table * scatter for table in (base, lucky)]
    first, second = (Scores(table.mean(axis=1), table) for table in tables)
    assert seed_p_value(first, second) < 1e-4
    assert pair_p_value(first, second) > LEVEL


def test_more_draws_than_counted_follow_the_normal_tail() -> None:
    """Many rows divide the level by many pairs: a p-value of at least 1/2000 could never pass."""
    rows = [scores(0.1 * 1.5**number, 5, draw=number) for number in range(16)]  # 120 pairs
    assert (separation(rows)[~np.eye(16, dtype=bool)] < LEVEL).all()


def test_seeds_needed_grows_with_the_scatter_and_is_enough() -> None:
    def three(mean: float, scatter: float) -> Scores:
        table = mean * np.exp(scatter * np.array([[-1.0], [0.0], [1.0]])) * np.ones((3, 64))
        return Scores(table.mean(axis=1), table)

    none, few, more = (
        seeds_needed(three(0.11, scatter), three(0.1, scatter), 10)
        for scatter in (0.001, 0.05, 0.1)
    )
    assert none == 0 and few is not None and more is not None and 0 < few < more
    assert seeds_needed(scores(0.2, 1), scores(0.1, 3, draw=5), 10) == 2
    same = scores(0.1, 3)
    assert seeds_needed(same, same, 1) is None


def test_mean_ranks_and_the_critical_difference_are_demsars() -> None:
    """Demsar (JMLR 7, 2006, table 6): four classifiers on 14 data sets, Nemenyi CD 1.25 at 5 %."""
    draw = np.random.default_rng(0)
    table = draw.random((4, 14))
    comparison = across(table, ["a", "b", "c", "d"])
    assert comparison is not None
    assert comparison.critical_difference == pytest.approx(1.25, abs=0.01)
    assert comparison.p_value == pytest.approx(stats.friedmanchisquare(*table).pvalue)
    assert sum(comparison.mean_ranks) == pytest.approx(10)
    by_hand = [
        np.mean([(table[:, task] <= row[task]).sum() for task in range(14)]) for row in table
    ]
    assert mean_ranks(table) == comparison.mean_ranks == pytest.approx(tuple(by_hand))
    assert across(table[:2], ["a", "b"]) is None
