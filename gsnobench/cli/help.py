"""Help that shows the sentence of every command in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

WIDEST = 100  # letters of a line of help
LONGEST = 4 * WIDEST  # letters of the sentence of a command


class WholeSentences(TyperGroup):
    """A group of commands; click itself would cut their sentences to one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self.write_section(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_section(self, ctx: Any, formatter: Any, heading: str, names: Sequence[str]) -> None:
        """Some commands under a heading, each with its sentence."""
        commands = [(name, self.get_command(ctx, name)) for name in names]
        rows = [
            (name, command.get_short_help_str(limit=LONGEST))
            for name, command in commands
            if command is not None
        ]
        with formatter.section(heading):
            formatter.write_dl(rows)
