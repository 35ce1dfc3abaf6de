"""How the error depends on the two central knobs of a model: two tables and a figure, with seeds.

Each table varies one knob while the other is fixed. The values are those of the two tables in the
GSNO paper, where the knobs are the numbers of spatial and of temporal modes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from gsnobench.bench.executors import executor
from gsnobench.bench.matrix import Cell, cell_of, cheap_first, make_data, run_cells
from gsnobench.declare import Limits
from gsnobench.errors import ParamError, RunError
from gsnobench.files import write_csv, write_text
from gsnobench.home import Home
from gsnobench.plugins import load
from gsnobench.records import plain
from gsnobench.registry import Registry, read_registry
from gsnobench.runs.calibrate import counted_plan
from gsnobench.runs.drawing import FAINT, LARGE, NORMAL, SMALL, Page
from gsnobench.runs.gallery import TRAIN, VALID
from gsnobench.runs.machine import Machine, Report, choose_device
from gsnobench.runs.plan import Plan, Request, make_plan, with_seed

FIXED = 8  # the other knob in each table
VALUES = ((4, 6, 8, 16, 32), (4, 6, 8, 12, 16))  # of the first and of the second central knob
SPLITS = ("test", "valid")
Runs = Mapping[str, Sequence[tuple[int, Plan]]]  # knob -> (value, run) over values and seeds
Live = Callable[
    [Callable[[], Sequence[Cell]]], AbstractContextManager[Callable[[Cell, int, int], None]]
]


@dataclass(frozen=True)
class Row:
    """One value of a knob with the test and validation errors of its seeds."""

    value: int
    cells: tuple[Cell, ...]

    def errors(self, split: str) -> list[float]:
        done = [cell.result for cell in self.cells if cell.state == "done"]
        return [result.scores[split]["headline"]["rel_l2"] for result in done if result is not None]

    def texts(self) -> list[str]:
        """As the table shows it: mean and standard deviation over seeds, by split."""
        scatter = [_mean_and_deviation(self.errors(split)) for split in SPLITS]
        return [str(self.value), *scatter, str(len(self.errors("test")))]


def _mean_and_deviation(errors: Sequence[float]) -> str:
    if not errors:
        return "-"
    return f"{mean(errors):.4g}" + (f" ± {stdev(errors):.2g}" if len(errors) > 1 else "")


@dataclass(frozen=True)
class Sensitivity:
    """The finished study."""

    title: str
    folder: Path
    rows: dict[str, tuple[Row, ...]]  # by knob

    @property
    def is_done(self) -> bool:
        return all(cell.state == "done" for cell in self.cells())

    def cells(self) -> Iterator[Cell]:
        """All cells; one that belongs to both tables comes twice."""
        return (cell for rows in self.rows.values() for row in rows for cell in row.cells)

    def header(self, name: str) -> list[str]:
        return [name, "test", "validation", "seeds"]

    def tables(self) -> dict[str, list[list[str]]]:
        """The rows of both tables by heading."""
        return {
            f"{name} {self.fixed(name)}": [row.texts() for row in rows]
            for name, rows in self.rows.items()
        }

    def fixed(self, name: str) -> str:
        """Where the other knob is fixed while this one varies."""
        other = next(other for other in self.rows if other != name)
        return f"at {other} = {FIXED}"

    @property
    def sentence(self) -> str:
        """Whether the error is least inside the range, by more than the seeds scatter."""
        return " ".join(_shape(name, rows) for name, rows in self.rows.items())

    def to_dict(self) -> dict[str, Any]:
        """The study as `--json` prints it."""
        tables = {
            name: [
                {name: row.value, "states": [cell.state for cell in row.cells]}
                | {split: row.errors(split) for split in SPLITS}
                for row in rows
            ]
            for name, rows in self.rows.items()
        }
        return {
            "study": "sensitivity",
            "title": self.title,
            "sentence": self.sentence,
            "tables": tables,
            "folder": str(self.folder),
        }


def _shape(name: str, rows: Sequence[Row]) -> str:
    known = [(row.value, row.errors("test")) for row in rows if row.errors("test")]
    if len(known) < 3:
        return f"{name}: too few values to see a shape."
    means = {value: mean(errors) for value, errors in known}
    spread = max(stdev(errors) if len(errors) > 1 else 0.0 for _, errors in known)
    least = min(means, key=means.__getitem__)
    first, last = known[0][0], known[-1][0]
    rises = [value for value in (first, last) if means[value] - means[least] > 2 * spread]
    if len(rises) == 2:
        shape = "a U-shape"
    elif not rises:
        shape = "no dependence beyond the scatter of seeds"
    else:
        direction = "falling" if rises == [first] else "rising"
        shape = f"{direction} towards more modes, not a U-shape"
    ends = f"ends {means[first]:.4g} and {means[last]:.4g}"
    return f"{name}: {shape}; least at {name} = {least} ({means[least]:.4g}; {ends})."


# --------------------------------------------------------------------------------------------- runs


def run_study(
    request: Request, seeds: Sequence[int], *, jobs: int, home: Home, report: Report, live: Live
) -> Sensitivity:
    """Run what is missing of the two tables, then write table, JSON and figure.

    What is done is never repeated.
    """
    request = replace(request, origin="study sensitivity")
    counted_plan(replace(request, knobs=None), Machine(home, choose_device("cpu"), report=report))
    runs = _runs(request, seeds, read_registry(home=home))
    missing = [cell for cell in _cells(runs, home) if cell.state in ("missing", "stale", "failed")]
    missing = cheap_first({cell.spec.key: cell for cell in missing}.values(), home)
    make_data(missing, home, report)
    limits = Limits(home=home.root, jobs=jobs)
    with live(lambda: _cells(runs, home)) as show:
        for number, cell in enumerate(run_cells(missing, executor("pool"), limits, home), 1):
            label = ", ".join(f"{name} {cell.spec.model_params[name]}" for name in runs)
            show(replace(cell, label=label), number, len(missing))
    spec = next(iter(runs.values()))[0][1].spec
    folder = home.root / "studies" / f"sensitivity-{spec.row}-{spec.task}-{spec.track}"
    title = f"{spec.row} on {spec.task}, {spec.track}"
    study = Sensitivity(title, folder, {name: _rows(pairs, home) for name, pairs in runs.items()})
    _write(study)
    return study


def _rows(pairs: Sequence[tuple[int, Plan]], home: Home) -> tuple[Row, ...]:
    cells: dict[int, list[Cell]] = {}
    for value, plan in pairs:
        cells.setdefault(value, []).append(cell_of(plan, home))
    return tuple(Row(value, tuple(own)) for value, own in cells.items())


def _runs(request: Request, seeds: Sequence[int], registry: Registry) -> Runs:
    """The runs of each knob; every unknown name is one line."""
    if not seeds:
        raise ParamError("seeds: none given; expected for example 0,1,2")
    names = _central(request.model)
    runs: dict[str, list[tuple[int, Plan]]] = {name: [] for name in names}
    for name, values in zip(names, VALUES, strict=True):
        for value in values:
            fixed = {f"model.{other}": str(FIXED) for other in names}
            knobs = {**(request.knobs or {}), **fixed, f"model.{name}": str(value)}
            plan = make_plan(replace(request, knobs=knobs), registry)
            if plan.declined is not None:
                raise RunError(
                    f"{plan.spec.row}: declines {plan.spec.task} ({plan.declined}); choose another "
                    "pair"
                )
            runs[name] += [(value, with_seed(plan, seed)) for seed in seeds]
    return runs


def _central(model: str) -> list[str]:
    """The two central knobs of a model."""
    knobs = load("model", model).params.knobs()
    names = [knob.name for knob in knobs if knob.central and knob.type in (int, float)]
    if len(names) != len(VALUES):
        raise ParamError(
            f"study: {model} declares {len(names)} central numbers (gb.knob(central=True)); "
            f"expected {len(VALUES)}, choose another model"
        )
    return names


def _cells(runs: Runs, home: Home) -> list[Cell]:
    return [cell_of(plan, home) for pairs in runs.values() for _, plan in pairs]


# -------------------------------------------------------------------------------------------- files


def _write(study: Sensitivity) -> None:
    costs = ("parameters", "train_cpu_s")
    lines = []
    for name, rows in study.rows.items():
        for cell in (cell for row in rows for cell in row.cells):
            result, is_done = cell.result, cell.state == "done"
            values = [cell.spec.model_params[knob] for knob in study.rows]
            if result is None:
                numbers: list[Any] = [""] * (len(SPLITS) + len(costs))
            else:
                scores = [result.scores[split] if is_done else None for split in SPLITS]
                numbers = [score["headline"]["rel_l2"] if score else "" for score in scores]
                numbers += [result.costs.get(cost, "") for cost in costs]
            own = [name, *values, cell.spec.seed]
            lines.append([*own, *numbers, cell.state, cell.spec.short])
    header = ["knob", *study.rows, "seed", *SPLITS, *costs, "state", "key"]
    write_csv(study.folder / "sensitivity.csv", header, lines)
    write_text(study.folder / "result.json", json.dumps(plain(study.to_dict()), indent=1) + "\n")
    _draw(study)


def _draw(study: Sensitivity) -> None:
    """Two panels on one scale: mean and range of the seeds, on test and on validation."""
    page = Page(8.4, 3.7)
    page.text(0.75, 0.25, "Sensitivity to the retained modes", fontsize=LARGE, fontweight="bold")
    page.text(0.75, 0.5, study.title, fontsize=SMALL, color=FAINT)
    panels = []
    for number, (name, rows) in enumerate(study.rows.items()):
        axes = page.axes(0.75 + 3.95 * number, 0.85, 3.4, 2.25)
        _draw_errors(axes, rows)
        axes.set_xlabel(f"{name}, {study.fixed(name)}", fontsize=NORMAL)
        panels.append(axes)
    first, second = panels
    first.set_ylabel("relative L2 error", fontsize=NORMAL)
    second.sharey(first)
    corner: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
    second.legend(frameon=False, fontsize=SMALL, ncols=2, **corner)
    errors = [row.errors(split) for rows in study.rows.values() for row in rows for split in SPLITS]
    highest = max((max(seeds) for seeds in errors if seeds), default=math.inf)
    if math.isfinite(highest):
        first.set_ylim(0, 1.08 * highest)
    page.save(study.folder / "figures" / "sensitivity.png")


def _draw_errors(axes: Axes, rows: Sequence[Row]) -> None:
    """Mean and range of the seeds over the values of a knob, by split."""
    for split, colour, label in (("test", VALID, "test"), ("valid", TRAIN, "validation")):
        known = [(row.value, row.errors(split)) for row in rows if row.errors(split)]
        if not known:
            continue
        values = [value for value, _ in known]
        low, high = ([end(errors) for _, errors in known] for end in (min, max))
        axes.fill_between(values, low, high, color=colour, alpha=0.15, linewidth=0)
        means = [mean(errors) for _, errors in known]
        axes.plot(values, means, "o-", color=colour, ms=4, linewidth=1.3, label=label)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(row.value) for row in rows]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(True, color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL)
