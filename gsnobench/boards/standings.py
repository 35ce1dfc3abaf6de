"""Rows across the tasks of a track: tasks they cover, mean ranks, ratios to the best, and wins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gsnobench.boards.board import Board, Standing, safe_name
from gsnobench.boards.statistics import LEVEL, Comparison, across, interval, mean_ranks
from gsnobench.data import Array
from gsnobench.records import rounded

MODELS = 2  # rows of models that make a task worth comparing


def task_boards(boards: Sequence[Board], names: Sequence[str]) -> list[Board]:
    """One board per task of the benchmark; where there is none of them, one per task at all.

    A task of several time windows is represented by the window with the most results.
    """
    main = [board for board in boards if board.slug == safe_name(board.task)]
    chosen = []
    for name in names:
        windows = [board for board in main if dataset_of(board) == name]
        chosen += sorted(windows, key=lambda board: (-_results(board), board.slug))[:1]
    return chosen or main


def dataset_of(board: Board) -> str:
    """The name of a task without its time window: swe for swe@5-46."""
    return board.task.partition("@")[0]


def _results(board: Board) -> int:
    return sum(row.seeds for row in board.compared)


def compared_boards(tasks: Sequence[Board]) -> list[Board]:
    """Tasks on which at least two models have an error; else those on which one has."""
    models = {board.slug: sum(not row.is_floor for row in board.compared) for board in tasks}
    least = MODELS if max(models.values(), default=0) >= MODELS else 1
    return [board for board in tasks if models[board.slug] >= least]


# ---------------------------------------------------------------------------------------- standings


def make_standings(
    boards: Sequence[Board], tasks: Sequence[Board], compared: Sequence[Board]
) -> tuple[Standing, ...]:
    """Every row of any board; those that have all compared tasks first, by their mean rank."""
    rows = {row.name: row for board in boards for row in board.rows if not row.is_variant}
    names, table = complete_table(compared)
    ranks = dict(zip(names, mean_ranks(table), strict=True)) if names else {}
    standings = [
        Standing(
            row=name,
            is_floor=row.is_floor,
            tasks=sum(_has(board, name) for board in tasks),
            is_complete=name in ranks,
            mean_rank=ranks.get(name, math.nan),
            ratio=_ratio(name, compared),
            ratio_interval=_ratio_interval(name, compared),
        )
        for name, row in rows.items()
    ]
    covered = Counter(row.name for board in compared for row in board.compared)
    return tuple(sorted(standings, key=lambda standing: _order(standing, covered[standing.row])))


def _order(standing: Standing, covered: int) -> tuple[float, int, float, str]:
    """Complete rows by mean rank; the others by the tasks that they cover, then by their ratio."""
    rank = standing.mean_rank if standing.is_complete else math.inf
    ratio = standing.ratio if math.isfinite(standing.ratio) else math.inf
    return rank, -covered, ratio, standing.row


def complete_table(boards: Sequence[Board]) -> tuple[list[str], Array]:
    """Rows that have an error on all of the boards, by name, and their errors (R, boards)."""
    errors = [{row.name: row.error for row in board.compared} for board in boards]
    names = sorted(set.intersection(*map(set, errors))) if errors else []
    table = [[by_name[name] for by_name in errors] for name in names]
    return names, np.array(table).reshape(len(names), len(boards))


def _has(board: Board, name: str) -> bool:
    return any(row.name == name for row in board.compared)


def _ratio(name: str, boards: Sequence[Board]) -> float:
    """Geometric mean of the row's error over the best one, on the boards that have the row."""
    ratios = _ratios(name, boards)
    # the last bits of exp and log differ between processors, committed pages must not
    return rounded(float(np.exp(np.mean(np.log(ratios)))), 12) if ratios else math.nan


def _ratio_interval(name: str, boards: Sequence[Board]) -> tuple[float, float] | None:
    """t-interval of the log ratio: the tasks are the sample; None for a single one.

    No error is below the best one, so the interval ends at 1 where it would go further.
    """
    of_tasks = interval(np.array(_ratios(name, boards)))
    return None if of_tasks is None else (max(1.0, of_tasks[0]), of_tasks[1])


def _ratios(name: str, boards: Sequence[Board]) -> list[float]:
    return [
        row.error / board.compared[0].error
        for board in boards
        for row in board.compared
        if row.name == name
    ]


# -------------------------------------------------------------------------------------- comparisons


def compare_rows(boards: Sequence[Board], *, converged_only: bool = False) -> Comparison | None:
    """Mean ranks of the rows that have an error on all of the boards."""
    names, table = complete_table(boards)
    rows = [row for board in boards for row in board.compared]
    marked = {row.name for row in rows if converged_only and not row.is_converged}
    kept = [index for index, name in enumerate(names) if name not in marked]
    return across(table[kept], [names[index] for index in kept])


def count_wins(boards: Sequence[Board]) -> Mapping[tuple[str, str], tuple[int, int]]:
    """(row, other) -> tasks on which the row is significantly better, tasks that both have."""
    won: Counter[tuple[str, str]] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for board in boards:
        names = [row.name for row in board.compared]
        for first, name in enumerate(names):
            for second, rival in enumerate(names):
                if first != second:
                    is_separated = bool(board.p_values[first, second] < LEVEL)
                    both[name, rival] += 1
                    won[name, rival] += first < second and is_separated
    return {pair: (won[pair], both[pair]) for pair in both}
