"""Seconds, memory and operations of training steps and forwards, over meshes and windows.

Nothing is trained: a few steps are timed on a few samples. An epoch is the steps that the track's
training samples need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from gsnobench.boards.reproduction.counterparts import is_task
from gsnobench.boards.reproduction.paper import PaperNumbers, read_paper
from gsnobench.errors import ParamError
from gsnobench.files import digest
from gsnobench.params import above_zero, words_of
from gsnobench.plugins import listed, load
from gsnobench.registry import read_registry
from gsnobench.runs.machine import choose_device
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.studies.base import Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Cost
from gsnobench.studies.cost.measuring import done, failures, measured, pooled, quartiles
from gsnobench.studies.cost.probe import Kind, ModelProbe, Reading, small
from gsnobench.studies.figures import (
    colours,
    draw_curve,
    legend_right,
    log_x,
    log_y,
    new_page,
    style,
)
from gsnobench.studies.statistics import slope
from gsnobench.training.optimisation import steps_per_epoch

WARM, TIMED = 3, 5  # calls of one process
KINDS: tuple[Kind, ...] = ("train", "forward")
NODES, FRAMES = "mesh nodes", "given frames"
BUDGET = (
    "nothing is trained; every number is the median of timed calls in processes of their own, in "
    "turn, on one thread; quartiles in brackets"
)
# our cost -> the paper's name of it
PRINTED = {
    "train_s_per_epoch": "train_s_per_epoch",
    "inference_s_per_batch": "inference_s_per_batch",
    "train_mb": "peak_train_gpu_mb",
    "inference_mb": "inference_gpu_mb",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One row on one task and mesh."""

    row: str
    plan: Plan

    @property
    def label(self) -> str:
        task = self.plan.task
        return f"{self.row} on {task.id}, {task.resolution} nodes"


@dataclass(frozen=True, eq=False)
class Costs:
    """What one case costs."""

    case: Case
    step_s: tuple[float, float, float]  # quartiles of a step, all phases by their share
    forward_s: tuple[float, float, float]
    epoch_s: float
    train_mb: float
    forward_mb: float
    step_flops: float
    forward_flops: float
    parameters: int

    @property
    def by_name(self) -> dict[str, float]:
        return {
            "train_s_per_epoch": self.epoch_s,
            "inference_s_per_batch": self.forward_s[1],
            "train_mb": self.train_mb,
            "inference_mb": self.forward_mb,
            "step_flops": self.step_flops,
            "forward_flops": self.forward_flops,
            "parameters": float(self.parameters),
        }


def study(options: Cost, template: Request, engine: Engine) -> Study:
    """Every row on every task, mesh and window."""
    cases = list(cases_of(options, template, engine))
    usable = [case for case in cases if case.plan.declined is None]
    declined = {f"{case.label}: {case.plan.declined}" for case in cases if case not in usable}
    if not usable:
        raise ParamError(f"cost: no row can be measured; {'; '.join(sorted(declined))}")
    title = f"{', '.join(words_of(options.datasets))}, batch {options.batch}, track {options.track}"
    return Study(
        name="cost",
        subject=subject_of(options, template, engine, f"b{options.batch}"),
        title=title,
        budget=BUDGET,
        arms=(),
        conclude=partial(conclude, title, options, usable, sorted(declined), engine),
    )


def subject_of(options: Cost, template: Request, engine: Engine, *words: str) -> str:
    """The name of the study's folder; other rows, meshes, windows and knobs have another one."""
    parts = [*words, *words_of(options.datasets), options.track]
    device = choose_device(engine.limits.device).type
    choice: list[object] = [options.models, options.meshes, options.t_in, options.errors]
    choice += ["" if device == "cpu" else device, dict(template.knobs or {})]
    choice += [template.data_seed, template.resolution]
    return "-".join([*parts, *([digest(choice)[:6]] if any(choice) else [])])


def cases_of(options: Cost, template: Request, engine: Engine) -> Iterator[Case]:
    """Plans of all combinations; a wrong name is one line."""
    registry = read_registry(home=engine.home)
    meshes = above_zero(options.meshes, "meshes") if options.meshes else [None]
    windows = above_zero(options.t_in, "t-in") if options.t_in else [None]
    for dataset, nodes, t_in in product(words_of(options.datasets), meshes, windows):
        for row in rows_of(options):
            model, _, preset = row.partition("@")
            request = replace(
                template, model=model, preset=preset, dataset=dataset, resolution=nodes, t_in=t_in
            )
            yield Case(row, make_plan(request, registry))


def rows_of(options: Cost) -> list[str]:
    """The rows of the option; a model alone, and by default every trained one, as printed."""
    words = words_of(options.models) or [
        entry.name
        for entry in listed("model")
        if entry.problem is None and not load("model", entry.name).is_floor
    ]
    rows = []
    for word in words:
        model, _, preset = word.partition("@")
        presets = load("model", model).presets
        printed = next((name for name, own in presets.items() if own.is_paper), next(iter(presets)))
        rows.append(f"{model}@{preset or printed}")
    return list(dict.fromkeys(rows))


# ----------------------------------------------------------------------------------------- measured


def measure(
    options: Cost, cases: Sequence[Case], engine: Engine
) -> tuple[list[Costs], dict[str, str]]:
    """Costs of the cases, and why some have none."""
    samples = max([options.batch, *(case.plan.train.batch for case in cases)])
    for case in cases:
        few = small(case.plan, samples)
        assert few.dataset is not None  # a study refuses files
        engine.machine.ensure_data(few.dataset, few.task)
    shared = {"samples": samples, "warm": WARM, "timed": TIMED, "home": str(engine.home.root)}
    probes = {
        (case.label, kind): ModelProbe(
            spec=case.plan.spec.to_dict(),
            kind=kind,
            batch=options.batch,
            device=engine.limits.device,
            **shared,  # type: ignore[arg-type]
        )
        for case in cases
        for kind in KINDS
    }
    named = {f"{label}: {kind}": probe for (label, kind), probe in probes.items()}
    readings = measured(named, options.rounds, engine)
    costs, lost = [], {}
    for case in cases:
        train, forward = (readings[f"{case.label}: {kind}"] for kind in KINDS)
        if reasons := [*failures(train), *failures(forward)]:
            lost[case.label] = reasons[0]
        else:
            costs.append(costs_of(case, done(train), done(forward)))
    return costs, lost


def costs_of(case: Case, train: Sequence[Reading], forward: Sequence[Reading]) -> Costs:
    """All rounds of one case together."""
    plan = case.plan
    phases = list(train[0].seconds)
    planned = [max(plan.spec.steps.get(name, 0), 1) for name in phases]
    shares = [steps / sum(planned) for steps in planned]
    by_phase = [quartiles(pooled(train, name)) for name in phases]
    step = tuple(
        sum(share * own[number] for share, own in zip(shares, by_phase, strict=True))
        for number in range(3)
    )
    per_epoch = steps_per_epoch(plan.task.sizes["train"], len(plan.task.starts), plan.train)
    return Costs(
        case=case,
        step_s=(step[0], step[1], step[2]),
        forward_s=quartiles(pooled(forward, "forward")),
        epoch_s=step[1] * per_epoch,
        train_mb=quartiles([reading.mb for reading in train])[1],
        forward_mb=quartiles([reading.mb for reading in forward])[1],
        step_flops=train[0].flops,
        forward_flops=forward[0].flops,
        parameters=train[0].parameters,
    )


# ------------------------------------------------------------------------------------------- answer


def conclude(
    title: str,
    options: Cost,
    cases: Sequence[Case],
    declined: Sequence[str],
    engine: Engine,
    rows: Sequence[Row],
) -> Findings:
    """Two tables, a figure, and how the seconds grow."""
    del rows  # nothing was trained
    costs, lost = measure(options, cases, engine)
    paper = read_paper()
    notes = [*declined, *(f"{label}: {reason}" for label, reason in lost.items())]
    sentence = " ".join([_sentence(costs), *(f"{note}." for note in notes)])
    device = engine.limits.device
    entries = [entry_of(own, options, device) for own in costs]
    return Findings(
        sentence=sentence,
        tables=[_seconds_table(title, costs, options, paper), _memory_table(title, costs, paper)],
        numbers={"measured": entries, "not_measured": notes},
        draw=partial(_draw, title, costs),
        lines=(_HEADER, [_line(own) for own in costs]),
    )


def entry_of(own: Costs, options: Cost, device: str) -> dict[str, Any]:
    """As the reproduction ledger reads it."""
    task = own.case.plan.task
    facts = {"row": own.case.row, "task": task.id, "nodes": task.resolution, "device": device}
    sizes = {"samples": task.sizes["train"], "batch": options.batch, "track": options.track}
    return {
        **facts,
        **sizes,
        "step_s": own.step_s,
        "forward_s": own.forward_s,
        "costs": own.by_name,
    }


def printed(paper: PaperNumbers, case: Case, cost: str) -> str:
    """The paper's number of a cost on the same mesh; a dash where it prints none."""
    task, model = case.plan.task, case.row.split("@")[0]
    for own in paper.numbers:
        is_case = own.model == model and own.nodes == task.resolution and not own.field
        if is_case and own.metric == PRINTED.get(cost) and is_task(own, task.id):
            return f"{own.value:g}"
    return "-"


def _seconds_table(title: str, costs: Sequence[Costs], options: Cost, paper: PaperNumbers) -> Table:
    header = ["row", "task", "nodes", "samples", "batch", "CPU-ms per step", "CPU-s per epoch"]
    header += ["times the first row", "paper's s per epoch, V100"]
    header += [f"CPU-ms per forward of {options.batch}", "paper's s per batch, V100"]
    lines = []
    for own in costs:
        plan = own.case.plan
        first = next(other for other in costs if _is_beside(other, own))
        lines.append(
            [
                *(own.case.row, plan.task.id, str(plan.task.resolution)),
                *(str(plan.task.sizes["train"]), str(plan.train.batch)),
                *(_milliseconds(own.step_s), f"{own.epoch_s:.3g}"),
                f"{own.epoch_s / first.epoch_s:.2f}",
                printed(paper, own.case, "train_s_per_epoch"),
                _milliseconds(own.forward_s),
                printed(paper, own.case, "inference_s_per_batch"),
            ]
        )
    return Table(f"{title}: seconds", header, lines)


def _is_beside(other: Costs, own: Costs) -> bool:
    mine, theirs = own.case.plan.task, other.case.plan.task
    return (theirs.id, theirs.resolution) == (mine.id, mine.resolution)


def _milliseconds(seconds: tuple[float, float, float]) -> str:
    low, middle, high = (1000 * value for value in seconds)
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def _memory_table(title: str, costs: Sequence[Costs], paper: PaperNumbers) -> Table:
    header = ["row", "task", "nodes", "MB of a step", "paper's, V100", "MB of a forward"]
    header += ["paper's, V100", "GFLOP per step", "GFLOP per forward", "parameters"]
    lines = []
    for own in costs:
        task = own.case.plan.task
        lines.append(
            [
                *(own.case.row, task.id, str(task.resolution)),
                *(f"{own.train_mb:.0f}", printed(paper, own.case, "train_mb")),
                *(f"{own.forward_mb:.0f}", printed(paper, own.case, "inference_mb")),
                *(f"{own.step_flops / 1e9:.3g}", f"{own.forward_flops / 1e9:.3g}"),
                f"{own.parameters:,}",
            ]
        )
    return Table(f"{title}: memory, operations and parameters", header, lines)


_HEADER = ("row", "task", "nodes", "step_s", "forward_s", *PRINTED, "step_flops", "forward_flops")
_HEADER = (*_HEADER, "parameters")


def _line(own: Costs) -> list[Any]:
    task, costs = own.case.plan.task, own.by_name
    numbers = [costs[name] for name in _HEADER[5:]]
    return [own.case.row, task.id, task.resolution, own.step_s[1], own.forward_s[1], *numbers]


def _axis(costs: Sequence[Costs]) -> str:
    """What the epochs are shown over: nodes, or given frames where every problem has one mesh."""
    tasks = [own.case.plan.task for own in costs]
    problems = {task.base for task in tasks}
    has_meshes = len({(task.base, task.resolution) for task in tasks}) > len(problems)
    has_windows = len({task.id for task in tasks}) > len(problems)
    return FRAMES if has_windows and not has_meshes else NODES


def _by_row(costs: Sequence[Costs]) -> dict[str, dict[float, float]]:
    """Row -> nodes or given frames -> seconds per epoch; what the axis leaves out names the row."""
    axis, tasks = _axis(costs), [own.case.plan.task for own in costs]
    has_names = len({task.id if axis == NODES else task.base for task in tasks}) > 1
    table: dict[str, dict[float, float]] = {}
    for own, task in zip(costs, tasks, strict=True):
        name = f" on {task.id if axis == NODES else task.base}" if has_names else ""
        x = task.resolution if axis == NODES else task.t_in
        table.setdefault(own.case.row + name, {})[float(x)] = own.epoch_s
    return table


def _sentence(costs: Sequence[Costs]) -> str:
    """The cheapest and the dearest row, and how the seconds of each grow with the nodes."""
    if not costs:
        return "Nothing could be measured."
    table = _by_row(costs)
    x = max(x for by_x in table.values() for x in by_x)
    at = {name: by_x[x] for name, by_x in table.items() if x in by_x}
    cheap, dear = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    axis = _axis(costs)
    words = f"An epoch with {x:g} {axis} takes {at[cheap]:.3g} CPU-s with {cheap}"
    words += f" and {at[dear]:.3g} with {dear}." if dear != cheap else "."
    growth = {name: slope(list(own), list(own.values())) for name, own in table.items()}
    letter = "N" if axis == NODES else "t"
    parts = [
        f"{letter}^{own.value:.2g} for {name}" for name, own in growth.items() if own is not None
    ]
    return words + (f" Seconds grow as {', '.join(parts)}." if parts else "")


def _draw(title: str, costs: Sequence[Costs], path: Path) -> None:
    """Left the seconds per epoch, right how many times those of the first row they are."""
    page = new_page(9.8, 3.8, "What an epoch costs", title)
    left, right = (page.axes(0.75 + 3.85 * number, 0.85, 3.1, 2.35) for number in range(2))
    table = _by_row(costs)
    first: Mapping[float, float] = next(iter(table.values()), {})
    for name, (colour, marker) in colours(table).items():
        by_x = table[name]
        ratio = {x: [value / first[x]] for x, value in by_x.items() if x in first}
        seconds = {x: [value] for x, value in by_x.items()}
        draw_curve(left, seconds, label=name, colour=colour, marker=marker)
        draw_curve(right, ratio, label=name, colour=colour, marker=marker)
    axis = _axis(costs)
    style(left, axis, "CPU-seconds per epoch")
    style(right, axis, f"times {next(iter(table), '')}")
    for axes in (left, right):
        log_x(axes, sorted({x for by_x in table.values() for x in by_x}))
        log_y(axes)
    legend_right(right, *right.get_legend_handles_labels())
    page.save(path)
