"""`gsnobench study`: one command per study of the catalogue, its options made from its knobs."""

from __future__ import annotations

import inspect
import shlex
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsnobench.api.progress import progress
from gsnobench.cli.console import WholeSentences, print_result
from gsnobench.cli.matrix_view import live, print_forecast
from gsnobench.cli.options import (
    KNOBS,
    DeviceOption,
    HomeOption,
    JsonOption,
    check_names,
    is_file,
    knobs_of,
)
from gsnobench.cli.table import print_table
from gsnobench.errors import ParamError
from gsnobench.home import open_tidy_home
from gsnobench.params import words_of
from gsnobench.studies.catalogue import STUDIES, Options

if TYPE_CHECKING:
    from gsnobench.studies.base import Engine, Finished, Study

app = typer.Typer()
study_app = typer.Typer(
    cls=WholeSentences,
    help="Fixed sets of runs that end in a table, a figure and one sentence.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(study_app, name="study")

END = (
    "What is done is never repeated: the same command goes on where it stopped. Knobs such as "
    "--train.steps 100 hold for all runs. The exit code is 3 if a run failed."
)
WHERE = {  # where the runs happen: the same for every study
    "executor": (
        Annotated[str, typer.Option(help="What runs the cells: local, pool, ray, slurm.")],
        "pool",
    ),
    "jobs": (Annotated[int, typer.Option(help="Runs at a time; 0 means one per core.")], 0),
    "threads": (Annotated[int, typer.Option(min=1, help="Threads per run.")], 1),
    "device": (DeviceOption, "auto"),
    "address": (
        Annotated[str, typer.Option(help="Address of a cluster (ray), or its partition (slurm).")],
        "",
    ),
    "out": (
        Annotated[
            Path | None,
            typer.Option(help="Write the evidence here too, for example leaderboards/studies."),
        ],
        None,
    ),
    "dry_run": (
        Annotated[
            bool, typer.Option("--dry-run", help="Only show what would be trained, and its costs.")
        ],
        False,
    ),
    "home": (HomeOption, None),
    "as_json": (JsonOption, False),
}


def _add_command(name: str, kind: type[Options]) -> None:
    """One study as a command: the knobs of its class become options."""

    def command(context: typer.Context, **given: Any) -> int:
        where = {entry: given.pop(entry) for entry in WHERE}
        options = kind.make(given, label="")
        return _run(name, options, context.args, **where)

    parameters: dict[str, tuple[Any, Any]] = {"context": (typer.Context, inspect.Parameter.empty)}
    for knob in kind.knobs():
        text = f"{knob.help} ({knob.range})" if knob.choices else knob.help
        parameters[knob.name] = (Annotated[knob.type, typer.Option(help=text)], knob.default)
    parameters |= WHERE
    command.__annotations__ = {entry: hint for entry, (hint, _) in parameters.items()}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                entry, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
            for entry, (hint, default) in parameters.items()
        ]
    )
    command.__doc__ = f"{inspect.getdoc(kind)}\n\n{END}"
    study_app.command(name, context_settings=KNOBS)(command)


for _name, _kind in STUDIES.items():
    _add_command(_name, _kind)


def _run(
    name: str,
    options: Options,
    words: list[str],
    *,
    as_json: bool,
    dry_run: bool,
    home: Path | None,
    out: Path | None,
    **limits: Any,
) -> int:
    keywords = knobs_of(words)
    _check(name, options)
    from gsnobench.runs.request import Request
    from gsnobench.studies.base import missing_cells, run_study

    template = Request("", "", track=options.track, **keywords)
    with progress(quiet=as_json) as report:
        engine = _engine(home, report, quiet=as_json, is_dry=dry_run, **limits)
        study: Study = import_module(f"gsnobench.studies.{name}").study(options, template, engine)
        if dry_run:
            print_forecast(missing_cells(study, engine.home), engine.home, as_json=as_json)
            return 0
        finished = run_study(replace(study, command=_command(name, options, words)), engine)
        folders = [engine.home.root / "studies", *([] if out is None else [out])]
        folder = [finished.write(root) for root in folders][0]
    document = {**finished.to_dict(), "folder": str(folder)}
    print_result(document, lambda: _print(finished, folder), as_json=as_json)
    return 0 if finished.is_done else 3


def _command(name: str, options: Options, words: list[str]) -> str:
    """What a person types for this study: options that are not at their default, and knobs."""
    parts = ["gsnobench", "study", name]
    for knob in options.knobs():
        value, flag = options.to_dict()[knob.name], f"--{knob.name.replace('_', '-')}"
        if value != knob.default:
            parts += [flag] if value is True else [flag, str(value)]
    return shlex.join([*parts, *words])


def _check(name: str, options: Options) -> None:
    """Refuse a missing or unknown name before anything is imported that takes time."""
    values = options.to_dict()
    for needed in options.needed:
        if not values[needed]:
            raise ParamError(
                f"study {name}: needs --{needed}; for example: gsnobench study {name} "
                f"{options.example}"
            )
    rows = [word for entry in ("model", "models") for word in words_of(str(values.get(entry, "")))]
    tasks = [
        word for entry in ("dataset", "datasets") for word in words_of(str(values.get(entry, "")))
    ]
    models = [row.partition("@")[0] for row in rows]
    check_names(models=models, datasets=tasks, track=options.track)
    if options.needs_solver and (files := [task for task in tasks if is_file(task)]):
        raise ParamError(
            f"study {name}: {files[0]} is a file; the study {options.needs_solver}; name a task of "
            "`gsnobench list datasets`"
        )


def _engine(
    home: Path | None,
    report: Any,
    *,
    quiet: bool,
    is_dry: bool,
    executor: str,
    device: str,
    jobs: int,
    threads: int,
    address: str,
) -> Engine:
    from gsnobench.declare import Limits
    from gsnobench.matrix.executors import executor as executor_named
    from gsnobench.studies.base import Engine

    folders, chosen = open_tidy_home(home), executor_named(executor)
    limits = Limits(home=folders.root, device=device, jobs=jobs, threads=threads, address=address)
    chosen.check(limits)
    return Engine(folders, chosen, limits, report, lambda look: live(look, quiet=quiet), is_dry)


def _print(finished: Finished, folder: Path) -> None:
    for table in finished.findings.tables:
        print_table(table.title, table.header, table.rows)
    lost = {
        f"{run.row} on {run.task}: {run.state}, {run.reason}"
        for row in finished.rows
        for run in row.runs
        if not run.is_done
    }
    for line in sorted(lost):
        print(line)
    print(finished.findings.sentence)
    print(f"budget: {finished.study.budget}")
    print(f"picture and tables: {folder}")
