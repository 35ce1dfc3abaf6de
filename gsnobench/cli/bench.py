"""`gsnobench bench` and `gsnobench status`: the matrix of models, tasks and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsnobench.api.progress import progress
from gsnobench.cli.console import print_result
from gsnobench.cli.matrix_view import counts, grid, live, print_forecast, remarks, summary
from gsnobench.cli.options import (
    DeviceOption,
    HomeOption,
    JsonOption,
    SeedsOption,
    TrackOption,
    check_names,
)
from gsnobench.cli.table import is_in_one_block, print_table
from gsnobench.errors import DataError
from gsnobench.home import open_home, open_tidy_home
from gsnobench.params import numbers_of, words_of

if TYPE_CHECKING:
    from gsnobench.home import Home
    from gsnobench.matrix.matrix import Cell, Choice, Difference
    from gsnobench.runs.plan import Plan

app = typer.Typer()
NOTHING = "-"  # where a number is not known

ModelsOption = Annotated[
    str, typer.Option(help="Models (gsno, gsno@paper), separated by commas (default: all).")
]
DatasetsOption = Annotated[
    str,
    typer.Option(
        help="Tasks (darcy, swe@1-50), separated by commas (default: board_tasks of registry.toml)."
    ),
]
WindowsOption = Annotated[
    str,
    typer.Option(
        "--t-in", help="Given frames, separated by commas (1,5), of tasks that leave it open."
    ),
]
DataSeedsOption = Annotated[str, typer.Option(help="Seeds of generated data, separated by commas.")]
ResultsOption = Annotated[
    Path | None,
    typer.Option(help="Results in this folder count as done, for example leaderboards/results."),
]


@app.command()
def bench(
    models: ModelsOption = "",
    datasets: DatasetsOption = "",
    seeds: SeedsOption = "0,1,2",
    t_in: WindowsOption = "",
    data_seeds: DataSeedsOption = "0",
    track: TrackOption = "laptop",
    results: ResultsOption = None,
    executor: Annotated[
        str, typer.Option(help="What runs the cells: local, pool, ray, slurm.")
    ] = "pool",
    jobs: Annotated[int, typer.Option(help="Cells at a time; 0 means one per core.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads per cell.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="Graphics cards per cell (ray, slurm).")] = 0.0,
    device: DeviceOption = "auto",
    address: Annotated[
        str, typer.Option(help="Address of a cluster (ray), or its partition (slurm).")
    ] = "",
    seconds: Annotated[
        float, typer.Option(min=0, help="Most seconds per cell, 0 for no limit.")
    ] = 0.0,
    memory: Annotated[
        float, typer.Option(min=0, help="Most megabytes per cell, 0 for no limit.")
    ] = 0.0,
    only: Annotated[
        str, typer.Option(help="States to run: missing, stale, failed, diverged.")
    ] = "missing,stale",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would run, and its costs.")
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Instead: count the steps of the track's budget and write them to registry.toml; "
            "those of FILE.nc to the home.",
        ),
    ] = False,
    steps_file: Annotated[
        Path | None, typer.Option(help="With --calibrate: write the counts to this file instead.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the matrix of models, tasks and seeds.

    A cell is one run: a model, a task and a seed. Finished cells are never repeated, interrupted
    ones go on where they stopped. The exit code is 3 if a cell failed or diverged.

    For example: gsnobench bench --models gsno,transolver --datasets darcy,swe --seeds 0,1,2
    """
    choice = _choice(
        models=models,
        datasets=datasets,
        seeds=seeds,
        t_in=t_in,
        data_seeds=data_seeds,
        track=track,
    )
    if calibrate:
        return _calibrate(choice, steps_file, dry_run=dry_run, home=home, as_json=as_json)
    from gsnobench.api.matrix import run_choice
    from gsnobench.declare import Limits
    from gsnobench.matrix import matrix

    folders, evidence = open_tidy_home(home), _evidence(results)
    if dry_run:
        cells = [matrix.cell_of(plan, folders, evidence) for plan in matrix.matrix(choice, folders)]
        chosen = matrix.cheap_first(matrix.chosen(cells, words_of(only)), folders)
        print_forecast(chosen, folders, as_json=as_json)
        return 0
    limits = Limits(
        home=folders.root,
        device=device,
        jobs=jobs,
        threads=threads,
        gpus=gpus,
        seconds=seconds,
        memory_mb=memory,
        address=address,
    )
    cells, ended = run_choice(
        choice,
        limits,
        executor=executor,
        only=words_of(only),
        evidence=evidence,
        progress=partial(progress, quiet=as_json),
        view=partial(live, quiet=as_json),
    )
    _print_matrix(cells, track, as_json=as_json)
    return 3 if any(cell.state in ("failed", "diverged") for cell in ended) else 0


@app.command()
def status(
    models: ModelsOption = "",
    datasets: DatasetsOption = "",
    seeds: SeedsOption = "0,1,2",
    t_in: WindowsOption = "",
    data_seeds: DataSeedsOption = "0",
    track: TrackOption = "laptop",
    results: ResultsOption = None,
    why: Annotated[
        bool, typer.Option("--why", help="Also why cells are declined, row by row.")
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="All tasks, also in a narrow terminal.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            "--diff-against", help="Instead: what differs from the results in this folder."
        ),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the state of every cell of the matrix, and the reason.

    A cell is one run: a model, a task and a seed. It is done, running, missing, stale (its result
    is of another revision or of other settings), failed, diverged or declined.
    """
    choice = _choice(
        models=models,
        datasets=datasets,
        seeds=seeds,
        t_in=t_in,
        data_seeds=data_seeds,
        track=track,
    )
    from gsnobench.matrix.matrix import cell_of, differences, matrix

    folders = open_home(home)
    if against is not None:
        changes = differences(folders.results, against)
        document = [change.to_dict() for change in changes]
        print_result(document, lambda: _show_differences(changes, against), as_json=as_json)
        return 0
    cells = [cell_of(plan, folders, _evidence(results)) for plan in matrix(choice, folders)]
    _print_matrix(cells, track, why=why, wide=wide, as_json=as_json)
    return 0


def _evidence(results: Path | None) -> tuple[Path, ...]:
    """The folder of `--results`, which must be there."""
    if results is not None and not results.is_dir():
        raise DataError(
            f"{results}: no such folder; expected evidence such as leaderboards/results"
        )
    return () if results is None else (results,)


def _choice(
    *, models: str, datasets: str, seeds: str, t_in: str, data_seeds: str, track: str
) -> Choice:
    """The part of the matrix that the options name; a typo is one line."""
    names, tasks = words_of(models), words_of(datasets)
    check_names(models=names, datasets=tasks, track=track)
    from gsnobench.matrix.matrix import Choice

    return Choice(
        models=names,
        datasets=tasks,
        seeds=numbers_of(seeds, "seeds"),
        track=track,
        t_in=numbers_of(t_in, "t-in"),
        data_seeds=numbers_of(data_seeds, "data-seeds"),
    )


# -------------------------------------------------------------------------------------------- print


def _print_matrix(
    cells: Sequence[Cell], track: str, *, why: bool = False, wide: bool = False, as_json: bool
) -> None:
    document = {"track": track, "cells": [cell.to_dict() for cell in cells]}
    print_result(document, lambda: _show_matrix(cells, track, why=why, wide=wide), as_json=as_json)


def _show_matrix(cells: Sequence[Cell], track: str, *, why: bool, wide: bool) -> None:
    print(f"Track {track}: {summary(cells)}")
    header, rows = grid(cells)
    if wide or is_in_one_block(header, rows):
        title = "Mean test error (seeds) if done, - if missing, n/a if declined"
        print_table(title, header, rows)
    else:
        print_table("Cells of each model (a cell is one run)", *counts(cells))
        print("--wide shows them by task")
    for line in remarks([cell for cell in cells if why or cell.state != "declined"]):
        print(line)
    if not why and any(cell.state == "declined" for cell in cells):
        print("--why tells why rows decline a task")
    if any(cell.state == "failed" for cell in cells):
        print("run the failed ones again with --only failed")


def _show_differences(changes: Sequence[Difference], against: Path) -> None:
    rows = []
    for change in changes:
        spec, scores = change.spec, [_score(change.here), _score(change.there)]
        rows.append([spec.track, spec.task, spec.row, str(spec.seed), spec.short, *scores])
    header = ["track", "task", "model", "seed", "key", "here", "there"]
    print_table(f"Evidence here and in {against}", header, rows)


def _score(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


# -------------------------------------------------------------------------------------- calibration


def _calibrate(
    choice: Choice, steps_file: Path | None, *, dry_run: bool, home: Path | None, as_json: bool
) -> int:
    """`bench --calibrate`: count steps for the track's budget, and write them to a file."""
    from gsnobench.matrix.matrix import matrix
    from gsnobench.registry import read_registry, write_steps
    from gsnobench.runs.calibrate import count_steps
    from gsnobench.runs.machine import Machine, choose_device

    folders, registry = open_home(home), read_registry()
    plans = [plan for plan in matrix(replace(choice, seeds=(0,)), folders) if plan.phases]
    plans = [plan for plan in plans if any(plan.spec.steps.values())]
    places = [_place_of_counts(plan, steps_file, folders) for plan in plans]
    counted: dict[str, dict[str, dict[str, float]]] = {}
    if not dry_run:
        with progress(quiet=as_json) as report:
            machine = Machine(folders, choose_device("cpu"), report=report)
            for plan, (path, task) in zip(plans, places, strict=True):
                count, spec = count_steps(plan, machine, registry), plan.spec
                write_steps(spec.track, task, spec.row, count.steps, path)
                counted[f"{spec.row} on {task}"] = {
                    "steps": dict(count.steps),
                    "cpu_s_per_step": count.step_s,
                }
    written = " and ".join(sorted({str(path) for path, _ in places}))

    def show() -> None:
        if dry_run:
            print(f"would count the steps of {len(plans)} pairs and write them to {written}")
            return
        rows = [[pair, str(facts["steps"])] for pair, facts in counted.items()]
        print_table(f"Steps on track {choice.track}, written to {written}", ["pair", "steps"], rows)

    document = {"file": written, "pairs": len(plans), "counted": counted}
    print_result(document, show, as_json=as_json)
    return 0


def _place_of_counts(plan: Plan, steps_file: Path | None, home: Home) -> tuple[Path, str]:
    """The file of step counts and the task's name in it; a person's data belong to the home."""
    from gsnobench.registry import registry_path

    if steps_file is None and plan.spec.source:
        return home.steps, plan.count_name
    return steps_file or registry_path(), plan.task.id
