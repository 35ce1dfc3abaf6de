"""Whether settings that the equal tuning found on one task hold on the other tasks of its family.

    python benchmarks/tuning_families.py [--rows transolver@compact,...] [--families varying,...]
        [--home HOME]
    python benchmarks/tuning_families.py --verdicts     what each family of a row should have

The searches of `benchmarks/tuning.py` see one task of a family. A rate that is best there can be
far too high on another one. So the preset as it was and what it became run once more on every other
board task of the family: the same CPU-seconds, the same training seed, validation only. What has
the lower geometric mean of validation errors over the family is what the preset should hold. The
records are in `leaderboards/tuning/families/`; finished ones are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gsnobench  # noqa: F401  before torch: it sets the wait policy
from gsnobench.home import open_home
from gsnobench.registry import read_registry
from gsnobench.runs.calibrate import count_steps
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import Request, make_plan
from gsnobench.runs.run import validate_plan
from tuning import CPU_S, FAMILIES, FOLDER, ROWS, SEED, records, settings_of

RECORDS = FOLDER / "families"
MEMBERS = {
    "steady": ("darcy_threshold", "darcy"),
    "unsteady": ("nse", "swe", "burgers2d_lively", "burgers3d_lively"),
    "varying": ("elasticity", "pipe", "airfoil_family", "car"),
}
Trial = dict[str, Any]


def candidates(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The preset before the search and after it; nothing where the search kept it."""
    was, became = (settings_of(record["tried"][0]["point"]), settings_of(record["best"]["point"]))
    return {} if was == became else {"was": was, "became": became}


def trial(row: str, task: str, point: Mapping[str, Any], machine: Machine) -> Trial:
    """One training on a sibling task, as a trial of the search is: counted, scored on validation."""
    model, _, preset = row.partition("@")
    registry = read_registry(home=machine.home)
    knobs = {name: str(value) for name, value in point.items()}
    plan = make_plan(Request(model, task, preset=preset, seed=SEED, knobs=knobs), registry)
    count = count_steps(plan, machine, registry, budget_s=CPU_S, measurements=1)
    result = validate_plan(replace(plan, spec=replace(plan.spec, steps=count.steps)), machine)
    valid = result.scores["valid"]["headline"]["rel_l2"] if result.status == "done" else None
    return {
        "point": dict(point),
        "valid": valid,
        "status": result.status,
        "steps": count.steps,
        "train_cpu_s": result.costs.get("train_cpu_s"),
    }


def known(record: Mapping[str, Any]) -> dict[str, Trial]:
    """What the search itself has of both candidates, on the task that stands for the family."""
    tried = {json.dumps(entry["point"], sort_keys=True): entry for entry in record["tried"]}
    became = tried[json.dumps(record["best"]["point"], sort_keys=True)]
    return {"was": record["tried"][0], "became": became}


def compare(row: str, family: str, record: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """Both candidates on every task of the family."""
    tasks = {FAMILIES[family]: known(record)}
    for task in MEMBERS[family]:
        if task not in tasks:
            tasks[task] = {
                name: trial(row, task, point, machine) for name, point in candidates(record).items()
            }
            both = " -> ".join(str(tasks[task][name]["valid"]) for name in ("was", "became"))
            print(f"{row} on {task}: {both}", flush=True)
    return {"row": row, "family": family, "seed": SEED, "cpu_s": CPU_S, "tasks": tasks}


def ratio(record: Mapping[str, Any]) -> float:
    """Geometric mean over tasks of what it became / what it was; infinite if it broke on one."""
    logs = []
    for task in record["tasks"].values():
        was, became = task["was"]["valid"], task["became"]["valid"]
        if became is None:
            return math.inf
        logs.append(math.log(became / was) if was is not None else -math.inf)
    return math.exp(sum(logs) / len(logs))


def compared() -> Iterator[dict[str, Any]]:
    """The finished records, in the order of rows and families."""
    for row in ROWS:
        for family in FAMILIES:
            path = RECORDS / f"{family}--{row}.json"
            if path.exists():
                yield json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--home", type=Path)
    parser.add_argument("--verdicts", action="store_true")
    args = parser.parse_args()
    if args.verdicts:
        for record in compared():
            times = ratio(record)
            chosen = "became" if times < 1 else "was"
            print(f"{record['row']:20} {record['family']:9} x {times:.3f}: {chosen}")
        return
    RECORDS.mkdir(parents=True, exist_ok=True)
    machine, searches = Machine(open_home(args.home), choose_device("cpu"), threads=1), records()
    for family in args.families.split(","):
        for row in args.rows.split(","):
            path = RECORDS / f"{family}--{row}.json"
            if not path.exists() and candidates(searches[row, family]):
                result = compare(row, family, searches[row, family], machine)
                path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
