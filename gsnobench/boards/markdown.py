"""Boards as Markdown that a code host shows well; every text of a stranger is made inert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.evidence import printable
from gsnobench.boards.paper import CITATION

GENERATED = f"<!-- {wording.generated_by('leaderboard build')} -->"
HEADER = ("rank", "row", "error", "95 % over seeds", "seeds", "raw", "published")


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
        f"## How to read it\n\n{wording.HOW_TO_READ} {source}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def overview(track: BoardTrack, page: str = "") -> str:
    """Mean errors of rows by tasks: best bold, second underlined, ° fewer than three seeds.

    The links of its header go to `page`.
    """
    boards = [board for board in track.boards if board.compared]
    by_name = [{row.name: row for row in board.rows} for board in boards]
    podiums = [wording.podium([row.error for row in board.compared]) for board in boards]
    columns = list(zip(by_name, podiums, strict=True))
    lines = [
        [plain(name), *(_overview_cell(rows.get(name), *best) for rows, best in columns)]
        for name in track.rows
    ]
    links = [f"[{plain(board.slug)}]({page}#{_anchor(board)})" for board in boards]
    return table(["row", *links], lines)


def _overview_cell(row: Row | None, best: float, second: float) -> str:
    if row is None:
        return ""
    if not row.seeds:
        return row.state
    text = wording.number(row.error)
    if row.error == best:
        text = f"**{text}**"
    elif row.error == second:
        text = f"<u>{text}</u>"
    return text + ("°" if row.has_few_seeds else "")


def _across(track: BoardTrack) -> str:
    """Mean ranks over tasks, and the meaning of °."""
    comparison = track.comparison
    if comparison is None:
        return "° fewer than three seeds."
    order = sorted(zip(comparison.mean_ranks, comparison.rows, strict=True))
    listed = ", ".join(f"{plain(name)} {mean:.2f}" for mean, name in order)
    return (
        f"° fewer than three seeds. Mean rank over {comparison.tasks} tasks: {listed}. Differences "
        f"below {comparison.critical_difference:.2f} may be chance (Nemenyi, 5 %; Friedman p = "
        f"{comparison.p_value:.2g})."
    )


def _anchor(board: Board) -> str:
    return re.sub(r"[^a-z0-9_-]", "", board.slug.lower())


def board_section(board: Board) -> str:
    """One board: what was run, the table, the reasons of the rows without an error."""
    rows = [_board_row(row, board) for row in board.rows if row.seeds]
    reasons = [
        f"- {plain(row.name)}: {row.state}, {plain(row.reason)}" for row in board.rows if row.reason
    ]
    parts = [
        f"## {plain(board.slug)}",
        _facts(board),
        table([*HEADER, *wording.COST_COLUMNS, "needs"], rows, words=2),
        plain(wording.promotion(board)),
        *_computed_inputs(board),
        "\n".join(reasons),
    ]
    return "\n\n".join(part for part in parts if part)


def _facts(board: Board) -> str:
    sizes = "/".join(str(board.sizes.get(split, 0)) for split in ("train", "valid", "test"))
    facts = [
        f"{board.resolution} nodes",
        f"{sizes} samples (train/valid/test)",
        f"{board.origin} data, version {board.version}",
        f"data seed {board.data_seed}",
        f"data {', '.join(data_hash[:12] for data_hash in board.data if data_hash)}",
    ]
    if board.outdated:
        facts.append(f"{board.outdated} results of older model revisions left out")
    return "; ".join(facts) + "."


def _computed_inputs(board: Board) -> list[str]:
    lines = [[plain(name), *numbers] for name, *numbers in wording.computed_inputs(board)]
    if not lines:
        return []
    return [wording.COMPUTED_INPUTS, table(wording.COMPUTED_INPUTS_HEADER, lines)]


def _board_row(row: Row, board: Board) -> list[str]:
    name = plain(row.name)
    if row.is_floor or row.is_variant:
        name = f"*{name}*"
    elif row.rank and row.rank.low == 1:
        name = f"**{name}**"
    return [
        wording.rank(row, board),
        name,
        wording.number(row.error),
        wording.spread(row.interval),
        wording.seeds(row),
        wording.number(row.raw),
        wording.number(row.published),
        *wording.costs(row).values(),
        row.needs,
    ]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A pipe table; the first columns hold words and are set to the left, numbers to the right."""
    rule = ["---" if column < words else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])


def plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no table bars, no HTML, no link, one line."""
    one_line = " ".join(printable(text).split())
    one_line = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|~#!()])", r"\\\1", one_line)
    # code hosts make links of bare addresses
    return re.sub(r"(?i)(https?|ftp)(?=://)|(www)(?=\.)", r"\g<0>\\", escaped)
