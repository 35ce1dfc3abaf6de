"""The typer app of the command groups, and how a command ends."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer

from gsnobench.errors import GsnobenchError

GROUPS = {  # file of this room -> its commands
    "show": ("list", "show"),
    "run": ("run", "predict"),
    "plugin": ("check", "plugin"),
    "doctor": ("doctor",),
    "ui": ("ui",),
    "bench": ("bench", "status"),
    "sweep": ("sweep",),
    "study": ("study",),
    "results": ("score", "verify", "export", "migrate"),
    "boards": ("leaderboard",),
    "data": ("data",),
}
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
        code = app(prog_name="gsnobench", standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this exit code without a message
            raise KeyboardInterrupt
    except GsnobenchError as error:
        code = _print_mistake(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = _print_mistake("interrupted; the same command goes on where it stopped", INTERRUPTED)
    except CommandLineError as error:
        message = error.format_message()
        is_help = message.startswith("Usage:")  # a group without a command
        code = _print_help(message) if is_help else _print_mistake(message)
    sys.exit(code if isinstance(code, int) else 0)


def make_app(command: str = "") -> typer.Typer:
    """The app with all commands, or quicker with those of one file if the command is known."""
    app = typer.Typer(
        name="gsnobench",
        help="The benchmark for neural operators on irregular domains.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    files = [file for file, commands in GROUPS.items() if command in commands]
    for file in files or GROUPS:
        app.add_typer(import_module(f"gsnobench.cli.{file}").app)
    return app


def _print_help(text: str) -> int:
    print(text, file=sys.stderr)
    return MISTAKE


def _print_mistake(message: str, code: int = MISTAKE) -> int:
    print(f"gsnobench: {' '.join(message.split())}", file=sys.stderr)
    return code
