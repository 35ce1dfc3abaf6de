"""The typer app of all command groups, and how a command ends."""

from __future__ import annotations

import sys
from typing import Any

import typer

from gsnobench.cli import bench, boards, data, doctor, plugin, results, run, show, sweep, ui
from gsnobench.errors import GsnobenchError

app = typer.Typer(
    name="gsnobench",
    help="The benchmark for neural operators on irregular domains.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for group in (show, run, plugin, doctor, ui, bench, sweep, results, boards, data):
    app.add_typer(group.app)

MISTAKE = 2
INTERRUPTED = 130
# click's ClickException, wherever this typer keeps its click
CommandLineError: Any = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run the command and exit with the code that it returns.

    A user's mistake is one line and exit code 2; a traceback is our own bug and exit code 1.
    """
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this exit code without a message
            raise KeyboardInterrupt
    except GsnobenchError as error:
        code = _print_mistake(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = _print_mistake("interrupted; the same command goes on where it stopped", INTERRUPTED)
    except CommandLineError as error:
        code = _print_mistake(error.format_message())
    sys.exit(code if isinstance(code, int) else 0)


def _print_mistake(message: str, code: int = MISTAKE) -> int:
    print(f"gsnobench: {' '.join(message.split())}", file=sys.stderr)
    return code
