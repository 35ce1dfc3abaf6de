"""The static site: an overview, a page a task, a page a row; plain files that refer to one another
and to nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gsnobench.boards import wording as texts
from gsnobench.boards.board import Board, Row, Track, safe_name
from gsnobench.boards.paper import CITATION
from gsnobench.boards.plots.task import board_figures
from gsnobench.boards.plots.track import track_figures
from gsnobench.boards.site.html import Html, document, tag
from gsnobench.boards.site.task_page import (
    KINDS,
    MEASURED,
    board_page,
    breakable,
    cell,
    error_cell,
    figure,
    heading,
    measured_cells,
    model_path,
    pair_table,
    scrolling,
    site_links,
    task_path,
    tools,
)

TITLE = "gsnobench leaderboards"
ABOUT = (
    "Neural operators on irregular domains, trained and scored alike. Numbers are relative L2 "
    "errors on the test split, in "
    "physical units after a constant reference is subtracted, mean over seeds: lower is better."
)
MARKS = (
    "Bold: best of the task. Underlined: second. Small number: rank, shared by rows that "
    "statistics cannot tell apart. "
    "°: fewer than three seeds, not to be trusted yet. Pale: a floor, which every model should "
    "beat."
)

Note = tuple[str, str]  # state, reason


def site_files(tracks: Sequence[Track]) -> Iterator[tuple[str, str]]:
    """Relative path and text of every page; the same evidence gives the same bytes."""
    yield "index.html", _index(tracks)
    for track in tracks:
        for board in track.boards:
            yield task_path(board), board_page(track, board, board_figures(board), home="../")
    for name in sorted({name for track in tracks for name in track.rows}):
        yield model_path(name), _model_page(name, tracks)


def _task_name(board: Board) -> str:
    """The task, and what sets this board apart where the task has several."""
    return board.task if board.slug == safe_name(board.task) else board.slug


# ----------------------------------------------------------------------------------------- overview


def _index(tracks: Sequence[Track]) -> str:
    ids = {track.name: f"track-{place}" for place, track in enumerate(tracks, 1)}
    links = [
        tag("li", tag("a", f"Track {track.name}", href=f"#{ids[track.name]}")) for track in tracks
    ]
    main = [tag("h1", TITLE), tag("p", ABOUT, class_="lead"), tag("p", MARKS, class_="muted")]
    main += [section for track in tracks for section in _track_section(track, ids[track.name])]
    main += (
        [tag("h2", "How to read it"), tag("p", texts.HOW_TO_READ)]
        if tracks
        else [tag("p", "No result yet.")]
    )
    return document(TITLE, tag("nav", tag("ul", links), aria_label="Tracks"), main)


def _track_section(track: Track, place: str) -> Iterator[Html]:
    results = sum(len(row.done) for board in track.boards for row in board.rows)
    yield tag("h2", f"Track {track.name}", id=place)
    yield tag(
        "p", f"{len(track.rows)} rows, {len(track.boards)} tasks, {results} finished results."
    )
    kinds = {texts.kind(row) for board in track.boards for row in board.rows if not row.is_variant}
    notes = _notes(track)
    yield tools(f"{place}-table", kinds)
    yield _overview_table(track, place, notes)
    if notes:
        items = [
            tag("li", f"{state}: {reason}", id=f"{place}-note-{number}")
            for (state, reason), number in notes.items()
        ]
        yield Html(tag("h3", "Why a cell has no error") + tag("ol", items, class_="notes"))
    yield from (figure(one) for one in track_figures(track))
    yield _wins(track)


def _notes(track: Track) -> dict[Note, int]:
    """Each reason once, numbered as the cells name it."""
    found = sorted(
        {
            (row.state, row.reason)
            for board in track.boards
            for row in board.rows
            if not row.seeds and not row.is_variant
        }
    )
    return {note: number for number, note in enumerate(found, 1)}


def _overview_table(track: Track, place: str, notes: Mapping[Note, int]) -> Html:
    tables = [{row.name: row for row in board.rows} for board in track.boards]
    marks = [texts.podium([row.error for row in board.compared]) for board in track.boards]
    columns = [_task_heading(board) for board in track.boards]
    body = []
    for name in track.rows:
        cells = [
            _overview_cell(board, table.get(name), mark, place, notes)
            for board, table, mark in zip(track.boards, tables, marks, strict=True)
        ]
        row = next(table[name] for table in tables if name in table)
        kind = texts.kind(row)
        head = tag(
            "th",
            tag("a", breakable(name), href=model_path(name)),
            _badge(kind),
            scope="row",
            data_value=name,
        )
        body.append(tag("tr", head, cells, class_=kind, data_kind=kind, data_name=name))
    caption = f"Track {track.name}: error of every row on every task, best mean place first"
    header = tag("thead", tag("tr", heading("row", class_="names"), columns))
    table = tag(
        "table",
        tag("caption", caption),
        header,
        tag("tbody", body),
        class_="sortable",
        id=f"{place}-table",
    )
    return scrolling(table, f"Overview of track {track.name}")


def _task_heading(board: Board) -> Html:
    name = _task_name(board)
    hidden = tag("span", f"sort by {name}", class_="hidden-text")
    return heading(hidden, before=[tag("a", name, href=task_path(board))])


def _badge(kind: str) -> Sequence[Html]:
    return [tag("span", kind, class_="badge")] if kind in KINDS else []


def _overview_cell(
    board: Board, row: Row | None, marks: tuple[float, float], place: str, notes: Mapping[Note, int]
) -> Html:
    if row is None:
        return tag("td", tag("span", "not run", class_="hidden-text"))
    if not row.seeds:
        number = notes[row.state, row.reason]
        mark = tag(
            "sup",
            tag("a", str(number), href=f"#{place}-note-{number}", aria_label=f"reason {number}"),
        )
        return tag("td", row.state, mark, class_="muted", title=row.reason)
    return error_cell(row, marks, texts.rank(row, board).split(" ")[0] if row.rank else "")


def _wins(track: Track) -> Html:
    """Tasks on which a row is surely better than another, of those that both have."""
    names = [name for name in track.rows if any(name in pair for pair in track.wins)]
    if not names:
        return Html("")
    cells = [[_won(track.wins.get((name, other))) for other in names] for name in names]
    caption = "Tasks on which the row is surely better than the column, of the tasks that both have"
    return tag(
        "details", tag("summary", "Who wins against whom"), pair_table(names, cells, caption)
    )


def _won(tasks: tuple[int, int] | None) -> Html:
    won, both = tasks or (0, 0)
    return tag("td", f"{won}/{both}" if both else "", class_="win" if won else "muted")


# ------------------------------------------------------------------------------------------- models


def _model_page(name: str, tracks: Sequence[Track]) -> str:
    main = [
        tag("h1", name),
        tag("p", f"All results of the row {name}, with what they cost.", class_="lead"),
    ]
    for place, track in enumerate(tracks, 1):
        found = [
            (board, row)
            for board in track.boards
            for row in board.rows
            if row.entries[0].spec.row == name
        ]
        if found:
            main += [
                tag("h2", f"Track {track.name}"),
                _model_table(name, track, found, f"results-{place}"),
            ]
    main.append(
        tag(
            "p",
            f"Published: printed in {CITATION}; on raw fields, with other data, sizes and budgets.",
            class_="notes",
        )
    )
    return document(f"{name}, {TITLE}", site_links("../", tag("span", name)), main)


def _model_table(name: str, track: Track, found: Sequence[tuple[Board, Row]], place: str) -> Html:
    header = tag(
        "tr",
        heading("task", class_="names"),
        [heading(one) for one in ("rank", "times the best", *MEASURED)],
        tag("th", "notes", scope="col", class_="words"),
    )
    done = [_result_row(board, row) for board, row in found if row.seeds]
    blank = [_reason_row(board, row) for board, row in found if not row.seeds]
    bodies = [tag("tbody", done), *([tag("tbody", blank)] if blank else [])]
    caption = f"{name} on track {track.name}"
    table = tag(
        "table", tag("caption", caption), tag("thead", header), bodies, class_="sortable", id=place
    )
    return scrolling(table, f"Results on track {track.name}")


def _task_cell(board: Board, row: Row) -> Html:
    settings = tag("span", row.name, class_="badge") if row.is_variant else ""
    return tag(
        "th",
        tag("a", _task_name(board), href=f"../{task_path(board)}"),
        settings,
        scope="row",
        data_value=_task_name(board),
    )


def _result_row(board: Board, row: Row) -> Html:
    ratio = row.error / board.compared[0].error if board.compared else float("nan")
    cells = [
        cell(texts.rank(row, board), row.rank.low if row.rank else None),
        cell(texts.number(ratio), ratio),
    ]
    notes = tag("td", "; ".join(part for part in (row.needs, row.reason) if part), class_="words")
    marks = texts.podium([one.error for one in board.compared])
    return tag(
        "tr",
        _task_cell(board, row),
        cells,
        measured_cells(row, marks),
        notes,
        class_=texts.kind(row),
    )


def _reason_row(board: Board, row: Row) -> Html:
    reason = tag(
        "td", f"{row.state}: {row.reason}", class_="reason", colspan=str(len(MEASURED) + 3)
    )
    return tag("tr", _task_cell(board, row), reason, class_=texts.kind(row))
