"""How the error depends on the two central knobs of a model: two tables and a figure, with seeds.

Each table varies one knob while the other is fixed. The values are those of the two tables in the
GSNO paper, where the knobs are the numbers of spatial and of temporal modes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matplotlib.axes import Axes

from gsnobench.boards.reproduction.paper import PaperNumbers, read_paper
from gsnobench.drawing.rules import FIRST, SECOND, SMALL, symbols
from gsnobench.errors import ParamError, RunError
from gsnobench.plugins import load
from gsnobench.registry import read_registry
from gsnobench.runs.request import Request
from gsnobench.studies.base import Arm, Engine, Findings, Row, Study, Table
from gsnobench.studies.catalogue import Sensitivity
from gsnobench.studies.figures import draw_curve, log_x, new_page, style
from gsnobench.studies.planning import Planner

FIXED = 8  # the other knob in each table
VALUES = ((4, 6, 8, 16, 32), (4, 6, 8, 12, 16))  # of the first and of the second central knob
SPLITS = {"test": ("test", SECOND), "valid": ("validation", FIRST)}  # split -> name and colour


@dataclass(frozen=True, eq=False)
class KnobArm(Arm):
    """An arm that is called by the values of both knobs, since both tables share their centre."""

    @property
    def label(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.point.items() if name != "knob")


def study(options: Sensitivity, template: Request, engine: Engine) -> Study:
    """The two tables of a model on a task."""
    planner = Planner("sensitivity", options, template, engine)
    model = options.model or read_registry().checked_model
    names = _central(model)
    preset = options.preset or _paper_preset(model)
    base = planner.request(f"{model}@{preset}", options.dataset)
    arms = []
    for name, values in zip(names, VALUES, strict=True):
        for value in values:
            point = {**dict.fromkeys(names, FIXED), name: value}
            knobs = {f"model.{knob}": str(number) for knob, number in point.items()}
            request = replace(base, knobs={**(base.knobs or {}), **knobs})
            arm = planner.arm({"knob": name, **point}, request, base=base)
            arms.append(KnobArm(arm.point, arm.plans))
    plan = arms[0].plans[0]
    if plan.declined is not None:
        raise RunError(
            f"{plan.spec.row}: declines {plan.spec.task} ({plan.declined}); choose another pair"
        )
    spec = plan.spec
    title = f"{spec.row} on {spec.task}, {spec.track}"
    return Study(
        name="sensitivity",
        subject=planner.subject(spec.row, spec.task, source=spec.source),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(conclude, title),
    )


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


def _paper_preset(model: str) -> str:
    presets = load("model", model).presets
    return next((name for name, preset in presets.items() if preset.is_paper), "")


# ------------------------------------------------------------------------------------------- answer


def conclude(title: str, rows: Sequence[Row]) -> Findings:
    """Both tables, and whether the error is least inside the range of each."""
    by_knob: dict[str, list[Row]] = {}
    for row in rows:
        by_knob.setdefault(str(row.point["knob"]), []).append(row)
    paper = read_paper()
    tables = [
        Table(
            f"{title}: test error over {name} {_fixed(name, by_knob)}",
            [name, "test", "validation", "seeds", "paper's test"],
            [[*_texts(name, row), _printed(name, row, paper)] for row in own],
        )
        for name, own in by_knob.items()
    ]
    numbers = {
        name: [{name: row.point[name]} | {s: row.errors(s) for s in SPLITS} for row in own]
        for name, own in by_knob.items()
    }
    sentence = " ".join(_shape(name, own) for name, own in by_knob.items())
    return Findings(sentence, tables, numbers, partial(_draw, title, by_knob))


def _fixed(name: str, by_knob: Mapping[str, Sequence[Row]]) -> str:
    """Where the other knob is fixed while this one varies."""
    others = [other for other in by_knob if other != name]
    return " ".join(f"at {other} = {FIXED}" for other in others)


def _texts(name: str, row: Row) -> list[str]:
    scatter = [_mean_and_deviation(row.errors(split)) for split in SPLITS]
    return [str(row.point[name]), *scatter, row.states]


def _printed(name: str, row: Row, paper: PaperNumbers) -> str:
    """The paper's error at the same value, of the same model and task."""
    first, field = row.runs[0], f"{name}={row.point[name]}"
    model, base = first.row.partition("@")[0], first.task.partition("@")[0]
    for own in paper.numbers:
        if (own.model, own.dataset, own.field, own.metric) == (model, base, field, "rel_l2"):
            return f"{own.value:g}"
    return "-"


def _mean_and_deviation(errors: Sequence[float]) -> str:
    if not errors:
        return "-"
    return f"{mean(errors):.4g}" + (f" ± {stdev(errors):.2g}" if len(errors) > 1 else "")


def _shape(name: str, rows: Sequence[Row]) -> str:
    known = [(row.point[name], row.errors()) for row in rows if row.errors()]
    if len(known) < 3:
        return f"{name}: too few values to see a shape."
    means = {value: mean(errors) for value, errors in known}
    least = min(means, key=means.__getitem__)
    first, last = known[0][0], known[-1][0]
    ends = f"ends {means[first]:.4g} and {means[last]:.4g}"
    where = f"least at {name} = {least} ({means[least]:.4g}; {ends})"
    scatter = [stdev(errors) for _, errors in known if len(errors) > 1]
    if not scatter:
        return f"{name}: {where}; one seed does not tell a shape from scatter."
    spread = max(scatter)
    rises = [value for value in (first, last) if means[value] - means[least] > 2 * spread]
    if len(rises) == 2:
        shape = "a U-shape"
    elif not rises:
        shape = "no dependence beyond the scatter of seeds"
    else:
        direction = "falling" if rises == [first] else "rising"
        shape = f"{direction} towards more modes, not a U-shape"
    return f"{name}: {shape}; {where}."


def _draw(title: str, by_knob: Mapping[str, Sequence[Row]], path: Path) -> None:
    """Two panels on one scale: mean and range of the seeds, on test and on validation."""
    page = new_page(8.4, 3.7, "Sensitivity to the retained modes", title)
    panels: list[Axes] = []
    for number, (name, rows) in enumerate(by_knob.items()):
        axes = page.axes(0.75 + 3.95 * number, 0.85, 3.4, 2.25)
        for split, (label, colour) in SPLITS.items():
            curve = {float(row.point[name]): row.errors(split) for row in rows}
            draw_curve(axes, curve, label=label, colour=colour)
        y_label = "" if number else "relative L2 error"
        style(axes, symbols(f"{name}, {_fixed(name, by_knob)}"), y_label)
        log_x(axes, [float(row.point[name]) for row in rows])
        panels.append(axes)
    corner: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
    panels[-1].legend(frameon=False, fontsize=SMALL, ncols=2, **corner)
    errors = [row.errors(split) for rows in by_knob.values() for row in rows for split in SPLITS]
    highest = max((max(seeds) for seeds in errors if seeds), default=math.inf)
    for axes in panels:
        axes.set_ylim(0, 1.08 * highest if math.isfinite(highest) else 1.0)
    page.save(path)
