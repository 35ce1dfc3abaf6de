"""The page of one row, model@preset: its results on every task of every track."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.columns import ERROR, INTERVAL, Column, cost_columns, error_columns
from gsnobench.boards.plots.standing import row_curves_figure
from gsnobench.boards.site.elements import (
    SITE_TITLE,
    cell,
    column_heads,
    error_cell,
    error_heading,
    figure,
    heading,
    interval,
    measured_cells,
    notes_cell,
    place_cells,
    place_heads,
    published_note,
    reason_cell,
    row_heading,
    scrolling,
    site_footer,
    site_links,
    sortable,
    task_name,
    task_path,
    tools,
    words_heading,
)
from gsnobench.boards.site.html import Html, document, tag
from gsnobench.boards.site.reproduce import reproduce_box
from gsnobench.boards.site.surroundings import Surroundings

Result = tuple[Board, Row]


def model_page(name: str, tracks: Sequence[BoardTrack], around: Surroundings | None = None) -> str:
    """What the model is, then all results of a row and its variants, for each track."""
    around = around or Surroundings()
    main = [tag("h1", name), *_model_header(name, around)]
    main.append(tools(set(), ["detail"]))
    for number, track in enumerate(tracks, 1):
        if results := _results(name, track):
            main.append(tag("h2", f"Track {track.name}"))
            main += _tables(f"{name} on track {track.name}", results, f"track-{number}")
            main += _curves(f"{name}-{track.name}", results)
            main += _reproduce(results, around)
    main += published_note([row for track in tracks for _, row in _results(name, track)])
    links = site_links("../", tag("span", name))
    footer = site_footer(tracks, around, "../")
    return document(f"{name}, {SITE_TITLE}", links, main, footer=footer, about=name)


def _model_header(name: str, around: Surroundings) -> Iterator[Html]:
    """Title, family, year, sources, card and formula, as far as they are known."""
    known = around.model(name)
    if known is None:
        yield tag("p", f"All results of the row {name}, with what they cost.", class_="lead")
        return
    yield tag("p", known.summary, class_="lead")
    facts: dict[str, str | Html] = {
        "model": known.title,
        "family": known.family,
        "year": known.year,
        "source": known.cites,
        "read the paper": _link(known.paper),
        "code of the authors": _link(known.code),
        "presets": ", ".join(known.presets),
    }
    if card := around.address(around.card(name)):
        facts["card"] = tag("a", "knobs, parameters, differences", href=f"../{card}")
    pairs = [
        tag("div", tag("dt", fact), tag("dd", value)) for fact, value in facts.items() if value
    ]
    yield tag("dl", pairs, class_="facts")
    if known.formula:
        yield tag("pre", known.formula, tabindex="0")


def _link(address: str) -> Html | str:
    """A link to another site, by the safe protocol only."""
    if not address.startswith("https://"):
        return address
    return tag("a", address.removeprefix("https://"), href=address, rel="noreferrer")


def _curves(name: str, results: Sequence[Result]) -> Iterator[Html]:
    rows = {task_name(board): row for board, row in results if not row.is_variant}
    if drawn := row_curves_figure(name, rows):
        yield figure(drawn)


def _reproduce(results: Sequence[Result], around: Surroundings) -> Iterator[Html]:
    boxes = []
    for board, row in results:
        label = row.name.removeprefix(row.entries[0].spec.row).strip()
        title = f"{task_name(board)} {label}".strip()
        boxes.append(reproduce_box(board, row, around, "../", title))
    yield tag("h3", "Reproduce")
    yield tag("div", boxes, class_="boxes")


def _results(name: str, track: BoardTrack) -> list[Result]:
    pairs = [(board, row) for board in track.boards for row in board.rows]
    return [(board, row) for board, row in pairs if row.entries[0].spec.row == name]


def _tables(title: str, results: Sequence[Result], anchor: str) -> Iterator[Html]:
    """Errors and costs of the row itself, and of its variants in a fold."""
    itself = [(board, row) for board, row in results if not row.is_variant]
    variants = [(board, row) for board, row in results if row.is_variant]
    if itself:
        yield scrolling(_errors(title, itself, f"{anchor}-errors"), f"Errors of {title}")
        yield from _costs(title, itself, f"{anchor}-costs")
    if variants:
        name = f"Variants of {title}"
        table = _variants(f"{name}. {wording.VARIANTS}", variants, f"{anchor}-variants")
        summary = tag("summary", f"Variants ({len(variants)}), not ranked")
        yield tag("details", summary, scrolling(table, name))


def _columns(results: Sequence[Result]) -> list[Column]:
    """Errors beside the main one; those that some of the tasks lack are details."""
    rows = [row for _, row in results if row.seeds]
    columns = [column for column in error_columns(rows) if column not in (ERROR, INTERVAL)]
    return [
        column
        if all(math.isfinite(column.value(row)) for row in rows)
        else replace(column, is_detail=True)
        for column in columns
    ]


def _errors(caption: str, results: Sequence[Result], anchor: str) -> Html:
    columns = _columns(results)
    heads = [
        error_heading(),
        *place_heads(),
        heading("times the best", title="error / best error on the task"),
        *column_heads(columns),
    ]
    header = tag(
        "tr",
        row_heading("task", "a link leads to the board of the task"),
        heads,
        words_heading("notes"),
    )
    done = [
        _line(board, _task_cell(board, row), _measured(board, row, columns, with_place=True))
        for board, row in results
        if row.seeds
    ]
    return sortable(caption, header, [done, _blank(results, len(heads) + 1)], anchor)


def _line(board: Board, *cells: Html | Iterable[Html], class_: str | None = None) -> Html:
    """A row of a table, with the name that the filter reads."""
    return tag("tr", *cells, class_=class_, data_name=task_name(board))


def _variants(caption: str, results: Sequence[Result], anchor: str) -> Html:
    """As errors, without places; the label of each variant beside its task."""
    rows = [row for _, row in results]
    known = [column for column in error_columns(rows) if not column.is_detail]
    columns = [column for column in known if column not in (ERROR, INTERVAL)]
    heads = [
        error_heading(),
        heading("times the best", title="error / best error on the task"),
        *column_heads(columns),
    ]
    header = tag(
        "tr",
        row_heading("task", "a link leads to the board of the task"),
        heads,
        words_heading("notes"),
    )
    done = [
        _line(board, _task_cell(board, row), _measured(board, row, columns), class_="variant")
        for board, row in results
        if row.seeds
    ]
    return sortable(caption, header, [done, _blank(results, len(heads) + 1)], anchor)


def _costs(title: str, results: Sequence[Result], anchor: str) -> Iterator[Html]:
    done = [(board, row) for board, row in results if row.seeds]
    columns = cost_columns([row for _, row in done])
    if columns:
        header = tag(
            "tr",
            row_heading("task", "a link leads to the board of the task"),
            column_heads(columns),
        )
        lines = [
            _line(board, _task_cell(board, row), [cell(c.show(row), c.value(row)) for c in columns])
            for board, row in done
        ]
        table = sortable(f"Steps and costs of {title}", header, [lines], anchor)
        yield scrolling(table, f"Costs of {title}")


def _task_cell(board: Board, row: Row) -> Html:
    label = row.name.removeprefix(row.entries[0].spec.row).strip()
    settings = tag("span", label, class_="badge") if row.is_variant else ""
    name = task_name(board)
    link = tag("a", name, href=f"../{task_path(board)}")
    return tag("th", link, settings, scope="row", data_value=name, title=row.settings or None)


def _measured(
    board: Board, row: Row, columns: Sequence[Column], *, with_place: bool = False
) -> Iterator[Html]:
    ratio = row.error / board.compared[0].error if board.compared else math.nan
    yield error_cell(row, board, class_="error", more=[interval(row)])
    yield from place_cells(row) if with_place else ()
    yield cell(wording.number(ratio), ratio)
    yield from measured_cells(row, columns, board)
    yield notes_cell(row)


def _blank(results: Sequence[Result], columns: int) -> list[Html]:
    """Results without an error come last and say why."""
    return [
        _line(board, _task_cell(board, row), reason_cell(row, columns))
        for board, row in results
        if not row.seeds
    ]
