"""Boards as Markdown that a code host shows well; every text of a stranger is made inert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.columns import cost_columns, error_columns
from gsnobench.boards.evidence import printable
from gsnobench.boards.reading import across_tasks, reading, verdict
from gsnobench.boards.reproduction.paper import CITATION

GENERATED = f"<!-- {wording.generated_by('leaderboard build')} -->"
RANKED = ("place", "ties", "range", "row")
README_MODELS = 5  # columns of the table of a README
README_LEGEND = (
    "Relative L2 error on the test set, mean over seeds; lower is better. **Bold**: "
    f"{wording.BOLD}. {wording.SIGNS}"
)
REMARKS = ("notes", "settings and notes")  # columns of words behind the numbers


def track_page(track: BoardTrack, notes: Mapping[str, str] | None = None, picture: str = "") -> str:
    """The overview of a track and all its boards; `picture` is the file of its overview.

    `notes` are remarks by a person: on the track under "", on a board under its name.
    """
    # links of a note are seen from its own folder
    notes = {name: text.replace("](../", "](") for name, text in (notes or {}).items()}
    source = (
        f"Published numbers: {CITATION}; other data, sizes and budgets, see the reproduction "
        "ledger."
    )
    parts = [
        GENERATED,
        f"# Track {plain(track.name)}",
        notes.get("", ""),
        overview(track),
        _across(track),
        _extra(track),
        f"![How far each row is from the best]({picture})" if picture else "",
        *(board_section(board, notes.get(board.slug, "")) for board in track.boards),
        f"## How to read it\n\n{wording.HOW_TO_READ} {source}\n\n{wording.HOW_TO_READ_MARKS}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def overview(track: BoardTrack, page: str = "") -> str:
    """Rows by the benchmark's tasks; the links of its header go to `page`."""
    boards = [board for board in track.main if board.compared]
    columns = [(board, {row.name: row for row in board.rows}) for board in boards]
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
        cells = [_overview_cell(board, rows.get(standing.row)) for board, rows in columns]
        lines.append([plain(standing.row), *numbers, *cells])
    return table(header, lines)


def _extra(track: BoardTrack) -> str:
    """Rows by the other boards, for rows that have any."""
    boards = [board for board in track.extra if board.compared]
    if not boards:
        return ""
    columns = [(board, {row.name: row for row in board.rows}) for board in boards]
    lines = []
    for standing in track.standings:
        cells = [_overview_cell(board, rows.get(standing.row)) for board, rows in columns]
        if any(cells):
            lines.append([plain(standing.row), *cells])
    header = ["row", *(_overview_heading(board, "") for board in boards)]
    title = "Extra tasks: other windows, other data, easier forms. They are not counted."
    return f"{title}\n\n{table(header, lines)}"


def _overview_heading(board: Board, page: str) -> str:
    link = f"[{plain(board.slug)}]({page}#{anchor(board)})"
    return " ".join(filter(None, (link, wording.task_heading(board))))


def _overview_cell(board: Board, row: Row | None) -> str:
    if row is None or not row.seeds:
        return "" if row is None else wording.state(row)
    return _error_cell(board, row)


def _across(track: BoardTrack) -> str:
    """What the columns of the overview are about, and mean ranks over tasks."""
    signs = f"Bold: {wording.BOLD}. {wording.SIGNS}"
    parts = [wording.overview_legend(track), signs, *wording.comparisons(track)]
    paragraphs = (parts, across_tasks(track))
    return "\n\n".join(
        " ".join(plain(part) for part in paragraph) for paragraph in paragraphs
    ).strip()


def anchor(board: Board) -> str:
    """The anchor that a code host gives to the heading of a board."""
    return re.sub(r"[^a-z0-9_-]", "", board.slug.lower())


def board_section(board: Board, note: str = "") -> str:
    """One board: the ranking, a note, steps and costs, variants, why rows have no error."""
    reasons = [
        f"- {plain(row.name)}: {row.state}, {plain(row.reason)}"
        for row in board.blank
        if row.reason
    ]
    parts = [
        f"## {plain(board.slug)}",
        _facts(board),
        _ranking(board),
        plain(reading(board)),
        note,
        _costs(board),
        *_computed_inputs(board),
        *_variants(board),
        "\n".join(reasons),
    ]
    return "\n\n".join(part for part in parts if part)


def _ranking(board: Board) -> str:
    rows, columns = board.compared, error_columns(board.compared)
    header = [*RANKED, *(plain(column.name) for column in columns), "notes"]
    lines = [
        [
            *(wording.place(row), wording.ties(row), wording.places(row), _name(row, board)),
            *(column.show(row) for column in columns),
            plain("; ".join(wording.notes(row))),
        ]
        for row in rows
    ]
    return table(header, lines, words=4) if lines else ""


def _costs(board: Board) -> str:
    rows, columns = board.compared, cost_columns(board.compared)
    lines = [[_name(row, board), *(column.show(row) for column in columns)] for row in rows]
    return table(["row", *(column.name for column in columns)], lines) if lines else ""


def _name(row: Row, board: Board) -> str:
    """Floors are in italics."""
    if row.is_floor:
        return f"*{plain(row.name)}*"
    return f"**{plain(row.name)}**" if wording.is_bold(row, board) else plain(row.name)


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
            plain("; ".join(wording.settings_and_notes(row))),
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


# ------------------------------------------------------------------------------------------- README


def readme_part(track: BoardTrack, page: str) -> str:
    """The verdict, the table of the best models, and how to read it; links lead to `page`."""
    boards = [board for board in track.boards if board.slug in track.compared]
    leaders = [standing.row for standing in track.standings if not standing.is_floor]
    if not boards or not leaders:
        return "No model has been run yet."
    return "\n\n".join([_verdict(track), short_table(track, page), _shown_rows(track)])


def _shown_rows(track: BoardTrack) -> str:
    """How to read the table, and which rows of the board it holds."""
    complete = [standing for standing in track.standings if standing.is_complete]
    models = [standing for standing in complete if not standing.is_floor]
    columns = min(README_MODELS, len(models))
    return (
        f"{README_LEGEND} Columns: the {columns} best of {len(models)} rows (a model with a "
        f"preset) that have all these tasks. Mean rank: among these {len(models)} rows and the "
        f"{len(complete) - len(models)} floors that apply to all these tasks."
    )


def _verdict(track: BoardTrack) -> str:
    """Who leads and how surely; the first sentence stands out."""
    first, *rest = map(plain, verdict(track, is_long=True))
    return " ".join([f"**{first}**", *rest])


def _floor_cell(board: Board) -> str:
    floor = board.best_floor
    return f"{plain(floor.model)} {wording.number(floor.error)}" if floor else ""


def short_table(track: BoardTrack, page: str) -> str:
    """Tasks by the best models of the standings, and the best floor of each task."""
    models = [row for row in track.standings if not row.is_floor and row.is_complete][
        :README_MODELS
    ]
    # narrow columns
    names = [re.sub(r"(?=[@+])", "<br>", plain(standing.row)) for standing in models]
    header = ["task", *names, "best floor"]
    lines = [
        [
            f"[{plain(board.slug)}]({page}#{anchor(board)})",
            *(_cell(board, standing.row) for standing in models),
            _floor_cell(board),
        ]
        for board in track.boards
        if board.slug in track.compared
    ]
    ranks = [wording.number(standing.mean_rank) for standing in models]
    return table(header, [*lines, ["*mean rank*", *ranks, ""]])


def _cell(board: Board, name: str) -> str:
    return _error_cell(board, next(row for row in board.compared if row.name == name))


def _error_cell(board: Board, row: Row) -> str:
    text = wording.number(row.error)
    return (f"**{text}**" if wording.is_bold(row, board) else text) + wording.signs(row)


# -------------------------------------------------------------------------------------------- parts


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
