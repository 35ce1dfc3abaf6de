"""The index of the site: for each track all rows by all tasks, and the view across tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, Standing
from gsnobench.boards.plots.track import track_figures
from gsnobench.boards.site.elements import (
    SITE_TITLE,
    Podium,
    badge,
    breakable,
    cell,
    error_cell,
    figure,
    heading,
    model_path,
    pair_table,
    scrolling,
    sortable,
    task_name,
    task_path,
    tools,
)
from gsnobench.boards.site.html import Html, document, tag

ABOUT = (
    "Neural operators on irregular domains, trained and scored alike. Each number is the relative "
    "L2 error on the test set, averaged over seeds; lower is better. Fields with a large constant "
    "part (water depth 5 m) are scored after subtracting it."
)
MARKS = (
    "Bold: best of the task. Underlined: second. Small letters: rows of a task that share one are "
    "not significantly different. °: fewer than three seeds, not to be trusted yet. †: training "
    "was not converged. Pale: a floor, which every model should beat; n/a: it does not apply."
)

STANDING = {
    "tasks": "board tasks on which the row has an error",
    "mean rank": "over the compared tasks, of rows that have all of them",
    "times the best": "geometric mean of error / best error over the row's compared tasks",
}

Reason = tuple[str, str]  # state and reason of a row without an error


def index_page(tracks: Sequence[BoardTrack]) -> str:
    """The overview of all tracks."""
    main = [tag("h1", SITE_TITLE), tag("p", ABOUT, class_="lead"), tag("p", MARKS, class_="muted")]
    links = []
    for number, track in enumerate(tracks, 1):
        anchor = f"track-{number}"
        links.append(tag("li", tag("a", f"Track {track.name}", href=f"#{anchor}")))
        main += _track_section(track, anchor)
    if tracks:
        reading = [wording.HOW_TO_READ, wording.HOW_TO_READ_MARKS]
        main += [tag("h2", "How to read it"), *(tag("p", text) for text in reading)]
    else:
        main += [tag("p", "No result yet.")]
    return document(SITE_TITLE, tag("nav", tag("ul", links), aria_label="Tracks"), main)


def _track_section(track: BoardTrack, anchor: str) -> Iterator[Html]:
    rows = [row for board in track.boards for row in board.rows]
    kinds = {wording.kind(row) for row in rows if not row.is_variant}
    results = sum(len(row.done) for row in rows)
    counts = f"{len(track.rows)} rows, {len(track.boards)} tasks, {results} finished results."
    reasons = _reasons(rows)
    yield tag("h2", f"Track {track.name}", id=anchor)
    yield tag("p", counts)
    yield tools(f"{anchor}-table", kinds)
    yield _overview_table(track, anchor, reasons)
    legend = [wording.overview_legend(track), *wording.comparisons(track)]
    yield from (tag("p", sentence, class_="notes") for sentence in legend)
    if reasons:
        items = [
            tag("li", f"{state}: {reason}", id=f"{anchor}-note-{number}")
            for (state, reason), number in reasons.items()
        ]
        yield Html(tag("h3", "Why a cell has no error") + tag("ol", items, class_="notes"))
    yield from (figure(drawn) for drawn in track_figures(track))
    yield _wins(track)


def _reasons(rows: Sequence[Row]) -> dict[Reason, int]:
    """Each reason once, with the number by which cells refer to it."""
    blank = [row for row in rows if not row.seeds and not row.is_variant]
    reasons = sorted({(row.state, row.reason) for row in blank})
    return {reason: number for number, reason in enumerate(reasons, 1)}


def _overview_table(track: BoardTrack, anchor: str, reasons: Mapping[Reason, int]) -> Html:
    columns = [
        (board, {row.name: row for row in board.rows}, wording.podium(board))
        for board in track.boards
    ]
    complete: list[Html] = []
    others: list[Html] = []
    for standing in track.standings:
        name, kind = standing.row, "floor" if standing.is_floor else "model"
        cells = [
            _overview_cell(rows.get(name), podium, anchor, reasons) for _, rows, podium in columns
        ]
        link = tag("a", breakable(name), href=model_path(name))
        head = tag("th", link, badge(kind), scope="row", data_value=name)
        numbers = _standing_cells(standing, track)
        line = tag("tr", head, numbers, cells, class_=kind, data_kind=kind, data_name=name)
        (complete if standing.is_complete else others).append(line)
    heads = [heading(column, title=text) for column, text in STANDING.items()]
    tasks = map(_task_heading, track.boards)
    header = tag("tr", heading("row", class_="names"), heads, tasks)
    caption = (
        f"Track {track.name}: error of every row on every task; rows that have all compared tasks "
        "first, by their mean rank"
    )
    table = sortable(caption, header, [complete, others], f"{anchor}-table")
    return scrolling(table, f"Overview of track {track.name}")


def _standing_cells(standing: Standing, track: BoardTrack) -> list[Html]:
    return [
        cell(wording.coverage(standing, track), standing.tasks),
        cell(wording.number(standing.mean_rank), standing.mean_rank),
        cell(wording.number(standing.ratio), standing.ratio),
    ]


def _task_heading(board: Board) -> Html:
    name = task_name(board)
    hidden = tag("span", f"sort by {name}", class_="hidden-text")
    note = wording.task_heading(board)
    chip = [tag("span", note, class_="badge")] if note and board.compared else []
    return heading(hidden, before=[tag("a", name, href=task_path(board)), *chip])


def _overview_cell(
    row: Row | None, podium: Podium, anchor: str, reasons: Mapping[Reason, int]
) -> Html:
    if row is None:
        return tag("td", tag("span", "not run", class_="hidden-text"))
    if row.seeds:
        return error_cell(row, podium, row.rank.letters if row.rank else "")
    number = str(reasons[row.state, row.reason])
    link = tag("a", number, href=f"#{anchor}-note-{number}", aria_label=f"reason {number}")
    return tag("td", wording.state(row), tag("sup", link), class_="muted", title=row.reason)


def _wins(track: BoardTrack) -> Html:
    """Tasks on which a row is significantly better than another, of those that both have."""
    names = [name for name in track.rows if any(name in pair for pair in track.wins)]
    if not names:
        return Html("")
    cells = [[_won(track.wins.get((name, other))) for other in names] for name in names]
    caption = "Tasks on which the row is significantly better than the column, of those both have"
    pairs = pair_table(names, cells, caption)
    return tag("details", tag("summary", "Who wins against whom"), pairs)


def _won(tasks: tuple[int, int] | None) -> Html:
    won, both = tasks or (0, 0)
    return tag("td", f"{won}/{both}" if both else "", class_="win" if won else "muted")
