"""How many given frames: errors as printed, and on the frames that all windows predict.

A window of one frame predicts 50 others, one of ten predicts 41: their errors are about different
targets. The second table compares all windows on their common frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gsnobench.boards.reproduction.paper import PaperNumbers, read_paper
from gsnobench.drawing.rules import FAINT
from gsnobench.errors import ParamError
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.trained import Trained
from gsnobench.studies.base import Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Time
from gsnobench.studies.curves import (
    Axis,
    Grid,
    all_x,
    at_least_two,
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
from gsnobench.studies.planning import Planner
from gsnobench.studies.statistics import geometric_mean
from gsnobench.studies.yardstick import Truth, check_meshes, headlines, true_frames

AXIS = Axis("t_in", "given frames", "Error over the given frames")


def study(options: Time, template: Request, engine: Engine) -> Study:
    """Every row with every window of a task that leaves its window open."""
    planner = Planner("time", options, template, engine)
    windows = at_least_two(options.t_in, "t-in")
    rows = planner.rows(options.models)
    own = make_plan(planner.request(rows[0], options.dataset), planner.registry)
    has_window = own.file is None and "@" in options.dataset
    if own.task.t_in == 0 or len(own.task.starts) > 1 or has_window:
        raise ParamError(
            f"{options.dataset}: has no open window; choose an unsteady task without @ in its id"
        )
    arms = []
    for row in rows:
        base = planner.request(row, options.dataset)
        for t_in in windows:
            request = planner.request(row, options.dataset, t_in=t_in)
            arms.append(planner.arm({"row": row, "t_in": t_in}, request, base=base))
    task = arms[0].plans[0].task
    check_meshes(task)
    tasks = {arm.plans[0].task.t_in: arm.plans[0].task for arm in arms}
    truth = Truth(engine.machine, own.dataset, tasks, own.file)
    first = max(windows)  # index of the first frame that all windows predict
    title = f"{task.base}, {task.resolution} nodes, track {options.track}"
    return Study(
        name="time",
        subject=planner.subject(task.base, source=own.spec.source),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(conclude, title, first, len(task.times)),
        examine=partial(examine, truth, first),
    )


def examine(truth: Truth, first: int, trained: Trained) -> dict[str, Any]:
    """The error on the common frames, and of every frame on its own, as means over test samples."""
    task = trained.plan.task
    samples = truth.of(task.t_in)
    mesh, skipped = samples.mesh(0), first - task.t_in
    predicted, goal = trained.predict(samples), true_frames(samples, task)  # (S, t_out, N, C)
    frames = [
        mean(headlines(predicted[:, [step]], goal[:, [step]], mesh, task))
        for step in range(task.t_out)
    ]
    common = mean(headlines(predicted[:, skipped:], goal[:, skipped:], mesh, task))
    return {"common": common, "frames": frames}


# ------------------------------------------------------------------------------------------- answer


def conclude(title: str, first: int, frames: int, rows: Sequence[Row]) -> Findings:
    """Errors as printed and on the common frames, and how fast they grow there."""
    grid = grid_of(rows, AXIS)
    common = {
        name: {f"{x:g}": [run.extra["common"] for run in row.done] for x, row in by_x.items()}
        for name, by_x in grid.items()
    }
    by_frame = {
        name: {f"{x:g}": _mean_frames(row) for x, row in by_x.items()}
        for name, by_x in grid.items()
    }
    window = f"frames {first + 1} to {frames}"
    heading = f"{title}: printed in the paper, of raw fields"
    printed = _printed_table(heading, grid, read_paper())
    return Findings(
        sentence=f"On the common {window}: {_comparison(grid)}",
        tables=[
            *tables_of(title, grid, AXIS),
            *([] if printed is None else [printed]),
            _common_table(f"{title}: {window}", grid, first),
        ],
        numbers={**numbers_of_grid(grid), "common": common, "frames": by_frame},
        draw=partial(_draw, title, window, grid),
    )


def _common(row: Row | None) -> list[float]:
    return [] if row is None else [float(run.extra["common"]) for run in row.done]


def _mean_frames(row: Row) -> list[float]:
    """Error of every predicted frame, mean over seeds."""
    tables = [run.extra["frames"] for run in row.done]
    return np.mean(tables, axis=0).tolist() if tables else []


def growth(errors: Sequence[float]) -> float:
    """Factor per frame by which an error grows, by least squares of its logarithm."""
    slope, _ = np.polyfit(np.arange(len(errors)), np.log(errors), 1)
    return float(np.exp(slope))


def _comparison(grid: Grid) -> str:
    """The best and the worst window of every row."""
    parts = []
    for name, by_x in grid.items():
        means = {x: geometric_mean(_common(row)).value for x, row in by_x.items() if row.done}
        if means:
            best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            parts.append(
                f"{name} is best with {best:g} given frames ({means[best]:.3g}) and worst with "
                f"{worst:g} ({means[worst]:.3g})"
            )
    return f"{'; '.join(parts) or 'nothing was run'}."


def _printed_table(title: str, grid: Grid, paper: PaperNumbers) -> Table | None:
    """The paper's errors of the same models and windows, of raw fields; None if it has none."""
    models = {name.partition("@")[0]: by_x for name, by_x in grid.items()}
    lines = []
    for model, by_x in models.items():
        errors = {x: paper.scores(row.runs[0].task).get(model) for x, row in by_x.items()}
        cells = ["-" if (at := errors.get(x)) is None else f"{at:.3g}" for x in all_x(grid)]
        lines += [[model, *cells]] if set(cells) != {"-"} else []
    return Table(title, ["model", *(f"{x:g}" for x in all_x(grid))], lines) if lines else None


def _common_table(title: str, grid: Grid, first: int) -> Table:
    lines = []
    for name, by_x in grid.items():
        for x, row in by_x.items():
            if row.done:
                late = _mean_frames(row)[first - int(x) :]
                rate = f"{growth(late):.4f}" if len(late) > 1 else "-"
                lines.append([name, f"{x:g}", str(geometric_mean(_common(row))), rate])
    return Table(title, ["row", AXIS.label, "error", "growth per frame"], lines)


def _draw(title: str, window: str, grid: Grid, path: Path) -> None:
    """Left the errors on the common frames, right those of every frame of the first row."""
    page = new_page(11.2, 3.8, AXIS.heading, title)
    left, right = (page.axes(0.75 + 5.6 * number, 0.85, 3.0, 2.35) for number in range(2))
    for name, (colour, marker) in colours(grid).items():
        own = {x: row.errors() for x, row in grid[name].items()}
        common = {x: _common(row) for x, row in grid[name].items()}
        draw_curve(left, common, label=name, colour=colour, marker=marker)
        means = {x: geometric_mean(errors).value for x, errors in own.items() if errors}
        left.plot(list(means), list(means.values()), ":", color=colour)
    left.plot([], [], ":", color=FAINT, label="all frames, as printed")
    style(left, AXIS.label, f"relative L2 error, {window}")
    log_x(left, all_x(grid))
    _draw_frames(right, next(iter(grid.values()), {}))
    style(right, f"frame, {next(iter(grid), '')}", "relative L2 error")
    for axes in (left, right):
        log_y(axes)
        legend_right(axes, *axes.get_legend_handles_labels())
    page.save(path)


def _draw_frames(axes: Axes, by_x: Mapping[float, Row]) -> None:
    labels = {x: f"{x:g} given" for x in sorted(by_x)}
    shades = colours(labels.values())
    for x, label in labels.items():
        errors = _mean_frames(by_x[x])
        frames = range(int(x) + 1, int(x) + 1 + len(errors))
        axes.plot(list(frames), errors, color=shades[label][0], linewidth=1.3, label=label)
