"""The page of one board: the ranking, who is ahead of whom, the plots, single samples.

It needs no other file, so that it can also be shown inside MLflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, safe_name
from gsnobench.boards.columns import ERROR, INTERVAL, Column, cost_columns, error_columns
from gsnobench.boards.plots.style import Figure
from gsnobench.boards.reading import further_reading
from gsnobench.boards.site.elements import (
    PLACE_HELP,
    breakable,
    cell,
    column_heads,
    error_heading,
    figure,
    heading,
    measured_cells,
    name_cell,
    notes_cell,
    pair_table,
    place_cells,
    published_note,
    reason_cell,
    row_heading,
    scrolling,
    site_footer,
    site_links,
    sortable,
    tools,
    wide_error_cell,
    words_heading,
)
from gsnobench.boards.site.html import Html, document, tag
from gsnobench.boards.site.remarks import paragraphs
from gsnobench.boards.site.reproduce import reproduce_box
from gsnobench.boards.site.surroundings import Surroundings, inlined
from gsnobench.boards.site.task_header import task_header
from gsnobench.boards.statistics import LEVEL

GALLERIES = 2  # best models whose single samples are shown


def task_page(
    track: BoardTrack,
    board: Board,
    figures: Sequence[Figure],
    *,
    around: Surroundings | None = None,
    home: str | None = None,
) -> str:
    """The page of a board with its figures.

    `home`, the way to the site's root, gives it links to other pages; without one it has none.
    """
    around = around or Surroundings()
    groups = ["detail"] if any(column.is_detail for column in _columns(board)) else []
    lead = _lead(board)
    main = [
        tag("h1", board.title),
        tag("p", *lead, class_="lead"),
        *task_header(board, around, home),
        tag("h2", "Ranking"),
        tag("ul", [tag("li", sentence) for sentence in further_reading(board)], class_="reading"),
        *(paragraphs(remarks, around) if (remarks := around.notes(track.name, board.slug)) else ()),
        tools({wording.kind(row) for row in board.rows}, groups),
        _ranking(board, home),
        *published_note(board.compared),
        *_gallery(board),
        *_variants(board, home),
        *_reproduce(board, around, home),
        *_costs(board, home),
        *([tag("h2", "Plots"), *map(figure, figures)] if figures else []),
        *_computed_inputs(board),
        *_matrix(board),
        tag("h2", "How to read it"),
        tag("p", wording.HOW_TO_READ),
        tag("p", wording.HOW_TO_READ_MARKS),
    ]
    here = tag("span", f"track {track.name}")
    if home is None:
        return document(board.title, here, main, "leaderboard publish")
    footer = site_footer([track], around, home)
    return document(
        board.title, site_links(home, here), main, footer=footer, about=wording.promotion(board)
    )


# ----------------------------------------------------------------------------------------- in words


def _lead(board: Board) -> Sequence[str]:
    """Who is ahead; or the command that adds a model where there are not two."""
    if promotion := wording.promotion(board):
        return (promotion,)
    model = next((row.model for row in board.compared if not row.is_floor), None)
    apart = ", apart from variants" if any(row.seeds for row in board.variants) else ""
    who = "floors have" if model is None else f"{model} has"
    only = f"Only {who} results on this task so far{apart}."
    if any(safe_name(text) != text for text in (board.task, board.track)):
        return (only,)  # a stranger's text is no part of a command to copy
    command = f"gsnobench run --model NAME --dataset {board.task} --track {board.track}"
    return f"{only} Run yours: ", tag("code", command), "."


# ------------------------------------------------------------------------------------------- tables


def _columns(board: Board) -> list[Column]:
    """The errors of a board; the interval is part of the error's cell."""
    return [column for column in error_columns(board.compared) if column not in (ERROR, INTERVAL)]


def _ranking(board: Board, home: str | None) -> Html:
    columns = _columns(board)
    place, ties, places = (heading(name, title=text) for name, text in PLACE_HELP.items())
    error = error_heading("; the bar is logarithmic")
    heads = [error, ties, places, *column_heads(columns), words_heading("notes")]
    errors = [row.error for row in board.compared]
    scale = (min(errors), max(errors)) if errors else (1.0, 1.0)
    done = [_ranked_row(row, columns, board, scale, home) for row in board.compared]
    blank = [_blank_row(row, home, 1, len(heads)) for row in board.blank]
    caption = (
        f"{board.title}: relative L2 error on the test split, best first. Bold: {wording.BOLD}; ° "
        "fewer than three seeds, † not converged; needs: what would tell a row from the one above"
    )
    header = tag("tr", place, row_heading(), heads)
    table = sortable(caption, header, [done, blank], "ranking", class_="ranked")
    return scrolling(table, "Ranking")


def _ranked_row(
    row: Row,
    columns: Sequence[Column],
    board: Board,
    scale: tuple[float, float],
    home: str | None,
) -> Html:
    place, ties, places = place_cells(row)
    error = wide_error_cell(row, board, scale)
    measured = measured_cells(row, columns, board)
    return _row(row, [place, name_cell(row, home), error, ties, places], measured, notes_cell(row))


def _reproduce(board: Board, around: Surroundings, home: str | None) -> Sequence[Html]:
    """How to repeat each row, and the files behind it."""
    boxes = [reproduce_box(board, row, around, home, row.name) for row in board.rows]
    lead = "Commands, result files, notes and machines of each row; verify trains it again."
    return tag("h2", "Reproduce a row"), tag("p", lead), tag("div", boxes, class_="boxes")


def _blank_row(row: Row, home: str | None, before: int, after: int) -> Html:
    """A row without an error comes last and says why."""
    dashes = [tag("td", wording.NOTHING)] * before
    return _row(row, dashes, name_cell(row, home), reason_cell(row, after))


def _costs(board: Board, home: str | None) -> Sequence[Html]:
    """Steps and costs, in the order of the ranking."""
    columns = cost_columns(board.compared)
    if not columns:
        return ()
    header = tag("tr", row_heading(), [heading(c.name, title=c.help) for c in columns])
    lines = [
        _row(row, name_cell(row, home), [cell(c.show(row), c.value(row)) for c in columns])
        for row in board.compared
    ]
    caption = "What each row costs, mean over seeds; rows as in the ranking"
    table = sortable(caption, header, [lines], "costs")
    return tag("h2", "Steps and costs"), scrolling(table, "Steps and costs")


def _variants(board: Board, home: str | None) -> Sequence[Html]:
    """What is not ranked, folded."""
    rows = board.variants
    if not rows:
        return ()
    all_columns = (*error_columns(rows), *cost_columns(rows))
    columns = [column for column in all_columns if not column.is_detail]
    names = row_heading("variant", "a row with other settings than the preset's")
    words = words_heading("settings and notes", "what differs from the preset, and marks")
    header = tag("tr", names, column_heads(columns), words)
    lines = [
        _row(
            row,
            name_cell(row, home),
            measured_cells(row, columns, board),
            tag("td", "; ".join(wording.settings_and_notes(row)), class_="words"),
        )
        for row in rows
        if row.seeds
    ]
    lines += [_blank_row(row, home, 0, len(columns) + 1) for row in rows if not row.seeds]
    table = sortable(wording.VARIANTS, header, [lines], "variants")
    summary = tag("summary", f"Variants ({len(rows)}), not ranked")
    return (tag("details", summary, scrolling(table, "Variants")),)


def _row(row: Row, *cells: str | Iterable[Html]) -> Html:
    """With the attributes that the filter reads."""
    kind = wording.kind(row)
    return tag("tr", *cells, class_=kind, data_kind=kind, data_name=row.name)


def _matrix(board: Board) -> Sequence[Html]:
    """Who is significantly ahead of whom: corrected p-values of all pairs."""
    rows = board.compared
    if len(rows) < 2:
        return ()
    testable = [row.scores.is_testable for row in rows]
    cells = [
        [
            _pair(i, j, float(board.p_values[i, j]), is_tested=testable[i] and testable[j])
            for j in range(len(rows))
        ]
        for i in range(len(rows))
    ]
    caption = (
        "p-values after Holm's correction; ▲ the row is significantly better than the column "
        f"(p < {LEVEL}), ▼ significantly worse, {wording.NOTHING} not tested, since one of the two "
        "has a single seed"
    )
    table = pair_table([row.name for row in rows], cells, caption, "Pairs of rows")
    summary = tag("summary", "p-values of all pairs of rows")
    return tag("h2", "Who is ahead of whom"), tag("details", summary, table)


def _pair(row: int, column: int, p_value: float, *, is_tested: bool) -> Html:
    if row == column:
        return tag("td", "", class_="muted")
    if not is_tested:
        return tag("td", wording.NOTHING, class_="muted")
    shown = f"{p_value:.2f}" if p_value >= 0.01 else f"{p_value:.3f}"
    shown = "< .001" if p_value < 0.001 else shown
    if p_value >= LEVEL:
        return tag("td", shown, class_="muted")
    sign, kind = ("▲", "win") if row < column else ("▼", "loss")  # rows are sorted best first
    return tag("td", f"{sign} {shown}", class_=kind)


def _computed_inputs(board: Board) -> Sequence[Html]:
    """What computed inputs change."""
    lines = wording.computed_inputs(board)
    if not lines:
        return ()
    columns = [tag("th", name, scope="col") for name in wording.COMPUTED_INPUTS_HEADER]
    body = [
        tag("tr", tag("th", breakable(name), scope="row"), [tag("td", shown) for shown in numbers])
        for name, *numbers in lines
    ]
    caption = tag("caption", "Test error; a ratio below 1 means that the features help")
    table = tag("table", caption, tag("thead", tag("tr", columns)), tag("tbody", body))
    return (
        tag("h2", "Layers or inputs"),
        tag("p", wording.COMPUTED_INPUTS),
        scrolling(table, "Layers or inputs"),
    )


# ------------------------------------------------------------------------------------------ samples


def _gallery(board: Board) -> Iterator[Html]:
    """Single samples of the best models, as their runs drew them; the worst one is among them."""
    drawn = [row for row in board.compared if row.picture is not None and not row.is_floor]
    if drawn:
        yield tag("h2", "Single samples")
    for row in drawn[:GALLERIES]:
        caption = (
            f"{row.name}: input, truth, prediction and error of its best, median and worst test "
            "sample."
        )
        source = inlined(row.picture) if row.picture else ""
        picture = tag("img", src=source, alt=caption, decoding="async")
        drawing = scrolling(picture, f"Samples of {row.name}", class_="scroll")
        yield Html(tag("h3", row.name) + tag("figure", drawing, tag("figcaption", caption)))
