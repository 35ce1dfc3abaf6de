"""`gsnobench sweep`: search knobs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsnobench.cli.console import print_result, progress
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
from gsnobench.home import Home, open_tidy_home
from gsnobench.params import numbers_of, words_of
from gsnobench.records import plain

if TYPE_CHECKING:
    from gsnobench.runs.machine import Machine, Report
    from gsnobench.sweep.record import Record
    from gsnobench.sweep.search import Search
    from gsnobench.sweep.trials import Trials
    from gsnobench.sweep.workers import WorkerOptions

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
        str, typer.Option(help="Name of the study (default: from what is searched).")
    ] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes that try points.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads per process.")] = 1,
    refit_seeds: Annotated[str, typer.Option(help="Seeds that judge the best points.")] = "0,1,2",
    refit_top: Annotated[
        int, typer.Option(min=0, help="Best points that are refitted; 0: test is never opened.")
    ] = 3,
    trial_cpu_s: Annotated[
        float, typer.Option(min=0, help="CPU-seconds of each trial; 0: the steps of the row.")
    ] = 0.0,
    study: Annotated[
        Path | None,
        typer.Option(help="File that keeps the finished trials; a sweep goes on from it anywhere."),
    ] = None,
    device: DeviceOption = "auto",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search knobs on validation, refit the best with several seeds, score the winner once on test.

    The same command goes on where it stopped; on another host with the same --storage and --name it
    joins in. Other knobs are fixed by options: --train.steps 500 --model.width 40 --data.resolution
    450. The exit code is 3 if there is no winner.
    """
    if not model or not dataset:
        example = "gsnobench sweep --model gsno --dataset nse"
        raise ParamError(f"sweep: needs --model and --dataset; for example: {example}")
    knobs = knobs_of(context.args)
    seeds = tuple(dict.fromkeys(numbers_of(refit_seeds, "refit-seeds")))
    check_names(models=[model], datasets=[dataset], track=track)
    from gsnobench.registry import read_registry
    from gsnobench.runs.calibrate import counted_plan
    from gsnobench.runs.machine import Machine, choose_device
    from gsnobench.runs.plan import Request
    from gsnobench.sweep.record import parent_id, tags_of
    from gsnobench.sweep.search import make_search, open_trials
    from gsnobench.sweep.workers import WorkerOptions

    folders, torch_device = open_tidy_home(home), choose_device(device)
    request = Request(model, dataset, track=track, preset=preset, seed=seed, **knobs)
    with progress(quiet=as_json) as report:
        counted_plan(request, Machine(folders, torch_device, report=report))
    search = make_search(
        request,
        words_of(over),
        registry=read_registry(home=folders),
        name=name,
        minimise=minimise,
        trials=trials,
        sampler=sampler,
        pruner=pruner,
        refit_seeds=seeds,
        refit_top=refit_top,
        trial_cpu_s=trial_cpu_s,
    )
    address = storage or os.environ.get(STORAGE_VARIABLE, "")
    opened = open_trials(search, folders, address, study)
    tags = tags_of(search, parent_id(opened))
    options = WorkerOptions(
        folders.root, address, device, workers=workers, threads=threads, tags=tags
    )
    with progress(quiet=as_json) as report:
        machine = Machine(folders, torch_device, jobs=threads, tags=tags, report=report)
        result = _search(search, opened, machine, options, study=study, quiet=as_json)
    folder = search.folder(folders)
    document = {**result, "folder": str(folder)}
    print_result(document, lambda: _print_sweep(result, folder), as_json=as_json)
    return 0 if result["status"] == "done" else 3


def _search(
    search: Search,
    trials: Trials,
    machine: Machine,
    options: WorkerOptions,
    *,
    study: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """The result of the search: all trials and refits that are missing are run first."""
    from gsnobench.runs.stages import Run
    from gsnobench.sweep.record import open_record
    from gsnobench.sweep.search import is_complete, search_result
    from gsnobench.sweep.workers import run_workers

    if is_complete(search, trials) and (search.folder(machine.home) / "result.json").exists():
        return search_result(search, trials, machine)
    # once, by all cores, before the workers need the data
    Run.at_home(search.plan({}), replace(machine, jobs=0)).data_file()
    with open_record(search, trials, machine.home) as record:
        machine.report.stage(f"sweep {search.name}")
        view = _TrialView(search, trials, record, machine.report, study=study, is_quiet=quiet)
        run_workers(search, options, view.show)
        result = search_result(search, trials, machine)
        _keep(search, trials, machine.home, result)
        record.finish(result)
    return result


def _keep(search: Search, trials: Trials, home: Home, result: dict[str, Any]) -> None:
    """Write the result, its tables and pictures to the folder of the study."""
    from gsnobench.files import write_text
    from gsnobench.sweep.figures import write_all

    folder = search.folder(home)
    if "best" in result:
        write_all(folder, search, trials, result)
    write_text(folder / "result.json", json.dumps(plain(result), indent=1) + "\n")


class _TrialView:
    """Shows the workers' events: a line on stderr, a bar, the sweep's record and its study file."""

    def __init__(
        self,
        search: Search,
        trials: Trials,
        record: Record,
        report: Report,
        *,
        study: Path | None,
        is_quiet: bool,
    ) -> None:
        from gsnobench.sweep.search import trial_count

        self.record, self.report, self.is_quiet = record, report, is_quiet
        self.trials, self.study = trials, study
        ended = trials.counted()
        complete = [trial for trial in ended if trial.values and trial.state.name == "COMPLETE"]
        self.total, self.done = trial_count(search), len(ended)
        self.best = min((trial.values[0] for trial in complete), default=math.inf)

    def show(self, event: str, content: Mapping[str, Any]) -> None:
        """One event of a worker."""
        if event == "trial":
            self._show_trial(content)
        elif event == "refit":
            self._print(f"refit, seed {content['seed']}: {content['error']:.4g}")
        elif event == "death":
            self.report.warn("a worker died; its trial is run again")
        else:
            self.report.warn(str(content["text"]))

    def _show_trial(self, content: Mapping[str, Any]) -> None:
        from gsnobench.sweep.study_file import write_study

        self.done += 1
        if self.study is not None:
            write_study(self.study, self.trials)
        values = content["values"]
        if values is None:
            end = content["status"]
        else:
            end = ", ".join(f"{value:.4g}" for value in values)
            self.best = min(self.best, values[0])
            self.record.trial(int(content["number"]), {"error": values[0], "best": self.best})
        point = _describe(content["point"])
        self._print(f"[{self.done}/{self.total}] {point}: {end} ({content['seconds']:.1f} s)")
        self.report.step(self.done, self.total, self.best)

    def _print(self, text: str) -> None:
        if not self.is_quiet and not sys.stderr.isatty():
            print(f"  {text}", file=sys.stderr, flush=True)


def _describe(point: Mapping[str, Any]) -> str:
    """A point as a person reads it."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in point.items()
    )


def _print_sweep(result: Mapping[str, Any], folder: Path) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in result["trials"].items() if count)
    print(f"{result['row']} on {result['task']}, track {result['track']}: trials {counts}")
    if result["status"] == "failed":
        print(result["reason"])
        return
    if "pareto" in result:
        rows = [
            [_describe(trial["point"]), *(f"{value:.4g}" for value in trial["values"])]
            for trial in result["pareto"]
        ]
        print_table("Pareto front", ["point", *result["minimise"]], rows)
    elif "tried" in result:
        best = result["best"]
        print(f"best on validation: {best['valid']:.4g} at {_describe(best['point'])}")
    else:
        _print_refits(result)
    print(f"pictures and tables: {folder}")


def _print_refits(result: Mapping[str, Any]) -> None:
    rows, mark, winner = [], None, result["winner"]
    for number, refit in enumerate(result["refits"]):
        is_winner = refit["point"] == winner["point"]
        if is_winner and mark is None:
            mark = number
        errors = ["?" if error is None else f"{error:.4g}" for error in refit["seeds"].values()]
        test = f"{winner['test_mean']:.4g}" if is_winner else "-"
        rows.append([_describe(refit["point"]), " ".join(errors), f"{refit['mean']:.4g}", test])
    title = "Refits of the best points; the winner is chosen on validation"
    header = ["point", "validation by seed", "mean", "test mean (winner only)"]
    print_table(title, header, rows, mark=mark)
