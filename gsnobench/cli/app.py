"""The typer app of the command groups, and how a command ends."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer

import gsnobench
from gsnobench.cli.console import WIDEST, WholeSentences
from gsnobench.errors import GsnobenchError, Interrupted

FILES = {  # file of this room -> its commands
    "show": ("list", "show"),
    "run": ("run", "predict"),
    "plugin": ("check", "plugin"),
    "doctor": ("doctor",),
    "ui": ("ui",),
    "bench": ("bench", "status"),
    "sweep": ("sweep",),
    "study": ("study",),
    "results": ("score", "verify", "submit", "export", "migrate"),
    "boards": ("leaderboard",),
    "data": ("data",),
}
GROUPS = {  # heading of the help -> its commands
    "Run": ("run", "predict", "bench", "status", "sweep", "study"),
    "Look": ("list", "show", "leaderboard", "ui"),
    "Bring your own": ("plugin", "check", "data", "score", "submit"),
    "Trust": ("verify", "export", "doctor", "migrate"),
}
EXAMPLES = (
    "gsnobench run --model gsno --dataset swe",
    "gsnobench leaderboard show --task swe",
    "gsnobench run --model gsno --help",
)
RESUMED = ("run", "bench", "sweep", "study", "data")  # commands that go on where they stopped
MISTAKE = 2
INTERRUPTED = 130
# click's ClickException, wherever this typer keeps its click
CommandLineError: Any = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run the command and exit with the code that it returns.

    A user's mistake is one line and exit code 2; a traceback is our own bug and exit code 1.
    """
    app = make_app(*sys.argv[1:2])
    try:
        code = app(prog_name="gsnobench", standalone_mode=False, max_content_width=WIDEST)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this exit code without a message
            raise KeyboardInterrupt
    except GsnobenchError as error:
        code = _print_mistake(str(error))
    except (typer.Abort, KeyboardInterrupt):
        is_resumed = sys.argv[1:2] and sys.argv[1] in RESUMED
        rest = "; finished parts are kept, the same command goes on from them" if is_resumed else ""
        code = _print_mistake(f"interrupted{rest}", INTERRUPTED)
    except Stopped as stop:
        code = _print_mistake(str(stop), INTERRUPTED)
    except CommandLineError as error:
        message = error.format_message()
        is_help = message.startswith("Usage:")  # a group without a command
        code = _print_help(message) if is_help else _print_mistake(message)
    sys.exit(code if isinstance(code, int) else 0)


class Stopped(Exception):
    """Ctrl-C with a message: typer itself would drop it."""


def make_app(command: str = "") -> typer.Typer:
    """The app with all commands, or quicker with those of one file if the command is known."""
    app = typer.Typer(
        name="gsnobench",
        cls=GroupedHelp,
        help="The benchmark for neural operators on irregular domains.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    files = [file for file, commands in FILES.items() if command in commands]
    for file in files or FILES:
        app.add_typer(import_module(f"gsnobench.cli.{file}").app)
    app.callback()(_options)
    return app


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"gsnobench {gsnobench.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The benchmark for neural operators on irregular domains."""


class GroupedHelp(WholeSentences):
    """The list of commands under headings, with examples."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Interrupted as stop:
            raise Stopped(str(stop)) from stop

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, names in GROUPS.items():
            self.write_section(ctx, formatter, heading, names)
        with formatter.section("Examples"):
            for example in EXAMPLES:
                formatter.write_text(example)


def _print_help(text: str) -> int:
    print(text)
    return 0


def _print_mistake(message: str, code: int = MISTAKE) -> int:
    print(f"gsnobench: {' '.join(message.split())}", file=sys.stderr)
    return code
