"""How the error depends on the number of training samples, for several rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gsnobench.runs.request import Request
from gsnobench.studies.base import Engine, Findings, Row, Study
from gsnobench.studies.catalogue import Data
from gsnobench.studies.curves import (
    Axis,
    at_least_two,
    draw,
    falls,
    grid_of,
    numbers_of_grid,
    tables_of,
)
from gsnobench.studies.planning import Planner

AXIS = Axis("samples", "training samples", "Error over the training samples")


def study(options: Data, template: Request, engine: Engine) -> Study:
    """Every row with every number of samples; validation and test stay those of the track."""
    planner = Planner("data", options, template, engine)
    arms = []
    for row in planner.rows(options.models):
        base = planner.request(row, options.dataset)
        for samples in at_least_two(options.samples, "samples"):
            request = planner.request(row, options.dataset, samples=samples)
            arms.append(planner.arm({"row": row, "samples": samples}, request, base=base))
    task, source = arms[0].plans[0].task, arms[0].plans[0].spec.source
    title = f"{task.id}, {task.resolution} nodes, track {options.track}"
    return Study(
        name="data",
        subject=planner.subject(task.id, source=source),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(conclude, title),
    )


def conclude(title: str, rows: Sequence[Row]) -> Findings:
    """Errors, ratios and slopes over the number of samples."""
    grid = grid_of(rows, AXIS)
    return Findings(
        sentence=falls(grid, "n"),
        tables=tables_of(title, grid, AXIS),
        numbers=numbers_of_grid(grid),
        draw=partial(draw, title=title, grid=grid, axis=AXIS),
    )
