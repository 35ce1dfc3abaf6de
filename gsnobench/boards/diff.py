"""Two folders of evidence compared row by row, with the tests of the boards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from gsnobench.boards.board import BoardTrack, Row
from gsnobench.boards.statistics import LEVEL, holm, pair_p_value
from gsnobench.records import plain

ChangeVerdict = Literal["better", "worse", "same", "not significant", "new", "gone"]
RowKey = tuple[str, str, str]  # track, board, row


@dataclass(frozen=True)
class Change:
    """One row of one board, before and after."""

    track: str
    board: str
    row: str
    before: float | None
    after: float | None
    p_value: float | None  # corrected by Holm over all rows that both folders have
    verdict: ChangeVerdict

    def to_dict(self) -> dict[str, object]:
        return {str(name): value for name, value in plain(asdict(self)).items()}


def diff(before: Iterable[BoardTrack], after: Iterable[BoardTrack]) -> list[Change]:
    """All rows of both; `worse` and `better` are significant differences."""
    old, new = _rows(before), _rows(after)
    shared = sorted(old.keys() & new.keys())
    moved = [key for key in shared if _results(old[key]) != _results(new[key])]
    p_values = holm([pair_p_value(old[key].scores, new[key].scores) for key in moved])
    corrected = dict(zip(moved, p_values, strict=True))
    gone, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    return [
        *(_change(key, old[key], new[key], corrected.get(key)) for key in shared),
        *(Change(*key, old[key].error, None, None, "gone") for key in gone),
        *(Change(*key, None, new[key].error, None, "new") for key in added),
    ]


def _rows(tracks: Iterable[BoardTrack]) -> dict[RowKey, Row]:
    """All rows with an error."""
    boards = [board for track in tracks for board in track.boards]
    pairs = [(board, row) for board in boards for row in board.rows if row.seeds]
    return {(board.track, board.slug, row.name): row for board, row in pairs}


def _results(row: Row) -> list[tuple[str, float]]:
    return [(entry.key, entry.error) for entry in row.done]


def _change(key: RowKey, old: Row, new: Row, p_value: float | None) -> Change:
    if p_value is None:
        return Change(*key, old.error, new.error, None, "same")
    verdict: ChangeVerdict = "not significant"
    if p_value < LEVEL:
        verdict = "better" if new.error < old.error else "worse"
    return Change(*key, old.error, new.error, float(p_value), verdict)
