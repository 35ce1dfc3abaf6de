"""Time to a given error: finished runs of models beside the dataset's own solver on coarser meshes.

A surrogate is worth its training only where the solver is slower at the same error. The solver's
error on a mesh is that of its solution interpolated to the finest mesh, against the solution there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from gsnobench.boards.evidence import evidence_folders
from gsnobench.data import Task
from gsnobench.datasets.generate import Maker
from gsnobench.errors import ParamError
from gsnobench.files import Cache
from gsnobench.home import Home
from gsnobench.params import words_of
from gsnobench.plugins import dataset_named
from gsnobench.records import RunResult, RunSpec
from gsnobench.runs.costs import describe_environment
from gsnobench.runs.plan import plan_of_spec
from gsnobench.runs.request import Request
from gsnobench.studies.base import Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Cost
from gsnobench.studies.cost.measuring import done, failures, measured, pooled, quartiles
from gsnobench.studies.cost.probe import Probe, Reading
from gsnobench.studies.cost.steps import BUDGET, Case, cases_of, subject_of
from gsnobench.studies.figures import colours, legend_right, log_y, new_page, style
from gsnobench.studies.yardstick import Truth, check_meshes, headlines, onto, true_frames

PREPARED = "prepare_cold_s"  # older results do not state it
SAMPLES = 8  # test samples whose solutions are compared and timed


@dataclass(frozen=True, kw_only=True)
class SolverProbe(Probe):
    """A few samples of a dataset's solver on one mesh, after its set-up; a spec names both."""

    spec: Mapping[str, Any]
    samples: int

    def read(self) -> Reading:
        """CPU-seconds of every sample; what all samples share is computed before."""
        plan = plan_of_spec(RunSpec(**self.spec))
        assert plan.dataset is not None
        maker = Maker(plan.dataset, plan.task, Path(self.home), Cache(Path(self.home) / "cache"))
        setup, spent = maker.setup, []
        for index in range(self.samples):
            begun = time.process_time()
            list(plan.dataset.generate(setup, plan.task.data_seed, "test", [index]))
            spent.append(time.process_time() - begun)
        environment = describe_environment(torch.device("cpu"))
        return Reading({"sample": spent[1:] or spent}, environment)


@dataclass(frozen=True)
class Solved:
    """The solver on one mesh."""

    nodes: int
    error: float  # against the finest mesh; 0 there
    sample_s: tuple[float, float, float]


@dataclass(frozen=True)
class Reached:
    """A row at the moment its validation error fell to a level; none if it never did."""

    row: str
    level: float
    train_s: float | None  # CPU-seconds of training until then, mean over seeds
    prepare_s: float
    data_s: float  # of solving its training samples
    sample_s: float  # of one prediction
    solver: Solved | None  # the cheapest mesh whose solution is at least that good

    @property
    def total_s(self) -> float | None:
        return None if self.train_s is None else self.train_s + self.prepare_s + self.data_s

    @property
    def pays_after(self) -> float | None:
        """Predictions after which the model has cost less than the solver; None: never."""
        if self.total_s is None or self.solver is None:
            return None
        gain = self.solver.sample_s[1] - self.sample_s
        return self.total_s / gain if gain > 0 else None


def study(options: Cost, template: Request, engine: Engine) -> Study:
    """The solver on all meshes, and the runs of the rows on the task's own mesh."""
    levels = _levels(options.errors)
    datasets = words_of(options.datasets)
    if len(datasets) != 1 or len(words_of(options.meshes)) < 2:
        raise ParamError(
            "cost: --errors needs one task and at least two --meshes, the finest of which is the "
            "truth, for example --datasets darcy --meshes 298,600,1184"
        )
    cases = list(cases_of(options, template, engine))
    own = list(cases_of(replace(options, meshes=""), template, engine))
    task = own[0].plan.task
    check_meshes(task)
    title = f"{task.id}, track {options.track}"
    return Study(
        name="cost",
        subject=subject_of(options, template, engine, "errors"),
        title=f"Time to an error on {title}",
        budget=f"{BUDGET}; runs are those on record, none is made",
        arms=(),
        conclude=partial(conclude, title, options, levels, cases, own, engine),
    )


def _levels(text: str) -> list[float]:
    try:
        levels = sorted({float(word) for word in words_of(text)}, reverse=True)
    except ValueError:
        levels = []
    if not levels or not all(0 < level < 1 for level in levels):
        raise ParamError(f"errors: {text!r} is no list of errors; expected for example 0.05,0.02")
    return levels


# ----------------------------------------------------------------------------------------- measured


def solve(options: Cost, cases: Sequence[Case], engine: Engine) -> tuple[list[Solved], list[str]]:
    """Error and seconds of the solver on every mesh, coarse to fine."""
    by_nodes = {case.plan.task.resolution: case.plan for case in cases}
    tasks: dict[int, Task] = {
        nodes: replace(plan.task, sizes={"test": SAMPLES}) for nodes, plan in by_nodes.items()
    }
    truth = Truth(engine.machine, dataset_named(options.datasets), tasks)
    probes = {
        f"the solver on {nodes} nodes": SolverProbe(
            spec=plan.spec.to_dict(), samples=SAMPLES, home=str(engine.home.root)
        )
        for nodes, plan in by_nodes.items()
    }
    readings = measured(probes, options.rounds, engine)
    finest = max(tasks)
    solved, notes = [], []
    for nodes, task in sorted(tasks.items()):
        own = readings[f"the solver on {nodes} nodes"]
        if reasons := failures(own):
            notes.append(f"the solver on {nodes} nodes: {reasons[0]}")
            continue
        error = _error(truth, task, nodes, finest) if nodes != finest else 0.0
        solved.append(Solved(nodes, error, quartiles(pooled(done(own), "sample"))))
    return solved, notes


def _error(truth: Truth, task: Task, nodes: int, finest: int) -> float:
    """The coarse solution on the finest mesh, against the solution there."""
    coarse, fine = truth.of(nodes), truth.of(finest)
    moved = onto(true_frames(coarse, task), coarse.mesh(0), fine.mesh(0))
    return mean(headlines(moved, true_frames(fine, task), fine.mesh(0), task))


def runs_of(case: Case, home: Home) -> list[RunResult]:
    """Finished runs of an unmodified row on record, in this home and in the source tree."""
    spec, found = case.plan.spec, dict[str, RunResult]()
    for root in evidence_folders(home):
        for path in sorted((root / spec.track / spec.task / spec.row).glob("*.json")):
            result = RunResult.load(path)
            is_row = result.status == "done" and not result.changed
            if is_row and result.spec.resolution == spec.resolution:
                found.setdefault(result.spec.key, result)
    return list(found.values())


def train_s(result: RunResult, level: float) -> float | None:
    """CPU-seconds of training until validation first fell to a level; None if it never did.

    A step costs the mean of all steps; the preparation of a closed form counts as a whole.
    """
    steps, total = result.spec.steps, sum(result.spec.steps.values())
    before, offset, name = 0, 0, ""
    for point in result.curve:
        if point["phase"] != name:
            offset, name = before, point["phase"]
        before = offset + steps.get(name, 0)
        valid = point.get("valid")
        if valid is not None and valid <= level:
            share = (offset + point["step"]) / total if total else 1.0
            return share * result.costs["train_cpu_s"]
    return None


def reach(case: Case, level: float, runs: Sequence[RunResult], solved: Sequence[Solved]) -> Reached:
    """One row at one level, mean over its seeds; a seed that never got there is no mean."""
    spent = [train_s(run, level) for run in runs]
    known = [seconds for seconds in spent if seconds is not None]
    good = [own for own in solved if 0 < own.error <= level]
    at_home = [own for own in solved if own.nodes == case.plan.task.resolution]
    per_sample = at_home[0].sample_s[1] if at_home else 0.0
    return Reached(
        row=case.row,
        level=level,
        train_s=mean(known) if known and len(known) == len(spent) else None,
        prepare_s=mean(run.costs.get(PREPARED, 0.0) for run in runs),
        data_s=per_sample * case.plan.task.sizes["train"],
        sample_s=mean(run.costs["inference_s"] for run in runs),
        solver=min(good, key=lambda own: own.sample_s[1], default=None),
    )


# ------------------------------------------------------------------------------------------- answer


def conclude(
    title: str,
    options: Cost,
    levels: Sequence[float],
    cases: Sequence[Case],
    own: Sequence[Case],
    engine: Engine,
    rows: Sequence[Row],
) -> Findings:
    """Both tables, and from which number of predictions on a model pays."""
    del rows  # nothing was trained
    solved, notes = solve(options, cases, engine)
    reached: list[Reached] = []
    for case in own:
        runs = runs_of(case, engine.home)
        reached += [reach(case, level, runs, solved) for level in levels if runs]
        if not runs:
            notes.append(f"{case.row}: no run on record; `gsnobench bench` makes one")
        elif any(PREPARED not in run.costs for run in runs):
            notes.append(f"{case.row}: older runs do not state their preparation, which counts 0")
    sentence = " ".join([_sentence(solved, reached), *(f"{note}." for note in notes)])
    totals = [asdict(entry) | {"pays_after": entry.pays_after} for entry in reached]
    return Findings(
        sentence=sentence,
        tables=[_solver_table(title, solved), *_reached_tables(title, reached)],
        numbers={"solver": [asdict(entry) for entry in solved], "reached": totals},
        draw=partial(_draw, title, solved, reached),
        lines=(_HEADER, list(_lines(solved, reached))),
    )


_HEADER = ("row", "error", "nodes", "train_s", "prepare_s", "data_s", "sample_s", "pays_after")


def _lines(solved: Sequence[Solved], reached: Sequence[Reached]) -> Iterator[list[Any]]:
    for own in solved:
        yield ["the solver", own.error, own.nodes, "", "", "", own.sample_s[1], ""]
    for entry in reached:
        seconds = [entry.train_s or "", entry.prepare_s, entry.data_s, entry.sample_s]
        yield [entry.row, entry.level, "", *seconds, entry.pays_after or ""]


def _solver_table(title: str, solved: Sequence[Solved]) -> Table:
    lines = []
    for own in solved:
        low, middle, high = (1000 * value for value in own.sample_s)
        error = f"{own.error:.3g}" if own.error else "0 (the truth)"
        lines.append([str(own.nodes), error, f"{middle:.3g} [{low:.3g}, {high:.3g}]"])
    header = ["nodes", "error on the finest mesh", "CPU-ms per sample"]
    return Table(f"{title}: the dataset's solver", header, lines)


def _reached_tables(title: str, reached: Sequence[Reached]) -> list[Table]:
    header = ["error", "row", "training, CPU-s", "with bases and data, CPU-s"]
    header += ["ms per sample, on record"]
    header += ["solver at that error", "its CPU-ms per sample", "pays after"]
    lines = [
        [
            *(f"{own.level:g}", own.row),
            *("never" if own.train_s is None else f"{own.train_s:.3g}",),
            *("-" if own.total_s is None else f"{own.total_s:.3g}", f"{1000 * own.sample_s:.3g}"),
            *("none" if own.solver is None else f"{own.solver.nodes} nodes",),
            *("-" if own.solver is None else f"{1000 * own.solver.sample_s[1]:.3g}",),
            *("never" if own.pays_after is None else f"{own.pays_after:.0f} samples",),
        ]
        for own in sorted(reached, key=lambda own: -own.level)
    ]
    return (
        [Table(f"{title}: rows and the solver at the same error", header, lines)] if lines else []
    )


def _sentence(solved: Sequence[Solved], reached: Sequence[Reached]) -> str:
    coarse = [own for own in solved if own.error]
    if not coarse:
        return "The solver could not be measured."
    best = min(coarse, key=lambda own: own.error)
    words = f"The solver has an error of {best.error:.2g} on {best.nodes} nodes in "
    words += f"{1000 * best.sample_s[1]:.3g} CPU-ms per sample."
    known = [own for own in reached if own.pays_after is not None]
    if not known:
        return words + (" No row pays for its training at these errors." if reached else "")
    first = min(known, key=lambda own: (own.level, own.pays_after or 0.0))
    return (
        f"{words} At an error of {first.level:g} {first.row} has paid for itself after "
        f"{first.pays_after:.0f} samples."
    )


def _draw(title: str, solved: Sequence[Solved], reached: Sequence[Reached], path: Path) -> None:
    """Error over CPU-milliseconds per sample: the solver as a line, rows as markers."""
    page = new_page(7.4, 3.9, "Error against the time of one sample", title)
    axes = page.axes(0.75, 0.85, 4.3, 2.45)
    line = [(1000 * own.sample_s[1], own.error) for own in solved if own.error]
    axes.plot(*zip(*line, strict=True) if line else ([], []), "ko-", ms=4, label="the solver")
    best = {own.row: own for own in reached if own.train_s is not None}  # the smallest level last
    for row, (colour, marker) in colours(best).items():
        own = best[row]
        axes.plot([1000 * own.sample_s], [own.level], marker, color=colour, label=row)
    style(axes, "milliseconds per sample", "relative L2 error")
    axes.set_xscale("log")
    log_y(axes)
    legend_right(axes, *axes.get_legend_handles_labels())
    page.save(path)
