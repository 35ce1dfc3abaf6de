"""Boards on a terminal: header and lines of each table, with the wording of the other views."""

from __future__ import annotations

from collections.abc import Iterator

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.diff import Change
from gsnobench.boards.evidence import printable

Table = tuple[list[str], list[list[str]]]
MEASURED = ("error", "95 % over seeds", "seeds", "raw", "published")
COST_NAMES = ("parameters", "train CPU-s", "ms per sample")


def overview(track: BoardTrack) -> Table:
    """Rows by tasks."""
    boards = [board for board in track.boards if board.compared]
    by_name = [{row.name: row for row in board.rows} for board in boards]
    lines = [[printable(name), *(_cell(rows.get(name)) for rows in by_name)] for name in track.rows]
    return ["row", *(printable(board.slug) for board in boards)], lines


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return _error(row) + ("°" if row.has_few_seeds else "")


def _error(row: Row) -> str:
    return wording.number(row.error) if row.seeds else row.state


def board(shown: Board) -> Table:
    """One board, rows with an error first."""
    lines = [_line(row, shown) for row in shown.rows]
    return ["rank", "row", *MEASURED, *COST_NAMES, "needs"], lines


def _line(row: Row, shown: Board) -> list[str]:
    costs = wording.costs(row)
    measured = [
        _error(row),
        wording.spread(row.interval),
        wording.seeds(row),
        wording.number(row.raw),
        wording.number(row.published),
    ]
    spent = [costs[cost] for cost in COST_NAMES]
    return [wording.rank(row, shown), printable(row.name), *measured, *spent, row.needs]


def remarks(shown: Board) -> Iterator[str]:
    """What the table cannot hold."""
    if sentence := wording.promotion(shown):
        yield printable(sentence)
    for row in shown.rows:
        if row.reason:
            yield printable(f"{row.name}: {row.state}, {row.reason}")
    yield wording.HOW_TO_READ


def change(line: Change) -> list[str]:
    """A line of `leaderboard diff`."""
    names = [printable(name) for name in (line.track, line.board, line.row)]
    numbers = [wording.number(value) for value in (line.before, line.after, line.p_value)]
    return [*names, *numbers, line.verdict]
