"""`gb.leaderboard`: the boards of a track as a table, one's own runs among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Never

from gsnobench.api.keywords import refuse_unknown
from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.home import Home, open_home
from gsnobench.plugins import Kind, listed

if TYPE_CHECKING:
    import pandas

    from gsnobench.boards.board import Board, BoardTrack, Row
    from gsnobench.boards.evidence import Installation
    from gsnobench.records import RunResult

Problems = tuple[str, ...]  # one line per result file that was skipped


def leaderboard(
    track: str = "laptop",
    task: str = "",
    *,
    variants: bool = False,
    results: Path | str | Sequence[Path | str] | None = None,
    home: Path | str | None = None,
    **unknown: Never,
) -> pandas.DataFrame:
    """The boards of a track as a DataFrame, your own runs among them.

    Without a task: one row per model and preset, in the order of the standings, with the number of
    tasks it has an error on, its mean rank, how many times the best error it has (geometric mean)
    and its error on every task. With a task: one row per model and preset of that board, best
    first, with place, error and its 95 % interval, seeds, the factor to the best floor, costs.

        track     "smoke", "laptop", "workstation" or "paper"
        task      such as "darcy_threshold", or "swe" if only one window of it has been run
        variants  also runs with other settings than a preset's, which are not ranked
        results   folders of result files; None: the committed boards and the home's own runs
        home      folder of your own runs; None: $GSNOBENCH_HOME or the usual one
    """
    import pandas

    refuse_unknown(leaderboard, unknown)
    if variants and not task:
        raise ParamError("variants: belong to one board; name it with task=")
    named = [results] if isinstance(results, (str, Path)) else results or ()
    opened = open_home(None if home is None else Path(home))
    chosen, _ = open_track(track, opened, [Path(folder) for folder in named])
    if not task:
        table = pandas.DataFrame(_overview(chosen)).set_index("row")
        table.attrs["title"] = f"Track {chosen.name}: mean test error over seeds"
        return table
    board = board_named(task, chosen)
    rows = [row for row in board.rows if variants or not row.is_variant]
    table = pandas.DataFrame([_line(row, board) for row in rows]).set_index("row")
    table.attrs["title"] = board.title
    return table


def _overview(track: BoardTrack) -> list[dict[str, object]]:
    boards = [board for board in track.boards if board.compared]
    errors = [{row.name: row.error for row in board.compared} for board in boards]
    return [
        {
            "row": standing.row,
            "floor": standing.is_floor,
            "tasks": standing.tasks,
            "mean_rank": standing.mean_rank,
            "times_the_best": standing.ratio,
            **{
                board.slug: known.get(standing.row, math.nan)
                for board, known in zip(boards, errors, strict=True)
            },
        }
        for standing in track.standings
    ]


def _line(row: Row, board: Board) -> dict[str, object]:
    low, high = row.interval or (math.nan, math.nan)
    floor = board.best_floor
    return {
        "row": row.name,
        "place": row.rank.place if row.rank else None,
        "ties": row.rank.letters if row.rank else "",
        "error": row.error,
        "error_low": low,
        "error_high": high,
        "seeds": row.seeds,
        "times_the_best_floor": math.nan if floor is None else row.error / floor.error,
        "floor": row.is_floor,
        "own": row.is_own,
        "state": row.state,
        "reason": row.reason,
        "error_ood": row.ood_error,
        "error_95": row.tail,
        "error_worst": row.worst,
        "steps": row.steps,
        "train_cpu_s": row.cost("train_cpu_s"),
        "parameters": row.cost("parameters"),
        "ms_per_sample": 1000 * row.cost("inference_s"),
        "peak_mb": row.cost("peak_mb"),
    }


# ------------------------------------------------------------------------------------------- boards


def open_track(name: str, home: Home, results: Sequence[Path] = ()) -> tuple[BoardTrack, Problems]:
    """The boards of one track, and one line per file that was skipped."""
    from gsnobench.boards.build import read_tracks

    tracks, problems = read_tracks(board_folders(results, home), installation(home))
    chosen = next((track for track in tracks if track.name == name), None)
    if chosen is None:
        known = [track.name for track in tracks]
        raise ParamError(f"track: no results on {name!r}; {did_you_mean(name, known)}")
    return chosen, problems


def board_folders(results: Sequence[Path], home: Home) -> list[Path]:
    """The named folders of result files, or the default ones."""
    from gsnobench.boards.evidence import evidence_folders

    folders = [folder.resolve() for folder in results] or evidence_folders(home)
    if not folders:
        raise DataError(
            "leaderboard: no results yet; run a model first, or name a folder with --results"
        )
    return folders


def board_named(task: str, track: BoardTrack) -> Board:
    """The board of this name; of a task's short name the window that counts, or the only one."""
    boards = {board.slug: board for board in track.boards}
    windows = [slug for slug in boards if slug.partition("@")[0] == task]
    counted = [slug for slug in windows if slug in track.counted]
    named = [task] if task in boards else counted if len(counted) == 1 else windows
    if len(named) != 1:
        near = did_you_mean(task, windows or boards)
        raise ParamError(f"task: no board {task!r} on track {track.name}; {near}")
    return boards[named[0]]


def rivals_of(result: RunResult, home: Home) -> tuple[int, int] | None:
    """How many other rows of its board have a lower error than a result, and how many there are."""
    from gsnobench.boards.build import read_tracks
    from gsnobench.boards.evidence import evidence_folders

    spec = result.spec
    folders = [folder / spec.track / spec.task for folder in evidence_folders(home)]
    tracks, _ = read_tracks([folder for folder in folders if folder.is_dir()])
    for board in (board for track in tracks for board in track.boards):
        if any(entry.key == spec.key for row in board.rows for entry in row.entries):
            others = [row.error for row in board.compared if row.name != spec.row]
            return sum(error < result.headline for error in others), len(others)
    return None


def installation(home: Home | None) -> Installation:
    """What this machine adds to result files: a home's results, and the plugins that it has now."""
    from gsnobench.boards.evidence import Installation
    from gsnobench.runs.source import declared_revision, source_digest

    kinds: tuple[Kind, ...] = ("model", "dataset")
    usable = [entry for kind in kinds for entry in listed(kind) if entry.problem is None]
    code: dict[tuple[str, str], str] = {}
    revisions: dict[str, int] = {}
    for entry in usable:
        with suppress(SyntaxError, OSError, ValueError):  # a broken plugin has no digest
            code[entry.kind, entry.name] = source_digest(entry.kind, entry.name)
            if entry.kind == "model":
                revisions[entry.name] = declared_revision(entry.name)
    return Installation(None if home is None else home.results, code, revisions)
