"""`gsnobench leaderboard`: build, show, compare and publish boards of result files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gsnobench.api.boards import board_folders, board_named, installation, open_track
from gsnobench.cli.console import WholeSentences, print_result
from gsnobench.cli.options import HomeOption, JsonOption, TrackOption
from gsnobench.cli.table import print_table, print_text
from gsnobench.errors import DataError, ParamError, RunError
from gsnobench.home import open_home

if TYPE_CHECKING:
    from gsnobench.boards.board import BoardTrack
    from gsnobench.boards.build import Built
    from gsnobench.boards.diff import Change
    from gsnobench.boards.publish import StoredBoard

app = typer.Typer()
board_app = typer.Typer(
    cls=WholeSentences,
    help="Boards from result files: build, show, compare, publish.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(board_app, name="leaderboard")

ResultsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="<path>",
        help="Folder of result files, may be repeated (default: your own and the benchmark's; of "
        "`build`: results/ in --out).",
    ),
]
RANKED = 5  # the column before those that a narrow terminal may leave out: / best floor
Format = Literal["text", "markdown", "csv", "json", "latex", "parquet"]


def _folders(results: Sequence[Path] | None, home: Path | None) -> list[Path]:
    return board_folders(results or (), open_home(home))


def _warn(problems: Sequence[str]) -> int:
    """One line per skipped result file; the exit code is 3 if there is one."""
    for problem in problems:
        print(f"gsnobench: skipped {problem}", file=sys.stderr)
    return 3 if problems else 0


@board_app.command("build")
def build_boards(
    out: Annotated[
        Path, typer.Option(help="Folder to render into; its results/ is the evidence.")
    ] = Path("leaderboards"),
    results: ResultsOption = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Also write the reproduction ledger to this file.")
    ] = None,
    readme: Annotated[
        Path | None, typer.Option(help="Also bring the overview in this document up to date.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 3 if a rendered file is out of date."),
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Render Markdown, tables and the static site from result files; the same bytes every time."""
    from gsnobench.boards.build import Target, build, stale

    own = [out / "results"] if (out / "results").is_dir() else []
    roots, target = _folders(results or own, home), Target(out, ledger, readme)
    here = installation(open_home(home))
    if check:
        old = [str(path) for path in stale(roots, target, here)]
        text = "\n".join(old) or "all rendered files are up to date"
        print_result({"stale": old}, lambda: print(text), as_json=as_json)
        return 3 if old else 0
    built = build(roots, target, here)
    document = {"folder": str(out), **asdict(built)}
    print_result(document, lambda: _print_built(built, out), as_json=as_json)
    return _warn(built.problems)


def _print_built(built: Built, out: Path) -> None:
    if built.was_fresh:
        print(f"{out}: nothing new")
        return
    page = out / "site" / "index.html"
    print(f"{out}: {len(built.written)} files written, {len(built.removed)} removed; open {page}")


@board_app.command("about")
def about_plugins(
    out: Annotated[
        Path, typer.Option(help="Folder of boards; the file about.json is written there.")
    ] = Path("leaderboards"),
    package: Annotated[
        str, typer.Option(help="Only plugins of this package (default: all installed).")
    ] = "",
) -> int:
    """Write descriptions of installed tasks and models for the site: equations, units, sources."""
    from gsnobench.boards.site.about import ABOUT, make_about
    from gsnobench.files import write_text

    if not out.is_dir():
        raise DataError(f"{out}: no such folder; expected a folder of boards, such as leaderboards")
    about = make_about(package)
    write_text(out / ABOUT, about.to_json())
    print(f"{out / ABOUT}: {len(about.tasks)} tasks, {len(about.models)} models")
    return 0


# --------------------------------------------------------------------------------------------- show


@board_app.command("show")
def show_boards(
    track: TrackOption = "laptop",
    task: Annotated[
        str, typer.Option(help="One board in full, e.g. darcy_threshold (default: the overview).")
    ] = "",
    variants: Annotated[
        bool,
        typer.Option("--variants", help="Also the variants of the board, which are not ranked."),
    ] = False,
    wide: Annotated[
        bool,
        typer.Option("--wide", help="All columns, all tasks, and how to read them."),
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="What to print.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
    results: ResultsOption = None,
    home: HomeOption = None,
) -> int:
    """Show the boards of a track, your own runs among them."""
    from gsnobench.boards import markdown, tables

    if variants and not task:
        raise ParamError("variants: belong to one board; name it with --task")
    chosen, problems = open_track(track, open_home(home), results or ())
    if form == "parquet":
        if out is None:
            raise ParamError("parquet: is no text; name a file with --out")
        tables.write_parquet([chosen], out)
    elif form == "text":
        if task:
            _print_board(chosen, task, variants=variants, wide=wide)
        else:
            _print_track(chosen, wide=wide)
    else:
        texts = {
            "markdown": lambda: markdown.track_page(chosen),
            "csv": lambda: tables.to_csv([chosen]),
            "json": lambda: tables.to_json([chosen]),
            "latex": lambda: tables.latex(chosen),
        }
        _write(texts[form](), out)
    return _warn(problems)


def _write(text: str, out: Path | None) -> None:
    from gsnobench.files import write_text

    if out is None:
        print(text, end="")
    else:
        write_text(out, text)


def _print_track(track: BoardTrack, *, wide: bool) -> None:
    from gsnobench.boards import terminal

    title = f"Track {track.name}: mean test error over seeds"
    print_table(terminal.printable(title), *terminal.overview(track, wide=wide))
    for line in terminal.overview_remarks(track, wide=wide):
        print_text(line)
    print("one board: gsnobench leaderboard show --task NAME")


def _print_board(track: BoardTrack, task: str, *, variants: bool, wide: bool) -> None:
    from gsnobench.boards import terminal

    board = board_named(task, track)
    title = terminal.printable(board.title)
    header, lines = terminal.board(board, wide=wide)
    spare = header[:RANKED:-1]  # from the right, where costs are
    print_table(title, header, lines, fixed=2, spare=spare, wide=wide)
    rows = [*board.compared, *board.blank]
    if variants and board.variants:
        print_table(f"Variants of {title}", *terminal.variants(board, wide=wide))
        rows += board.variants
    for line in terminal.remarks(board, rows, wide=wide):
        print_text(line)


# --------------------------------------------------------------------------------- compare, publish


@board_app.command("diff")
def diff_boards(
    before: Annotated[Path, typer.Argument(help="Folder of result files.")],
    after: Annotated[Path, typer.Argument(help="Folder of result files.")],
    as_json: JsonOption = False,
) -> int:
    """Compare two folders of evidence row by row; exit 3 if a row is significantly worse."""
    from gsnobench.boards.build import read_tracks
    from gsnobench.boards.diff import diff

    (old, old_problems), (new, new_problems) = read_tracks([before]), read_tracks([after])
    changes = diff(old, new)
    document = [change.to_dict() for change in changes]
    title = f"{before} -> {after}"
    print_result(document, lambda: _print_changes(changes, title), as_json=as_json)
    is_worse = any(change.verdict == "worse" for change in changes)
    return _warn([*old_problems, *new_problems]) or (3 if is_worse else 0)


def _print_changes(changes: Sequence[Change], title: str) -> None:
    from gsnobench.boards import terminal

    rows = [terminal.change(change) for change in changes if change.verdict != "same"]
    header = ["track", "board", "row", "before", "after", "p", "verdict"]
    print_table(title, header, rows)
    print(f"{len(changes) - len(rows)} rows are the same")


@board_app.command("publish")
def publish_boards(
    results: ResultsOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> int:
    """Bring the boards into the MLflow store: one leaderboard per task, one run per row.

    MLflow's own charts compare these runs. Where nothing is new, nothing is written.
    """
    from gsnobench.boards.build import read_tracks
    from gsnobench.boards.publish import publish
    from gsnobench.boards.site.surroundings import Surroundings
    from gsnobench.tracking.address import Address

    address = Address.of(open_home(home).root)
    if address is None:
        raise RunError(
            "publish: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it "
            "for SQLite"
        )
    tracks, problems = read_tracks(_folders(results, home), installation(open_home(home)))

    def show_board(shown: StoredBoard) -> None:
        if not as_json:
            counts = f"{shown.written} runs written, {shown.removed} removed"
            print(f"{shown.experiment}: {counts}", flush=True)

    boards = publish(tracks, address, show_board, Surroundings.of(_folders(results, home)))
    summary = f"{len(boards)} boards in {address.label}; `gsnobench ui` shows them"
    document = [asdict(board) for board in boards]
    print_result(document, lambda: print(summary), as_json=as_json)
    return _warn(problems)
