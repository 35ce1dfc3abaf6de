"""Boards as data: flat records, and from them CSV, JSON, parquet; and a LaTeX table as papers print
it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gsnobench.boards.board import COSTS, Board, Row, Track
from gsnobench.boards.wording import NOTHING, kind, number, podium
from gsnobench.files import atomic
from gsnobench.records import plain

Record = dict[str, Any]


def records(tracks: Iterable[Track]) -> list[Record]:
    """One record a row of every board; what is unknown is None."""
    return [_record(board, row) for track in tracks for board in track.boards for row in board.rows]


def _record(board: Board, row: Row) -> Record:
    low, high = row.interval or (None, None)
    values = {
        "track": board.track,
        "task": board.task,
        "version": board.version,
        "board": board.slug,
        "origin": board.origin,
        "resolution": board.resolution,
        "data_seed": board.data_seed,
        "row": row.name,
        "kind": kind(row),
        "state": row.state,
        "reason": row.reason,
        "rank": row.rank.low if row.rank else None,
        "rank_high": row.rank.high if row.rank else None,
        "seeds": row.seeds,
        "error": row.error,
        "error_low": low,
        "error_high": high,
        "error_raw": row.raw,
        "published": row.published,
        **{name: row.cost(name) for name in COSTS},
        "needs": row.needs,
        "keys": [entry.spec.short for entry in row.entries],
    }
    return {str(name): value for name, value in plain(values).items()}


def to_json(tracks: Iterable[Track]) -> str:
    return json.dumps(records(tracks), indent=1, allow_nan=False) + "\n"


def to_csv(tracks: Iterable[Track]) -> str:
    """Comma-separated, one header line; keys joined by spaces."""
    rows = [{**one, "keys": " ".join(one["keys"])} for one in records(tracks)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _inert(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return (
        f"'{value}"
        if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
        else value
    )


def write_parquet(tracks: Iterable[Track], path: Path) -> None:
    """The records as a parquet file."""
    import pyarrow
    from pyarrow import parquet

    with atomic(path) as part:
        parquet.write_table(pyarrow.Table.from_pylist(records(tracks)), part)


# -------------------------------------------------------------------------------------------- LaTeX

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
# else the end of the row before takes them for its own
SPECIAL |= {letter: f"{{{letter}}}" for letter in "[]*"}


def latex(track: Track) -> str:
    """Rows by tasks, best bold and second underlined, and how far the best model is ahead; for
    \\usepackage{booktabs}.
    """
    boards = [board for board in track.boards if len(board.compared) > 0]
    body = [
        " & ".join(["Model", *(_escaped(board.slug) for board in boards)]) + r" \\",
        r"\midrule",
    ]
    body += [" & ".join(cells) + r" \\" for cells in _cells(track, boards)]
    if any(board.promotion for board in boards):
        body += [r"\midrule", " & ".join(["Promotion", *map(_promotion, boards)]) + r" \\"]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(boards)}}}",
        r"\toprule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    about = [
        f"% gsnobench, track {_escaped(track.name)}: relative L2 on the test split, mean over "
        "seeds",
        "% Promotion: the best model below the next best one, floors left out; in parentheses "
        "where the two are not separated",
    ]
    return "\n".join([*about, *lines]) + "\n"


def _cells(track: Track, boards: Sequence[Board]) -> Iterator[list[str]]:
    errors = [{row.name: row for row in board.compared} for board in boards]
    podiums = [podium([row.error for row in table.values()]) for table in errors]
    for name in track.rows:
        if any(name in table for table in errors):
            yield [
                _escaped(name),
                *(
                    _marked(table.get(name), *best)
                    for table, best in zip(errors, podiums, strict=True)
                ),
            ]


def _promotion(board: Board) -> str:
    found = board.promotion
    if found is None:
        return "--"
    return rf"{found.percent:.0f}\%" if found.is_separated else rf"({found.percent:.0f}\%)"


def _marked(row: Row | None, best: float, second: float) -> str:
    if row is None or not math.isfinite(row.error):
        return NOTHING.replace("–", "--")
    text = number(row.error)
    return (
        rf"\textbf{{{text}}}"
        if row.error == best
        else rf"\underline{{{text}}}"
        if row.error == second
        else text
    )


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter if letter.isprintable() else " ") for letter in text)
