"""How numbers and states are spelt, the same in every view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gsnobench.boards.board import Board, Row

NOTHING = "–"
HOW_TO_READ = (
    "Error: mean over seeds of the headline (relative L2 of field - reference on the test split), "
    "with a 95 % t-interval over "
    "seeds of its logarithm. Two rows are separated only if a paired bootstrap over test samples "
    "and a Welch test over seeds of "
    "the log error both say so (Holm-corrected over the board); rows that are not separated share "
    "a rank. A row with a single "
    "seed gets no rank; a closed form has none and needs none."
)


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, a dash if there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
    return f"{value:.{places}f}"


def count(value: float) -> str:
    """A whole number with separators, a dash if there is none."""
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def interval(row: Row) -> str:
    """The interval over seeds."""
    found = row.interval
    return f"{number(found[0])} to {number(found[1])}" if found else NOTHING


def rank(row: Row, board: Board) -> str:
    """`2`, `2=` where it is shared, with the places it may hold: `2= (2-4)`."""
    if row.rank is None:
        return NOTHING
    is_shared = (
        sum(other.rank is not None and other.rank.low == row.rank.low for other in board.rows) > 1
    )
    places = f" ({row.rank.low}-{row.rank.high})" if row.rank.high > row.rank.low else ""
    return f"{row.rank.low}{'=' if is_shared else ''}{places}"


def kind(row: Row) -> str:
    return "floor" if row.is_floor else "variant" if row.is_variant else "model"


OFFERED = ("row", "as it is", "seeds", "with features", "seeds", "ratio")
WHAT_IS_OFFERED = (
    "Features are inputs that are computed and not learned: distances to the boundaries, smoothed "
    "inputs, a linear propagator. "
    "Where frames are given, most models then add to the propagator's trajectory, so compare with "
    "the floor modal. The knobs and "
    "steps of a row are the same with features and without."
)


def offered(board: Board) -> list[list[str]]:
    """What computed inputs change: a line a row that was run with them and without."""
    lines = []
    for plain, with_them in board.offered:
        errors = [
            text for row in (plain, with_them) for text in (number(row.error), str(row.seeds))
        ]
        lines.append([plain.name, *errors, f"{with_them.error / plain.error:.2f}"])
    return lines


def promotion(board: Board) -> str:
    """How far the best model is ahead, in a sentence; empty where there are not two."""
    found = board.promotion
    if found is None:
        return ""
    separated = "separated" if found.is_separated else "not separated"
    return f"{found.first} is {found.percent:.0f} % below the next best model, {found.second} ({separated})."


def costs(row: Row) -> Mapping[str, str]:
    """Costs with their units in the name; preparation, training and inference apart."""
    return {
        "parameters": count(row.cost("parameters")),
        "prepare s": number(row.cost("prepare_s")),
        "train CPU-s": number(row.cost("train_cpu_s")),
        "ms a sample": number(1000 * row.cost("inference_s")),
        "peak MB": count(row.cost("peak_mb")),
    }


def podium(errors: Sequence[float]) -> tuple[float, float]:
    """Best and second best error, not a number where there is none: what tables print bold and
    underlined.
    """
    known = sorted({error for error in errors if math.isfinite(error)})
    return (*known, math.nan, math.nan)[:2]  # type: ignore[return-value]
