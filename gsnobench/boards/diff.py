"""Two folders of evidence, row by row: what is new, gone, better, worse or the same, by the tests
of the boards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from gsnobench.boards.board import Board, Row, Track
from gsnobench.boards.statistics import LEVEL, holm, pair_p_value
from gsnobench.records import plain

Verdict = Literal["better", "worse", "same", "not separated", "new", "gone"]


@dataclass(frozen=True)
class Change:
    """One row of one board, before and after."""

    track: str
    board: str
    row: str
    before: float | None
    after: float | None
    p_value: float | None  # corrected by Holm over all rows that both folders have
    verdict: Verdict

    def to_dict(self) -> dict[str, object]:
        return {str(name): value for name, value in plain(asdict(self)).items()}


def diff(before: Iterable[Track], after: Iterable[Track]) -> list[Change]:
    """All rows of both; `worse` and `better` are separated differences."""
    old, new = _rows(before), _rows(after)
    shared = sorted(old.keys() & new.keys())
    moved = [place for place in shared if _answers(old[place]) != _answers(new[place])]
    corrected = dict(
        zip(
            moved,
            holm([pair_p_value(old[one].scores, new[one].scores) for one in moved]),
            strict=True,
        )
    )
    changes = [_change(place, old[place], new[place], corrected.get(place)) for place in shared]
    changes += [
        Change(*place, old[place].error, None, None, "gone")
        for place in sorted(old.keys() - new.keys())
    ]
    changes += [
        Change(*place, None, new[place].error, None, "new")
        for place in sorted(new.keys() - old.keys())
    ]
    return changes


def _rows(tracks: Iterable[Track]) -> dict[tuple[str, str, str], Row]:
    boards: Sequence[Board] = [board for track in tracks for board in track.boards]
    return {
        (board.track, board.slug, row.name): row
        for board in boards
        for row in board.rows
        if row.seeds
    }


def _answers(row: Row) -> list[tuple[str, float]]:
    return [(entry.key, entry.error) for entry in row.done]


def _change(place: tuple[str, str, str], old: Row, new: Row, p_value: float | None) -> Change:
    if p_value is None:
        return Change(*place, old.error, new.error, None, "same")
    verdict: Verdict = "not separated"
    if p_value < LEVEL:
        verdict = "better" if new.error < old.error else "worse"
    return Change(*place, old.error, new.error, float(p_value), verdict)
