"""Presets and their declared changes: paired ratios, controls, tables and a figure.

`ablation` and `readings` share it. Runs of one seed see the same batches and, where shapes agree,
the same start, so a change is judged by the ratio of the errors of equal seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes

from gsnobench.boards.reproduction.paper import read_paper
from gsnobench.boards.statistics import LEVEL, holm
from gsnobench.declare import Change
from gsnobench.drawing.rules import FAINT, NORMAL, SMALL
from gsnobench.errors import ParamError, did_you_mean
from gsnobench.params import Value
from gsnobench.plugins import load
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.studies.base import Arm, Findings, Row, Table
from gsnobench.studies.figures import GRID, log_ratios, new_page
from gsnobench.studies.planning import Planner
from gsnobench.studies.statistics import Estimate, geometric_mean, paired_ratio

UNCHANGED, PRINTED_UNCHANGED = "unchanged", "full"  # in our tables, and in the paper's
MATCHED = ", as many parameters"  # behind the label of a control
BETTER, WORSE = "#2a7f3f", "#b03a2e"
NOTE = 6.9  # inches that the note below a figure needs
LONGEST = 36  # letters of a line of a label


# --------------------------------------------------------------------------------------------- arms


def declared(model: str, kind: str, preset: str) -> tuple[Change, ...]:
    """The changes that a model declares for a preset; a model without any is one line."""
    by_preset: Mapping[str, tuple[Change, ...]] = getattr(load("model", model).studies, kind)
    if not by_preset:
        raise ParamError(
            f"study: {model} declares no {kind} (gb.Model(studies=...)); choose another model"
        )
    if preset not in by_preset:
        raise ParamError(
            f"study: {model} declares no {kind} of {preset!r}; {did_you_mean(preset, by_preset)}"
        )
    return by_preset[preset]


def changed_arms(planner: Planner, base: Request, changes: Sequence[Change]) -> list[Arm]:
    """The preset itself, then each change that means something on this task, with its control."""
    first = planner.arm(point_of(planner, base, UNCHANGED), base)
    full = first.plans[0]
    arms = [first]
    for change in changes:
        if not change.applies(full.task):
            continue
        request = replace(base, knobs={**(base.knobs or {}), **_texts(change.knobs)})
        arm = planner.arm(
            point_of(planner, base, change.label),
            request,
            base=base,
            seed_knob=change.seed_knob,
        )
        if arm.plans[0].spec.key == full.spec.key:
            continue  # the preset has this setting already
        arms.append(arm)
        if change.matched and (control := matched(planner, base, request, change, full)):
            arms.append(control)
    return arms


def point_of(planner: Planner, base: Request, label: str) -> dict[str, Value]:
    """What sets a change apart in the tables."""
    return {"task": planner.task_name(base.dataset), "change": label}


def _texts(knobs: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value) for name, value in knobs.items()}


def matched(
    planner: Planner, base: Request, request: Request, change: Change, full: Plan
) -> Arm | None:
    """The change with its knob raised until the parameters are those of the unchanged preset.

    None where nothing is lost. Where the knob's range ends first, its end is used; the number of
    parameters is in the table.
    """

    knobs, registry = request.knobs or {}, planner.registry

    def at(value: int) -> Request:
        return replace(request, knobs={**knobs, f"model.{change.matched}": str(value)})

    def size(value: int) -> int:
        return parameters(make_plan(at(value), registry))

    goal = parameters(full)
    if parameters(make_plan(request, registry)) >= goal:
        return None
    knob = next(knob for knob in full.model.params.knobs() if knob.name == change.matched)
    low, high = max(1, int(knob.low or 1)), int(knob.high or 1)
    while high - low > 1:  # the number of parameters rises with the knob
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= goal else (low, middle)
    nearest = min((low, high), key=lambda value: abs(size(value) - goal))
    point = point_of(planner, base, f"{change.label}{MATCHED}")
    return planner.arm(point, at(nearest), base=base, seed_knob=change.seed_knob)


def parameters(plan: Plan) -> int:
    """Trained numbers of the module of a plan."""
    module = plan.model.build(plan.model_task, plan.params)
    return sum(weight.numel() for weight in module.parameters() if weight.requires_grad)


# ------------------------------------------------------------------------------------------- answer


@dataclass(frozen=True)
class Effect:
    """One change on one task, against the unchanged preset."""

    task: str
    label: str
    row: Row
    ratio: Estimate | None  # of errors, paired by seed
    p: float | None  # after Holm's correction over all changes of the study
    printed: float | None  # the ratio that the paper prints

    @property
    def factor(self) -> float:
        return math.nan if self.ratio is None else self.ratio.value

    @property
    def is_separated(self) -> bool:
        return self.p is not None and self.p < LEVEL


def effects(
    rows: Sequence[Row], printed: Mapping[tuple[str, str], float], *, is_ladder: bool
) -> list[Effect]:
    """The effect of every change: against the unchanged preset, or against the rung below."""
    raw = []
    reference = rows[0]
    for row in rows:
        task, label = str(row.point["task"]), str(row.point["change"])
        is_first = label == UNCHANGED
        ratio = None if is_first else paired_ratio(row.by_seed(), reference.by_seed())
        reference = row if is_first or is_ladder else reference
        raw.append(Effect(task, label, row, ratio, None, printed.get((task, label))))
    tested = [effect for effect in raw if effect.ratio is not None and effect.ratio.is_known]
    corrected = holm([effect.ratio.p for effect in tested if effect.ratio is not None])
    p_of = {id(effect): float(p) for effect, p in zip(tested, corrected, strict=True)}
    return [replace(effect, p=p_of.get(id(effect))) for effect in raw]


def printed_ratios(
    model: str, datasets: Sequence[str], changes: Sequence[Change]
) -> dict[tuple[str, str], float]:
    """(task, label of a change) -> error over that of the full model, as the paper prints it."""
    values: dict[tuple[str, str], float] = {}
    for number in read_paper().numbers:
        owner, mark, name = number.model.partition(":")
        if owner == model and mark and number.metric == "rel_l2":
            values.setdefault((number.dataset, name), number.value)
    return {
        (dataset, change.label): values[dataset, change.printed]
        / values[dataset, PRINTED_UNCHANGED]
        for dataset in datasets
        for change in changes
        if (dataset, change.printed) in values and (dataset, PRINTED_UNCHANGED) in values
    }


def printed_names(changes: Sequence[Change]) -> dict[str, str]:
    """Label of a change -> what the paper's table calls it."""
    own = {change.label: change.printed for change in changes if change.printed}
    return {UNCHANGED: PRINTED_UNCHANGED, **own}


def conclude(
    title: str,
    heading: str,
    rows: Sequence[Row],
    *,
    printed: Mapping[tuple[str, str], float] | None = None,
    printed_as: Mapping[str, str] | None = None,
    is_ladder: bool = False,
) -> Findings:
    """One table per task, a figure of all ratios, and what is separated from 1."""
    measured = effects(rows, printed or {}, is_ladder=is_ladder)
    by_task: dict[str, list[Effect]] = {}
    for effect in measured:
        by_task.setdefault(effect.task, []).append(effect)
    below = "the rung below" if is_ladder else "the unchanged preset"
    return Findings(
        sentence=" ".join(_sentence(task, own) for task, own in by_task.items()),
        tables=[_table(f"{title}, {task}", own, below) for task, own in by_task.items()],
        numbers={
            "against": below,
            "printed_as": dict(printed_as or {}),
            "effects": [_numbers(effect) for effect in measured],
        },
        draw=partial(_draw, title, heading, by_task, below),
    )


def _numbers(effect: Effect) -> dict[str, Any]:
    ratio = None if effect.ratio is None else asdict(effect.ratio)
    own = {"task": effect.task, "change": effect.label, "errors": effect.row.by_seed()}
    return {**own, "ratio": ratio, "p_holm": effect.p, "printed_ratio": effect.printed}


def _table(title: str, own: Sequence[Effect], below: str) -> Table:
    has_printed = any(effect.printed is not None for effect in own)
    tests = ["test", f"ratio to {below}", "p (Holm)"]
    tests += ["paper's ratio", "test_ood"] if has_printed else ["test_ood"]
    header = ["change", *tests, "parameters", "CPU-ms per step", "seeds"]
    return Table(title, header, [_line(effect, has_printed=has_printed) for effect in own])


def _line(effect: Effect, *, has_printed: bool) -> list[str]:
    row = effect.row
    printed = "-" if effect.printed is None else f"{effect.printed:.2f}"
    test = str(geometric_mean(row.errors())) if row.errors() else "-"
    ood = row.errors("test_ood")
    steps = max((run.steps for run in row.done), default=0)
    seconds = row.cost("train_cpu_s")
    speed = "-" if not steps or seconds is None else f"{1000 * seconds / steps:.3g}"
    count = row.cost("parameters")
    return [
        effect.label,
        test,
        "-" if effect.ratio is None else str(effect.ratio),
        "-" if effect.p is None else f"{effect.p:.2g}",
        *([printed] if has_printed else []),
        f"{geometric_mean(ood).value:.3g}" if ood else "-",
        "-" if count is None else f"{count:,.0f}",
        speed,
        row.states,
    ]


def _sentence(task: str, own: Sequence[Effect]) -> str:
    tested = [effect for effect in own if effect.ratio is not None]
    worse = [effect for effect in tested if effect.is_separated and effect.factor > 1]
    better = [effect for effect in tested if effect.is_separated and effect.factor < 1]
    parts = [
        f"{words} {', '.join(f'{effect.label} ({effect.ratio})' for effect in group)}"
        for words, group in (("worse with", worse), ("better with", better))
        if group
    ]
    alone = sum(effect.p is None for effect in tested)  # one seed cannot be tested
    rest = len(tested) - len(worse) - len(better) - alone
    parts += [f"{rest} of {len(tested)} changes are not separated from none"] if rest else []
    parts += [f"{alone} of {len(tested)} changes have one seed and are not tested"] if alone else []
    return f"{task}: {'; '.join(parts) if parts else 'nothing was changed'}."


def _draw(
    title: str, heading: str, by_task: Mapping[str, Sequence[Effect]], below: str, path: Path
) -> None:
    """One panel per task: ratio and interval of every change, the paper's as a cross."""
    shown = {
        task: [effect for effect in own if effect.ratio is not None]
        for task, own in by_task.items()
    }
    labels = list(dict.fromkeys(effect.label for own in shown.values() for effect in own))
    names = [fill(label, LONGEST) for label in labels]
    longest = max((len(line) for name in names for line in name.splitlines()), default=0)
    left, width, height = 0.9 + 0.075 * longest, 2.7, 0.3 * len(labels)
    wide = max(left + (width + 0.35) * len(shown), NOTE)
    page = new_page(wide, height + 1.85, heading, title)
    for number, (task, own) in enumerate(shown.items()):
        axes = page.axes(left + (width + 0.35) * number, 0.95, width, max(height, 0.3))
        _draw_ratios(axes, own, labels)
        axes.set_yticks(range(len(labels)), names if not number else [""] * len(labels))
        axes.set_title(task, fontsize=NORMAL, loc="left")
        axes.set_xlabel(f"error / error of {below}", fontsize=SMALL)
    note = "bars: 95 % intervals; grey: not separated from 1 after Holm's correction"
    has_cross = any(effect.printed is not None for own in shown.values() for effect in own)
    note += "; crosses: printed in the paper" if has_cross else ""
    page.text(0.75, height + 1.68, note, fontsize=SMALL, color=FAINT)
    page.save(path)


def _draw_ratios(axes: Axes, own: Sequence[Effect], labels: Sequence[str]) -> None:
    for effect in own:
        y, value = labels.index(effect.label), effect.factor
        colour = FAINT if not effect.is_separated else WORSE if value > 1 else BETTER
        if effect.ratio is not None and effect.ratio.is_known:
            axes.plot([effect.ratio.low, effect.ratio.high], [y, y], color=colour, linewidth=1.6)
        axes.plot([value], [y], "o", color=colour, ms=5)
        if effect.printed is not None:
            axes.plot([effect.printed], [y], "x", color="black", ms=6, mew=1.3)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(True, axis="x", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=SMALL)
    axes.tick_params(axis="y", length=0)
    log_ratios(axes)
