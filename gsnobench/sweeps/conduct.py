"""A whole sweep: data, trials, refits, the winner's test, its record and its files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.files import write_text
from gsnobench.home import Home, open_home
from gsnobench.records import plain
from gsnobench.registry import read_registry
from gsnobench.runs.calibrate import counted_plan
from gsnobench.runs.machine import Machine, Report, choose_device
from gsnobench.runs.request import Request
from gsnobench.runs.stages import Run
from gsnobench.sweeps.figures import write_all
from gsnobench.sweeps.record import Record, open_record, parent_id, tags_of
from gsnobench.sweeps.search import (
    Search,
    is_complete,
    make_search,
    open_trials,
    search_result,
    trial_count,
)
from gsnobench.sweeps.study_file import write_study
from gsnobench.sweeps.trials import Trials
from gsnobench.sweeps.workers import WorkerOptions, run_workers


def conduct(
    request: Request,
    over: Sequence[str],
    options: WorkerOptions,
    *,
    report: Report,
    say: Callable[[str], None],
    study: Path | None = None,
    **how: Any,
) -> tuple[dict[str, Any], Path]:
    """The result of a search and its folder; what is missing of it is run first.

    `say` gets a line per ended trial and refit; `how` are the options of `make_search`.
    """
    home, device = open_home(options.home), choose_device(options.device)
    counted_plan(request, Machine(home, device, report=report))
    search = make_search(request, over, registry=read_registry(home=home), **how)
    trials = open_trials(search, home, options.storage, study)
    options = replace(options, tags=tags_of(search, parent_id(trials)))
    machine = Machine(home, device, jobs=options.threads, tags=options.tags, report=report)
    folder = search.folder(home)
    if is_complete(search, trials) and (folder / "result.json").exists():
        return search_result(search, trials, machine), folder
    # once, by all cores, before the workers need the data
    Run.at_home(search.plan({}), replace(machine, jobs=0)).data_file()
    with open_record(search, trials, home) as record:
        report.stage(f"sweep {search.name}")
        run_workers(search, options, _events(search, trials, record, report, say, study).show)
        result = search_result(search, trials, machine)
        _keep(search, trials, home, result)
        record.finish(result)
    return result, folder


def _keep(search: Search, trials: Trials, home: Home, result: dict[str, Any]) -> None:
    """Write the result, its tables and pictures to the folder of the study."""
    folder = search.folder(home)
    if "best" in result:
        write_all(folder, search, trials, result)
    write_text(folder / "result.json", json.dumps(plain(result), indent=1) + "\n")


@dataclass
class _Events:
    """Shows the workers' events: a line, a bar, the sweep's record and its study file."""

    trials: Trials
    record: Record
    report: Report
    say: Callable[[str], None]
    study: Path | None
    total: int
    done: int
    best: float

    def show(self, event: str, content: Mapping[str, Any]) -> None:
        """One event of a worker."""
        if event == "trial":
            self._show_trial(content)
        elif event == "refit":
            self.say(f"refit, seed {content['seed']}: {content['error']:.4g}")
        elif event == "death":
            self.report.warn("a worker died; its trial is run again")
        else:
            self.report.warn(str(content["text"]))

    def _show_trial(self, content: Mapping[str, Any]) -> None:
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
        point = describe(content["point"])
        self.say(f"[{self.done}/{self.total}] {point}: {end} ({content['seconds']:.1f} s)")
        self.report.step(self.done, self.total, self.best)


def _events(
    search: Search,
    trials: Trials,
    record: Record,
    report: Report,
    say: Callable[[str], None],
    study: Path | None,
) -> _Events:
    """The view of a search that may have trials already."""
    ended = trials.counted()
    complete = [trial for trial in ended if trial.values and trial.state.name == "COMPLETE"]
    best = min((trial.values[0] for trial in complete), default=math.inf)
    return _Events(trials, record, report, say, study, trial_count(search), len(ended), best)


def describe(point: Mapping[str, Any]) -> str:
    """A point as a person reads it."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in point.items()
    )
