"""The same weights on other meshes: do they transfer, only interpolate, or break?

The yardstick is the run's own prediction on its training mesh, interpolated to the other mesh: who
is not better than that gains nothing from being evaluated there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import Array, Task
from gsnobench.declare import Capability
from gsnobench.drawing.page import Page
from gsnobench.drawing.quantities import quantities, support_of
from gsnobench.drawing.rules import FAINT, SMALL, spelled
from gsnobench.drawing.scales import Scale
from gsnobench.drawing.views import View, view_of
from gsnobench.meshes.modes import Kind
from gsnobench.params import Value, above_zero
from gsnobench.plugins import dataset_named
from gsnobench.records import rounded
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.trained import Trained
from gsnobench.studies.base import Arm, Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Transfer
from gsnobench.studies.figures import (
    colours,
    draw_curve,
    legend_right,
    log_x,
    log_y,
    new_page,
    style,
)
from gsnobench.studies.planning import Planner, refuse_resolution
from gsnobench.studies.statistics import Estimate, geometric_mean, paired_difference
from gsnobench.studies.yardstick import (
    Agreement,
    Truth,
    agreement,
    check_meshes,
    headlines,
    onto,
    true_frames,
)

KINDS: tuple[Kind, ...] = ("gaussian", "fem")  # the printed operator's basis, and ours
MODES = 8  # whose agreement is shown: as many as the printed operator keeps
TRAINED, ORACLE = "trained here", "trained on the other mesh"


def study(options: Transfer, template: Request, engine: Engine) -> Study:
    """Every row trained on one mesh; with `oracle` also on the others, with the same steps."""
    planner = Planner("transfer", options, template, engine)
    refuse_resolution(template)
    others = above_zero(options.test, "test")
    arms: list[Arm] = []
    names = planner.rows(options.models)
    for row in names:
        home = planner.request(row, options.dataset, resolution=options.train or None)
        base = planner.request(row, options.dataset)
        first = planner.arm({"row": row, "role": TRAINED}, home, base=base)
        arms.append(first)
        own = first.plans[0].task.resolution
        for nodes in (nodes for nodes in others if options.oracle and nodes != own):
            request = planner.request(row, options.dataset, resolution=nodes)
            point: dict[str, Value] = {"row": row, "role": ORACLE, "nodes": nodes}
            arms.append(planner.arm(point, request, base=base))
    task = arms[0].plans[0].task
    check_meshes(task)
    tasks = {**_other_tasks(planner, options, names[0], others), task.resolution: task}
    truth = Truth(engine.machine, dataset_named(options.dataset), tasks)
    meshes = [nodes for nodes in others if nodes != task.resolution]
    title = f"{task.id}, trained on {task.resolution} nodes, track {options.track}"
    pictured = arms[0].plans[0].spec.short
    return Study(
        name="transfer",
        subject=planner.subject(task.id, f"{task.resolution}"),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(conclude, title, task.resolution, truth),
        examine=partial(examine, truth, task.resolution, meshes, pictured),
    )


def _other_tasks(
    planner: Planner, options: Transfer, row: str, meshes: Sequence[int]
) -> dict[int, Task]:
    """The task on other meshes; without an oracle nothing is trained there, test is enough."""
    tasks = {}
    for nodes in meshes:
        request = planner.request(row, options.dataset, resolution=nodes)
        task = make_plan(request, planner.registry).task
        sizes = task.sizes if options.oracle else {"test": task.sizes["test"]}
        tasks[nodes] = replace(task, sizes=sizes)
    return tasks


def examine(
    truth: Truth, own: int, meshes: Sequence[int], pictured: str, trained: Trained
) -> dict[str, Any]:
    """Errors per test sample on every other mesh: of the weights there, and interpolated.

    One run also keeps the last frame of the first sample on the finest mesh, for a picture.
    """
    task = trained.plan.task
    if task.resolution != own:
        return {}
    if Capability.OTHER_MESH not in trained.plan.model.capabilities:
        return {"declined": f"{trained.plan.model.name} works on its training mesh alone"}
    coarse = truth.of(own)
    here = trained.predict(coarse)
    tables, picture = dict[str, Any](), dict[str, Any]()
    for nodes in meshes:
        other = truth.of(nodes)
        mesh, goal = other.mesh(0), true_frames(other, task)
        predicted, moved = trained.predict(other), onto(here, coarse.mesh(0), other.mesh(0))
        tables[str(nodes)] = {
            "zero_shot": headlines(predicted, goal, mesh, task),
            "interpolated": headlines(moved, goal, mesh, task),
        }
        if trained.plan.spec.short == pictured and nodes == max(meshes):
            picture = _pictured(task, nodes, goal, predicted, moved)
    return {"meshes": tables, **({"picture": picture} if picture else {})}


def _pictured(
    task: Task, nodes: int, truth: Array, predicted: Array, moved: Array
) -> dict[str, Any]:
    """The first quantity of the first sample, in its last frame."""
    quantity = quantities(task)[0]
    frames = {"truth": truth, "zero_shot": predicted, "interpolated": moved}
    values = {name: quantity.of(own[0, -1]) for name, own in frames.items()}
    return {
        "nodes": nodes,
        **{name: [rounded(float(x)) for x in own] for name, own in values.items()},
    }


# ------------------------------------------------------------------------------------------- answer


@dataclass(frozen=True)
class Case:
    """One row on one other mesh, over its seeds."""

    row: str
    nodes: int
    own: list[float]  # errors of the seeds on the training mesh
    zero_shot: list[float]
    interpolated: list[float]
    oracle: list[float]  # of the row that was trained on this mesh
    gap: Estimate  # zero-shot minus interpolated, over test samples

    @property
    def verdict(self) -> str:
        if self.gap.high < 0:
            return "transfers"
        return "breaks" if self.gap.low > 0 else "only interpolates"


def cases(rows: Sequence[Row]) -> list[Case]:
    """Every row on every mesh."""
    oracles = {
        (row.point["row"], row.point["nodes"]): row.errors()
        for row in rows
        if row.point["role"] == ORACLE
    }
    table = []
    for row in rows:
        runs = [run for run in row.done if "meshes" in run.extra]
        for nodes in runs[0].extra["meshes"] if runs else ():
            zero_shot, interpolated = (
                np.array([run.extra["meshes"][nodes][kind] for run in runs])  # (seeds, S)
                for kind in ("zero_shot", "interpolated")
            )
            name = str(row.point["row"])
            table.append(
                Case(
                    row=name,
                    nodes=int(nodes),
                    own=[run.errors["test"] for run in runs],
                    zero_shot=zero_shot.mean(axis=1).tolist(),
                    interpolated=interpolated.mean(axis=1).tolist(),
                    oracle=oracles.get((name, int(nodes)), []),
                    gap=paired_difference(zero_shot.mean(axis=0), interpolated.mean(axis=0)),
                )
            )
    return table


def conclude(title: str, own: int, truth: Truth, rows: Sequence[Row]) -> Findings:
    """Verdicts, and how far the modes of the meshes agree."""
    table = cases(rows)
    meshes = sorted({case.nodes for case in table})
    coarse = truth.of(own).mesh(0)
    bases = {
        nodes: [agreement(coarse, truth.of(nodes).mesh(0), MODES, kind) for kind in KINDS]
        for nodes in meshes
    }
    refusals = {run.extra.get("declined", "") for row in rows for run in row.done} - {""}
    words = [f"{case.row} {case.verdict} ({_numbers(case)})" for case in table]
    verdicts = ", ".join(words) or "No row was evaluated elsewhere"
    return Findings(
        sentence=f"{'. '.join([verdicts, *sorted(refusals)])}.",
        tables=[_case_table(title, table), _mode_table(title, bases)],
        numbers={
            "cases": [{**asdict(case), "verdict": case.verdict} for case in table],
            "modes": {str(nodes): [asdict(pair) for pair in own] for nodes, own in bases.items()},
        },
        draw=partial(_draw, title, own, table, _panels(truth, rows)),
    )


def _numbers(case: Case) -> str:
    """On which mesh, and the two errors that are compared."""
    here, moved = (geometric_mean(own).value for own in (case.zero_shot, case.interpolated))
    return f"{case.nodes} nodes: {here:.3g}, interpolated {moved:.3g}"


def _case_table(title: str, table: Sequence[Case]) -> Table:
    def text(errors: Sequence[float]) -> str:
        return str(geometric_mean(errors)) if errors else "-"

    lines = [
        [case.row, str(case.nodes), text(case.own), text(case.zero_shot), text(case.interpolated)]
        + [text(case.oracle), case.verdict]
        for case in table
    ]
    header = ["row", "nodes", "own mesh", "same weights there", "own prediction interpolated"]
    return Table(title, [*header, "trained there", "verdict"], lines)


def _mode_table(title: str, bases: Mapping[int, Sequence[Agreement]]) -> Table:
    lines = [
        [str(nodes), pair.kind, f"{pair.cosine:.3f}", f"{pair.correlation:.3f}"]
        for nodes, own in bases.items()
        for pair in own
    ]
    angles = ["cosine of the largest principal angle", "mean correlation by index"]
    heading = f"{title}: the first {MODES} modes of both meshes"
    return Table(heading, ["nodes", "basis", *angles], lines)


@dataclass(frozen=True, eq=False)
class Panels:
    """One sample on the finest mesh, as the paper shows it, and both errors beside it."""

    heading: str
    view: View
    values: Mapping[str, Array]  # (N,) each
    scale: Scale
    error: Scale


def _panels(truth: Truth, rows: Sequence[Row]) -> Panels | None:
    """The run that kept a picture; None if it has not ended well."""
    runs = [run for row in rows for run in row.done if "picture" in run.extra]
    if not runs:
        return None
    run, own = runs[0], runs[0].extra["picture"]
    samples = truth.of(own["nodes"])
    mesh, quantity = samples.mesh(0), quantities(samples.task)[0]
    support = support_of(samples.task, quantity, mesh)
    goal, there, moved = (np.array(own[name]) for name in ("truth", "zero_shot", "interpolated"))
    errors = {"error": there - goal, "error, interpolated": moved - goal}
    both = np.concatenate([error[support] for error in errors.values()])
    return Panels(
        heading=f"{run.row}, seed {run.seed}, {own['nodes']} nodes, first test sample, last frame",
        view=view_of(mesh, support),
        values={"truth": goal, "same weights": there, **errors},
        scale=quantity.scale(goal[support], signed=quantity.is_signed(goal[support])),
        error=Scale.symmetric(both, f"error [{spelled(quantity.unit)}]"),
    )


def _draw(title: str, own: int, table: Sequence[Case], panels: Panels | None, path: Path) -> None:
    """Error over the nodes of the test mesh, one line per row; below it one sample."""
    page = new_page(7.4, 3.9 if panels is None else 6.4, "The same weights on other meshes", title)
    _draw_errors(page, own, table)
    if panels is not None:
        _draw_panels(page, panels)
    page.save(path)


def _draw_errors(page: Page, own: int, table: Sequence[Case]) -> None:
    """A line per row; interpolation is dashed, on the training mesh it changes nothing."""
    axes = page.axes(0.75, 0.85, 4.3, 2.45)
    names = list(dict.fromkeys(case.row for case in table))
    for name, (colour, marker) in colours(names).items():
        mine = [case for case in table if case.row == name]
        curve = {float(own): mine[0].own, **{float(case.nodes): case.zero_shot for case in mine}}
        draw_curve(axes, curve, label=name, colour=colour, marker=marker)
        floor = [(float(own), mine[0].own), *((float(c.nodes), c.interpolated) for c in mine)]
        line = sorted((nodes, geometric_mean(errors).value) for nodes, errors in floor)
        axes.plot(*zip(*line, strict=True), "--", color=colour, linewidth=1.0)
    style(axes, "nodes of the test mesh", "relative L2 error")
    log_x(axes, [float(own), *(float(case.nodes) for case in table)])
    log_y(axes)
    handles, labels = axes.get_legend_handles_labels()
    (dashed,) = axes.plot([], [], "--", color=FAINT, linewidth=1.0)
    legend_right(axes, [*handles, dashed], [*labels, "own prediction, interpolated"])


def _draw_panels(page: Page, panels: Panels) -> None:
    top, wide = 4.5, 1.55
    page.text(0.75, top - 0.45, panels.heading, fontsize=SMALL, color=FAINT)
    for place, (name, values) in enumerate(panels.values.items()):
        left = 0.75 + (wide + 0.1) * place
        scale = panels.error if "error" in name else panels.scale
        page.text(left + wide / 2, top - 0.17, name, fontsize=SMALL, ha="center")
        page.panel((left, top, wide, 1.3), panels.view, values, scale.reached_by(values))
    for place, scale in ((0, panels.scale), (2, panels.error)):
        left = 0.75 + (wide + 0.1) * place + 0.5
        page.bar((left, top + 1.38, 2 * wide - 0.9, 0.09), scale)
