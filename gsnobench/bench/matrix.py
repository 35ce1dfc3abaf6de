"""The matrix of rows (model@preset), tasks and seeds: its cells, what state each is in, what it
will take, and its run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal, get_args

from gsnobench.declare import Executor, Limits
from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.files import is_locked
from gsnobench.home import Home
from gsnobench.plugins import dataset_named, listed, load
from gsnobench.records import RunResult, RunSpec, evidence_path
from gsnobench.registry import Track, read_registry
from gsnobench.runs.machine import Machine, Report, choose_device
from gsnobench.runs.plan import Plan, Request, make_plan, with_seed
from gsnobench.runs.run import finished_result, is_interrupted, keep_result

State = Literal["missing", "running", "done", "diverged", "declined", "failed", "stale"]
STATES: tuple[State, ...] = get_args(State)
# states that a run can change
AGAIN: tuple[State, ...] = ("missing", "stale", "failed", "diverged")


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of the matrix and what is known of it."""

    plan: Plan
    state: State
    reason: str = ""
    result: RunResult | None = None
    label: str = ""  # what tells it from others of the same row, task and seed

    @property
    def spec(self) -> RunSpec:
        return self.plan.spec

    def to_dict(self) -> dict[str, object]:
        """The cell as `status --json` prints it."""
        spec = self.spec
        score = (
            None
            if self.result is None or self.result.headline != self.result.headline
            else self.result.headline
        )
        facts = {
            "task": spec.task,
            "row": spec.row,
            "seed": spec.seed,
            "track": spec.track,
            "key": spec.short,
        }
        return {**facts, "state": self.state, "reason": self.reason, "rel_l2": score}


# ------------------------------------------------------------------------------------------- choice


@dataclass(frozen=True)
class Choice:
    """What a person asks for; empty means all that is installed."""

    models: Sequence[str] = ()  # model, or model@preset
    datasets: Sequence[str] = ()
    seeds: Sequence[int] = (0, 1, 2)
    track: str = "laptop"
    t_in: Sequence[int] = ()


def matrix(choice: Choice) -> list[Plan]:
    """The plans of all cells; every unknown name is one line before anything runs."""
    registry = read_registry()
    track = registry.track(choice.track)
    rows = [row for name in choice.models or _installed("model") for row in _rows(name, track)]
    plans: dict[str, Plan] = {}
    for text in choice.datasets or _installed("dataset"):
        if text.endswith(".nc"):
            raise ParamError(
                f"bench: {text} is a file; a matrix holds tasks, `gsnobench run` takes files"
            )
        for model, preset in rows:
            for t_in in _windows(text, choice.t_in):
                request = Request(
                    model=model, dataset=text, preset=preset, track=choice.track, t_in=t_in
                )
                first = make_plan(request, registry)
                plans |= {
                    plan.spec.key: plan
                    for plan in (with_seed(first, seed) for seed in _seeds(first, choice.seeds))
                }
    return list(plans.values())


def _installed(kind: Literal["model", "dataset"]) -> list[str]:
    return [one.name for one in listed(kind) if one.problem is None]


def _windows(task: str, wanted: Sequence[int]) -> Sequence[int | None]:
    """Frames given: as asked, or None for the task's own; steady tasks, one-step tasks and ids with
    a window keep theirs.
    """
    dataset = dataset_named(task)
    is_free = dataset.t_in > 0 and len(dataset.starts) == 1 and "@" not in task
    return wanted if wanted and is_free else (None,)


def _rows(name: str, track: Track) -> list[tuple[str, str | None]]:
    """(model, preset) of a name; a model with a preset of ours is also run as its paper did."""
    model, _, preset = name.partition("@")
    if preset:
        return [(model, preset)]
    declared = load("model", model)
    default = declared.default_preset(track)
    papers = [name for name, preset in declared.presets.items() if preset.is_paper]
    beside = papers if declared.presets[default].is_ours else []
    return [(model, name) for name in (default, *beside)]


def _seeds(plan: Plan, seeds: Sequence[int]) -> Sequence[int]:
    """A closed form has no seed, and a refusal needs no second one."""
    return (
        seeds[:1]
        if plan.declined is not None or all(phase.solve is not None for phase in plan.phases)
        else seeds
    )


# -------------------------------------------------------------------------------------------- state


def cell_of(plan: Plan, home: Home) -> Cell:
    """The state of one cell, as the home folder shows it now."""
    key = plan.spec.key
    if is_locked(home.run_folder(key).lock):
        return Cell(plan, "running")
    result = finished_result(plan, home) or _evidence(evidence_path(home.results, plan.spec), key)
    if result is not None and result.status != "pruned":
        return Cell(plan, result.status, result.reason, result)
    if plan.declined is not None:
        return Cell(plan, "declined", plan.declined)
    old = _older(plan.spec, home)
    if old is not None:
        return Cell(plan, "stale", _difference(old.spec, plan.spec), old)
    return Cell(plan, "missing", "interrupted" if is_interrupted(plan, home) else "")


def _evidence(path: Path, key: str) -> RunResult | None:
    if not path.exists():
        return None
    result = RunResult.load(path)
    return result if result.spec.key == key else None


def _older(spec: RunSpec, home: Home) -> RunResult | None:
    """A result of the same row, task and seed whose key no longer matches."""
    for path in sorted(evidence_path(home.results, spec).parent.glob("*.json")):
        result = RunResult.load(path)
        if (result.spec.seed, result.spec.data_seed) == (spec.seed, spec.data_seed):
            return result
    return None


def _difference(old: RunSpec, new: RunSpec) -> str:
    before, after = old.to_dict(), new.to_dict()
    names = []
    for name, value in after.items():
        if isinstance(value, Mapping):
            names += [
                f"{name}.{one}"
                for one in sorted({*value, *before[name]})
                if value.get(one) != before[name].get(one)
            ]
        elif before[name] != value:
            names.append(name)
    return f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''} changed"


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells in one of these states; a state that no run can change is refused."""
    for state in only:
        if state not in AGAIN:
            raise ParamError(f"only: {state!r} cannot be run; {did_you_mean(state, AGAIN)}")
    return [cell for cell in cells if cell.state in only]


# ----------------------------------------------------------------------------------------- estimate


@dataclass(frozen=True)
class Need:
    """What a cell will probably take; None where nothing like it has been run."""

    cpu_s: float | None
    memory_mb: float | None


def need(cell: Cell, home: Home) -> Need:
    """From finished cells of the same row and task, else the track's budget for the time."""
    folder = evidence_path(home.results, cell.spec).parent
    earlier = [RunResult.load(path).costs for path in folder.glob("*.json")]
    earlier = [costs for costs in earlier if "train_cpu_s" in costs]
    if not earlier:
        budget = read_registry().track(cell.spec.track).train_cpu_s
        return Need(
            budget
            if cell.plan.is_calibrated and budget and any(cell.spec.steps.values())
            else None,
            None,
        )
    spent = [
        costs["prepare_s"] + costs["train_cpu_s"] + costs["validate_cpu_s"] for costs in earlier
    ]
    return Need(mean(spent), max(costs["peak_mb"] for costs in earlier))


def cheap_first(cells: Iterable[Cell], home: Home) -> list[Cell]:
    """Closed forms, then what is known to be short, then the rest: a mistake shows early."""

    def price(cell: Cell) -> tuple[bool, float]:
        return any(cell.spec.steps.values()), need(cell, home).cpu_s or 1e9

    return sorted(cells, key=price)


# ---------------------------------------------------------------------------------------------- run


def make_data(cells: Iterable[Cell], home: Home, report: Report) -> None:
    """The data of all cells, once each, by all cores, before the first cell waits for them."""
    machine = Machine(home, choose_device("cpu"), report=report)
    for plan in {
        json.dumps([cell.spec.task.split("@")[0], cell.spec.resolution]): cell.plan
        for cell in cells
    }.values():
        if plan.dataset is not None and plan.declined is None:
            machine.ensure_data(plan.dataset, plan.task)


def settle(cells: Iterable[Cell], home: Home) -> None:
    """Put on record what is known: refusals, which are evidence too, and the copy of a result that
    a kill left out.
    """
    for cell in cells:
        if cell.state == "declined" and cell.result is None:
            keep_result(RunResult(cell.spec, "declined", cell.reason), home)
        elif cell.state == "done" and cell.result is not None:
            folder = home.run_folder(cell.spec.key)
            copies = (folder.result, evidence_path(home.results, cell.spec))
            if folder.path.exists() and not all(path.exists() for path in copies):
                keep_result(cell.result, home)


def run_cells(
    cells: Sequence[Cell], executor: Executor, limits: Limits, home: Home
) -> Iterator[Cell]:
    """Every cell once it has an answer; what another machine answered is kept here as well."""
    for cell in cells:
        if cell.state in ("diverged", "failed"):  # asked for again
            home.run_folder(cell.spec.key).result.unlink(missing_ok=True)
    plans = {cell.spec.key: cell.plan for cell in cells}
    for result in executor.run([cell.spec for cell in cells], limits):
        if not home.run_folder(result.spec.key).result.exists():
            keep_result(result, home)
        yield cell_of(plans[result.spec.key], home)


# --------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Difference:
    """One question with different answers in two folders of evidence."""

    spec: RunSpec
    here: float | None
    there: float | None

    def to_dict(self) -> dict[str, object]:
        spec = self.spec
        facts = {
            "task": spec.task,
            "row": spec.row,
            "seed": spec.seed,
            "track": spec.track,
            "key": spec.short,
        }
        return {**facts, "here": self.here, "there": self.there}


def differences(here: Path, there: Path) -> list[Difference]:
    """What one folder of evidence has that the other lacks or answers otherwise."""
    if not there.is_dir():
        raise DataError(f"{there}: no such folder; expected evidence such as leaderboards/results")
    ours, theirs = _scores(here), _scores(there)
    found = []
    for key in sorted({*ours, *theirs}):
        spec = (ours.get(key) or theirs[key])[0]
        pair = [side[key][1] if key in side else None for side in (ours, theirs)]
        if pair[0] != pair[1]:
            found.append(Difference(spec, *pair))
    return sorted(
        found, key=lambda one: (one.spec.track, one.spec.task, one.spec.row, one.spec.seed)
    )


def _scores(folder: Path) -> dict[str, tuple[RunSpec, float | None]]:
    results = [RunResult.load(path) for path in folder.rglob("*.json")]
    return {
        one.spec.key: (one.spec, one.headline if one.headline == one.headline else None)
        for one in results
    }
