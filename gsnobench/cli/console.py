"""What a command prints: one JSON document, or facts and tables for a person."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gsnobench.records import plain

if TYPE_CHECKING:
    from gsnobench.params import Params

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
