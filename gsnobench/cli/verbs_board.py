"""What `leaderboard` does; each verb returns its exit code and prints either text or one JSON
document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gsnobench.boards.build import Target, build, read_tracks, stale
from gsnobench.boards.evidence import evidence_folders
from gsnobench.cli.console import print_table
from gsnobench.errors import DataError, ParamError, RunError, did_you_mean
from gsnobench.files import write_text
from gsnobench.home import open_home
from gsnobench.tracking.address import Address

if TYPE_CHECKING:  # takes seconds to import: a build with nothing new does without
    from gsnobench.boards.board import BoardTrack

Format = Literal["text", "markdown", "csv", "json", "latex", "parquet"]


def _folders(results: Sequence[Path], home: Path | None) -> list[Path]:
    found = [folder.resolve() for folder in results] or evidence_folders(open_home(home))
    if not found:
        raise DataError(
            "leaderboard: no results yet; run a model first, or name a folder with --results"
        )
    return found


def _warn(problems: Sequence[str]) -> int:
    """Skipped evidence is told of, one line a file; exit code 3."""
    for problem in problems:
        print(f"gsnobench: skipped {problem}", file=sys.stderr)
    return 3 if problems else 0


def build_boards(
    results: Sequence[Path], target: Target, *, check: bool, home: Path | None, as_json: bool
) -> int:
    """`leaderboard build`: the rendered files; with `check`, only whether they are up to date."""
    out = target.out
    roots = _folders(results or ([out / "results"] if (out / "results").is_dir() else []), home)
    if check:
        old = [str(path) for path in stale(roots, target)]
        print(
            json.dumps({"stale": old})
            if as_json
            else "\n".join(old) or "all rendered files are up to date"
        )
        return 3 if old else 0
    built = build(roots, target)
    if as_json:
        print(json.dumps({"folder": str(out), **asdict(built)}))
    elif built.was_fresh:
        print(f"{out}: nothing new")
    else:
        print(
            f"{out}: {len(built.written)} files written, {len(built.removed)} removed; open "
            f"{out / 'site' / 'index.html'}"
        )
    return _warn(built.problems)


def show_boards(
    results: Sequence[Path],
    *,
    track: str,
    task: str,
    form: Format,
    out: Path | None,
    home: Path | None,
) -> int:
    """`leaderboard show`: a track's overview, or one board, on the terminal or in a format for
    elsewhere.
    """
    from gsnobench.boards import markdown, tables

    tracks, problems = read_tracks(_folders(results, home))
    chosen = [one for one in tracks if one.name == track]
    if not chosen:
        raise ParamError(
            f"track: no results on {track!r}; {did_you_mean(track, [one.name for one in tracks])}"
        )
    if form == "parquet":
        if out is None:
            raise ParamError("parquet: is no text; name a file with --out")
        tables.write_parquet(chosen, out)
    elif form == "text":
        _print_track(chosen[0], task)
    else:
        texts = {
            "markdown": lambda: markdown.track_page(chosen[0]),
            "csv": lambda: tables.to_csv(chosen),
            "json": lambda: tables.to_json(chosen),
            "latex": lambda: tables.latex(chosen[0]),
        }
        _put(texts[form](), out)
    return _warn(problems)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)


def _print_track(track: BoardTrack, task: str) -> None:
    from gsnobench.boards import terminal

    if not task:
        header, rows = terminal.overview(track)
        title = terminal.printable(
            f"Track {track.name}: mean test error over seeds (° fewer than three)"
        )
        print_table(title, header, rows)
        print("one board: gsnobench leaderboard show --task NAME")
        return
    boards = {board.slug: board for board in track.boards}
    if task not in boards:
        raise ParamError(
            f"task: no board {task!r} on track {track.name}; {did_you_mean(task, boards)}"
        )
    header, rows = terminal.board(boards[task])
    print_table(terminal.printable(boards[task].title), header, rows)
    for line in terminal.remarks(boards[task]):
        print(line)


def publish_boards(results: Sequence[Path], *, home: Path | None, as_json: bool) -> int:
    """`leaderboard publish`: the boards into the tracking store; nothing changes where nothing is
    new.
    """
    from gsnobench.boards.publish import publish

    place = open_home(home)
    address = Address.of(place.root)
    if address is None:
        raise RunError(
            "publish: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it "
            "for SQLite"
        )
    tracks, problems = read_tracks(_folders(results, home))
    shown = publish(
        tracks,
        address,
        lambda one: (
            None
            if as_json
            else print(
                f"{one.experiment}: {one.written} runs written, {one.removed} removed", flush=True
            )
        ),
    )
    if as_json:
        print(json.dumps([asdict(one) for one in shown]))
    else:
        print(f"{len(shown)} boards in {address.label}; `gsnobench ui` shows them")
    return _warn(problems)


def diff_boards(before: Path, after: Path, *, as_json: bool) -> int:
    """`leaderboard diff`: row by row; exit 3 if a row is worse for sure."""
    from gsnobench.boards import terminal
    from gsnobench.boards.diff import diff

    (old, troubles), (new, more) = read_tracks([before]), read_tracks([after])
    changes = diff(old, new)
    if as_json:
        print(json.dumps([one.to_dict() for one in changes]))
    else:
        moved = [one for one in changes if one.verdict != "same"]
        header = ["track", "board", "row", "before", "after", "p", "verdict"]
        print_table(f"{before} -> {after}", header, [terminal.change(one) for one in moved])
        print(f"{len(changes) - len(moved)} rows are the same")
    is_worse = any(one.verdict == "worse" for one in changes)
    return _warn([*troubles, *more]) or (3 if is_worse else 0)
