"""What `sweep` and `study` do; each returns its exit code and prints either text or one JSON
document.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.cli.console import print_table, progress
from gsnobench.files import write_text
from gsnobench.home import Home, open_home
from gsnobench.records import plain
from gsnobench.runs.machine import Machine, Report, choose_device
from gsnobench.runs.plan import Request
from gsnobench.runs.stages import data_path
from gsnobench.sweep.figures import write_all
from gsnobench.sweep.record import Record, open_record, parent_id, tags_of
from gsnobench.sweep.search import (
    Search,
    is_complete,
    make_search,
    open_trials,
    search_result,
    trial_count,
)
from gsnobench.sweep.trials import Trials
from gsnobench.sweep.workers import WorkerOptions, run_workers


@dataclass(frozen=True)
class SweepOptions:
    """How `sweep` goes about it."""

    over: Sequence[str] = ()
    name: str = ""
    minimise: str = "error"
    trials: int = 30
    sampler: str = "tpe"
    pruner: str = "none"
    refit_seeds: tuple[int, ...] = (0, 1, 2)
    refit_top: int = 3
    storage: str = ""
    device: str = "auto"
    workers: int = 1
    threads: int = 1

    def search(self, request: Request) -> Search:
        how = {"trials": self.trials, "sampler": self.sampler, "pruner": self.pruner}
        how |= {"refit_seeds": self.refit_seeds, "refit_top": self.refit_top}
        return make_search(request, self.over, name=self.name, minimise=self.minimise, **how)


def sweep(request: Request, options: SweepOptions, *, home: Path | None, as_json: bool) -> int:
    """`sweep`: go on until all trials and refits are made, then show the answer; exit 3 if there is
    none.
    """
    place = open_home(home)
    search = options.search(request)
    device = choose_device(options.device)
    trials = open_trials(search, place, options.storage)
    parent = parent_id(trials)
    with progress(quiet=as_json) as report:
        machine = Machine(
            place, device, jobs=options.threads, tags=tags_of(search, parent), report=report
        )
        if is_complete(search, trials) and (search.folder(place) / "result.json").exists():
            found = search_result(search, trials, machine)
        else:
            # once, by all cores, before workers wait for it
            data_path(search.plan({}), replace(machine, jobs=0))
            with open_record(search, trials, place) as record:
                spread = WorkerOptions(
                    place.root,
                    options.storage,
                    options.device,
                    options.workers,
                    options.threads,
                    machine.tags,
                )
                report.stage(f"sweep {search.name}")
                run_workers(
                    search, spread, _Listener(search, trials, record, report, is_quiet=as_json).hear
                )
                found = search_result(search, trials, machine)
                _keep(search, trials, place, found)
                record.finish(found)
    _print(found, search.folder(place), as_json)
    return 0 if found["status"] == "done" else 3


def _keep(search: Search, trials: Trials, place: Home, found: dict[str, Any]) -> None:
    """The answer, its tables and pictures, in the folder of the study."""
    folder = search.folder(place)
    if "best" in found:
        write_all(folder, search, trials, found)
    write_text(folder / "result.json", json.dumps(plain(found), indent=1) + "\n")


class _Listener:
    """Turns what workers tell into a line on stderr, a bar, and the curve of the sweep's record."""

    def __init__(
        self, search: Search, trials: Trials, record: Record, report: Report, *, is_quiet: bool
    ) -> None:
        self.search, self.record, self.report, self.is_quiet = search, record, report, is_quiet
        told = trials.counted()
        self.total, self.done = trial_count(search), len(told)
        self.best = min(
            (one.values[0] for one in told if one.values and one.state.name == "COMPLETE"),
            default=math.inf,
        )

    def hear(self, event: str, content: Mapping[str, Any]) -> None:
        if event == "trial":
            self._trial(content)
        elif event == "refit":
            self._line(f"refit, seed {content['seed']}: {content['error']:.4g}")
        elif event == "death":
            self.report.warn("a worker died; its trial is run again")
        else:
            self.report.warn(str(content["text"]))

    def _trial(self, content: Mapping[str, Any]) -> None:
        self.done += 1
        values = content["values"]
        if values is not None:
            self.best = min(self.best, values[0])
            self.record.trial(int(content["number"]), {"error": values[0], "best": self.best})
        told = (
            content["status"] if values is None else ", ".join(f"{value:.4g}" for value in values)
        )
        self._line(
            f"[{self.done}/{self.total}] {describe(content['point'])}: {told} "
            f"({content['seconds']:.1f} s)"
        )
        self.report.step(self.done, self.total, self.best)

    def _line(self, text: str) -> None:
        if not self.is_quiet and not sys.stderr.isatty():
            print(f"  {text}", file=sys.stderr, flush=True)


def describe(point: Mapping[str, Any]) -> str:
    """A point as a person reads it."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in point.items()
    )


def _print(found: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plain({**found, "folder": str(folder)})))
        return
    counts = ", ".join(f"{count} {name}" for name, count in found["trials"].items() if count)
    print(f"{found['row']} on {found['task']}, track {found['track']}: trials {counts}")
    if found["status"] == "failed":
        print(found["reason"])
        return
    if "pareto" in found:
        rows = [
            [describe(one["point"]), *(f"{value:.4g}" for value in one["values"])]
            for one in found["pareto"]
        ]
        print_table("Pareto front", ["point", *found["minimise"]], rows)
    else:
        _print_refits(found)
    print(f"pictures and tables: {folder}")


def _print_refits(found: Mapping[str, Any]) -> None:
    rows = []
    for one in found["refits"]:
        is_winner = one["point"] == found["winner"]["point"]
        test = f"{found['winner']['test_mean']:.4g}" if is_winner else "-"
        seeds = " ".join(
            "?" if error is None else f"{error:.4g}" for error in one["seeds"].values()
        )
        rows.append([describe(one["point"]), seeds, f"{one['mean']:.4g}", test])
    mark = next((n for n, row in enumerate(rows) if row[3] != "-"), None)
    header = ["point", "validation by seed", "mean", "test mean (winner only)"]
    print_table(
        "Refits of the best points; the winner is chosen on validation", header, rows, mark=mark
    )


# -------------------------------------------------------------------------------------------- study


def sensitivity(
    request: Request, seeds: Sequence[int], *, jobs: int, home: Path | None, as_json: bool
) -> int:
    """`study sensitivity`: the paper's two tables of k_s and k_t; exit 3 if a run failed or
    diverged.
    """
    from gsnobench.cli.matrix_view import live
    from gsnobench.studies.sensitivity import run_study

    place = open_home(home)
    with progress(quiet=as_json) as report:
        study = run_study(
            request,
            seeds,
            jobs=jobs,
            home=place,
            report=report,
            live=lambda look: live(look, quiet=as_json),
        )
    if as_json:
        print(json.dumps(plain(study.to_dict())))
    else:
        for name, rows in study.tables().items():
            print_table(f"{study.title}: test error over {name}", study.header(name), rows)
        print(study.sentence)
        print(f"picture and tables: {study.folder}")
    return 0 if study.is_done else 3
