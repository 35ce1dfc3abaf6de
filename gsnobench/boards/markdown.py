"""Boards as Markdown that a code host shows well; every text of a stranger is made inert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.columns import cost_columns, error_columns
from gsnobench.boards.evidence import printable
from gsnobench.boards.reproduction.paper import CITATION

GENERATED = f"<!-- {wording.generated_by('leaderboard build')} -->"
RANKED = ("place", "ties", "range", "row")
REMARKS = ("notes", "settings and notes")  # columns of words behind the numbers


def track_page(track: BoardTrack, note: str = "") -> str:
    """The overview of a track and all its boards."""
    source = (
        f"Published numbers: {CITATION}; other data, sizes and budgets, see the reproduction "
        "ledger."
    )
    parts = [
        GENERATED,
        f"# Track {plain(track.name)}",
        note,
        overview(track),
        _across(track),
        *(board_section(board) for board in track.boards),
        f"## How to read it\n\n{wording.HOW_TO_READ} {source}\n\n{wording.HOW_TO_READ_MARKS}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def overview(track: BoardTrack, page: str = "") -> str:
    """Rows by tasks: best bold, second underlined, ° fewer than three seeds, † not converged.

    The links of its header go to `page`.
    """
    boards = [board for board in track.boards if board.compared]
    by_name = [{row.name: row for row in board.rows} for board in boards]
    columns = list(zip(by_name, map(wording.podium, boards), strict=True))
    header = ["row", "tasks", "mean rank", "times the best"]
    header += [_overview_heading(board, page) for board in boards]
    lines = []
    for before, standing in zip((None, *track.standings), track.standings, strict=False):
        if before is not None and before.is_complete and not standing.is_complete:
            lines.append([f"*{wording.INCOMPLETE}*", *[""] * (len(header) - 1)])
        numbers = [
            wording.coverage(standing, track),
            wording.number(standing.mean_rank),
            wording.number(standing.ratio),
        ]
        cells = [_overview_cell(rows.get(standing.row), *best) for rows, best in columns]
        lines.append([plain(standing.row), *numbers, *cells])
    return table(header, lines)


def _overview_heading(board: Board, page: str) -> str:
    link = f"[{plain(board.slug)}]({page}#{_anchor(board)})"
    return " ".join(filter(None, (link, wording.task_heading(board))))


def _overview_cell(row: Row | None, best: float, second: float) -> str:
    if row is None or not row.seeds:
        return "" if row is None else wording.state(row)
    text = wording.number(row.error)
    if row.error == best:
        text = f"**{text}**"
    elif row.error == second:
        text = f"<u>{text}</u>"
    return text + wording.signs(row)


def _across(track: BoardTrack) -> str:
    """What the columns of the overview are about, and mean ranks over tasks."""
    parts = [wording.overview_legend(track), *wording.comparisons(track)]
    return " ".join(plain(part) for part in parts)


def _anchor(board: Board) -> str:
    return re.sub(r"[^a-z0-9_-]", "", board.slug.lower())


def board_section(board: Board) -> str:
    """One board: the ranking, steps and costs, variants, and why rows have no error."""
    reasons = [
        f"- {plain(row.name)}: {row.state}, {plain(row.reason)}"
        for row in board.blank
        if row.reason
    ]
    parts = [
        f"## {plain(board.slug)}",
        _facts(board),
        _ranking(board.compared),
        plain(wording.promotion(board)),
        _costs(board.compared),
        *_computed_inputs(board),
        *_variants(board),
        "\n".join(reasons),
    ]
    return "\n\n".join(part for part in parts if part)


def _ranking(rows: Sequence[Row]) -> str:
    columns = error_columns(rows)
    header = [*RANKED, *(plain(column.name) for column in columns), "notes"]
    lines = [
        [
            *(wording.place(row), wording.ties(row), wording.places(row), _name(row)),
            *(column.show(row) for column in columns),
            plain(wording.notes(row)),
        ]
        for row in rows
    ]
    return table(header, lines, words=4) if lines else ""


def _costs(rows: Sequence[Row]) -> str:
    columns = cost_columns(rows)
    lines = [[_name(row), *(column.show(row) for column in columns)] for row in rows]
    return table(["row", *(column.name for column in columns)], lines) if lines else ""


def _name(row: Row) -> str:
    """Floors are pale, models that nobody is significantly better than are bold."""
    is_first = row.rank is not None and row.rank.low == 1
    return (
        f"*{plain(row.name)}*"
        if row.is_floor
        else (f"**{plain(row.name)}**" if is_first else plain(row.name))
    )


def _variants(board: Board) -> list[str]:
    """What is not ranked, folded."""
    rows = board.variants
    if not rows:
        return []
    columns = [column for column in error_columns(rows) if not column.is_detail]
    lines = [
        [
            plain(row.name),
            wording.error(row),
            *(column.show(row) for column in columns[1:]),
            plain(wording.settings_and_notes(row)),
        ]
        for row in rows
    ]
    header = ["variant", *(plain(column.name) for column in columns), "settings and notes"]
    summary = f"<summary>Variants: {len(rows)}, not ranked</summary>"
    return [f"<details>{summary}\n\n{wording.VARIANTS}\n\n{table(header, lines)}\n\n</details>"]


def _facts(board: Board) -> str:
    sizes = "/".join(str(board.sizes.get(split, 0)) for split in ("train", "valid", "test"))
    facts = [
        f"{board.resolution} nodes",
        f"{sizes} samples (train/valid/test)",
        f"{plain(board.origin)} data, version {board.version}",
        f"data seed {board.data_seed}",
        f"data {', '.join(plain(data_hash[:12]) for data_hash in board.data if data_hash)}",
    ]
    if board.outdated:
        facts.append(f"{board.outdated} results of older model revisions left out")
    return "; ".join(facts) + "."


def _computed_inputs(board: Board) -> list[str]:
    lines = [[plain(name), *numbers] for name, *numbers in wording.computed_inputs(board)]
    if not lines:
        return []
    return [wording.COMPUTED_INPUTS, table(wording.COMPUTED_INPUTS_HEADER, lines)]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A pipe table; the first columns and those of remarks hold words and are set to the left."""
    rule = [
        "---" if number < words or name in REMARKS else "--:" for number, name in enumerate(header)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])


def plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no table bars, no HTML, no link, one line."""
    one_line = " ".join(printable(text).split())
    one_line = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|~#!()])", r"\\\1", one_line)
    # code hosts make links of bare addresses
    return re.sub(r"(?i)(https?|ftp)(?=://)|(www)(?=\.)", r"\g<0>\\", escaped)
