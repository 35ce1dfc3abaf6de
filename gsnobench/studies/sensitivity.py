"""How the error depends on the retained modes: the paper's two tables, k_s at k_t = 8 and k_t at
k_s = 8, with seeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from gsnobench.bench.executors import executor
from gsnobench.bench.matrix import Cell, cell_of, cheap_first, make_data, run_cells
from gsnobench.declare import Limits
from gsnobench.errors import ParamError, RunError
from gsnobench.files import write_text
from gsnobench.home import Home
from gsnobench.records import plain
from gsnobench.runs.drawing import FAINT, LARGE, NORMAL, SMALL, Page
from gsnobench.runs.gallery import TRAIN, VALID
from gsnobench.runs.machine import Report
from gsnobench.runs.plan import Plan, Request, make_plan, with_seed
from gsnobench.sweep.figures import table

FIXED = 8  # the other knob in each table
GRID = {"k_s": (4, 6, 8, 16, 32), "k_t": (4, 6, 8, 12, 16)}
Live = Callable[
    [Callable[[], Sequence[Cell]]], AbstractContextManager[Callable[[Cell, int, int], None]]
]


@dataclass(frozen=True)
class Row:
    """One value of a knob with the test and validation errors of its seeds."""

    value: int
    cells: tuple[Cell, ...]

    def errors(self, split: str) -> list[float]:
        scores = [
            cell.result.scores
            for cell in self.cells
            if cell.state == "done" and cell.result is not None
        ]
        return [one[split]["headline"]["rel_l2"] for one in scores]

    def told(self) -> list[str]:
        """As the table shows it: mean and standard deviation over seeds, on test and on validation."""
        sides = [_told(self.errors("test")), _told(self.errors("valid"))]
        return [str(self.value), *sides, str(len(self.errors("test")))]


def _told(errors: Sequence[float]) -> str:
    if not errors:
        return "-"
    return f"{mean(errors):.4g}" + (f" ± {stdev(errors):.2g}" if len(errors) > 1 else "")


@dataclass(frozen=True)
class Sensitivity:
    """The finished study."""

    title: str
    folder: Path
    rows: dict[str, tuple[Row, ...]]

    @property
    def is_done(self) -> bool:
        return all(
            cell.state == "done"
            for rows in self.rows.values()
            for row in rows
            for cell in row.cells
        )

    def header(self, name: str) -> list[str]:
        return [name, "test", "validation", "seeds"]

    def tables(self) -> dict[str, list[list[str]]]:
        return {
            f"{name} at {_other(name)} = {FIXED}": [row.told() for row in rows]
            for name, rows in self.rows.items()
        }

    @property
    def sentence(self) -> str:
        """Whether the error has its least value inside the range, by more than the seeds scatter."""
        return " ".join(_shape(name, rows) for name, rows in self.rows.items())

    def to_dict(self) -> dict[str, Any]:
        """The study as `--json` prints it."""
        tables = {
            name: [
                {name: row.value, "states": [cell.state for cell in row.cells]}
                | {split: row.errors(split) for split in ("test", "valid")}
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


def _other(name: str) -> str:
    return "k_t" if name == "k_s" else "k_s"


def _shape(name: str, rows: Sequence[Row]) -> str:
    known = [(row.value, row.errors("test")) for row in rows if row.errors("test")]
    if len(known) < 3:
        return f"{name}: too few values to see a shape."
    means = {value: mean(errors) for value, errors in known}
    spread = max(stdev(errors) if len(errors) > 1 else 0.0 for _, errors in known)
    least = min(means, key=means.__getitem__)
    first, last = known[0][0], known[-1][0]
    rises = [value for value in (first, last) if means[value] - means[least] > 2 * spread]
    verdict = {2: "a U-shape", 0: "no dependence beyond the scatter of seeds"}.get(len(rises))
    if verdict is None:
        verdict = "falling" if rises == [first] else "rising"
        verdict += " towards more modes, not a U-shape"
    return f"{name}: {verdict}; least at {name} = {least} ({means[least]:.4g}; ends {means[first]:.4g} and {means[last]:.4g})."


# --------------------------------------------------------------------------------------------- runs


def run_study(
    request: Request, seeds: Sequence[int], *, jobs: int, home: Home, report: Report, live: Live
) -> Sensitivity:
    """Run what is missing of the grid, then write table, JSON and figure; what is done is never
    repeated.
    """
    plans = _plans(request, seeds)
    spec = next(iter(plans.values()))[0][1].spec
    missing = [cell for cell in _cells(plans, home) if cell.state in ("missing", "stale", "failed")]
    missing = cheap_first({cell.spec.key: cell for cell in missing}.values(), home)
    make_data(missing, home, report)
    with live(lambda: _cells(plans, home)) as tell:
        for number, cell in enumerate(
            run_cells(missing, executor("pool"), Limits(home=home.root, jobs=jobs), home)
        ):
            knobs = cell.spec.model_params
            tell(
                replace(cell, label=f"k_s {knobs['k_s']}, k_t {knobs['k_t']}"),
                number + 1,
                len(missing),
            )
    rows = {
        name: tuple(
            Row(value, tuple(cell_of(plan, home) for v, plan in pairs if v == value))
            for value in GRID[name]
        )
        for name, pairs in plans.items()
    }
    folder = home.root / "studies" / f"sensitivity-{spec.row}-{spec.task}-{spec.track}"
    study = Sensitivity(f"{spec.row} on {spec.task}, {spec.track}", folder, rows)
    _write(study)
    return study


def _plans(request: Request, seeds: Sequence[int]) -> dict[str, list[tuple[int, Plan]]]:
    """For each knob, (value, run) over values and seeds; every unknown name is one line."""
    if request.dataset.endswith(".nc"):
        raise ParamError(
            f"study: {request.dataset} is a file; a study runs tasks in several processes, name "
            "one such as nse"
        )
    if not seeds:
        raise ParamError("seeds: none given; expected for example 0,1,2")
    plans: dict[str, list[tuple[int, Plan]]] = {name: [] for name in GRID}
    for name, values in GRID.items():
        for value in values:
            knobs = {
                **(request.knobs or {}),
                f"model.{name}": str(value),
                f"model.{_other(name)}": str(FIXED),
            }
            plan = make_plan(replace(request, knobs=knobs))
            if plan.declined is not None:
                raise RunError(
                    f"{plan.spec.row}: declines {plan.spec.task} ({plan.declined}); choose another "
                    "pair"
                )
            plans[name] += [(value, with_seed(plan, seed)) for seed in seeds]
    return plans


def _cells(plans: dict[str, list[tuple[int, Plan]]], home: Home) -> list[Cell]:
    return [cell_of(plan, home) for pairs in plans.values() for _, plan in pairs]


# -------------------------------------------------------------------------------------------- paper


def _write(study: Sensitivity) -> None:
    header = [
        "knob",
        "k_s",
        "k_t",
        "seed",
        "test",
        "valid",
        "parameters",
        "train_cpu_s",
        "state",
        "key",
    ]
    lines = []
    for name, rows in study.rows.items():
        for cell in (cell for row in rows for cell in row.cells):
            params, result = cell.spec.model_params, cell.result
            scores = [
                result.scores[one]["headline"]["rel_l2"] if result and cell.state == "done" else ""
                for one in ("test", "valid")
            ]
            costs = [
                result.costs.get(one, "") if result else "" for one in ("parameters", "train_cpu_s")
            ]
            place = [name, params["k_s"], params["k_t"], cell.spec.seed]
            lines.append([*place, *scores, *costs, cell.state, cell.spec.short])
    table(study.folder / "sensitivity.csv", header, lines)
    write_text(study.folder / "result.json", json.dumps(plain(study.to_dict()), indent=1) + "\n")
    _draw(study)


def _draw(study: Sensitivity) -> None:
    """Two panels on one scale: mean over seeds on test, with the range of the seeds, and on
    validation.
    """
    page = Page(8.4, 3.7)
    page.text(0.75, 0.25, "Sensitivity to the retained modes", fontsize=LARGE, fontweight="bold")
    page.text(0.75, 0.5, study.title, fontsize=SMALL, color=FAINT)
    first = None
    for number, (name, rows) in enumerate(study.rows.items()):
        axes = page.axes(0.75 + 3.95 * number, 0.85, 3.4, 2.25)
        for split, colour, label in (("test", VALID, "test"), ("valid", TRAIN, "validation")):
            known = [(row.value, row.errors(split)) for row in rows if row.errors(split)]
            if not known:
                continue
            values = [value for value, _ in known]
            low, high = [min(errors) for _, errors in known], [max(errors) for _, errors in known]
            axes.fill_between(values, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(
                values,
                [mean(errors) for _, errors in known],
                "o-",
                color=colour,
                ms=4,
                linewidth=1.3,
                label=label,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator([float(row.value) for row in rows]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{name}, at {_other(name)} = {FIXED}", fontsize=NORMAL)
        axes.grid(True, color="#dddddd", linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        if first is None:
            first = axes
            axes.set_ylabel("relative L2 error", fontsize=NORMAL)
        else:
            axes.sharey(first)
            axes.legend(
                frameon=False, fontsize=SMALL, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0)
            )
    tops = [
        max(row.errors(split))
        for rows in study.rows.values()
        for row in rows
        for split in ("test", "valid")
        if row.errors(split)
    ]
    if first is not None and tops and math.isfinite(max(tops)):
        first.set_ylim(0, 1.08 * max(tops))
    page.save(study.folder / "figures" / "sensitivity.png")
