"""`gsnobench data`: generate, verify and import data files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gsnobench.cli.console import print_facts, print_result, progress
from gsnobench.cli.options import (
    KNOBS,
    HomeOption,
    JobsOption,
    JsonOption,
    SamplesOption,
    TrackOption,
    check_names,
    knobs_of,
)
from gsnobench.errors import DataError, ParamError
from gsnobench.home import open_home

app = typer.Typer()
data_app = typer.Typer(
    help="Generate, verify and import data.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_app, name="data")


@data_app.command("generate", context_settings=KNOBS)
def generate_data(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="Task, e.g. darcy_threshold.")],
    track: TrackOption = "laptop",
    samples: SamplesOption = None,
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Generate a task's data with its solver, in parallel.

    An interrupted command goes on where it stopped. Data knobs are options too: --data.seed 1.
    """
    knobs = knobs_of(context.args)
    check_names(datasets=[task])
    from gsnobench.datasets.ensure import ensure
    from gsnobench.datasets.store import open_file
    from gsnobench.datasets.tasks import named_task

    dataset, resolved = named_task(task, track=track, samples=samples, **knobs)
    root = open_home(home).root
    with progress(quiet=as_json) as report:
        report.stage(f"data of {resolved.id}")
        path = ensure(dataset, resolved, home=root, jobs=jobs, progress=report.data)
    with open_file(path, resolved) as opened:
        content_hash = opened.content_hash
    facts = {"task": resolved.id, "file": str(path), "samples": dict(resolved.sizes)}
    facts["content_hash"] = content_hash
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


@data_app.command("verify")
def verify_data(
    file: Annotated[Path, typer.Argument(help="NetCDF file.")], as_json: JsonOption = False
) -> int:
    """Recompute the checksum of a data file."""
    from gsnobench.datasets.store import verify

    verify(file)
    facts = {"file": str(file), "state": "whole"}
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


@data_app.command("import", context_settings=KNOBS)
def import_data(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A public task (see `gsnobench list`), or FILE.nc to write.")
    ],
    source: Annotated[
        Path,
        typer.Option(
            "--from",
            help="The authors' folder; for FILE.nc an .npz or a folder of .npy files.",
        ),
    ],
    task: Annotated[
        Path | None,
        typer.Option(help="For FILE.nc: the task as JSON, see docs/data-format.md."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read public data from their authors' files, or plain arrays into a file of your own.

    A public task is then the name of a dataset: run --dataset NAME. Its knobs are options too:
    --data.frames 21.
    """
    knobs = knobs_of(context.args)["knobs"]
    facts = (
        _import_arrays(Path(name), source, task, knobs)
        if name.endswith(".nc")
        else _import_public(name, source, knobs, home)
    )
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


def _import_public(
    name: str, folder: Path, knobs: Mapping[str, str], home: Path | None
) -> dict[str, Any]:
    from gsnobench.datasets.imported import import_public
    from gsnobench.plugins import load

    importer = load("importer", name)
    for knob in knobs:
        if not knob.startswith("data."):
            raise ParamError(f"--{knob}: data have only --data.NAME knobs")
    values = {knob.removeprefix("data."): value for knob, value in knobs.items()}
    path, facts = import_public(importer, folder, home=open_home(home).root, knobs=values)
    return {"file": str(path), **facts}


def _import_arrays(
    out: Path, source: Path, task: Path | None, knobs: Mapping[str, str]
) -> dict[str, Any]:
    from gsnobench.datasets.from_numpy import import_npz
    from gsnobench.datasets.store import write
    from gsnobench.datasets.task_json import task_from_json

    for knob in knobs:
        raise ParamError(f"--{knob}: arrays have no knobs; drop the option")
    if task is None:
        raise ParamError(f"import: {out} needs --task FILE.json, see docs/data-format.md")
    try:
        text = task.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{task}: cannot be read ({error.strerror}); expected the task as JSON"
        ) from error
    splits = import_npz(source, task_from_json(text))
    write(out, splits, provenance={"title": source.stem, "source": f"imported from {source.name}"})
    return {"file": str(out), "samples": {split: len(part) for split, part in splits.items()}}
