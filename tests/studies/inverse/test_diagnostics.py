"""Diagnostics agree with ArviZ, and with processes whose autocorrelation is known."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.signal import lfilter

from gsnobench.data import Array
from gsnobench.studies.inverse.diagnostics import bulk_ess, mixing, rhat, tail_ess


def autoregressive(correlation: float, chains: int, length: int, seed: int = 0) -> Array:
    """Stationary x_t = r x_(t-1) + sqrt(1 - r^2) noise, (chains, length)."""
    noise = np.random.default_rng(seed).normal(size=(chains, length))
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


@pytest.mark.parametrize(
    ("correlation", "agreement"),
    # where correlations never fall below zero, both cut the sum at another lag: nothing has mixed
    [(-0.4, 1e-9), (0.0, 1e-9), (0.5, 1e-9), (0.9, 0.05), (0.99, 0.05)],
)
@pytest.mark.parametrize("shape", [(8, 200), (4, 501), (2, 300)])
def test_numbers_are_those_of_arviz(
    correlation: float, agreement: float, shape: tuple[int, int]
) -> None:
    draws = np.exp(autoregressive(correlation, *shape))  # not normal, one heavy tail
    axes = {"chain_axis": 0, "draw_axis": 1}
    bulk = float(array_stats.ess(draws, method="bulk", **axes))
    tail = float(array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes))
    assert [bulk_ess(draws), tail_ess(draws)] == pytest.approx([bulk, tail], rel=agreement)
    assert rhat(draws) == pytest.approx(float(array_stats.rhat(draws, **axes)), rel=1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_effective_size_is_that_of_an_autoregressive_process(correlation: float) -> None:
    draws = autoregressive(correlation, 8, 20_000)
    expected = draws.size * (1 - correlation) / (1 + correlation)
    assert bulk_ess(draws) == pytest.approx(expected, rel=0.1)
    assert rhat(draws) < 1.01


def test_chains_in_different_places_or_of_different_widths_have_not_mixed() -> None:
    draws = autoregressive(0.0, 8, 1000)
    apart = draws + np.arange(8)[:, None]
    wider = draws * np.linspace(0.2, 3, 8)[:, None]
    drifting = draws + np.linspace(0, 3, 1000)
    for bad in (apart, wider, drifting):
        assert rhat(bad) > 1.05 and not mixing(bad[:, :, None]).is_met
    assert mixing(draws[:, :, None]).is_met
    both = mixing(np.stack([draws, apart], axis=2))
    assert both == mixing(apart[:, :, None])  # the worst quantity counts


def test_chains_that_never_moved_say_nothing() -> None:
    stuck = mixing(np.repeat(np.arange(4.0)[:, None], 100, axis=1)[:, :, None])
    assert stuck.bulk < 10 and not stuck.is_met
    assert not mixing(np.zeros((4, 100, 1))).is_met
