"""Error against mesh size: trained and tested on the same mesh, and all on one yardstick.

Every mesh has its own truth, so errors of two meshes are not about the same function. The second
table interpolates all predictions to the finest mesh and compares them with its truth, beside the
interpolated coarse truth: no model on that mesh can be expected to do better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from gsnobench.drawing.rules import FAINT
from gsnobench.plugins import dataset_named
from gsnobench.runs.request import Request
from gsnobench.runs.trained import Trained
from gsnobench.studies.base import Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Resolution
from gsnobench.studies.curves import (
    Axis,
    Grid,
    all_x,
    at_least_two,
    falls,
    grid_of,
    numbers_of_grid,
    tables_of,
)
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
from gsnobench.studies.statistics import geometric_mean
from gsnobench.studies.yardstick import Truth, check_meshes, headlines, onto, true_frames

AXIS = Axis("nodes", "mesh nodes", "Error over the mesh")
FLOOR = "coarse truth, interpolated"
ROUNDING = 1e-6


def study(options: Resolution, template: Request, engine: Engine) -> Study:
    """Every row on every mesh, with the same samples."""
    planner = Planner("resolution", options, template, engine)
    refuse_resolution(template)
    meshes = at_least_two(options.meshes, "meshes")
    arms = []
    for row in planner.rows(options.models):
        base = planner.request(row, options.dataset)
        for nodes in meshes:
            request = planner.request(row, options.dataset, resolution=nodes)
            arms.append(planner.arm({"row": row, "nodes": nodes}, request, base=base))
    tasks = {arm.plans[0].task.resolution: arm.plans[0].task for arm in arms}
    task = arms[0].plans[0].task
    check_meshes(task)
    title = f"{task.id}, {task.sizes['train']} training samples, track {options.track}"
    return Study(
        name="resolution",
        subject=planner.subject(task.id),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(conclude, title),
        examine=partial(examine, Truth(engine.machine, dataset_named(options.dataset), tasks)),
    )


def examine(truth: Truth, trained: Trained) -> dict[str, Any]:
    """Errors of a run's predictions on the finest mesh, and of the truth that it was tested on."""
    task = trained.plan.task
    own, fine = truth.of(task.resolution), truth.of(max(truth.tasks))
    goal = true_frames(fine, task)
    frames = {"finest": trained.predict(own), "floor": true_frames(own, task)}
    errors = {
        name: headlines(onto(values, own.mesh(0), fine.mesh(0)), goal, fine.mesh(0), task)
        for name, values in frames.items()
    }
    return {name: mean(values) for name, values in errors.items()}


# ------------------------------------------------------------------------------------------- answer


def conclude(title: str, rows: Sequence[Row]) -> Findings:
    """Errors, slopes and ratios on the own mesh, and errors on the finest mesh."""
    grid = grid_of(rows, AXIS)
    floor = {x: level for x in all_x(grid) if (level := _floor(grid, x)) is not None}
    on_finest = {
        name: {f"{x:g}": [run.extra["finest"] for run in row.done] for x, row in by_x.items()}
        for name, by_x in grid.items()
    }
    floors = {f"{x:g}": level for x, level in floor.items()}
    return Findings(
        sentence=falls(grid, "N"),
        tables=[*tables_of(title, grid, AXIS), _finest_table(title, grid, floor)],
        numbers={**numbers_of_grid(grid), "on_finest": on_finest, "truth_on_finest": floors},
        draw=partial(_draw, title, grid, floor),
    )


def _floor(grid: Grid, x: float) -> float | None:
    """The error of the interpolated truth of a mesh: the same for all rows."""
    runs = [run for by_x in grid.values() if x in by_x for run in by_x[x].done]
    return float(runs[0].extra["floor"]) if runs else None


def _finest(row: Row | None) -> list[float]:
    return [] if row is None else [float(run.extra["finest"]) for run in row.done]


def _finest_table(title: str, grid: Grid, floor: Mapping[float, float]) -> Table:
    meshes = all_x(grid)
    lines = [
        [name, *(str(geometric_mean(e)) if (e := _finest(by_x.get(x))) else "-" for x in meshes)]
        for name, by_x in grid.items()
    ]
    lines.append([FLOOR, *(_level(floor.get(x)) for x in meshes)])
    header = ["trained on", *(f"{x:g}" for x in meshes)]
    return Table(f"{title}: error on the {meshes[-1]:g} nodes of the finest mesh", header, lines)


def _level(error: float | None) -> str:
    """On the finest mesh the truth is itself, but for rounding."""
    if error is None:
        return "-"
    return f"{error:.3g}" if error > ROUNDING else "0"


def _draw(title: str, grid: Grid, floor: Mapping[float, float], path: Path) -> None:
    """Left the errors on the own mesh, right those on the finest one above the truth's own."""
    page = new_page(9.8, 3.8, AXIS.heading, title)
    left, right = (page.axes(0.75 + 3.85 * number, 0.85, 3.1, 2.35) for number in range(2))
    for name, (colour, marker) in colours(grid).items():
        own = {x: row.errors() for x, row in grid[name].items()}
        finest = {x: _finest(row) for x, row in grid[name].items()}
        draw_curve(left, own, label=name, colour=colour, marker=marker)
        draw_curve(right, finest, label=name, colour=colour, marker=marker)
    below = {x: level for x, level in floor.items() if level > ROUNDING}
    right.plot(list(below), list(below.values()), "x--", color=FAINT, linewidth=1.2, label=FLOOR)
    style(left, AXIS.label, "relative L2 error, own mesh")
    style(right, f"{AXIS.label} of training", "relative L2 error, finest mesh")
    for axes in (left, right):
        log_x(axes, all_x(grid))
        log_y(axes)
    legend_right(right, *right.get_legend_handles_labels())
    page.save(path)
