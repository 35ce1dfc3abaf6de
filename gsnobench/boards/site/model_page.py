"""The page of one row, model@preset: its results on every task of every track."""

from __future__ import annotations

from collections.abc import Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.site.elements import (
    MEASURED,
    SITE_TITLE,
    cell,
    heading,
    measured_cells,
    notes_cell,
    published_note,
    rank_cell,
    reason_cell,
    scrolling,
    site_links,
    sortable,
    task_name,
    task_path,
    words_heading,
)
from gsnobench.boards.site.html import Html, document, tag

Result = tuple[Board, Row]


def model_page(name: str, tracks: Sequence[BoardTrack]) -> str:
    """All results of a row, variants too, one table per track."""
    lead = f"All results of the row {name}, with what they cost."
    main = [tag("h1", name), tag("p", lead, class_="lead")]
    for number, track in enumerate(tracks, 1):
        if results := _results(name, track):
            table = _table(f"{name} on track {track.name}", results, f"results-{number}")
            main += [
                tag("h2", f"Track {track.name}"),
                scrolling(table, f"Results on track {track.name}"),
            ]
    main.append(published_note())
    return document(f"{name}, {SITE_TITLE}", site_links("../", tag("span", name)), main)


def _results(name: str, track: BoardTrack) -> list[Result]:
    pairs = [(board, row) for board in track.boards for row in board.rows]
    return [(board, row) for board, row in pairs if row.entries[0].spec.row == name]


def _table(caption: str, results: Sequence[Result], anchor: str) -> Html:
    columns = [heading(column) for column in ("rank", "times the best", *MEASURED)]
    header = tag("tr", heading("task", class_="names"), columns, words_heading("notes"))
    done = [_result_row(board, row) for board, row in results if row.seeds]
    blank = [_reason_row(board, row) for board, row in results if not row.seeds]
    return sortable(caption, header, [done, blank], anchor)


def _task_cell(board: Board, row: Row) -> Html:
    settings = tag("span", row.name, class_="badge") if row.is_variant else ""
    name = task_name(board)
    link = tag("a", name, href=f"../{task_path(board)}")
    return tag("th", link, settings, scope="row", data_value=name)


def _result_row(board: Board, row: Row) -> Html:
    ratio = row.error / board.compared[0].error if board.compared else float("nan")
    cells = [rank_cell(row, board), cell(wording.number(ratio), ratio)]
    podium = wording.podium([other.error for other in board.compared])
    measured = measured_cells(row, podium)
    kind = wording.kind(row)
    return tag("tr", _task_cell(board, row), cells, measured, notes_cell(row), class_=kind)


def _reason_row(board: Board, row: Row) -> Html:
    return tag("tr", _task_cell(board, row), reason_cell(row, 3), class_=wording.kind(row))
