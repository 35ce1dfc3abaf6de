"""Which part of a model brings what: leave parts out, or climb from one preset to another.

The changes are those that the model declares. With `--ladder` every rung keeps the changes below
it; the last one is the other preset to the letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gsnobench.declare import Change, Ladder
from gsnobench.errors import ParamError
from gsnobench.plugins import load
from gsnobench.registry import read_registry
from gsnobench.runs.plan import Plan
from gsnobench.runs.request import Request
from gsnobench.studies.base import Arm, Engine, Study
from gsnobench.studies.catalogue import Ablation
from gsnobench.studies.changes import (
    UNCHANGED,
    changed_arms,
    conclude,
    declared,
    point_of,
    printed_names,
    printed_ratios,
)
from gsnobench.studies.planning import Planner


def study(options: Ablation, template: Request, engine: Engine) -> Study:
    """All changes on all tasks."""
    planner = Planner("ablation", options, template, engine)
    model = options.model or read_registry().checked_model
    datasets = planner.datasets(options.datasets)
    names = [planner.task_name(dataset) for dataset in datasets]
    ladder = _ladder(model) if options.ladder else None
    base = _base(options, model) if ladder is None else ladder.first
    arms: list[Arm] = []
    changes: tuple[Change, ...] = ()
    for dataset in datasets:
        request = planner.request(f"{model}@{base}", dataset)
        if ladder is None:
            changes = declared(model, "ablations", base)
            arms += changed_arms(planner, request, changes)
        else:
            arms += ladder_arms(planner, request, ladder)
    way = f"from {ladder.first} to {ladder.last}" if ladder else f"changes of {base}"
    title = f"{model}, {way}, track {options.track}"
    heading = "What every rung brings" if ladder else "What every part brings"
    return Study(
        name="ablation",
        subject=planner.subject(
            *(f"{model}@{base}", *names, *(["ladder"] if ladder else [])),
            source=planner.source(datasets),
        ),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(
            conclude,
            title,
            heading,
            printed=printed_ratios(model, names, changes),
            printed_as=printed_names(changes),
            is_ladder=ladder is not None,
        ),
    )


def _base(options: Ablation, model: str) -> str:
    """The preset of the option, else the first one that declares changes."""
    presets = load("model", model).studies.ablations
    return options.base or next(iter(presets), "")


# ------------------------------------------------------------------------------------------- ladder


def _ladder(model: str) -> Ladder:
    ladder = load("model", model).studies.ladder
    if ladder is None:
        raise ParamError(f"study: {model} declares no ladder (gb.Studies(ladder=...))")
    return ladder


def ladder_arms(planner: Planner, base: Request, ladder: Ladder) -> list[Arm]:
    """The first preset, then rung by rung; what the rungs leave over comes last."""
    first = planner.arm(point_of(planner, base, UNCHANGED), base)
    here = first.plans[0]
    goal = planner.plan(replace(base, preset=ladder.last), base)
    arms, knobs = [first], dict(base.knobs or {})
    for rung in (*ladder.rungs, _rest(here, goal, ladder)):
        if not rung.applies(here.task):
            continue
        before = dict(knobs)
        knobs |= {name: str(value) for name, value in rung.knobs.items()}
        knobs |= {name: str(_value(goal, name)) for name in rung.takes}
        arm = planner.arm(
            point_of(planner, base, rung.label), replace(base, knobs=knobs), base=base
        )
        if arm.plans[0].spec.key == arms[-1].plans[0].spec.key:
            knobs = before
            continue  # both presets agree here
        arms.append(arm)
    return arms


def _rest(here: Plan, goal: Plan, ladder: Ladder) -> Change:
    """All that differs in the end, named after what no rung has taken."""
    known = {name for rung in ladder.rungs for name in (*rung.knobs, *rung.takes)}
    differing = _differing(here, goal)
    left = [name.partition(".")[2] for name in differing if name not in known]
    return Change(f"the rest: {', '.join(left)}", takes=tuple(differing))


def _differing(here: Plan, goal: Plan) -> Sequence[str]:
    """Dotted knobs in which two presets differ."""
    ours, theirs = here.spec.settings, goal.spec.settings
    names = [name for name in ours if not name.startswith("steps.")]
    return [name for name in names if ours[name] != theirs.get(name)]


def _value(plan: Plan, name: str) -> Any:
    return plan.spec.settings[name]
