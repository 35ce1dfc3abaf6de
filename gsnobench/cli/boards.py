"""The verb of the boards: leaderboard build, show, diff, publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gsnobench.cli.options import Home, Json, Track

app = typer.Typer()
board_app = typer.Typer(
    help="Boards from result files: build, show, compare, publish.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(board_app, name="leaderboard")

Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        help="Folder of result files, may be repeated; else the home's and the source tree's.",
    ),
]
Form = Literal["text", "markdown", "csv", "json", "latex", "parquet"]


@board_app.command("build")
def build(
    out: Annotated[
        Path, typer.Option(help="Folder to render into; its results/ is the evidence.")
    ] = Path("leaderboards"),
    results: Results = None,
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
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Render Markdown, tables and the static site from result files; the same bytes every time."""
    from gsnobench.boards.build import Target
    from gsnobench.cli.verbs_board import build_boards

    raise typer.Exit(
        build_boards(
            results or [], Target(out, ledger, readme), check=check, home=home, as_json=as_json
        )
    )


@board_app.command("show")
def show(
    track: Track = "laptop",
    task: Annotated[
        str, typer.Option(help="One board in full, e.g. darcy_threshold; else the overview.")
    ] = "",
    form: Annotated[Form, typer.Option("--format", help="What to print.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
    results: Results = None,
    home: Home = None,
) -> None:
    """Show the boards of a track, your own runs among them."""
    from gsnobench.cli.verbs_board import show_boards

    raise typer.Exit(
        show_boards(results or [], track=track, task=task, form=form, out=out, home=home)
    )


@board_app.command("diff")
def diff(
    before: Annotated[Path, typer.Argument(help="Folder of result files.")],
    after: Annotated[Path, typer.Argument(help="Folder of result files.")],
    as_json: Json = False,
) -> None:
    """Compare two folders of evidence row by row; exit 3 if a row became worse for sure."""
    from gsnobench.cli.verbs_board import diff_boards

    raise typer.Exit(diff_boards(before, after, as_json=as_json))


@board_app.command("publish")
def publish(results: Results = None, home: Home = None, as_json: Json = False) -> None:
    """Bring the boards into the MLflow store: a leaderboard a task, and a run a row that MLflow's
    own charts compare.
    """
    from gsnobench.cli.verbs_board import publish_boards

    raise typer.Exit(publish_boards(results or [], home=home, as_json=as_json))
