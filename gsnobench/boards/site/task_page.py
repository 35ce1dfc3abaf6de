"""One board as one HTML document that needs nothing else: the ranking, who is surely ahead of whom,
the plots.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

from gsnobench.boards import wording as texts
from gsnobench.boards.board import Board, Row, Track, safe_name
from gsnobench.boards.paper import CITATION
from gsnobench.boards.plots.style import Figure
from gsnobench.boards.site.html import Html, document, tag, text
from gsnobench.boards.statistics import LEVEL

COST_NAMES = {"parameters": "parameters", "prepare s": "prepare_s", "train CPU-s": "train_cpu_s"}
COST_NAMES |= {"ms a sample": "inference_s", "peak MB": "peak_mb"}
KINDS = {"floor": "floors", "variant": "variants"}
GALLERIES = 2  # best models whose single samples are shown
MACHINES = 3  # names of hardware that are listed


def board_page(
    track: Track, board: Board, drawn: Sequence[Figure], *, home: str | None = None
) -> str:
    """The page of a board with its figures; `home`, the way to the site's root, gives it links;
    without one it stands alone.
    """
    figures = [figure(one) for one in drawn]
    main = [
        tag("h1", board.title),
        tag("p", _lead(board), class_="lead"),
        _facts(board),
        tag("h2", "Ranking"),
        tools("ranking", {texts.kind(row) for row in board.rows}),
        _ranking(board, home),
        tag(
            "p",
            f"Published: printed in {CITATION}; on raw fields, with other data, sizes and budgets.",
            class_="notes",
        ),
        tag("h2", "How to read it"),
        tag("p", texts.HOW_TO_READ),
        *_matrix(board),
        *_offered(board),
        *([tag("h2", "Plots"), *figures] if figures else []),
        *_gallery(board),
        tag("h2", "Evidence"),
        tag("details", tag("summary", "Keys of the results behind each row"), _keys(board)),
    ]
    place = tag("span", f"gsnobench, track {track.name}")
    return document(board.title, place if home is None else site_links(home, place), main)


def _gallery(board: Board) -> Iterator[Html]:
    """Single samples of the best models, as their runs drew them; the worst sample is always among
    them.
    """
    shown = [row for row in board.compared if row.picture is not None and not row.is_floor][
        :GALLERIES
    ]
    if shown:
        yield tag("h2", "Single samples")
    for row in shown:
        caption = f"{row.name}: input, truth, prediction and error of its best, median and worst test sample."
        picture = tag("img", src=_inlined(row.picture), alt=caption, decoding="async")
        drawing = tag("div", picture, class_="scroll")
        yield Html(tag("h3", row.name) + tag("figure", drawing, tag("figcaption", caption)))


def _inlined(picture: Path | None) -> str:
    """A page may load nothing, so that its pictures are part of it."""
    return (
        f"data:image/png;base64,{b64encode(picture.read_bytes()).decode()}"
        if picture is not None
        else ""
    )


def site_links(home: str, place: Html) -> Html:
    """Where one is, and the way back to the overview."""
    items = [tag("li", tag("a", "All boards", href=f"{home}index.html")), tag("li", place)]
    return tag("nav", tag("ul", items), aria_label="Site")


def model_path(row: str) -> str:
    return f"models/{safe_name(row)}.html"


def task_path(board: Board) -> str:
    return f"tasks/{safe_name(board.track)}--{board.slug}.html"


def figure(one: Figure) -> Html:
    """A plot under its title; the caption is also what a screen reader says of the picture."""
    drawing = tag("div", Html(one.svg), class_="scroll")
    return Html(tag("h3", one.title) + tag("figure", drawing, tag("figcaption", one.caption)))


# ------------------------------------------------------------------------------------------- tables


def tools(table: str, kinds: set[str]) -> Html:
    """The filter of a table; the script shows it, since it does nothing without."""
    boxes = [
        tag("label", tag("input", type="checkbox", checked=True, data_kind=kind), shown)
        for kind, shown in KINDS.items()
        if kind in kinds
    ]
    search = tag("label", "Filter rows", tag("input", type="search", autocomplete="off"))
    return tag(
        "div",
        search,
        boxes,
        tag("output", aria_live="polite"),
        class_="tools",
        data_table=table,
        hidden=True,
    )


def heading(*name: str, before: Sequence[str] = (), class_: str | None = None) -> Html:
    """A column that can be sorted; what stands before the button is not part of it."""
    button = tag("button", (_with_unit(part) for part in name), type="button")
    return tag("th", before, button, scope="col", aria_sort="none", class_=class_)


def _with_unit(name: str) -> Html:
    """A heading that breaks between words, but not before the s of its unit."""
    shown = text(name)
    return (
        Html(shown.removesuffix(" s") + "&nbsp;s")
        if shown.endswith(" s")
        else Html(shown.replace("CPU-s", "CPU&#8209;s"))
    )


def cell(shown: str, value: float | None = None, **attributes: str | None) -> Html:
    """A number with what it is sorted by."""
    known = None if value is None or not math.isfinite(value) else repr(float(value))
    return tag("td", shown, data_value=known, **attributes)


def name_cell(row: Row, home: str | None) -> Html:
    """The name of a row, and what kind of row it is, in words."""
    name = row.entries[0].spec.row
    shown = breakable(row.name)
    linked = tag("a", shown, href=f"{home}{model_path(name)}") if home is not None else shown
    kind = texts.kind(row)
    badges = [tag("span", kind, class_="badge")] if kind in KINDS else []
    return tag("th", linked, badges, scope="row", data_value=row.name)


def breakable(name: str) -> Html:
    """A name that narrow screens break after the model, not inside it."""
    return Html(tag("wbr").join(text(part) for part in name.replace("@", "@\n").split("\n")))


def measured_cells(row: Row, marks: tuple[float, float]) -> Iterator[Html]:
    """Error, interval, seeds, raw, published and costs: the same columns on the pages of boards and
    of models.
    """
    yield error_cell(row, marks)
    yield cell(texts.interval(row), (row.interval or (None,))[0])
    yield cell("exact" if row.is_exact else str(row.seeds), row.seeds)
    yield cell(texts.number(row.raw), row.raw)
    yield cell(texts.number(row.published), row.published)
    shown = texts.costs(row)
    yield from (cell(shown[name], row.cost(cost)) for name, cost in COST_NAMES.items())


MEASURED = ("error", "95 % over seeds", "seeds", "raw", "published", *COST_NAMES)


def error_cell(row: Row, marks: tuple[float, float], place: str = "") -> Html:
    """Best bold, second underlined; its place beside it, or ° for too few seeds."""
    best, second = marks
    kind = "best" if row.error == best else "second" if row.error == second else None
    beside = tag("span", "°" if row.is_thin else place, class_="place")
    return tag(
        "td", tag("span", texts.number(row.error), class_=kind), beside, data_value=repr(row.error)
    )


def _ranking(board: Board, home: str | None) -> Html:
    marks = texts.podium([row.error for row in board.compared])
    header = tag(
        "tr",
        heading("rank"),
        heading("row", class_="names"),
        [heading(name) for name in MEASURED],
        tag("th", "needs", scope="col", class_="words"),
    )
    done = [_measured_row(row, board, marks, home) for row in board.rows if row.seeds]
    blank = [_blank_row(row, home) for row in board.rows if not row.seeds]
    caption = (
        f"{board.title}: relative L2 error on the test split, best first; ° fewer than three seeds"
    )
    bodies = [tag("tbody", done), *([tag("tbody", blank)] if blank else [])]
    table = tag(
        "table",
        tag("caption", caption),
        tag("thead", header),
        bodies,
        class_="sortable",
        id="ranking",
    )
    return scrolling(table, "Ranking")


def scrolling(table: Html, name: str) -> Html:
    """A table that scrolls within its own width, by keyboard too."""
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)


def _measured_row(row: Row, board: Board, marks: tuple[float, float], home: str | None) -> Html:
    rank = cell(texts.rank(row, board), row.rank.low if row.rank else None)
    notes = tag("td", "; ".join(part for part in (row.needs, row.reason) if part), class_="words")
    kind = texts.kind(row)
    return tag(
        "tr",
        rank,
        name_cell(row, home),
        measured_cells(row, marks),
        notes,
        class_=kind,
        data_kind=kind,
        data_name=row.name,
    )


def _blank_row(row: Row, home: str | None) -> Html:
    """A row without an error keeps its place at the end and says why."""
    reason = tag(
        "td", f"{row.state}: {row.reason}", class_="reason", colspan=str(len(MEASURED) + 1)
    )
    kind = texts.kind(row)
    return tag(
        "tr",
        tag("td", texts.NOTHING),
        name_cell(row, home),
        reason,
        class_=kind,
        data_kind=kind,
        data_name=row.name,
    )


# ----------------------------------------------------------------------------------------- in words


def _lead(board: Board) -> str:
    promotion = texts.promotion(board)
    if not promotion:
        return "Fewer than two models have an error here, so none is ahead of another."
    return f"{promotion} {_why_open(board)}".strip()


def _why_open(board: Board) -> str:
    """What the promotion lacks to be sure."""
    found = board.promotion
    if found is None or found.is_separated:
        return ""
    names = [row.name for row in board.compared]
    places = [names.index(found.first), names.index(found.second)]
    single = [names[place] for place in places if not board.compared[place].scores.is_testable]
    if single:
        return f"Why not: one seed of {' and of '.join(single)}."
    return f"Why not: p = {board.p_values[places[0], places[1]]:.2g} after Holm's correction."


def _facts(board: Board) -> Html:
    samples = ", ".join(f"{count} {split}" for split, count in board.sizes.items())
    entries = [entry for row in board.rows for entry in row.done]
    machines = sorted({str(entry.environment.get("hardware", "")) for entry in entries} - {""})
    more = f" and {len(machines) - MACHINES} more" if len(machines) > MACHINES else ""
    facts = {
        "task": f"{board.task}, version {board.version}",
        "nodes": f"{board.resolution:,}",
        "samples": samples,
        "data": f"{board.origin or 'unknown'}, seed {board.data_seed}",
        "data hash": ", ".join(one[:12] for one in board.data if one) or texts.NOTHING,
        "results": f"{len(entries)} finished"
        + (f", {board.outdated} of older revisions left out" if board.outdated else ""),
        "costs measured on": ", ".join(machines[:MACHINES]) + more or texts.NOTHING,
    }
    return tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()],
        class_="facts",
    )


def _matrix(board: Board) -> Sequence[Html]:
    """Who is surely ahead of whom: corrected p-values of all pairs."""
    count = len(board.compared)
    if count < 2:
        return ()
    open_ends = {place for place, row in enumerate(board.compared) if not row.scores.is_testable}
    cells = [
        [_pair(board, place, other, bool({place, other} & open_ends)) for other in range(count)]
        for place in range(count)
    ]
    caption = (
        "p-values after Holm's correction; ▲ the row is surely better than the column (p < "
        f"{LEVEL}), ▼ surely worse, "
        f"{texts.NOTHING} not tested, since one of the two has a single seed"
    )
    return tag("h2", "Who is ahead of whom"), pair_table(
        [row.name for row in board.compared], cells, caption
    )


def _offered(board: Board) -> Sequence[Html]:
    """What computed inputs change."""
    lines = texts.offered(board)
    if not lines:
        return ()
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in texts.OFFERED]))
    body = [
        tag("tr", tag("th", breakable(name), scope="row"), [tag("td", one) for one in numbers])
        for name, *numbers in lines
    ]
    caption = "Test error; a ratio below 1: the features help"
    table = tag("table", tag("caption", caption), head, tag("tbody", body))
    return (
        tag("h2", "Layers or inputs"),
        tag("p", texts.WHAT_IS_OFFERED),
        scrolling(table, "Layers or inputs"),
    )


def pair_table(names: Sequence[str], cells: Sequence[Sequence[Html]], caption: str) -> Html:
    """Every row against every row; columns bear the numbers of the rows, since their names would
    not fit.
    """
    columns = [
        tag(
            "th", str(place), tag("span", f" {name}", class_="hidden-text"), scope="col", title=name
        )
        for place, name in enumerate(names, 1)
    ]
    body = [
        tag("tr", tag("th", f"{place} ", breakable(name), scope="row"), cells[place - 1])
        for place, name in enumerate(names, 1)
    ]
    head = tag("thead", tag("tr", tag("th", "row", scope="col"), columns))
    return scrolling(
        tag("table", tag("caption", caption), head, tag("tbody", body), class_="matrix"),
        "Pairs of rows",
    )


def _pair(board: Board, place: int, other: int, is_untested: bool) -> Html:
    if place == other or is_untested:
        return tag("td", "" if place == other else texts.NOTHING, class_="muted")
    p_value = float(board.p_values[place, other])
    shown = (
        "< .001" if p_value < 0.001 else f"{p_value:.2f}" if p_value >= 0.01 else f"{p_value:.3f}"
    )
    if p_value >= LEVEL:
        return tag("td", shown, class_="muted")
    sign, kind = ("▲", "win") if place < other else ("▼", "loss")  # rows stand best first
    return tag("td", f"{sign} {shown}", class_=kind)


def _keys(board: Board) -> Html:
    """Which files a row rests on: inside MLflow's frame no link works, so that names must do."""
    lines = [
        tag(
            "li",
            row.name,
            ": ",
            ", ".join(
                f"{one.key[:12]} (seed {one.spec.seed}, {one.status})" for one in row.entries
            ),
        )
        for row in board.rows
    ]
    return tag("ul", lines, class_="notes")
