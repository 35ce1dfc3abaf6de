"""The matrix of rows (model@preset), tasks and seeds.

A cell is one run. This file lists the cells, finds the state of each in the home folder, estimates
what it costs, runs it through an executor, and compares two folders of results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Literal, get_args

from gsnobench.datasets.ensure import data_path
from gsnobench.declare import Executor, Limits
from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.files import is_locked
from gsnobench.home import Home
from gsnobench.plugins import dataset_named, listed, load
from gsnobench.records import RunResult, RunSpec, evidence_path
from gsnobench.registry import Registry, Track, read_registry, remember_file
from gsnobench.runs.calibrate import count_at_home
from gsnobench.runs.machine import Machine, Report, choose_device
from gsnobench.runs.plan import Plan, make_plan, with_seed
from gsnobench.runs.request import Request
from gsnobench.runs.run import finished_result, is_interrupted, keep_result, stamped

State = Literal["missing", "running", "done", "diverged", "declined", "failed", "stale"]
STATES: tuple[State, ...] = get_args(State)
CHANGEABLE: tuple[State, ...] = ("missing", "stale", "failed", "diverged")  # by another run


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of the matrix and its state."""

    plan: Plan
    state: State
    reason: str = ""
    result: RunResult | None = None
    label: str = ""  # the difference to others of the same row, task and seed

    @property
    def spec(self) -> RunSpec:
        return self.plan.spec

    @property
    def column(self) -> str:
        """Its task; with a data seed other than 0 it is another column of the matrix."""
        spec = self.spec
        return f"{spec.task} (data seed {spec.data_seed})" if spec.data_seed else spec.task

    def to_dict(self) -> dict[str, object]:
        """The cell as `status --json` prints it."""
        error = None if self.result is None else _error(self.result)
        own = {"state": self.state, "reason": self.reason, "rel_l2": error}
        return {**_identity(self.spec), **own}


def _identity(spec: RunSpec) -> dict[str, object]:
    """What names a cell in JSON documents."""
    return {
        "task": spec.task,
        "row": spec.row,
        "seed": spec.seed,
        "data_seed": spec.data_seed,
        "track": spec.track,
        "key": spec.short,
    }


def _error(result: RunResult) -> float | None:
    """The test error; None where it is not a number."""
    return None if math.isnan(result.headline) else result.headline


# ------------------------------------------------------------------------------------------- choice


@dataclass(frozen=True)
class Choice:
    """The requested part of the matrix; no models means all, no tasks the board's."""

    models: Sequence[str] = ()  # model, or model@preset
    datasets: Sequence[str] = ()
    seeds: Sequence[int] = (0, 1, 2)
    track: str = "laptop"
    t_in: Sequence[int] = ()
    data_seeds: Sequence[int] = (0,)


def matrix(choice: Choice, home: Home) -> list[Plan]:
    """The plans of all cells; every unknown name is one line before anything runs."""
    registry = read_registry(home=home)
    track = registry.track(choice.track)
    models = choice.models or _installed_models()
    rows = [row for name in models for row in _rows(name, track)]
    plans: dict[str, Plan] = {}
    for task in choice.datasets or registry.board_tasks:
        windows = _windows(task, choice.t_in, registry)
        for (model, preset), t_in, data_seed in product(rows, windows, choice.data_seeds):
            request = Request(
                model, task, preset=preset, track=choice.track, t_in=t_in, data_seed=data_seed
            )
            plan = make_plan(request, registry)
            with_seeds = [with_seed(plan, seed) for seed in seeds_of(plan, choice.seeds)]
            plans |= {plan.spec.key: plan for plan in with_seeds}
    return list(plans.values())


def _installed_models() -> list[str]:
    return [entry.name for entry in listed("model") if entry.problem is None]


def _windows(task: str, requested: Sequence[int], registry: Registry) -> Sequence[int | None]:
    """The requested numbers of given frames, or None for the task's own.

    Steady tasks, one-step tasks, ids with a window and files keep theirs.
    """
    if not requested or registry.file(task) is not None:
        return (None,)
    dataset = dataset_named(task)
    is_free = dataset.t_in > 0 and len(dataset.starts) == 1 and "@" not in task
    return requested if is_free else (None,)


def _rows(name: str, track: Track) -> list[tuple[str, str]]:
    """The rows of `model@preset`, or of a model: its default preset.

    If the default is an architecture of ours, the printed one is a second row.
    """
    model, _, preset = name.partition("@")
    if preset:
        return [(model, preset)]
    declared = load("model", model)
    default = declared.default_preset(track)
    rows = [(model, default)]
    if declared.presets[default].is_ours:
        rows += [(model, label) for label, other in declared.presets.items() if other.is_printed]
    return rows


def seeds_of(plan: Plan, seeds: Sequence[int]) -> Sequence[int]:
    """All seeds, or the first alone: a closed form has no seed, and a refusal needs no second."""
    is_closed = all(phase.solve is not None for phase in plan.phases)
    return seeds[:1] if plan.declined is not None or is_closed else seeds


# -------------------------------------------------------------------------------------------- state


def cell_of(plan: Plan, home: Home, evidence: Sequence[Path] = ()) -> Cell:
    """The state of one cell, as the home folder and further folders of results show it now."""
    key = plan.spec.key
    if is_locked(home.run_folder(key).lock):
        return Cell(plan, "running")
    folders = (home.results, *evidence)
    paths = [evidence_path(folder, plan.spec) for folder in folders]
    known = (result for path in paths if (result := _evidence(path, key)) is not None)
    try:
        result = finished_result(plan, home) or next(known, None)
    except DataError as error:  # one damaged file must not stop the others
        return Cell(plan, "failed", str(error))
    if result is not None and result.status != "pruned":
        return Cell(plan, result.status, result.reason, result)
    if plan.declined is not None:
        return Cell(plan, "declined", plan.declined)
    old = next((old for path in paths if (old := _older(plan.spec, path.parent))), None)
    if old is not None:
        return Cell(plan, "stale", _difference(old.spec, plan.spec), old)
    return Cell(plan, "missing", "interrupted" if is_interrupted(plan, home) else "")


def _evidence(path: Path, key: str) -> RunResult | None:
    if not path.exists():
        return None
    result = RunResult.load(path)
    return result if result.spec.key == key else None


def _older(spec: RunSpec, folder: Path) -> RunResult | None:
    """A result of the same row, task and seed whose key no longer matches."""
    for path in sorted(folder.glob("*.json")):
        result = RunResult.load(path)
        if (result.spec.seed, result.spec.data_seed) == (spec.seed, spec.data_seed):
            return result
    return None


def _difference(old: RunSpec, new: RunSpec) -> str:
    before, after = old.to_dict(), new.to_dict()
    changed = []
    for name, value in after.items():
        if isinstance(value, Mapping):
            entries = sorted({*value, *before[name]})
            different = [entry for entry in entries if value.get(entry) != before[name].get(entry)]
            changed += [f"{name}.{entry}" for entry in different]
        elif before[name] != value:
            changed.append(name)
    return f"{', '.join(changed[:3])}{' ...' if len(changed) > 3 else ''} changed"


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells in one of these states; a state that no run can change is refused."""
    for state in only:
        if state not in CHANGEABLE:
            raise ParamError(f"only: {state!r} cannot be run; {did_you_mean(state, CHANGEABLE)}")
    return [cell for cell in cells if cell.state in only]


# ----------------------------------------------------------------------------------------- estimate


@dataclass(frozen=True)
class Need:
    """What a cell will probably cost; None where nothing like it has been run."""

    cpu_s: float | None
    memory_mb: float | None


def need(cell: Cell, home: Home) -> Need:
    """The mean of finished cells of the same row and task, else the track's budget of time."""
    folder = evidence_path(home.results, cell.spec).parent
    earlier = [RunResult.load(path).costs for path in folder.glob("*.json")]
    earlier = [costs for costs in earlier if "train_cpu_s" in costs]
    if not earlier:
        budget = read_registry().track(cell.spec.track).train_cpu_s
        is_counted = cell.plan.is_counted or cell.plan.is_uncounted  # the first run counts it
        is_budgeted = is_counted and budget and any(cell.spec.steps.values())
        return Need(budget if is_budgeted else None, None)
    parts = ("prepare_warm_s", "train_cpu_s", "validate_cpu_s")
    spent = [sum(costs[part] for part in parts) for costs in earlier]
    return Need(mean(spent), max(costs["peak_mb"] for costs in earlier))


def cheap_first(cells: Iterable[Cell], home: Home) -> list[Cell]:
    """Closed forms first, then what is known to be short: a mistake shows early."""

    def price(cell: Cell) -> tuple[bool, float]:
        return any(cell.spec.steps.values()), need(cell, home).cpu_s or 1e9

    return sorted(cells, key=price)


# ---------------------------------------------------------------------------------------------- run


def count_missing(choice: Choice, home: Home, device: str, report: Report) -> int:
    """Count the steps of all pairs that nobody has counted; the home keeps them."""
    plans = [plan for plan in matrix(replace(choice, seeds=(0,)), home) if plan.is_uncounted]
    machine = Machine(home, choose_device(device), report=report)
    for plan in plans:
        if not plan.spec.has_features:  # it has the steps of the row without
            count_at_home(plan, machine)
    return len(plans)


def make_data(cells: Sequence[Cell], home: Home, report: Report) -> None:
    """Make the data of all cells by all cores, each file once, before a cell has to wait for it."""
    plans = {data_path(cell.plan.task, home.root): cell.plan for cell in cells if _needs_data(cell)}
    machine = Machine(home, choose_device("cpu"), report=report)
    for plan in plans.values():
        assert plan.dataset is not None
        machine.ensure_data(plan.dataset, plan.task)


def _needs_data(cell: Cell) -> bool:
    return cell.plan.dataset is not None and cell.plan.declined is None


def settle(cells: Iterable[Cell], home: Home) -> None:
    """Write what is known without a run: refusals, and a copy of a result that a kill prevented."""
    for cell in cells:
        if cell.state == "declined" and cell.result is None:
            keep_result(stamped(RunResult(cell.spec, "declined", cell.reason), cell.plan), home)
        elif cell.state == "done" and cell.result is not None:
            folder = home.run_folder(cell.spec.key)
            copies = (folder.result, evidence_path(home.results, cell.spec))
            if folder.path.exists() and not all(path.exists() for path in copies):
                keep_result(cell.result, home)


def run_cells(
    cells: Sequence[Cell], executor: Executor, limits: Limits, home: Home
) -> Iterator[Cell]:
    """Run cells; yields each when it has a result, which is kept here wherever it was computed."""
    for cell in cells:
        if cell.state in ("diverged", "failed"):  # requested again
            home.run_folder(cell.spec.key).result.unlink(missing_ok=True)
        if cell.plan.file is not None:  # other processes find it by its content
            remember_file(cell.spec.source, cell.plan.file, home)
    plans = {cell.spec.key: cell.plan for cell in cells}
    for result in executor.run([cell.spec for cell in cells], limits):
        if not home.run_folder(result.spec.key).result.exists():
            keep_result(result, home)
        yield cell_of(plans[result.spec.key], home)


# --------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Difference:
    """A spec with different test errors in two folders of results; None where there is none."""

    spec: RunSpec
    here: float | None
    there: float | None

    def to_dict(self) -> dict[str, object]:
        return {**_identity(self.spec), "here": self.here, "there": self.there}


def differences(here: Path, there: Path) -> list[Difference]:
    """Specs whose test error is in only one of two folders of results, or differs."""
    if not there.is_dir():
        raise DataError(f"{there}: no such folder; expected evidence such as leaderboards/results")
    ours, theirs = _results(here), _results(there)
    different = []
    for key in {*ours, *theirs}:
        errors = [_error(side[key]) if key in side else None for side in (ours, theirs)]
        if errors[0] != errors[1]:
            different.append(Difference((ours.get(key) or theirs[key]).spec, *errors))
    return sorted(different, key=_order)


def _order(difference: Difference) -> tuple[str, str, str, int, str]:
    spec = difference.spec
    return spec.track, spec.task, spec.row, spec.seed, spec.key


def _results(folder: Path) -> dict[str, RunResult]:
    """All results of a folder by key."""
    results = [RunResult.load(path) for path in folder.rglob("*.json")]
    return {result.spec.key: result for result in results}
