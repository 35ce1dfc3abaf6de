"""Sentences, and how numbers and states are written: the same in every view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gsnobench.boards.board import Board, Row

NOTHING = "–"
HOW_TO_READ = (
    "Error: mean over seeds of the headline (relative L2 of field - reference on the test split), "
    "with a 95 % t-interval over seeds of its logarithm. Two rows are separated only if a paired "
    "bootstrap over test samples and a Welch test over seeds of the log error both say so "
    "(Holm-corrected over the board); rows that are not separated share a rank. A row with a "
    "single seed gets no rank; a closed form has none and needs none."
)
COMPUTED_INPUTS = (
    "Features are inputs that are computed and not learned: distances to the boundaries, smoothed "
    "inputs, a linear propagator. Where frames are given, most models then add to the propagator's "
    "trajectory, so compare with the floor modal. The knobs and steps of a row are the same with "
    "features and without."
)
COMPUTED_INPUTS_HEADER = ("row", "as it is", "seeds", "with features", "seeds", "ratio")
# heading with its unit -> name of the cost
COST_COLUMNS = {
    "parameters": "parameters",
    "prepare s": "prepare_s",
    "train CPU-s": "train_cpu_s",
    "ms a sample": "inference_s",
    "peak MB": "peak_mb",
}


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, a dash if there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
    return f"{value:.{decimals}f}"


def count(value: float) -> str:
    """A whole number with separators, a dash if there is none."""
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def spread(interval: tuple[float, float] | None) -> str:
    """An interval over seeds, a dash if there is none."""
    return f"{number(interval[0])} to {number(interval[1])}" if interval else NOTHING


def seeds(row: Row) -> str:
    """How many seeds a row has; a closed form has none."""
    return "exact" if row.is_exact else str(row.seeds)


def rank(row: Row, board: Board) -> str:
    """`2`, `2=` where it is shared, with the places that are possible: `2= (2-4)`."""
    if row.rank is None:
        return NOTHING
    low, high = row.rank.low, row.rank.high
    is_shared = sum(other.rank is not None and other.rank.low == low for other in board.rows) > 1
    places = f" ({low}-{high})" if high > low else ""
    return f"{low}{'=' if is_shared else ''}{places}"


def kind(row: Row) -> str:
    return "floor" if row.is_floor else "variant" if row.is_variant else "model"


def computed_inputs(board: Board) -> list[list[str]]:
    """What computed inputs change: one line per row that was run with them and without."""
    lines = []
    for without, with_inputs in board.input_pairs:
        before = [number(without.error), str(without.seeds)]
        after = [number(with_inputs.error), str(with_inputs.seeds)]
        lines.append([without.name, *before, *after, f"{with_inputs.error / without.error:.2f}"])
    return lines


def promotion(board: Board) -> str:
    """How far the best model is ahead, in a sentence; empty where there are not two."""
    best = board.promotion
    if best is None:
        return ""
    separated = "separated" if best.is_separated else "not separated"
    ahead = f"{best.percent:.0f} % below the next best model"
    return f"{best.first} is {ahead}, {best.second} ({separated})."


def costs(row: Row) -> Mapping[str, str]:
    """The columns COST_COLUMNS: preparation, training and inference apart."""
    return {
        "parameters": count(row.cost("parameters")),
        "prepare s": number(row.cost("prepare_s")),
        "train CPU-s": number(row.cost("train_cpu_s")),
        "ms a sample": number(1000 * row.cost("inference_s")),
        "peak MB": count(row.cost("peak_mb")),
    }


def podium(errors: Sequence[float]) -> tuple[float, float]:
    """Best and second best error, which tables mark; not a number where there is none."""
    known = sorted({error for error in errors if math.isfinite(error)})
    best, second, *_ = (*known, math.nan, math.nan)
    return best, second
