"""Options that several verbs share, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gsnobench.errors import ParamError

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder for data, runs and records (else $GSNOBENCH_HOME)."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
Track = Annotated[str, typer.Option(help="Budget: smoke, laptop, workstation or paper.")]
Jobs = Annotated[int, typer.Option(help="Processes that generate data; 0 is one a core.")]
KNOBS = {"allow_extra_args": True, "ignore_unknown_options": True}


def words_of(text: str) -> list[str]:
    """`a, b` -> [a, b]."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers_of(text: str, name: str) -> list[int]:
    """`0,1,2` -> [0, 1, 2]."""
    words = words_of(text)
    odd = next((word for word in words if not word.isdigit()), None)
    if odd is not None:
        raise ParamError(f"{name}: {odd!r} is not a whole number; expected for example 0,1,2")
    return [int(word) for word in words]


def knobs_of(words: list[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """--section.name value (or =value) pairs; --data.seed and --data.resolution belong to the
    request, not to a plugin.
    """
    knobs: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise ParamError(
                f"{word}: unknown option; knobs are written --model.NAME, --train.NAME or "
                "--data.NAME"
            )
        if not has_value:
            if not rest:
                raise ParamError(f"{word}: needs a value; write {word} VALUE")
            value = rest.pop(0)
        knobs[name] = value
    own: dict[str, Any] = {}
    for name, target in (("data.seed", "data_seed"), ("data.resolution", "resolution")):
        if name in knobs:
            text = knobs.pop(name)
            if not text.isdigit():
                raise ParamError(f"{name}: {text!r} is not a whole number; expected for example 1")
            own[target] = int(text)
    return knobs, own
