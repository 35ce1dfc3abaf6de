"""Colours and limits that panels share, chosen by what the values are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gsnobench.data import Array
from gsnobench.drawing.rules import (
    ERROR_COLOURS,
    FIELD_COLOURS,
    LENGTH_COLOURS,
    SIGNED_COLOURS,
)

UNIFORM = 1e-6  # a field varies if it does so by more than this share of its size
BOTH_SIDES = 0.1  # a field is signed if its smaller side reaches this share of its larger one
OUTLIERS = (0.99, 1.3)  # the share of values that is shown for sure, if others are this far out
DECAY = 3.0  # frames get scales of their own if their sizes differ by more than this factor


@dataclass(frozen=True)
class Scale:
    """Colours and limits that panels share."""

    low: float
    high: float
    colours: str
    label: str
    cut_below: bool = False  # values lie below the low end
    cut_above: bool = False

    @property
    def centre(self) -> float:
        """The middle of the limits."""
        return 0.5 * (self.low + self.high)

    @property
    def is_centred(self) -> bool:
        """Whether the middle means something: the reference of a field, or no error."""
        return self.colours in (SIGNED_COLOURS, ERROR_COLOURS)

    @classmethod
    def spanning(cls, values: Array, label: str, colours: str = FIELD_COLOURS) -> Scale:
        """From the smallest to the largest value; a few far outliers are cut off."""
        kept = finite(values)
        middle = float(np.median(kept))
        low = middle - _reach(np.maximum(middle - kept, 0.0))
        high = middle + _reach(np.maximum(kept - middle, 0.0))
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        return cls(float(low), float(high), colours, label).reached_by(values)

    @classmethod
    def about(cls, values: Array, label: str, reference: float) -> Scale:
        """As far below the reference as above it, so that white is the reference."""
        reach = _reach(np.abs(finite(values) - reference)) or 1.0
        ends = cls(reference - reach, reference + reach, SIGNED_COLOURS, label)
        return ends.reached_by(values)

    @classmethod
    def symmetric(cls, values: Array, label: str) -> Scale:
        """About zero, so that white means right; a few outliers are cut off."""
        limit = _limit(values)
        return cls(-limit, limit, ERROR_COLOURS, label).reached_by(values)

    @classmethod
    def rising(cls, values: Array, label: str) -> Scale:
        """From zero up, for lengths."""
        return cls(0.0, _limit(values), LENGTH_COLOURS, label).reached_by(values)

    def reached_by(self, values: Array) -> Scale:
        """The same scale, its ends pointed where these values lie outside."""
        low, high = finite(values).min(), finite(values).max()
        slack = 1e-6 * (self.high - self.low)
        below, above = bool(low < self.low - slack), bool(high > self.high + slack)
        return replace(self, cut_below=below, cut_above=above)


def finite(values: Array) -> Array:
    """The finite ones, or a zero if there is none."""
    kept = values[np.isfinite(values)]
    return kept if kept.size else np.zeros(1)


def _reach(sizes: Array) -> float:
    """The largest size, or the one below which nearly all are if it is far out."""
    share, factor = OUTLIERS
    most, largest = float(np.quantile(sizes, share)), float(sizes.max())
    return most if largest > factor * most > 0 else largest


def _limit(values: Array) -> float:
    return float(np.quantile(np.abs(finite(values)), 0.998)) or 1e-12


def is_signed(values: Array, reference: float = 0.0) -> bool:
    """Whether values lie on both sides of the reference, and far enough on each."""
    moved = finite(values) - reference
    below, above = max(-float(moved.min()), 0.0), max(float(moved.max()), 0.0)
    return min(below, above) > BOTH_SIDES * max(below, above)


def is_uniform(values: Array) -> bool:
    """Whether there is nothing to see: one value everywhere."""
    kept = finite(values)
    return bool(np.ptp(kept) <= UNIFORM * max(float(np.abs(kept).max()), 1e-30))


def decays(frames: Sequence[Array], reference: float = 0.0) -> bool:
    """Whether one scale for all frames would leave some of them without contrast."""
    sizes = [float(np.abs(finite(frame) - reference).max()) for frame in frames]
    return min(sizes) * DECAY < max(sizes)
