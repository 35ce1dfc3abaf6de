"""`gsnobench sweep`: search knobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gsnobench.api.progress import progress
from gsnobench.cli.console import print_result
from gsnobench.cli.options import (
    KNOBS,
    DatasetOption,
    DeviceOption,
    HomeOption,
    JsonOption,
    ModelOption,
    PresetOption,
    TrackOption,
    check_names,
    knobs_of,
)
from gsnobench.cli.table import print_table
from gsnobench.errors import ParamError
from gsnobench.home import open_tidy_home
from gsnobench.params import numbers_of, words_of

app = typer.Typer()

STORAGE_VARIABLE = "GSNOBENCH_STORAGE"


@app.command(context_settings=KNOBS)
def sweep(
    context: typer.Context,
    model: ModelOption = "",
    dataset: DatasetOption = "",
    over: Annotated[
        str,
        typer.Option(
            help="Knobs, separated by commas: model.k_s, model.k_s=4..64 or model.k_s=4:8:16."
        ),
    ] = "",
    trials: Annotated[int, typer.Option(help="Points to try.")] = 30,
    track: TrackOption = "laptop",
    preset: PresetOption = None,
    seed: Annotated[int, typer.Option(help="Training seed of the trials.")] = 0,
    sampler: Annotated[str, typer.Option(help="tpe, grid, random or gp.")] = "tpe",
    pruner: Annotated[
        str, typer.Option(help="none, median or hyperband: end poor trials early.")
    ] = "none",
    minimise: Annotated[
        str, typer.Option(help="error; or error,seconds or error,parameters for a Pareto front.")
    ] = "error",
    storage: Annotated[
        str,
        typer.Option(
            help=f"sqlite:///FILE or postgresql+psycopg://... (default: ${STORAGE_VARIABLE})."
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(help="Name of the sweep (default: from what is searched).")
    ] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes that try points.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads per process.")] = 1,
    refit_seeds: Annotated[str, typer.Option(help="Seeds that judge the best points.")] = "0,1,2",
    refit_top: Annotated[
        int, typer.Option(min=0, help="Best points to train with these seeds; 0: never use test.")
    ] = 3,
    trial_cpu_s: Annotated[
        float, typer.Option(min=0, help="CPU-seconds of each trial; 0: the steps of the row.")
    ] = 0.0,
    study: Annotated[
        Path | None,
        typer.Option(
            help="File of trials: it keeps the finished ones, and a sweep goes on from it."
        ),
    ] = None,
    device: DeviceOption = "auto",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search knobs on validation, refit the best with several seeds, score the winner once on test.

    The same command goes on where it stopped; on another host with the same --storage and --name it
    joins in. Other knobs are fixed by options: --train.steps 500 --model.width 40 --data.resolution
    450. The exit code is 3 if there is no winner.

    For example: gsnobench sweep --model gsno --dataset nse --over model.k_s,train.lr --trials 20
    """
    if not model or not dataset:
        example = "gsnobench sweep --model gsno --dataset nse"
        raise ParamError(f"sweep: needs --model and --dataset; for example: {example}")
    knobs = knobs_of(context.args)
    seeds = tuple(dict.fromkeys(numbers_of(refit_seeds, "refit-seeds")))
    check_names(models=[model], datasets=[dataset], track=track)
    from gsnobench.runs.request import Request
    from gsnobench.sweeps.conduct import conduct
    from gsnobench.sweeps.workers import WorkerOptions

    request = Request(model, dataset, track=track, preset=preset, seed=seed, **knobs)
    options = WorkerOptions(
        open_tidy_home(home).root,
        storage or os.environ.get(STORAGE_VARIABLE, ""),
        device,
        workers=workers,
        threads=threads,
    )
    is_told = not as_json and not sys.stderr.isatty()  # in a terminal the bar says it
    with progress(quiet=as_json) as report:
        result, folder = conduct(
            request,
            words_of(over),
            options,
            report=report,
            say=_say if is_told else lambda text: None,
            study=study,
            name=name,
            minimise=minimise,
            trials=trials,
            sampler=sampler,
            pruner=pruner,
            refit_seeds=seeds,
            refit_top=refit_top,
            trial_cpu_s=trial_cpu_s,
        )
    document = {**result, "folder": str(folder)}
    print_result(document, lambda: _print_sweep(result, folder), as_json=as_json)
    return 0 if result["status"] == "done" else 3


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _print_sweep(result: Mapping[str, Any], folder: Path) -> None:
    from gsnobench.sweeps.conduct import describe

    print(f"{result['row']} on {result['task']}, track {result['track']}: {_trials(result)}")
    if result["status"] == "failed":
        print(result["reason"])
        return
    if "pareto" in result:
        rows = [
            [describe(trial["point"]), *(f"{value:.4g}" for value in trial["values"])]
            for trial in result["pareto"]
        ]
        print_table("Pareto front", ["point", *result["minimise"]], rows)
    elif "tried" in result:
        best = result["best"]
        print(f"best on validation: {best['valid']:.4g} at {describe(best['point'])}")
    else:
        _print_refits(result)
    print(f"files: {folder}")


def _trials(result: Mapping[str, Any]) -> str:
    """How many trials are done, and how the others ended."""
    ends = dict(result["trials"])
    answered, done = ends.pop("answered"), ends.pop("done")
    others = [f"{count} {name}" for name, count in ends.items() if count]
    return ", ".join([f"{done} of {answered} trials done", *others])


def _print_refits(result: Mapping[str, Any]) -> None:
    from gsnobench.sweeps.conduct import describe

    rows, mark, winner = [], None, result["winner"]
    for number, refit in enumerate(sorted(result["refits"], key=lambda refit: refit["mean"])):
        is_winner = refit["point"] == winner["point"]
        if is_winner and mark is None:
            mark = number
        errors = ["?" if error is None else f"{error:.4g}" for error in refit["seeds"].values()]
        test = f"{winner['test_mean']:.4g}" if is_winner else "-"
        rows.append([describe(refit["point"]), " ".join(errors), f"{refit['mean']:.4g}", test])
    title = "Refits of the best points; the winner is chosen on validation"
    header = ["point", "validation by seed", "mean", "test mean (winner only)"]
    print_table(title, header, rows, mark=mark)
