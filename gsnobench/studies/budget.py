"""How the error depends on the CPU-seconds of training; closed forms are lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gsnobench.errors import ParamError
from gsnobench.runs.request import Request
from gsnobench.studies.base import Arm, Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Budget
from gsnobench.studies.curves import (
    Axis,
    Grid,
    at_least_two,
    draw,
    falls,
    grid_of,
    numbers_of_grid,
    tables_of,
)
from gsnobench.studies.planning import Planner

AXIS = Axis("cpu_s", "CPU-seconds of training", "Error over the budget")
BUDGET = (
    "every run has the steps that fit into its CPU-seconds; the seconds per step of a row are "
    "counted once on this machine"
)


def study(options: Budget, template: Request, engine: Engine) -> Study:
    """Every row with every budget; a closed form has no steps and is one line."""
    planner = Planner("budget", options, template, engine)
    if planner.is_requested:
        raise ParamError("budget: --train.steps and --train.epochs set the budget too; drop them")
    budgets = at_least_two(options.cpu, "cpu")
    arms: list[Arm] = []
    for row in planner.rows(options.models):
        request = planner.request(row, options.dataset)
        for seconds in budgets:
            arm = planner.arm({"row": row, "cpu_s": seconds}, request, budget_s=float(seconds))
            is_closed = not any(arm.plans[0].spec.steps.values())
            if is_closed:
                arms.append(Arm({"row": row}, arm.plans))
                break
            arms.append(arm)
    task, source = arms[0].plans[0].task, arms[0].plans[0].spec.source
    title = f"{task.id}, {task.resolution} nodes, track {options.track}"
    return Study(
        name="budget",
        subject=planner.subject(task.id, source=source),
        title=title,
        budget=BUDGET,
        arms=tuple(arms),
        conclude=partial(conclude, title),
    )


def conclude(title: str, rows: Sequence[Row]) -> Findings:
    """Errors over the budget, the closed forms, and where a row falls below the best of them."""
    grid = grid_of(rows, AXIS)
    closed = [row for row in rows if AXIS.name not in row.point and row.errors()]
    floors = {str(row.point["row"]): row.errors()[0] for row in closed}
    lines = [[name, f"{error:.3g}"] for name, error in floors.items()]
    tables = tables_of(title, grid, AXIS) if grid else []
    tables += [Table(f"{title}: closed forms", ["row", "test"], lines)] if lines else []
    return Findings(
        sentence=f"{falls(grid, 's')} {_crossings(grid, floors)}".strip(),
        tables=tables,
        numbers={**numbers_of_grid(grid), "closed_forms": floors},
        draw=partial(draw, title=title, grid=grid, axis=AXIS, floors=floors),
    )


def _crossings(grid: Grid, floors: dict[str, float]) -> str:
    """The budget from which on all seeds of a row beat the best closed form."""
    if not floors:
        return ""
    best = min(floors, key=floors.__getitem__)
    starts = {name: _first_below(by_x, floors[best]) for name, by_x in grid.items()}
    parts = [
        f"{name} never" if start is None else f"{name} from {start:g} s on"
        for name, start in starts.items()
    ]
    return f"Better than {best} ({floors[best]:.3g}): {', '.join(parts)}."


def _first_below(by_x: Mapping[float, Row], limit: float) -> float | None:
    """The smallest budget at which, and above which, all seeds are below a limit."""
    first = None
    for x in sorted((x for x, row in by_x.items() if row.errors()), reverse=True):
        if max(by_x[x].errors()) >= limit:
            break
        first = x
    return first
