"""Have chains mixed? Rank-normalised split R-hat, bulk and tail effective sample size.

After Vehtari, Gelman, Simpson, Carpenter, Buerkner 2021, doi:10.1214/20-BA1221.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from gsnobench.data import Array

LARGEST_RHAT = 1.01
SMALLEST_ESS = 400.0


@dataclass(frozen=True)
class Mixing:
    """The worst of several quantities."""

    rhat: float
    bulk: float
    tail: float

    @property
    def is_met(self) -> bool:
        return self.rhat < LARGEST_RHAT and min(self.bulk, self.tail) > SMALLEST_ESS


def mixing(draws: Array) -> Mixing:
    """Of the quantities (B, D, Q) of B chains."""
    columns = [draws[:, :, index] for index in range(draws.shape[2])]
    return Mixing(
        max(rhat(column) for column in columns),
        min(bulk_ess(column) for column in columns),
        min(tail_ess(column) for column in columns),
    )


def rhat(draws: Array) -> float:
    """The larger one of the values and of their distances from the median, (B, D)."""
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))


def bulk_ess(draws: Array) -> float:
    """Independent draws that would say as much about the centre, (B, D)."""
    return _ess(_normal_scores(_split(draws)))


def tail_ess(draws: Array) -> float:
    """Independent draws that would say as much about the 5 % and the 95 % quantile, (B, D)."""
    below = [draws <= np.quantile(draws, level) for level in (0.05, 0.95)]
    return min(_ess(_split(side.astype(float))) for side in below)


def _split(draws: Array) -> Array:
    """Both halves of every chain as chains, so that a drift shows: (2 B, D // 2)."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Array) -> Array:
    """Normal quantiles of the ranks among all draws: heavy tails do no harm."""
    ranks = stats.rankdata(draws, method="average").reshape(draws.shape)
    return np.asarray(stats.norm.ppf((ranks - 0.375) / (draws.size + 0.25)))


def _rhat(chains: Array) -> float:
    within, total = _variances(chains)
    return float(np.sqrt(total / within)) if within > 0 else float("inf")


def _variances(chains: Array) -> tuple[float, float]:
    """Within chains, and the estimate from all chains that also sees how far they are apart."""
    length = chains.shape[1]
    within = float(chains.var(axis=1, ddof=1).mean())
    between = float(chains.mean(axis=1).var(ddof=1)) if len(chains) > 1 else 0.0
    return within, within * (length - 1) / length + between


def _ess(chains: Array) -> float:
    """Draws over their autocorrelation time, by Geyer's initial monotone sequence."""
    count, length = chains.shape
    within, total = _variances(chains)
    if not total > 0:
        return 0.0  # no chain has moved: nothing is known
    correlation = 1.0 - (within - _autocovariances(chains).mean(axis=0)) / total
    correlation[0] = 1.0
    even = 2 * (length // 2)
    pairs = correlation[:even].reshape(-1, 2).sum(axis=1)  # positive for a reversible chain
    negative = np.flatnonzero(pairs < 0)
    last = int(negative[0]) if len(negative) else len(pairs)
    falling = np.minimum.accumulate(pairs[:last])
    rest = max(float(correlation[2 * last]), 0.0) if 2 * last < length else 0.0
    time = -1.0 + 2.0 * float(falling.sum()) + rest
    draws = count * length
    return draws / max(time, 1.0 / np.log10(draws))


def _autocovariances(chains: Array) -> Array:
    """Of every chain at all lags, (B, D), with one divisor for all lags."""
    length = chains.shape[1]
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * length, axis=1)) ** 2
    return np.asarray(np.fft.irfft(spectrum, axis=1)[:, :length] / length)
