"""The page of one board: the ranking, who is ahead of whom, the plots, single samples.

It needs no other file, so that it can also be shown inside MLflow.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, safe_name
from gsnobench.boards.columns import cost_columns, error_columns
from gsnobench.boards.plots.style import Figure
from gsnobench.boards.site.elements import (
    breakable,
    cell,
    column_heads,
    figure,
    heading,
    measured_cells,
    name_cell,
    notes_cell,
    pair_table,
    place_cells,
    place_heads,
    published_note,
    reason_cell,
    scrolling,
    site_links,
    sortable,
    tools,
    words_heading,
)
from gsnobench.boards.site.html import Html, document, tag
from gsnobench.boards.statistics import LEVEL

GALLERIES = 2  # best models whose single samples are shown
MACHINES = 3  # names of hardware that are listed


def task_page(
    track: BoardTrack, board: Board, figures: Sequence[Figure], *, home: str | None = None
) -> str:
    """The page of a board with its figures.

    `home`, the way to the site's root, gives it links to other pages; without one it has none.
    """
    main = [
        tag("h1", board.title),
        tag("p", *_lead(board), class_="lead"),
        _facts(board),
        tag("h2", "Ranking"),
        tools("ranking", {wording.kind(row) for row in board.rows}),
        _ranking(board, home),
        published_note(),
        *_variants(board, home),
        *_costs(board, home),
        tag("h2", "How to read it"),
        tag("p", wording.HOW_TO_READ),
        tag("p", wording.HOW_TO_READ_MARKS),
        *_matrix(board),
        *_computed_inputs(board),
        *([tag("h2", "Plots"), *map(figure, figures)] if figures else []),
        *_gallery(board),
        tag("h2", "Evidence"),
        tag("details", tag("summary", "Keys of the results behind each row"), _keys(board)),
    ]
    here = tag("span", f"gsnobench, track {track.name}")
    if home is None:
        return document(board.title, here, main, "leaderboard publish")
    return document(board.title, site_links(home, here), main)


# ----------------------------------------------------------------------------------------- in words


def _lead(board: Board) -> Sequence[str]:
    """Who is ahead; or the command that adds a model where there are not two."""
    if promotion := wording.promotion(board):
        return (f"{promotion} {_why_not_separated(board)}".strip(),)
    model = next((row.model for row in board.compared if not row.is_floor), None)
    apart = ", apart from variants" if any(row.seeds for row in board.variants) else ""
    who = "floors have" if model is None else f"{model} has"
    only = f"Only {who} results on this task so far{apart}."
    if any(safe_name(text) != text for text in (board.task, board.track)):
        return (only,)  # a stranger's text is no part of a command to copy
    command = f"gsnobench run --model NAME --dataset {board.task} --track {board.track}"
    return f"{only} Run yours: ", tag("code", command), "."


def _why_not_separated(board: Board) -> str:
    """What the promotion lacks to be significant."""
    best = board.promotion
    if best is None or best.is_separated:
        return ""
    index = {row.name: number for number, row in enumerate(board.compared)}
    first, second = index[best.first], index[best.second]
    pair = [board.compared[first], board.compared[second]]
    single = [row.name for row in pair if not row.scores.is_testable]
    if single:
        return f"Why not: one seed of {' and of '.join(single)}."
    return f"Why not: p = {board.p_values[first, second]:.2g} after Holm's correction."


def _facts(board: Board) -> Html:
    entries = [entry for row in board.rows for entry in row.done]
    machines = sorted({str(entry.environment.get("hardware", "")) for entry in entries} - {""})
    more = f" and {len(machines) - MACHINES} more" if len(machines) > MACHINES else ""
    outdated = f", {board.outdated} of older revisions left out" if board.outdated else ""
    hashes = ", ".join(data_hash[:12] for data_hash in board.data if data_hash)
    facts = {
        "task": f"{board.task}, version {board.version}",
        "nodes": f"{board.resolution:,}",
        "samples": ", ".join(f"{count} {split}" for split, count in board.sizes.items()),
        "data": f"{board.origin or 'unknown'}, seed {board.data_seed}",
        "data hash": hashes or wording.NOTHING,
        "results": f"{len(entries)} finished{outdated}",
        "costs measured on": ", ".join(machines[:MACHINES]) + more or wording.NOTHING,
    }
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()]
    return tag("dl", pairs, class_="facts")


# ------------------------------------------------------------------------------------------- tables


def _ranking(board: Board, home: str | None) -> Html:
    podium, columns = wording.podium(board), error_columns(board.compared)
    names = heading("row", class_="names")
    header = tag("tr", place_heads(), names, column_heads(columns), words_heading("notes"))
    done = [
        _row(
            row,
            place_cells(row),
            name_cell(row, home),
            measured_cells(row, columns, podium),
            notes_cell(row),
        )
        for row in board.compared
    ]
    blank = [_blank_row(row, home, 3, len(columns) + 1) for row in board.blank]
    caption = (
        f"{board.title}: relative L2 error on the test split, best first; ° fewer than three "
        "seeds, † not converged"
    )
    return scrolling(sortable(caption, header, [done, blank], "ranking"), "Ranking")


def _blank_row(row: Row, home: str | None, before: int, after: int) -> Html:
    """A row without an error comes last and says why."""
    dashes = [tag("td", wording.NOTHING)] * before
    return _row(row, dashes, name_cell(row, home), reason_cell(row, after))


def _costs(board: Board, home: str | None) -> Sequence[Html]:
    """Steps and costs, in the order of the ranking."""
    columns = cost_columns(board.compared)
    if not columns:
        return ()
    header = tag("tr", heading("row", class_="names"), column_heads(columns))
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
    names, words = heading("variant", class_="names"), words_heading("settings and notes")
    header = tag("tr", names, column_heads(columns), words)
    nobody = (math.nan, math.nan)
    lines = [
        _row(
            row,
            name_cell(row, home),
            measured_cells(row, columns, nobody),
            tag("td", wording.settings_and_notes(row), class_="words"),
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
    table = pair_table([row.name for row in rows], cells, caption)
    return tag("h2", "Who is ahead of whom"), table


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


# ----------------------------------------------------------------------------- samples and evidence


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
        picture = tag("img", src=_inlined(row.picture), alt=caption, decoding="async")
        drawing = tag("div", picture, class_="scroll")
        yield Html(tag("h3", row.name) + tag("figure", drawing, tag("figcaption", caption)))


def _inlined(picture: Path | None) -> str:
    """A page may load nothing, so its pictures are part of it."""
    if picture is None:
        return ""
    return f"data:image/png;base64,{b64encode(picture.read_bytes()).decode()}"


def _keys(board: Board) -> Html:
    """The files behind each row by name, since inside MLflow's frame no link works."""
    lines = []
    for row in board.rows:
        keys = [f"{e.spec.short} (seed {e.spec.seed}, {e.status})" for e in row.entries]
        lines.append(tag("li", row.name, ": ", ", ".join(keys)))
    return tag("ul", lines, class_="notes")
