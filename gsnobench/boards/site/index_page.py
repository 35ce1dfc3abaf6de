"""The index of the site: for each track all rows by all tasks, and the view across tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, Standing
from gsnobench.boards.plots.standing import all_track_figures
from gsnobench.boards.reading import across_tasks
from gsnobench.boards.site.elements import (
    SITE_TITLE,
    badge,
    breakable,
    cell,
    error_cell,
    figure,
    heading,
    model_path,
    pair_table,
    row_heading,
    scrolling,
    site_footer,
    site_links,
    sortable,
    task_name,
    task_path,
    tools,
)
from gsnobench.boards.site.glossary import STANDING, glossary
from gsnobench.boards.site.html import Html, coded, document, tag
from gsnobench.boards.site.remarks import paragraphs
from gsnobench.boards.site.summary import gallery, summary_card
from gsnobench.boards.site.surroundings import Surroundings

ABOUT = (
    "Neural operators on irregular domains, trained and scored alike. Each number is the relative "
    "L2 error on the test set, averaged over seeds; lower is better. Fields with a large constant "
    "part (water depth 5 m) are scored after subtracting it."
)
MARKS = (
    f"Bold: {wording.BOLD}. Underlined: the lowest error of the task. °: fewer than three seeds, "
    "not to be trusted yet. †: training had not converged. Pale: a floor, which every model should "
    "beat; n/a: it does not apply."
)
MEANS = (
    "As each model declares it, in the columns by which the GSNO paper compares operators; partly: "
    "indirect or limited"
)
# classes of columns: of tasks that no model has tried, and of those that are not counted
FLOORS_ONLY, EXTRA = "floors-only", "extra"

Reason = tuple[str, str]  # state and reason of a row without an error


def index_page(
    tracks: Sequence[BoardTrack], around: Surroundings | None = None, *, is_alone: bool = False
) -> str:
    """The overview of all tracks; alone it links to no other page, as inside MLflow."""
    around = around or Surroundings()
    main = [tag("h1", SITE_TITLE), tag("p", ABOUT, class_="lead")]
    links = []
    boards = [board for track in tracks for board in track.boards]
    kinds = {wording.kind(row) for board in boards for row in board.rows if not row.is_variant}
    for number, track in enumerate(tracks, 1):
        anchor = f"track-{number}"
        links.append(tag("a", f"Track {track.name}", href=f"#{anchor}"))
        main.append(tag("h2", f"Track {track.name}", id=anchor))
        main.append(summary_card(track, around, anchor, is_alone=is_alone))
        if number == 1:
            main.append(gallery(track, around, is_alone=is_alone))
            classes = {_column_class(board, track) for track in tracks for board in track.boards}
            groups = [group for group in (FLOORS_ONLY, EXTRA) if group in classes]
            main.append(tools(kinds, groups))
        main += _track_section(track, anchor, around, is_alone=is_alone)
    main += _means_section(around)
    main += glossary() if tracks else [tag("p", "No result yet.")]
    if is_alone:
        return document(SITE_TITLE, tag("span", SITE_TITLE), main, "leaderboard publish")
    footer = site_footer(tracks, around, "")
    return document(SITE_TITLE, site_links("", *links), main, footer=footer, about=ABOUT)


def _means_section(around: Surroundings) -> Iterator[Html]:
    """What models compute with, as they declare it; nothing if none does."""
    rows = {name: own for name, own in around.about.models.items() if own.means}
    columns = sorted({word for own in rows.values() for word in own.means})
    if not rows:
        return
    head = tag("tr", [tag("th", word, scope="col") for word in ("model", *columns)])
    body = [
        tag(
            "tr",
            tag("th", own.title, scope="row"),
            [tag("td", own.means.get(word, "no")) for word in columns],
        )
        for own in rows.values()
    ]
    caption = tag("caption", MEANS)
    table = tag("table", caption, tag("thead", head), tag("tbody", body), class_="matrix")
    yield tag("h2", "What models compute with", id="means")
    yield scrolling(table, "What models compute with")


def _is_floors_only(board: Board) -> bool:
    return bool(board.compared) and not board.has_models


def _track_section(
    track: BoardTrack, anchor: str, around: Surroundings, *, is_alone: bool
) -> Iterator[Html]:
    rows = [row for board in track.boards for row in board.rows]
    reasons = _reasons(rows)
    yield _overview_table(track, anchor, reasons, is_alone=is_alone)
    legend = [MARKS, wording.overview_legend(track), *wording.comparisons(track)]
    yield from (tag("p", sentence, class_="notes") for sentence in legend)
    yield from (tag("p", sentence) for sentence in across_tasks(track))
    if remarks := around.notes(track.name):
        yield tag("h3", "Remarks")
        yield from paragraphs(remarks, around)
    if reasons:
        items = [
            tag("li", coded(f"{state}: {reason}"), id=f"{anchor}-note-{number}")
            for (state, reason), number in reasons.items()
        ]
        summary = tag("summary", "Why a cell has no error")
        yield tag("details", summary, tag("ol", items, class_="notes"))
    yield from (figure(drawn) for drawn in all_track_figures(track))
    yield _wins(track)


def _reasons(rows: Sequence[Row]) -> dict[Reason, int]:
    """Each reason once, with the number by which cells refer to it."""
    blank = [row for row in rows if not row.seeds and not row.is_variant]
    reasons = sorted({(row.state, row.reason) for row in blank})
    return {reason: number for number, reason in enumerate(reasons, 1)}


def _overview_table(
    track: BoardTrack, anchor: str, reasons: Mapping[Reason, int], *, is_alone: bool
) -> Html:
    columns = [(board, {row.name: row for row in board.rows}) for board in track.boards]
    complete: list[Html] = []
    others: list[Html] = []
    for standing in track.standings:
        name, kind = standing.row, "floor" if standing.is_floor else "model"
        cells = [
            _overview_cell(rows.get(name), board, anchor, reasons, _column_class(board, track))
            for board, rows in columns
        ]
        shown = breakable(name)
        link = shown if is_alone else tag("a", shown, href=model_path(name))
        head = tag("th", link, badge(kind), scope="row", data_value=name)
        numbers = _standing_cells(standing, track)
        line = tag("tr", head, numbers, cells, class_=kind, data_kind=kind, data_name=name)
        (complete if standing.is_complete else others).append(line)
    heads = [heading(column, title=text) for column, text in STANDING.items()]
    tasks = [
        _task_heading(board, _column_class(board, track), is_alone=is_alone)
        for board in track.boards
    ]
    header = tag("tr", row_heading(), heads, tasks)
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


def _column_class(board: Board, track: BoardTrack) -> str | None:
    if board.slug not in track.counted:
        return EXTRA
    return FLOORS_ONLY if _is_floors_only(board) else None


def _task_heading(board: Board, class_: str | None, *, is_alone: bool) -> Html:
    """The name sorts; the link below it leads to the board."""
    name = task_name(board)
    note = wording.task_heading(board)
    chip = [tag("span", note, class_="badge")] if note and board.compared else []
    hidden = tag("span", f" of {name}", class_="hidden-text")
    link = [] if is_alone else [tag("a", "board", hidden, href=task_path(board), class_="board")]
    title = f"relative L2 error on the test set of {board.title}"
    return heading(name, after=[*link, *chip], class_=class_, title=title)


def _overview_cell(
    row: Row | None, board: Board, anchor: str, reasons: Mapping[Reason, int], class_: str | None
) -> Html:
    if row is None:
        blank = " ".join(filter(None, ("blank", class_)))
        return tag("td", tag("span", "not run", class_="hidden-text"), class_=blank)
    if row.seeds:
        return error_cell(row, board, class_)
    number = str(reasons[row.state, row.reason])
    link = tag("a", number, href=f"#{anchor}-note-{number}", aria_label=f"reason {number}")
    muted = " ".join(filter(None, ("muted", class_)))
    return tag("td", wording.state(row), tag("sup", link), class_=muted, title=row.reason)


def _wins(track: BoardTrack) -> Html:
    """Tasks on which a row is significantly better than another, of those that both have."""
    names = [name for name in track.rows if any(name in pair for pair in track.wins)]
    if not names:
        return Html("")
    cells = [[_won(track.wins.get((name, other))) for other in names] for name in names]
    caption = "Tasks on which the row is significantly better than the column, of those both have"
    pairs = pair_table(names, cells, caption, f"Pairs of rows of track {track.name}")
    return tag("details", tag("summary", "Who wins against whom"), pairs)


def _won(tasks: tuple[int, int] | None) -> Html:
    won, both = tasks or (0, 0)
    return tag("td", f"{won}/{both}" if both else "", class_="win" if won else "muted")
