"""Elements that several pages share: links, figures, tables and their cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gsnobench import __version__
from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, safe_name
from gsnobench.boards.columns import ERROR, INTERVAL, Column
from gsnobench.boards.plots.style import Figure
from gsnobench.boards.reproduction.paper import CITATION
from gsnobench.boards.site.html import Html, coded, tag, text
from gsnobench.boards.site.surroundings import TABLES, Surroundings
from gsnobench.files import digest

SITE_TITLE = "gsnobench leaderboards"
ADD_PATH = "models/add.html"  # how to submit; no row is called so, since rows have an @
KINDS = {"floor": "floors"}  # that a reader can hide
# groups of columns that are hidden at first, by their class in the style
GROUPS = {
    "floors-only": "tasks with floors only",
    "extra": "extra tasks",
    "detail": "more errors",
}
ROW_HELP = "model@preset; a link leads to all results of the row"

# -------------------------------------------------------------------------------- links and figures


def model_path(row: str) -> str:
    return f"models/{safe_name(row)}.html"


def task_path(board: Board) -> str:
    return f"tasks/{safe_name(board.track)}--{board.slug}.html"


def task_name(board: Board) -> str:
    """The task, and what sets this board apart where the task has several."""
    return board.task if board.slug == safe_name(board.task) else board.slug


def site_links(home: str, *here: Html) -> Html:
    """The way back to the overview, how to add a model, and what belongs to this page."""
    items = [
        tag("li", tag("a", "All boards", href=f"{home}index.html", class_="home")),
        *(tag("li", part) for part in here),
        tag("li", tag("a", "Add your model", href=f"{home}{ADD_PATH}")),
    ]
    return tag("nav", tag("ul", items), aria_label="Site")


def site_footer(tracks: Sequence[BoardTrack], around: Surroundings, home: str) -> Html:
    """Version, evidence, licence, downloads and citation: nothing that a clock would change."""
    entries = [e for t in tracks for b in t.boards for row in b.rows for e in row.entries]
    edition = digest(sorted(entry.key for entry in entries))[:12]
    where = f"track {tracks[0].name}" if len(tracks) == 1 else f"{len(tracks)} tracks"
    files = f"{len(entries)} result files of {where}"
    made = f"gsnobench {__version__}, from {files} (edition {edition})."
    known = {"CSV": "boards.csv", "JSON": "boards.json"}
    folder = "../" + TABLES if around.out is not None else None
    links = [
        tag("a", f"Download {name}", href=f"{home}{folder}/{file}", download=True)
        for name, file in known.items()
        if folder
    ]
    cite = f"Cite the sources of each task and model that you use, and {CITATION}."
    return tag(
        "div",
        tag("p", made, " Code and results: Apache-2.0."),
        tag("p", [Html(" · ".join(links))]) if links else "",
        tag("p", cite),
    )


def figure(drawn: Figure) -> Html:
    """A plot under its title; screen readers read its caption."""
    name = f"{drawn.title}, {drawn.name}"  # two tracks on a page have plots of one title
    drawing = scrolling(Html(drawn.svg), name, class_="scroll")
    return Html(tag("h3", drawn.title) + tag("figure", drawing, tag("figcaption", drawn.caption)))


def published_note(rows: Sequence[Row]) -> Sequence[Html]:
    """The source of the column `published`, where any row fills it."""
    if all(row.published is None for row in rows):
        return ()
    source = f"printed in {CITATION}; on raw fields, with other data, sizes and budgets."
    return (tag("p", f"Published: {source}", class_="notes"),)


# ------------------------------------------------------------------------------------------- tables


def tools(kinds: set[str], groups: Sequence[str] = ()) -> Html:
    """The filter of all tables of a page; hidden until the script shows it, which it needs."""
    boxes = [
        tag("label", tag("input", type="checkbox", checked=True, data_kind=kind), shown)
        for kind, shown in KINDS.items()
        if kind in kinds
    ]
    boxes += [
        tag("label", tag("input", type="checkbox", data_group=group), GROUPS[group])
        for group in groups
    ]
    search = tag("label", "Filter rows", tag("input", type="search", autocomplete="off"))
    order = tag("label", "Sort by", tag("select"), class_="order")
    count = tag("output", aria_live="polite")
    return tag("div", search, boxes, order, count, class_="tools", hidden=True)


def sortable(
    caption: str, header: Html, bodies: Sequence[Sequence[Html]], name: str, class_: str = ""
) -> Html:
    """A table that the script sorts, each body by itself; empty bodies are left out.

    A phone shows its rows as cards.
    """
    parts = [tag("tbody", body) for body in bodies if body]
    head = [tag("caption", caption), tag("thead", header)]
    return tag("table", head, parts, class_=f"sortable {class_}".strip(), id=name)


def scrolling(content: Html, name: str, class_: str = "scroll table") -> Html:
    """A table or a plot that scrolls within its own box, by keyboard too."""
    return tag("div", content, class_=class_, tabindex="0", role="region", aria_label=name)


def pair_table(
    names: Sequence[str], cells: Sequence[Sequence[Html]], caption: str, title: str
) -> Html:
    """Every row against every row; columns are numbered, since names would not fit."""
    columns = [_pair_column(number, name) for number, name in enumerate(names, 1)]
    body = [
        tag("tr", tag("th", f"{number} ", breakable(name), scope="row"), line)
        for number, (name, line) in enumerate(zip(names, cells, strict=True), 1)
    ]
    head = tag("thead", tag("tr", tag("th", "row", scope="col"), columns))
    table = tag("table", tag("caption", caption), head, tag("tbody", body), class_="matrix")
    return scrolling(table, title)


def _pair_column(number: int, name: str) -> Html:
    hidden = tag("span", f" {name}", class_="hidden-text")
    return tag("th", str(number), hidden, scope="col", title=name)


# ---------------------------------------------------------------------------------- heads and cells


def heading(
    name: str, after: Sequence[Html] = (), class_: str | None = None, title: str | None = None
) -> Html:
    """A column that can be sorted by its button; `after` comes below the button."""
    button = tag("button", _with_unit(name), type="button")
    return tag("th", button, after, scope="col", aria_sort="none", class_=class_, title=title)


def column_heads(columns: Sequence[Column]) -> list[Html]:
    """The headings of declared columns, which tell what they mean."""
    return [
        heading(column.name, title=column.help, class_=column_class(column)) for column in columns
    ]


def column_class(column: Column) -> str | None:
    """The group of columns that it is shown and hidden with."""
    return "detail" if column.is_detail else None


PLACE_HELP = {
    "place": "by the error, among ranked rows: those with two seeds or more, and floors",
    "ties": "rows that share a letter do not differ significantly",
    "range": "the places that the tests leave open",
}


def place_heads() -> list[Html]:
    return [heading(name, title=text) for name, text in PLACE_HELP.items()]


def row_heading(name: str = "row", title: str = ROW_HELP) -> Html:
    return heading(name, class_="names", title=title)


def task_label(name: str) -> Html:
    """The name of a task, which breaks between its words and before its window, not inside it."""
    words, at, window = name.partition("@")
    whole = tag("wbr") + tag("span", at, window, class_="whole") if at else ""
    return Html(text(words).replace("_", "_<wbr>") + whole)


def _with_unit(name: str) -> Html:
    """A heading that breaks between words, also of a name, but not before the s of its unit."""
    shown = task_label(name)
    if shown.endswith(" s"):
        return Html(shown.removesuffix(" s") + "&nbsp;s")
    return Html(shown.replace("CPU-s", "CPU&#8209;s"))


NOTES_HELP = (
    "marks, and what a significant difference from the row above needs; in full under Reproduce"
)


def words_heading(name: str, title: str = NOTES_HELP) -> Html:
    """A column of words, which cannot be sorted."""
    return tag("th", name, scope="col", class_="words", title=title)


def name_cell(row: Row, home: str | None) -> Html:
    """The name of a row, and what kind of row it is, in words; settings of a variant on hover."""
    shown = breakable(row.name)
    path = model_path(row.entries[0].spec.row)
    linked = tag("a", shown, href=f"{home}{path}") if home is not None else shown
    kind, title = badge(wording.kind(row)), row.settings or None
    return tag("th", linked, kind, scope="row", data_value=row.name, title=title)


def badge(kind: str) -> Sequence[Html]:
    """The kind of a row that stands among others, unless it is a model."""
    return [tag("span", kind, class_="badge")] if kind in KINDS else []


def breakable(name: str) -> Html:
    """A name that narrow screens break after the model, not inside it."""
    return Html(tag("wbr").join(text(part) for part in name.replace("@", "@\n").split("\n")))


def cell(shown: str, value: float | None = None, class_: str | None = None) -> Html:
    """A number with the value it is sorted by."""
    known = None if value is None or not math.isfinite(value) else repr(float(value))
    kinds = " ".join(filter(None, (class_, _absent(shown))))
    return tag("td", shown, data_value=known, class_=kinds or None)


def _absent(shown: str) -> str | None:
    """A card on a phone leaves out what is not known."""
    return "none" if shown == wording.NOTHING else None


def place_cells(row: Row) -> list[Html]:
    """Place, letters of ties, and the places that are possible."""
    rank, ties = row.rank, wording.ties(row)
    return [
        cell(wording.place(row), rank.place if rank else None),
        tag("td", ties, data_value=rank.letters if rank else None, class_=_absent(ties) or "ties"),
        cell(wording.places(row), rank.low if rank else None),
    ]


def error_cell(
    row: Row, board: Board, class_: str | None = None, more: Sequence[Html] = ()
) -> Html:
    """Bold where no row is significantly better, the lowest underlined; behind it the signs."""
    marks = {"best": wording.is_bold(row, board), "lowest": wording.is_lowest(row, board)}
    kinds = " ".join(kind for kind, is_set in marks.items() if is_set)
    shown = tag("span", wording.number(row.error), class_=kinds or None)
    signs = tag("span", wording.signs(row), class_="signs")
    return tag("td", shown, signs, more, data_value=repr(row.error), class_=class_)


def wide_error_cell(row: Row, board: Board, scale: tuple[float, float]) -> Html:
    """The error with its interval over seeds, and a bar on a logarithmic scale."""
    low, high = scale
    share = math.log(row.error / low) / math.log(high / low) if high > low else 0.0
    bar = tag("span", class_="bar", style=f"width: {4 + 96 * share:.0f}%")
    return error_cell(row, board, class_="error", more=[interval(row), bar])


def interval(row: Row) -> Html:
    """The interval over seeds behind an error, where there is one."""
    return tag("span", wording.spread(row.interval), class_="interval") if row.interval else Html()


def error_heading(more: str = "") -> Html:
    """The heading of errors with their intervals."""
    meaning = f"{ERROR.help}; small: {INTERVAL.help}{more}"
    return heading(ERROR.name, title=meaning, class_="error")


def measured_cells(row: Row, columns: Sequence[Column], board: Board) -> Iterator[Html]:
    """One cell per column; the error stands out."""
    for column in columns:
        if column is ERROR:
            yield error_cell(row, board)
        else:
            yield cell(column.show(row), column.value(row), column_class(column))


def notes_cell(row: Row) -> Html:
    """Marks, what a difference needs to be significant, and what became of lost seeds."""
    words = "; ".join(wording.notes(row))
    return tag("td", wording.short_notes(row), class_="words", title=words or None)


def reason_cell(row: Row, columns: int) -> Html:
    """Why a row has no error, over so many columns."""
    reason = coded(f"{row.state}: {row.reason}")
    return tag("td", reason, class_="reason", colspan=str(columns))
