"""Whether settings that the equal tuning found on one task hold on the other tasks of its family.

    python benchmarks/tuning_families.py [--rows transolver@compact,...] [--families varying,...]
        [--home HOME]
    python benchmarks/tuning_families.py --verdicts     what each preset should hold, by family

The searches of `benchmarks/tuning.py` see one task of a family and a third of the budget of the
track. A rate that is best there can be far too high elsewhere. So the preset as it was runs once
more, with the track's budget and seed 0, on every board task of the family. Its validation error is
set against that of the result on record, which has what the search found. What has the lower
geometric mean over the family is what the preset should hold; test errors are not looked at.
The records are in `leaderboards/tuning/families/`; finished trials are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tuning import CHECKS, FAMILIES, FOLDER, ROWS, checks, records, settings_of

import gsnobench as gb  # before torch: it sets the wait policy
from gsnobench.datasets.tasks import resolve
from gsnobench.home import open_home
from gsnobench.plugins import dataset_named
from gsnobench.registry import read_registry
from gsnobench.runs.calibrate import count_steps
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.run import validate_plan

RESULTS = FOLDER.parent / "results"
Record = dict[str, Any]


def before(search: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the search changed, as they were; nothing where it kept them."""
    was, became = settings_of(search["tried"][0]["point"]), settings_of(search["best"]["point"])
    return {} if was == became else was


@cache
def members() -> Mapping[str, list[str]]:
    """The board tasks of every family."""
    found: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name in read_registry().board_tasks:
        dataset = dataset_named(name)
        task = resolve(dataset, name, track="laptop")
        found[dataset.family or task.family].append(name)
    return found


def request_of(row: str, task: str, knobs: Mapping[str, Any]) -> Request:
    model, _, preset = row.partition("@")
    named = {name: str(value) for name, value in knobs.items()}
    return Request(model, task, preset=preset, seed=0, knobs=named)


def valid_error(result: gb.RunResult) -> float | None:
    return result.scores["valid"]["headline"]["rel_l2"] if result.status == "done" else None


def as_it_became(row: str, task: str) -> Record | None:
    """The result on record, by its key, and its validation error; None if there is none."""
    plan = make_plan(request_of(row, task, {}))
    path = RESULTS / plan.spec.track / plan.task.id / row / f"{plan.spec.short}.json"
    if not path.exists():
        return None
    result = gb.RunResult.from_json(path.read_text(encoding="utf-8"))
    return {"became": valid_error(result), "key": plan.spec.short}


def as_it_was(row: str, task: str, knobs: Mapping[str, Any], machine: Machine) -> Record:
    """One training with the settings of before: counted anew, scored on validation alone."""
    registry = read_registry(home=machine.home)
    plan = make_plan(request_of(row, task, knobs), registry)
    count = count_steps(plan, machine, registry)
    result = validate_plan(replace(plan, spec=replace(plan.spec, steps=count.steps)), machine)
    spent, valid = result.costs.get("train_cpu_s"), valid_error(result)
    return {"was": valid, "status": result.status, "steps": count.steps, "train_cpu_s": spent}


def compare(row: str, family: str, knobs: Mapping[str, Any], machine: Machine) -> None:
    """Every task of the family that has a result on record, one after the other."""
    path = CHECKS / f"{family}--{row}.json"
    empty: Record = {"row": row, "family": family, "before": dict(knobs), "tasks": {}}
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty
    for task in members()[family]:
        became = as_it_became(row, task)
        if task in record["tasks"] or became is None:
            continue
        record["tasks"][task] = {**as_it_was(row, task, knobs, machine), **became}
        if set(record["tasks"]) == set(members()[family]):
            record["times"] = round(ratio(record), 4)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        was = record["tasks"][task]["was"]
        print(f"{row} on {task}: {was} -> {became['became']}", flush=True)


def ratio(record: Mapping[str, Any]) -> float:
    """Geometric mean over the tasks of what it became / what it was; 0 where that broke."""
    pairs = [(task["was"], task["became"]) for task in record["tasks"].values()]
    if any(was is None for was, _ in pairs):
        return 0.0
    return math.exp(sum(math.log(became / was) for was, became in pairs) / len(pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--home", type=Path)
    parser.add_argument("--verdicts", action="store_true")
    args = parser.parse_args()
    if args.verdicts:
        for (row, family), check in checks().items():
            words = f"{row} {family}: {check['times']:.3f} times the error of before"
            print(f"{words}; it holds {'what was found' if check['times'] < 1 else 'what it was'}")
        return
    CHECKS.mkdir(parents=True, exist_ok=True)
    machine, searches = Machine(open_home(args.home), choose_device("cpu"), threads=1), records()
    for family in args.families.split(","):
        for row in args.rows.split(","):
            if knobs := before(searches[row, family]):
                compare(row, family, knobs, machine)


if __name__ == "__main__":
    main()
