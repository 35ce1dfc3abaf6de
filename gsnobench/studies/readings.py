"""Every open reading of a paper both ways: which of them matters, and which does not."""

from __future__ import annotations

from functools import partial

from gsnobench.plugins import load
from gsnobench.registry import read_registry
from gsnobench.runs.request import Request
from gsnobench.studies.base import Arm, Engine, Study
from gsnobench.studies.catalogue import Readings
from gsnobench.studies.changes import changed_arms, conclude, declared
from gsnobench.studies.planning import Planner


def study(options: Readings, template: Request, engine: Engine) -> Study:
    """The other reading of every open point, one at a time."""
    planner = Planner("readings", options, template, engine)
    model = options.model or read_registry().checked_model
    base = options.base or next(iter(load("model", model).studies.readings), "")
    changes = declared(model, "readings", base)
    datasets = planner.datasets(options.datasets)
    names = [planner.task_name(dataset) for dataset in datasets]
    arms: list[Arm] = []
    for dataset in datasets:
        arms += changed_arms(planner, planner.request(f"{model}@{base}", dataset), changes)
    title = f"{model}@{base}, track {options.track}"
    return Study(
        name="readings",
        subject=planner.subject(f"{model}@{base}", *names, source=planner.source(datasets)),
        title=title,
        budget=planner.budget,
        arms=tuple(arms),
        conclude=partial(conclude, title, "The open readings, one at a time"),
    )
