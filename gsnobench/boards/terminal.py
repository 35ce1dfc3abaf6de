"""Boards on a terminal: header and lines of each table, with the wording of the other views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.columns import ERROR, Column, cost_columns, error_columns
from gsnobench.boards.diff import Change
from gsnobench.boards.evidence import printable
from gsnobench.boards.reading import verdict

Table = tuple[list[str], list[list[str]]]
OWN = " (yours)"  # behind the name of a row
FACTOR = "/ best floor"  # heading of the error divided by that of the best floor


def overview(track: BoardTrack, *, wide: bool = False) -> Table:
    """Rows by tasks; extra ones, and those that only floors have tried, if it may be wide."""
    filled = [board for board in track.boards if board.compared]
    main = [board for board in track.main if board.has_models]
    boards = (filled if wide else main) or filled
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
    headings = [printable(board.slug) for board in boards]
    return ["row", "tasks", "mean rank", "times the best", *headings], lines


def _cell(row: Row | None) -> str:
    return "" if row is None else wording.error(row) + wording.signs(row)


def overview_remarks(track: BoardTrack, *, wide: bool = False) -> Iterator[str]:
    """What the overview cannot hold."""
    where = "" if wide else ", shown with --wide"
    floors = [board.slug for board in track.main if board.compared and not board.has_models]
    extra = [board.slug for board in track.extra if board.compared]
    if floors:
        yield printable(f"Floors only{where}: {', '.join(floors)}.")
    if extra:
        yield printable(f"Extra tasks, not counted{where}: {', '.join(extra)}.")
    yield printable(wording.overview_legend(track))
    yield wording.SIGNS
    yield from map(printable, wording.comparisons(track))
    yield printable(" ".join(verdict(track)))


def board(shown: Board, *, wide: bool = False) -> Table:
    """One board without its variants, rows with an error first; all columns if it may be wide."""
    columns = _columns(shown.compared, wide=wide)
    rows = [*shown.compared, *shown.blank]
    lines = [
        [
            *(wording.place(row), _name(row), wording.ties(row), wording.places(row)),
            *_with_factor([_shown(column, row) for column in columns], row, shown),
        ]
        for row in rows
    ]
    headings = [printable(column.name) for column in columns]
    return ["place", "row", "ties", "range", headings[0], FACTOR, *headings[1:]], lines


def _name(row: Row) -> str:
    """The row, marked if a run of this home is among its seeds."""
    return printable(row.name) + (OWN if row.is_own else "")


def _with_factor(cells: list[str], row: Row, shown: Board) -> list[str]:
    """The cells of a row with its factor to the best floor behind the error."""
    floor = shown.best_floor
    factor = math.nan if floor is None else row.error / floor.error
    return [cells[0], wording.number(factor, 2), *cells[1:]]


def variants(shown: Board, *, wide: bool = False) -> Table:
    """What a board does not rank."""
    columns = _columns(shown.variants, wide=wide)
    lines = [[_name(row), *(_shown(column, row) for column in columns)] for row in shown.variants]
    return ["variant", *(printable(column.name) for column in columns)], lines


def _columns(rows: Sequence[Row], *, wide: bool) -> list[Column]:
    columns = [*error_columns(rows), *cost_columns(rows)]
    return [column for column in columns if wide or not column.is_detail]


def _shown(column: Column, row: Row) -> str:
    if column is ERROR:
        return wording.error(row) + wording.signs(row)
    return column.show(row) if row.seeds else wording.NOTHING


def remarks(shown: Board, rows: Sequence[Row], *, wide: bool = False) -> Iterator[str]:
    """What the tables cannot hold; who is ahead comes last, how to read it if it may be wide."""
    if wide:
        yield wording.HOW_TO_READ
        yield wording.HOW_TO_READ_MARKS
    by_note: dict[str, list[str]] = {}
    for row in rows:
        for note in wording.settings_and_notes(row) if wide else wording.brief_notes(row):
            by_note.setdefault(note, []).append(row.name)
    yield from (printable(f"{', '.join(names)}: {note}") for note, names in by_note.items())
    if any(row.is_own for row in rows):
        yield "(yours): a run of your home folder is among the seeds."
    if any(row.is_variant for row in rows):
        yield wording.VARIANTS
    elif shown.variants:
        yield f"Variants, not ranked: {len(shown.variants)}; --variants shows them."
    if not wide:
        yield (
            "--wide shows all columns, how to read them, and what would tell a row from the one "
            "above."
        )
    if sentence := wording.promotion(shown):
        yield printable(sentence)


def change(line: Change) -> list[str]:
    """A line of `leaderboard diff`."""
    names = [printable(name) for name in (line.track, line.board, line.row)]
    numbers = [wording.number(value) for value in (line.before, line.after, line.p_value)]
    return [*names, *numbers, line.verdict]
