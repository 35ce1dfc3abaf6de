"""`gsnobench score`, `verify`, `submit`, `export` and `migrate`: what one can do with results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gsnobench.api.progress import progress
from gsnobench.cli.console import print_result
from gsnobench.cli.options import (
    KNOBS,
    DatasetOption,
    DeviceOption,
    HomeOption,
    JobsOption,
    JsonOption,
    SamplesOption,
    TrackOption,
    check_names,
    knobs_of,
)
from gsnobench.cli.table import print_table
from gsnobench.errors import DataError, ParamError
from gsnobench.home import open_home
from gsnobench.params import numbers_of
from gsnobench.reading import read_text

if TYPE_CHECKING:
    from gsnobench.datasets.store import Opened
    from gsnobench.runs.machine import Machine
    from gsnobench.runs.verify_file import Check
    from gsnobench.training.evaluate import Evaluation

app = typer.Typer()

DataOption = Annotated[
    Path | None, typer.Option(help="The NetCDF file of a run that was made on a file.")
]
METRICS = ("rel_l2", "rel_l2_raw", "rel_l2_area", "rmse", "mae", "max")
PASSED, IMPOSSIBLE, FAILED = 0, 2, 3


# -------------------------------------------------------------------------------------------- score


@app.command(context_settings=KNOBS)
def score(
    context: typer.Context,
    predictions: Annotated[
        Path, typer.Argument(help="NetCDF as `predict --out` writes, or .npz/.npy (S, T, N, C).")
    ],
    dataset: DatasetOption,
    track: TrackOption = "laptop",
    split: Annotated[str, typer.Option(help="Split that was predicted.")] = "test",
    save: Annotated[
        str | None, typer.Option(help="Show them on the boards of this home under this name.")
    ] = None,
    samples: SamplesOption = None,
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Score predictions of any framework with the metrics that every run uses.

    Data knobs are options too: --data.seed 1 --data.resolution 1830.

    For example: gsnobench score predictions.npz --dataset darcy
    """
    from gsnobench.data import split_named

    options = {"track": track, "samples": samples, **knobs_of(context.args)}
    chosen = split_named(split)
    if not predictions.is_file():  # before any data are made
        raise DataError(f"{predictions}: no such file; expected predictions as .nc, .npz or .npy")
    check_names(datasets=[dataset])
    from gsnobench.runs.foreign import check_foreign_name, save_foreign
    from gsnobench.runs.machine import Machine, choose_device
    from gsnobench.runs.predictions import read_predictions, score_predictions

    if save is not None:
        check_foreign_name(save, chosen)
    folders, saved = open_home(home), None

    with progress(quiet=as_json) as report:
        machine = Machine(folders, choose_device("cpu"), jobs=jobs, report=report)
        with _open_named_truth(dataset, options, machine) as opened:
            truth = opened.read(chosen)
            predicted = read_predictions(predictions, truth)
            evaluation = score_predictions(predicted, truth, str(predictions))
            content_hash = opened.content_hash
            if save is not None:
                saved = save_foreign(
                    *(save, predictions, evaluation, opened),
                    dataset=dataset,
                    options=options,
                    home=folders,
                )
    document = {
        "task": truth.task.id,
        "split": split,
        "samples": len(truth),
        "truth": content_hash,
        "scores": evaluation.scores(),
        "per_sample": evaluation.sample_table(truth.task),
        **({} if saved is None else {"saved": str(saved)}),
    }

    def show() -> None:
        subject = f"{predictions.name} on {truth.task.id}, {len(truth)} {split} samples"
        _print_scores(evaluation, f"{subject} (lower is better)")
        print(f"truth    content hash {content_hash}")
        if saved is not None:
            board = f"--track {track} --task {truth.task.id} --variants"
            print(f"saved    {saved}  (gsnobench leaderboard show {board})")

    print_result(document, show, as_json=as_json)
    return PASSED


def _open_named_truth(dataset: str, options: Mapping[str, Any], machine: Machine) -> Opened:
    """The data of a task, an imported public task or a file."""
    from gsnobench.datasets import store
    from gsnobench.datasets.imported import stored_file
    from gsnobench.datasets.tasks import named_task

    path = stored_file(dataset, machine.home)
    if path is not None:
        if not path.is_file():
            raise DataError(f"{path}: no such file; expected a NetCDF file or a task such as 'swe'")
        named = [name for name in options if name not in ("track", "knobs")]
        given = [*options["knobs"], *(name for name in named if options[name] is not None)]
        if given:
            raise ParamError(
                f"{given[0]}: a file has no data knobs and no samples; drop the option"
            )
        store.verify(path)
        return store.open_file(path)
    declared, task = named_task(dataset, **options)
    return store.open_file(machine.ensure_data(declared, task), task)


def _print_scores(evaluation: Evaluation, title: str) -> None:
    scores = evaluation.scores()
    scores = {"headline": scores.pop("headline"), **scores}  # first
    metrics = {metric for table in scores.values() for metric in table}
    columns = (*METRICS, *sorted(metrics - set(METRICS)))
    rows = []
    for field, table in scores.items():
        cells = [f"{table[metric]:.4g}" if metric in table else "-" for metric in columns]
        rows.append([field, *cells])
    print_table(title, ["field", *columns], rows, mark=0)


# ------------------------------------------------------------------------------------------- verify


@app.command()
def verify(
    result: Annotated[
        str, typer.Argument(help="A result JSON, a bundle, or a run (its key or folder).")
    ],
    tier: Annotated[
        int,
        typer.Option(
            min=0,
            max=3,
            help="0 its arithmetic, 1 stored predictions, 2 stored weights, 3 trained again.",
        ),
    ] = 0,
    data: DataOption = None,
    device: DeviceOption = "auto",
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check the result of a run, tier by tier.

    The exit code is 0 if all checks passed, 3 if one failed, 2 if the tier cannot be checked.

    For example: gsnobench verify leaderboards/results/FILE.json --tier 3
    """
    from gsnobench.runs.machine import Machine, choose_device
    from gsnobench.runs.verify import verify as checks_of

    with progress(quiet=as_json) as report:
        machine = Machine(open_home(home), choose_device(device), jobs=jobs, report=report)
        checks = checks_of(result, tier, machine, data=data)
    code = _exit_code(checks, tier)
    document = {
        "subject": result,
        "tier": tier,
        "passed": code == PASSED,
        "checks": [asdict(check) for check in checks],
    }
    print_result(document, lambda: _print_checks(checks, result), as_json=as_json)
    return code


def _exit_code(checks: Sequence[Check], tier: int) -> int:
    """A failed check decides; a lower tier may be impossible, since a result has no weights."""
    if any(check.state == "FAIL" for check in checks):
        return FAILED
    states = {check.state for check in checks if check.tier == tier}
    return PASSED if "pass" in states and "not possible" not in states else IMPOSSIBLE


def _print_checks(checks: Sequence[Check], subject: str) -> None:
    from gsnobench.runs.verify import TIERS

    for tier in sorted({check.tier for check in checks}):
        rows = [[check.what, check.state, check.detail] for check in checks if check.tier == tier]
        print_table(f"tier {tier}: {TIERS[tier]}", ["check", "state", "detail"], rows)
    states = [check.state for check in checks]
    counts = [f"{states.count(state)} {state}" for state in ("pass", "FAIL", "not possible")]
    print(f"{subject}: {', '.join(counts)}")


# ------------------------------------------------------------------------------------------- submit


@app.command()
def submit(
    runs: Annotated[
        list[str], typer.Argument(help="Runs, by their keys, folders or result files.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="Folder of result files (default: leaderboards/results of this clone)."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check results, put them in place for a pull request, and print the git commands to send them.

    Nothing is sent, and nothing is written if a result fails the checks of `verify`.
    """
    from gsnobench.api.submission import default_folder
    from gsnobench.api.submission import submit as put_in_place

    sent = put_in_place(runs, to or default_folder(), open_home(home))

    def show() -> None:
        for file in sent.files:
            print(f"in place  {file}")
        for note in sent.notes:
            print(f"note: {note}")
        print("\nTo send them:\n")
        for line in sent.commands:
            print(f"  {line}")

    document = {
        "files": [str(file) for file in sent.files],
        "notes": list(sent.notes),
        "commands": list(sent.commands),
    }
    print_result(document, show, as_json=as_json)
    return 0


# ------------------------------------------------------------------------------------------- export


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="A run (its key or folder) or a bundle.")],
    format_: Annotated[
        Literal["vtu"], typer.Option("--format", help="vtu: for ParaView, one file per frame.")
    ] = "vtu",
    samples: Annotated[str, typer.Option(help="Test samples, separated by commas.")] = "0",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to (default: KEY-vtu here).")
    ] = None,
    data: DataOption = None,
    device: DeviceOption = "auto",
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write truth, prediction and error of a run's test samples for ParaView."""
    chosen = numbers_of(samples, "samples")
    from gsnobench.datasets.task_json import task_from_json
    from gsnobench.records import RunResult
    from gsnobench.runs.bundle import opened_run, predictions_of
    from gsnobench.runs.machine import Machine, choose_device
    from gsnobench.runs.predictions import open_truth
    from gsnobench.runs.vtu import export_vtu

    folders = open_home(home)
    with progress(quiet=as_json) as report, opened_run(run, folders) as folder:
        machine = Machine(folders, choose_device(device), jobs=jobs, report=report)
        spec = RunResult.load(folder.result).spec
        task = task_from_json(read_text(folder.task, expected="the task of a run"))
        with open_truth(spec, machine, data=data, task=task) as opened:
            truth = opened.read("test")
        predicted = predictions_of(folder, truth, home=folders, device=device)
        target = out or Path(f"{spec.short}-vtu")
        report.stage(f"writing {target}")
        files = [str(path) for path in export_vtu(target, truth, predicted, chosen)]
    document = {"folder": str(target), "files": files}
    lines = "\n".join(f"open in ParaView: {file}" for file in files)
    print_result(document, lambda: print(lines), as_json=as_json)
    return PASSED


# ------------------------------------------------------------------------------------------ migrate


@app.command()
def migrate(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of result files (default: the home).")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Bring results of an older version to the present form; their numbers stay.

    Results of schema 1 get new keys, so their files and run folders get new names. If a preset has
    changed since, its earlier results say so and become variants, which are not ranked. The exit
    code is 3 if a result cannot be migrated.
    """
    from gsnobench.registry import read_registry
    from gsnobench.runs.migrate import migrate_folder, migrate_home

    if folder is not None and not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected results such as leaderboards/results")
    opened = open_home(home)
    registry = read_registry(home=opened)
    moves = migrate_home(opened, registry) if folder is None else migrate_folder(folder, registry)
    moved = list(moves)
    problems = [f"{move.old.name}: {move.problem}" for move in moved if move.problem]
    document = {"migrated": len(moved) - len(problems), "problems": problems}

    def show() -> None:
        for problem in problems:
            print(problem)
        print(f"migrated {document['migrated']} results, left {len(problems)} as they are")

    print_result(document, show, as_json=as_json)
    return FAILED if problems else PASSED
