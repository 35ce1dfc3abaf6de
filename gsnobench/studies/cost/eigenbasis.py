"""What eigenbases cost: cold against warm, three solvers, and the share of a long training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch

from gsnobench.boards.reproduction.paper import PaperNumbers, read_paper
from gsnobench.data import Mesh
from gsnobench.datasets.store import open_file
from gsnobench.files import Cache
from gsnobench.meshes.modes import Solver, eigenbasis
from gsnobench.params import words_of
from gsnobench.registry import read_registry
from gsnobench.runs.costs import describe_environment
from gsnobench.runs.request import Request
from gsnobench.studies.base import Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Cost
from gsnobench.studies.cost.measuring import done, failures, measured, pooled, quartiles
from gsnobench.studies.cost.probe import Probe, Reading, small
from gsnobench.studies.cost.steps import BUDGET, Case, cases_of, measure, subject_of
from gsnobench.studies.figures import colours, legend_right, log_y, new_page, style

SOLVERS: tuple[Solver, ...] = ("lanczos", "lobpcg", "multigrid")
MODES = 8  # of the printed operator
GEOMETRIES = 3  # that are measured where every sample has its own mesh
EPOCHS = 1000  # of the paper's training, over which a basis is amortised
SHOWN: Solver = "lanczos"  # ours; the reproduction ledger reads it


@dataclass(frozen=True, kw_only=True)
class BasisProbe(Probe):
    """The lowest modes of a file's meshes by one solver, computed and then read from a cache."""

    file: str
    solver: str

    def read(self) -> Reading:
        """CPU-seconds of each mesh."""
        with open_file(Path(self.home) / self.file) as opened, TemporaryDirectory() as name:
            meshes, cache = opened.split("train").meshes, Cache(Path(name))
            solver = cast("Solver", self.solver)
            work = [partial(_basis, cache, mesh, solver) for mesh in meshes]
            seconds = {
                "cold": [_cpu_s(own) for own in work],
                "warm": [_cpu_s(own) for own in work],
            }
        return Reading(seconds, describe_environment(torch.device("cpu")))


def _basis(cache: Cache, mesh: Mesh, solver: Solver) -> object:
    """The printed operator's basis, through a cache as a run has it."""

    def compute() -> dict[str, Any]:
        basis = eigenbasis(mesh, MODES, kind="gaussian", solver=solver)
        return {"values": basis.values, "vectors": basis.vectors, "mass": basis.mass}

    return cache.arrays("cost", {"mesh": mesh.key, "solver": solver}, compute)


def _cpu_s(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@dataclass(frozen=True)
class Preparation:
    """The bases of one task by one solver."""

    task: str
    nodes: int
    solver: str
    geometries: int
    cold_s: tuple[float, float, float]  # quartiles per geometry
    warm_s: float
    epoch_s: float  # of the printed operator; 0 where it was not measured

    @property
    def total_s(self) -> float:
        return self.cold_s[1] * self.geometries

    @property
    def overhead(self) -> float:
        """Percent of the training that computing all bases adds; 0 where unknown."""
        return 100 * self.total_s / (EPOCHS * self.epoch_s) if self.epoch_s else 0.0


def study(options: Cost, template: Request, engine: Engine) -> Study:
    """Bases of every task, beside the epochs of the model that the paper is about."""
    subject = subject_of(options, template, engine, "eigenbasis")
    model = options.models or read_registry().checked_model
    options = replace(options, models=model)
    cases = list(cases_of(options, template, engine))
    title = f"{', '.join(words_of(options.datasets))}, {MODES} modes, track {options.track}"
    return Study(
        name="cost",
        subject=subject,
        title=f"Eigenbases of {title}",
        budget=BUDGET,
        arms=(),
        conclude=partial(conclude, title, options, cases, engine),
    )


def prepare(
    options: Cost, cases: Sequence[Case], engine: Engine
) -> tuple[list[Preparation], list[str]]:
    """Readings of all solvers in turn, and why some have none."""
    probes = {}
    for case in cases:
        few = small(case.plan, 1 if case.plan.task.fixed_mesh else GEOMETRIES)
        assert few.dataset is not None  # a study refuses files
        path = engine.machine.ensure_data(few.dataset, few.task)
        for solver in SOLVERS:
            probes[f"{case.plan.task.id} by {solver}"] = BasisProbe(
                file=str(path.relative_to(engine.home.root)),
                solver=solver,
                home=str(engine.home.root),
            )
    readings = measured(probes, options.rounds, engine)
    epochs, lost = measure(options, [case for case in cases if not case.plan.declined], engine)
    epoch_s = {own.case.plan.task.id: own.epoch_s for own in epochs}
    made, notes = [], [f"{label}: {reason}" for label, reason in lost.items()]
    for case in cases:
        task = case.plan.task
        for solver in SOLVERS:
            own = readings[f"{task.id} by {solver}"]
            if reasons := failures(own):
                notes.append(f"{task.id} by {solver}: {reasons[0]}")
                continue
            count = 1 if task.fixed_mesh else task.sizes["train"]
            cold, warm = (pooled(done(own), name) for name in ("cold", "warm"))
            timed = (quartiles(cold), quartiles(warm)[1], epoch_s.get(task.id, 0.0))
            made.append(Preparation(task.id, task.resolution, solver, count, *timed))
    return made, notes


def conclude(
    title: str, options: Cost, cases: Sequence[Case], engine: Engine, rows: Sequence[Row]
) -> Findings:
    """One table, a figure, and the largest share of a training."""
    del rows  # nothing was trained
    made, notes = prepare(options, cases, engine)
    sentence = " ".join([_sentence(made), *(f"{note}." for note in notes)])
    entries = [_entry(own, case, options) for case in cases for own in made if _is_of(own, case)]
    return Findings(
        sentence=sentence,
        tables=[_table(title, made, read_paper())],
        numbers={"measured": entries, "not_measured": notes},
        draw=partial(_draw, title, made),
        lines=(_HEADER, [_line(own) for own in made]),
    )


def _is_of(own: Preparation, case: Case) -> bool:
    return own.solver == SHOWN and own.task == case.plan.task.id


def _entry(own: Preparation, case: Case, options: Cost) -> dict[str, Any]:
    """As the reproduction ledger reads it; one geometry is computed at a time."""
    costs = {
        "geometries": own.geometries,
        "eigen_s_per_geometry": own.cold_s[1],
        "eigen_batch": 1,
        "eigen_total_s": own.total_s,
    }
    if own.epoch_s:
        costs |= {"train_s_per_epoch": own.epoch_s, "eigen_overhead_percent": own.overhead}
    facts = {"row": case.row, "task": own.task, "nodes": own.nodes, "device": "cpu"}
    sizes = {"samples": case.plan.task.sizes["train"], "track": options.track}
    return {**facts, **sizes, "solver": own.solver, "costs": costs}


_HEADER = ("task", "nodes", "solver", "geometries", "cold_s", "warm_s", "epoch_s", "overhead")


def _line(own: Preparation) -> list[Any]:
    return [
        *(own.task, own.nodes, own.solver, own.geometries, own.cold_s[1], own.warm_s),
        *(own.epoch_s or "", own.overhead or ""),
    ]


def _printed(paper: PaperNumbers, task: str) -> Mapping[str, float]:
    """The paper's line of a dataset: metric -> number."""
    return {
        own.metric: own.value
        for own in paper.numbers
        if own.dataset == task.split("@")[0] and own.metric.startswith("eigen_")
    }


def _table(title: str, made: Sequence[Preparation], paper: PaperNumbers) -> Table:
    header = ["task", "nodes", "solver", "cold, CPU-ms per geometry", "from the cache, CPU-ms"]
    header += ["geometries", "all of them, CPU-s", "paper's s", "CPU-s per epoch"]
    header += [f"share of {EPOCHS} epochs, %", "paper's %"]
    lines = []
    for own in made:
        printed = _printed(paper, own.task)
        low, middle, high = (1000 * value for value in own.cold_s)
        total, share = (
            f"{printed[name]:.3g}" if name in printed else "-"
            for name in ("eigen_total_s", "eigen_overhead_percent")
        )
        lines.append(
            [
                *(own.task, str(own.nodes), own.solver),
                *(f"{middle:.3g} [{low:.3g}, {high:.3g}]", f"{1000 * own.warm_s:.3g}"),
                *(str(own.geometries), f"{own.total_s:.3g}", total),
                *(f"{own.epoch_s:.3g}" if own.epoch_s else "-",),
                *(f"{own.overhead:.2g}" if own.epoch_s else "-", share),
            ]
        )
    return Table(f"{title}: eigenbases", header, lines)


def _sentence(made: Sequence[Preparation]) -> str:
    if not made:
        return "Nothing could be measured."
    ours = [own for own in made if own.solver == SHOWN] or list(made)
    largest = max(ours, key=lambda own: own.overhead)
    most = "pays most:" if len({own.task for own in ours}) > 1 else "pays"
    words = f"{largest.task} {most} {largest.total_s:.3g} CPU-s for {largest.geometries} "
    words += "bases" if largest.geometries > 1 else "basis"
    share = f", {largest.overhead:.2g} % of {EPOCHS} epochs" if largest.epoch_s else ""
    by_task = {own.task: own.cold_s[1] for own in ours}
    slower = [
        own.cold_s[1] / by_task[own.task]
        for own in made
        if own.solver == "lobpcg" and by_task.get(own.task)
    ]
    if slower:
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(slower), max(slower)))
        share += f"; LOBPCG takes {' to '.join(ends)} times as long"
    return f"{words}{share}."


def _draw(title: str, made: Sequence[Preparation], path: Path) -> None:
    """CPU-seconds per geometry of every task, one marker per solver, the cache as a line below."""
    tasks = list(dict.fromkeys(own.task for own in made))
    page = new_page(3.2 + 0.75 * max(len(tasks), 4), 3.9, "What an eigenbasis costs", title)
    axes = page.axes(0.85, 0.85, 0.75 * max(len(tasks), 4), 2.45)
    for solver, (colour, marker) in colours([own.solver for own in made]).items():
        mine = [own for own in made if own.solver == solver]
        places = [tasks.index(own.task) for own in mine]
        axes.plot(places, [own.cold_s[1] for own in mine], marker, color=colour, label=solver)
        warm = [max(own.warm_s, 1e-6) for own in mine]
        axes.plot(places, warm, "_", color=colour, ms=10, label=f"{solver}, from the cache")
    style(axes, "", "CPU-seconds per geometry")
    axes.set_xticks(range(len(tasks)), [task.split("@")[0] for task in tasks], rotation=30)
    axes.set_xlim(-0.5, max(len(tasks), 4) - 0.5)
    log_y(axes)
    legend_right(axes, *axes.get_legend_handles_labels())
    page.save(path)
