"""Boards as data: one flat row per row of a board, as CSV, JSON and parquet; and a LaTeX table."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gsnobench.boards.board import COSTS, Board, BoardTrack, Row
from gsnobench.boards.wording import BOLD, generated_by, is_bold, kind, number
from gsnobench.files import atomic
from gsnobench.records import plain

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet knows one


def flat_rows(tracks: Iterable[BoardTrack]) -> list[dict[str, Any]]:
    """One dictionary per row of every board; what is unknown is None."""
    boards = [board for track in tracks for board in track.boards]
    return [_flat_row(board, row) for board in boards for row in board.rows]


def _flat_row(board: Board, row: Row) -> dict[str, Any]:
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
        "settings": row.settings,
        "state": row.state,
        "reason": row.reason,
        "place": row.rank.place if row.rank else None,
        "place_low": row.rank.low if row.rank else None,
        "place_high": row.rank.high if row.rank else None,
        "ties": row.rank.letters if row.rank else "",
        "seeds": row.seeds,
        "error": row.error,
        "error_low": low,
        "error_high": high,
        "error_ood": row.ood_error,
        "error_ood_median": row.ood_median,
        "error_95": row.tail,
        "error_worst": row.worst,
        "error_raw": row.raw,
        "published": row.published,
        "metrics": [
            {"field": f, "name": name, "value": row.score(f, name)} for f, name in row.metrics
        ],
        "steps": row.steps,
        "epochs": row.ending.epochs if row.ending else None,
        "valid_fall": row.ending.valid_fall if row.ending else None,
        **{name: row.cost(name) for name in COSTS},
        "normalised_cpu_s": row.normalised_cpu_s,
        "marks": [mark.name for mark in row.marks],
        "needs": row.needs,
        "keys": [entry.spec.short for entry in row.entries],
    }
    return {str(name): value for name, value in plain(values).items()}


def to_json(tracks: Iterable[BoardTrack]) -> str:
    return json.dumps(flat_rows(tracks), indent=1, allow_nan=False) + "\n"


def to_csv(tracks: Iterable[BoardTrack]) -> str:
    """Comma-separated, one header line; lists are joined."""
    rows = [
        {
            **row,
            "keys": " ".join(row["keys"]),
            "marks": ", ".join(row["marks"]),
            "metrics": ", ".join(map(_spelled_metric, row["metrics"])),
        }
        for row in flat_rows(tracks)
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _spelled_metric(metric: Mapping[str, Any]) -> str:
    return f"{metric['field']} {metric['name']} {metric['value']}"


def _inert(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def write_parquet(tracks: Iterable[BoardTrack], path: Path) -> None:
    """The flat rows as a parquet file."""
    import pyarrow
    from pyarrow import parquet

    with atomic(path) as part:
        parquet.write_table(pyarrow.Table.from_pylist(flat_rows(tracks)), part)


# -------------------------------------------------------------------------------------------- LaTeX

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
SPECIAL |= {letter: f"{{{letter}}}" for letter in "[]*"}  # else options of the line break before


def latex(track: BoardTrack) -> str:
    """Rows by tasks as papers print them, for \\usepackage{booktabs}.

    Below, how far the best model is ahead.
    """
    boards = [board for board in track.main if board.compared]
    header = ["Model", *(_escaped(board.slug) for board in boards)]
    promotions = ["Promotion", *map(_promotion, boards)]
    has_promotion = any(board.promotion for board in boards)
    lines = [
        f"% {generated_by('leaderboard build')}",
        f"% gsnobench, track {_escaped(track.name)}: relative L2 on the test split, mean over "
        "seeds",
        f"% Bold: {BOLD}",
        "% Promotion: the best model below the next best one, floors left out; in parentheses "
        "where the difference is not significant",
        rf"\begin{{tabular}}{{l{'r' * len(boards)}}}",
        r"\toprule",
        _line(header),
        r"\midrule",
        *map(_line, _cells(track, boards)),
        *([r"\midrule", _line(promotions)] if has_promotion else []),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cells(track: BoardTrack, boards: Sequence[Board]) -> Iterator[list[str]]:
    columns = [(board, {row.name: row for row in board.compared}) for board in boards]
    for name in track.rows:
        if any(name in rows for _, rows in columns):
            yield [_escaped(name), *(_cell(board, rows.get(name)) for board, rows in columns)]


def _promotion(board: Board) -> str:
    if board.promotion is None:
        return "--"
    percent = rf"{board.promotion.percent:.0f}\%"
    return percent if board.promotion.is_separated else f"({percent})"


def _cell(board: Board, row: Row | None) -> str:
    if row is None or not math.isfinite(row.error):
        return "--"
    text = number(row.error)
    return rf"\textbf{{{text}}}" if is_bold(row, board) else text


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter if letter.isprintable() else " ") for letter in text)
