"""What a command prints: one JSON document, facts and tables for a person, its help."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from gsnobench.records import plain

if TYPE_CHECKING:
    from gsnobench.params import Params

WIDEST = 100  # letters of a line of help
LONGEST = 4 * WIDEST  # letters of the sentence of a command

HeaderAndRows = tuple[Sequence[str], list[list[str]]]


# -------------------------------------------------------------------------------------------- print


def print_result(document: object, show: Callable[[], None], *, as_json: bool) -> None:
    """The result of a command: one JSON document, or what `show` prints for a person."""
    if as_json:
        print(json.dumps(plain(document)))
    else:
        show()


def print_facts(facts: Mapping[str, Any]) -> None:
    """One line per fact."""
    for name, value in facts.items():
        print(f"{name}: {_fact(value)}")


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(entry)}" for name, entry in value.items()) or "none"
    return "unknown" if value is None else f"{value:.4g}" if isinstance(value, float) else value


def knob_table(
    params: type[Params],
    section: str,
    *,
    preset: str = "default",
    settings: Mapping[str, Any] | None = None,
) -> HeaderAndRows:
    """One row per knob, as the command line spells it, with its value in a preset."""
    values = settings or {}
    rows = [
        [
            f"--{section}.{knob.name}",
            str(values.get(knob.name, knob.default)),
            knob.range,
            knob.help,
        ]
        for knob in params.knobs()
    ]
    return ("knob", preset, "values", "what it does"), rows


# --------------------------------------------------------------------------------------------- help


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
