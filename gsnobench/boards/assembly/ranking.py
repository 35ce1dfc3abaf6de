"""Who is ahead of whom on a board, and what would tell two rows apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gsnobench.boards.board import Promotion, Row
from gsnobench.boards.statistics import LEVEL, Scores, ranks, seeds_needed, separation
from gsnobench.data import Array


def ranked_rows(rows: Sequence[Row]) -> tuple[list[Row], Array]:
    """Rows by their error with rank and needs, and the p-values of all pairs, (R, R)."""
    ordered = sorted(rows, key=lambda row: (row.error, row.name))
    if not ordered:
        return [], np.ones((0, 0))
    scores = [row.scores for row in ordered]
    p_values = separation(scores)
    pairs = len(ordered) * (len(ordered) - 1) // 2
    models = [row for row in ordered if not row.is_floor]
    # places of floors alone would read as if these were the best of the board
    has_places = not models or any(row.scores.is_testable for row in models)
    places = ranks(scores, p_values) if has_places else [None] * len(ordered)
    ranked = []
    for index, (row, rank) in enumerate(zip(ordered, places, strict=True)):
        # a closed form lacks no seed
        is_open = index > 0 and not row.is_exact and p_values[index, index - 1] >= LEVEL
        needs = _needs(scores[index], scores[index - 1], pairs) if is_open else ""
        ranked.append(replace(row, rank=rank, needs=needs))
    return ranked, p_values


def _needs(row: Scores, above: Scores, pairs: int) -> str:
    """What would separate a row from the one above it."""
    missing = seeds_needed(row, above, pairs)
    if missing is None:
        return "more seeds and more test samples"
    return f"{missing} more seed{'s' if missing > 1 else ''}" if missing else ""


def promotion(ranked: Sequence[Row], p_values: Array) -> Promotion | None:
    """None where fewer than two models have an error."""
    best_of: dict[str, int] = {}  # model -> index of its best row
    for index, row in enumerate(ranked):
        if not row.is_floor:
            best_of.setdefault(row.model, index)
    if len(best_of) < 2:
        return None
    first, second = list(best_of.values())[:2]
    best, next_best = ranked[first], ranked[second]
    percent = 100 * (next_best.error - best.error) / next_best.error
    return Promotion(best.name, next_best.name, percent, bool(p_values[first, second] < LEVEL))
