"""Whether a training had come to its end when its budget was used up, from its curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsnobench.data import Array

FEWEST_EPOCHS = 50
LARGEST_FALL = 0.05  # of the validation error or of the loss, over the last tenth of the steps
LAST_TENTH = 0.9  # share of the steps after which it begins

Curve = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Ending:
    """How a training ended; of several phases the last one that takes steps is looked at."""

    epochs: float  # how often training used every sample, over all phases
    valid_fall: float  # by what share the best validation error fell over the last tenth
    loss_fall: float  # the same of the training loss
    best_at: float  # share of the steps after which validation was best


def ending_of(curve: Curve, steps: Mapping[str, int]) -> Ending | None:
    """The ending of a run; None for a closed form and without a curve."""
    points = [point for point in curve if point["step"] > 0]
    if not points:
        return None
    name = points[-1]["phase"]
    phase, total = [point for point in points if point["phase"] == name], steps[name]
    valid = {point["step"]: point["valid"] for point in phase if point.get("valid") is not None}
    loss = {point["step"]: point["loss"] for point in phase if point.get("loss") is not None}
    best_at = min(valid, key=lambda step: valid[step]) / total if valid else math.nan
    return Ending(_epochs(points, steps), _fall(valid, total), _fall(loss, total), best_at)


def validation_curve(curve: Curve, steps: Mapping[str, int]) -> Array:
    """(P, 2): share of the steps of the last phase that takes any, and the validation error."""
    points = [point for point in curve if point["step"] > 0 and point.get("valid") is not None]
    last = [point for point in points if point["phase"] == points[-1]["phase"]]
    shares = [[point["step"] / steps[point["phase"]], point["valid"]] for point in last]
    return np.asarray(shares, dtype=float).reshape(-1, 2)


def _epochs(points: Curve, steps: Mapping[str, int]) -> float:
    """Steps of every phase by the steps per epoch, which its first point tells exactly."""
    first = {point["phase"]: point for point in reversed(points)}
    return sum(steps[name] * point["epoch"] / point["step"] for name, point in first.items())


def _fall(values: Mapping[int, float], total: int) -> float:
    """By what share the lowest value fell over the last tenth; not a number if nothing tells."""
    before = [value for step, value in values.items() if step <= LAST_TENTH * total]
    if not before or not min(before) > 0:
        return math.nan
    return 1 - min(values.values()) / min(before)


def mean_ending(endings: Sequence[Ending]) -> Ending | None:
    """The mean over the seeds of a row, each number over the seeds that have it."""
    if not endings:
        return None
    names = ("epochs", "valid_fall", "loss_fall", "best_at")
    return Ending(*(_mean([getattr(ending, name) for ending in endings]) for name in names))


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan


def is_converged(ending: Ending) -> bool:
    """Enough epochs, validation that no longer falls, and no early best while the loss falls."""
    is_early = ending.best_at < 0.5 and ending.loss_fall > LARGEST_FALL
    return not (ending.epochs < FEWEST_EPOCHS or ending.valid_fall > LARGEST_FALL or is_early)
