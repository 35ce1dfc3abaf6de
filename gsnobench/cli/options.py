"""Options that several commands share, and how their texts are read and checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from gsnobench.errors import ParamError
from gsnobench.params import is_whole

ModelOption = Annotated[
    str, typer.Option(help="Model (gsno) or row of boards (gsno@paper), see `list models`.")
]
DatasetOption = Annotated[
    str, typer.Option(help="Task (swe, swe@10-41, darcy_threshold) or a NetCDF file.")
]
PresetOption = Annotated[
    str | None, typer.Option(help="Preset of the model; NAME+features adds computed inputs.")
]
TrackOption = Annotated[str, typer.Option(help="Budget: smoke, laptop, workstation or paper.")]
SamplesOption = Annotated[
    int | None, typer.Option(help="Training samples (default: those of the track).")
]
SeedsOption = Annotated[str, typer.Option(help="Training seeds, separated by commas.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
ThreadsOption = Annotated[
    int,
    typer.Option(min=0, help="Threads of the training; 0 means one, or more on large meshes."),
]
JobsOption = Annotated[
    int, typer.Option(help="Processes that generate data; 0 means one per core.")
]
HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="Folder for data, runs and records (default: $GSNOBENCH_HOME, else one that `doctor` "
        "names).",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
KNOBS = {"allow_extra_args": True, "ignore_unknown_options": True}  # of a command with knobs
REQUEST_KNOBS = {"data.seed": "data_seed", "data.resolution": "resolution"}


def knobs_of(words: list[str]) -> dict[str, Any]:
    """`--section.name value` (or `=value`) pairs as keywords of a request.

    --data.seed and --data.resolution are entries of the request, all others are knobs of a plugin.
    """
    knobs = pairs_of(words)
    entries: dict[str, Any] = {}
    for name, entry in REQUEST_KNOBS.items():
        if name in knobs:
            text = knobs.pop(name)
            if not is_whole(text):
                raise ParamError(f"{name}: {text!r} is not a whole number; expected for example 1")
            entries[entry] = int(text)
    return {"knobs": knobs, **entries}


def pairs_of(words: list[str]) -> dict[str, str]:
    """`--section.name value` (or `=value`) pairs by dotted name."""
    pairs: dict[str, str] = {}
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
        pairs[name] = value
    return pairs


def check_names(
    *, models: Iterable[str] = (), datasets: Iterable[str] = (), track: str | None = None
) -> None:
    """Refuse unknown names by metadata alone: a typo must not cost the import of torch."""
    from gsnobench.plugins import dataset_name, find, listed
    from gsnobench.registry import read_registry

    if track is not None:
        read_registry().track(track)
    for model in models:
        find("model", model.partition("@")[0])
    for task in datasets:
        if not is_file(task):
            find("dataset", dataset_name(task, [entry.name for entry in listed("dataset")]))


def is_file(task: str) -> bool:
    """Whether the data of a task are a file: a person's own, or an imported public one."""
    from gsnobench.plugins import listed

    imported = {entry.name for entry in listed("importer")}
    return task.endswith(".nc") or task.partition("@")[0] in imported
