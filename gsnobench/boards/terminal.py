"""Boards on a terminal: header and lines of each table, with the wording of the other views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.columns import Column, cost_columns, error_columns
from gsnobench.boards.diff import Change
from gsnobench.boards.evidence import printable

Table = tuple[list[str], list[list[str]]]
GAP = 3  # letters between two columns
NARROWEST = 60  # letters of a terminal: whatever is narrower wraps


def overview(track: BoardTrack) -> Table:
    """Rows by tasks."""
    boards = [board for board in track.boards if board.compared]
    by_name = [{row.name: row for row in board.rows} for board in boards]
    lines = []
    for standing in track.standings:
        numbers = [
            wording.coverage(standing, track),
            wording.number(standing.mean_rank),
            wording.number(standing.ratio),
        ]
        cells = [_cell(rows.get(standing.row)) for rows in by_name]
        lines.append([printable(standing.row), *numbers, *cells])
    return ["row", "tasks", "mean rank", "x best", *map(_heading, boards)], lines


def _heading(board: Board) -> str:
    """A task; a star where only floors have an error."""
    return printable(board.slug) + ("" if board.has_models else "*")


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return wording.error(row) + wording.signs(row)


def overview_remarks(track: BoardTrack) -> Iterator[str]:
    """What the overview cannot hold."""
    if any(board.compared and not board.has_models for board in track.boards):
        yield "* floors only: no model has an error on this task yet"
    yield printable(wording.overview_legend(track))
    yield from map(printable, wording.comparisons(track))


def board(shown: Board) -> Table:
    """One board without its variants, rows with an error first."""
    columns = [*error_columns(shown.compared), *cost_columns(shown.compared)]
    rows = [*shown.compared, *shown.blank]
    header = ["place", "ties", "row", *(printable(column.name) for column in columns), "range"]
    lines = [
        [
            *(wording.place(row), wording.ties(row), printable(row.name)),
            *(_shown(column, row) for column in columns),
            wording.places(row),
        ]
        for row in rows
    ]
    return header, lines


def variants(shown: Board) -> Table:
    """What a board does not rank, with its settings."""
    rows = shown.variants
    columns = [*error_columns(rows), *cost_columns(rows)]
    lines = [
        [printable(row.name), *(_shown(column, row) for column in columns), printable(row.settings)]
        for row in rows
    ]
    return ["variant", *(printable(column.name) for column in columns), "settings"], lines


def _shown(column: Column, row: Row) -> str:
    if column.name == "error":
        return wording.error(row) + wording.signs(row)
    return column.show(row) if row.seeds else wording.NOTHING


def remarks(shown: Board, rows: Sequence[Row]) -> Iterator[str]:
    """What the tables cannot hold."""
    if sentence := wording.promotion(shown):
        yield printable(sentence)
    for row in rows:
        if notes := wording.notes(row) if row.seeds else f"{row.state}, {row.reason}":
            yield printable(f"{row.name}: {notes}")
    if any(row.is_variant for row in rows):
        yield wording.VARIANTS
    elif shown.variants:
        yield f"{len(shown.variants)} variants are not ranked; --variants shows them"
    yield wording.HOW_TO_READ
    yield wording.HOW_TO_READ_MARKS


def blocks(table: Table, width: int, fixed: int) -> Iterator[Table]:
    """A table cut into tables that are at most so wide; each begins with the fixed columns."""
    header, lines = table
    sizes = [max(map(len, column)) + GAP for column in zip(header, *lines, strict=True)]
    room, used = max(width, NARROWEST) - sum(sizes[:fixed]), 0
    cut: list[list[int]] = [[]]
    for column in range(fixed, len(header)):
        if cut[-1] and used + sizes[column] > room:
            cut.append([])
            used = 0
        cut[-1].append(column)
        used += sizes[column]
    for columns in cut:
        chosen = [*range(fixed), *columns]
        yield [header[at] for at in chosen], [[line[at] for at in chosen] for line in lines]


def change(line: Change) -> list[str]:
    """A line of `leaderboard diff`."""
    names = [printable(name) for name in (line.track, line.board, line.row)]
    numbers = [wording.number(value) for value in (line.before, line.after, line.p_value)]
    return [*names, *numbers, line.verdict]
