"""Boards on a terminal: the same texts, without control characters that a stranger's name may hold."""

from __future__ import annotations

from collections.abc import Iterator

from gsnobench.boards import wording as texts
from gsnobench.boards.board import Board, Row, Track
from gsnobench.boards.diff import Change

Table = tuple[list[str], list[list[str]]]


def overview(track: Track) -> Table:
    """Rows by tasks."""
    boards = [board for board in track.boards if board.compared]
    tables = [{row.name: row for row in board.rows} for board in boards]
    rows = [[printable(name), *(_cell(table.get(name)) for table in tables)] for name in track.rows]
    return ["row", *(printable(board.slug) for board in boards)], rows


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return texts.number(row.error) + ("°" if row.is_thin else "") if row.seeds else row.state


def board(chosen: Board) -> Table:
    """One board, rows with an error first."""
    header = [
        "rank",
        "row",
        "error",
        "95 % over seeds",
        "seeds",
        "raw",
        "published",
        "parameters",
        "train CPU-s",
        "ms a sample",
    ]
    rows = [_row(row, chosen) for row in chosen.rows]
    return [*header, "needs"], rows


def _row(row: Row, chosen: Board) -> list[str]:
    costs = texts.costs(row)
    error = texts.number(row.error) if row.seeds else row.state
    seeds = "exact" if row.is_exact else str(row.seeds)
    numbers = [
        error,
        texts.interval(row),
        seeds,
        texts.number(row.raw),
        texts.number(row.published),
    ]
    spent = [costs[name] for name in ("parameters", "train CPU-s", "ms a sample")]
    return [texts.rank(row, chosen), printable(row.name), *numbers, *spent, row.needs]


def remarks(chosen: Board) -> Iterator[str]:
    """What the table cannot hold."""
    if sentence := texts.promotion(chosen):
        yield printable(sentence)
    for row in chosen.rows:
        if row.reason:
            yield printable(f"{row.name}: {row.state}, {row.reason}")
    yield texts.HOW_TO_READ


def change(one: Change) -> list[str]:
    """A line of `leaderboard diff`."""
    names = [printable(name) for name in (one.track, one.board, one.row)]
    return [
        *names,
        texts.number(one.before),
        texts.number(one.after),
        texts.number(one.p_value),
        one.verdict,
    ]


def printable(text: str) -> str:
    """Without escape sequences and line breaks."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
