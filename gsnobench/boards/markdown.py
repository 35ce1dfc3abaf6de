"""Boards as Markdown that a code host shows well; every text of a stranger is made inert."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.columns import cost_columns, error_columns
from gsnobench.boards.evidence import printable
from gsnobench.boards.reading import across_tasks, reading
from gsnobench.boards.reproduction.paper import CITATION
from gsnobench.boards.statistics import LEVEL

GENERATED = f"<!-- {wording.generated_by('leaderboard build')} -->"
RANKED = ("place", "ties", "range", "row")
README_MODELS = 5  # columns of the table of a README
MOST_TIES = 3  # rows of a task that a verdict names
README_LEGEND = (
    "Relative L2 error on the test set, mean over seeds; lower is better. **Bold**: "
    f"{wording.BOLD}. {wording.SIGNS}"
)
REMARKS = ("notes", "settings and notes")  # columns of words behind the numbers


def track_page(track: BoardTrack, note: str = "", picture: str = "") -> str:
    """The overview of a track and all its boards; `picture` is the file of its overview."""
    source = (
        f"Published numbers: {CITATION}; other data, sizes and budgets, see the reproduction "
        "ledger."
    )
    parts = [
        GENERATED,
        f"# Track {plain(track.name)}",
        note.replace("](../", "]("),  # links of a note are seen from its own folder
        overview(track),
        _across(track),
        f"![How far each row is from the best]({picture})" if picture else "",
        *(board_section(board) for board in track.boards),
        f"## How to read it\n\n{wording.HOW_TO_READ} {source}\n\n{wording.HOW_TO_READ_MARKS}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def overview(track: BoardTrack, page: str = "") -> str:
    """Rows by tasks; the links of its header go to `page`."""
    boards = [board for board in track.boards if board.compared]
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
        _ranking(board),
        plain(reading(board)),
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
    return "\n\n".join([verdict(track), short_table(track, page), _shown_rows(track)])


def _shown_rows(track: BoardTrack) -> str:
    """How to read the table, and which rows of the board it holds."""
    complete = [standing for standing in track.standings if standing.is_complete]
    models = [standing for standing in complete if not standing.is_floor]
    columns = min(README_MODELS, len(models))
    return (
        f"{README_LEGEND} Columns: the {columns} best of {len(models)} rows (a model with a "
        "preset) that have all these tasks. Mean rank: among these rows and "
        f"{len(complete) - len(models)} floors, predictors without a training loop."
    )


def verdict(track: BoardTrack) -> str:
    """Who leads, on how many tasks, and on how many of them significantly."""
    boards = [board for board in track.boards if board.slug in track.compared]
    standing = next(standing for standing in track.standings if not standing.is_floor)
    leader, mean_rank = standing.row, wording.number(standing.mean_rank)
    rank = f"the best mean rank of all models ({mean_rank}) and " if standing.is_complete else ""
    first = [board for board in boards if _models(board)[0].name == leader]
    sentences = [
        f"**{plain(leader)} leads.** It has {rank}the lowest error of all "
        f"models on {_of(first, boards)}.",
        *_tested(boards, first, leader),
        _not_compared(track),
    ]
    return " ".join(filter(None, sentences))


def _tested(boards: Sequence[Board], first: Sequence[Board], leader: str) -> Iterator[str]:
    """What the tests say of the leader; a single seed can be compared with nobody."""
    ranked = {row.name for board in boards for row in board.compared if row.rank is not None}
    if leader not in ranked:
        yield "It has one seed on each of them, so no difference has been tested yet."
        return
    ahead_of_models = [board for board in boards if _is_ahead(board, leader, _models)]
    ahead_of_floors = [board for board in boards if _is_ahead(board, leader, _floors)]
    yield (
        f"It is significantly better than every other model on {_of(ahead_of_models, boards)}, "
        f"and than every floor on {_of(ahead_of_floors, boards)}."
    )
    if single := [board for board in boards if _has_one_seed(board, leader)]:
        where = f"{len(single)} of {len(boards)} tasks"
        yield f"It has one seed on {where}, so no difference has been tested there yet."
    yield _ties(first, leader)
    behind = [board for board in boards if _is_behind(board, leader)]
    yield (
        f"Other rows are significantly better than it on {_of(behind, boards)}."
        if behind
        else "No row is significantly better than it on any task."
    )


def _has_one_seed(board: Board, leader: str) -> bool:
    return any(row.name == leader and not row.scores.is_testable for row in board.compared)


def _not_compared(track: BoardTrack) -> str:
    """On how many tasks of the benchmark there is nobody to compare with."""
    missing = track.tasks - len(track.compared)
    if missing <= 0:
        return ""
    rest = [board for board in track.boards if board.slug not in track.compared]
    has_any = any(board.has_models for board in rest)
    who = "fewer than two models have" if has_any else "no model has"
    others = f"{missing} tasks" if missing > 1 else "task"
    return f"On the other {others} {who} been ranked yet."


def _of(some: Sequence[Board], boards: Sequence[Board]) -> str:
    """2 of 3 tasks (darcy, swe)."""
    names = f" ({', '.join(plain(board.slug) for board in some)})" if some else ""
    return f"{len(some) or 'none'} of {len(boards)} tasks{names}"


def _models(board: Board) -> list[Row]:
    return [row for row in board.compared if not row.is_floor]


def _floors(board: Board) -> list[Row]:
    return [row for row in board.compared if row.is_floor]


def _is_ahead(board: Board, leader: str, others: Callable[[Board], list[Row]]) -> bool:
    """Whether the leader has a lower error than all others of this kind, significantly.

    A row with one seed is not tested, so nobody is known to be ahead of it.
    """
    beside = _against(board, leader, others(board))
    is_tested = len(beside) == len([row for row in others(board) if row.name != leader])
    return (
        bool(beside)
        and is_tested
        and all(p < LEVEL and row.error > error for row, p, error in beside)
    )


def _is_behind(board: Board, leader: str) -> bool:
    """Whether any row is significantly better than the leader."""
    beside = _against(board, leader, board.compared)
    return any(p < LEVEL and row.error < error for row, p, error in beside)


def _ties(boards: Sequence[Board], leader: str) -> str:
    """The ranked rows that the tests do not separate from the leader where it is first."""
    tied = {board.slug: _tied(board, leader) for board in boards}
    listed = "; ".join(f"from {rows} on {plain(task)}" for task, rows in tied.items() if rows)
    corrected = " (p after Holm's correction)" if "(p = " in listed else ""
    lead = "Where it has the lowest error, it does not differ significantly"
    return f"{lead} {listed}{corrected}." if listed else ""


def _tied(board: Board, leader: str) -> str:
    """These rows of a task with their p-values, or their number where there are many."""
    beside = _against(board, leader, board.compared)
    ties = [f"{plain(row.name)} (p = {p:.2g})" for row, p, _ in beside if p >= LEVEL]
    if len(ties) > MOST_TIES:
        return f"{len(ties)} of {len(beside)} other rows"
    return " and ".join(filter(None, (", ".join(ties[:-1]), *ties[-1:])))


def _against(board: Board, leader: str, rows: Sequence[Row]) -> list[tuple[Row, float, float]]:
    """Ranked rows beside the leader, with the p-value of the difference and the leader's error."""
    names = [row.name for row in board.compared]
    if leader not in {row.name for row in board.compared if row.rank is not None}:
        return []
    index = names.index(leader)
    return [
        (row, float(board.p_values[index, names.index(row.name)]), board.compared[index].error)
        for row in rows
        if row.name != leader and row.rank is not None
    ]


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


def _floor_cell(board: Board) -> str:
    floors = _floors(board)
    return f"{plain(floors[0].model)} {wording.number(floors[0].error)}" if floors else ""


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
