"""What the process pool gains and costs: two workers against one, and the overhead per cell.

    python benchmarks/pool.py [--seconds 60] [--cells 4] [--json FILE]

Throughput: CELLS cells of about SECONDS seconds (gsno on smoke darcy, one thread each) by one
worker, then as many by two; wall time, and CPU time of the cells. Needs two idle cores. Overhead:
closed-form cells of milliseconds, in the pool and in this process, less the start of an empty child
process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from gsnobench.declare import Limits
from gsnobench.home import Home, open_home
from gsnobench.matrix.executors import PRELOADED, executor
from gsnobench.processes import Parent, start_forked
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, make_plan, with_seed
from gsnobench.runs.request import Request
from gsnobench.runs.run import run_plan

TINY_CELLS = 8


def plan_of(model: str, steps: int = 0) -> Plan:
    knobs = {"train.steps": str(steps)} if steps else {}
    return make_plan(Request(model, "darcy", track="smoke", knobs=knobs))


def wall(work: Callable[[], object]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run_pool(plans: Sequence[Plan], home: Home, jobs: int) -> list[float]:
    """CPU-seconds of training of each cell."""
    limits = Limits(home=home.root, device="cpu", jobs=jobs)
    results = executor("pool").run([plan.spec for plan in plans], limits)
    return [result.costs["train_cpu_s"] + result.costs["validate_cpu_s"] for result in results]


def throughput(seconds: float, cells: int, home: Home) -> dict[str, float]:
    """Two workers against one."""
    trial = run_plan(plan_of("gsno", 200), Machine(home, torch.device("cpu")))
    steps = max(200, round(200 * seconds / trial.costs["train_cpu_s"]))
    plan = plan_of("gsno", steps)
    walls, cpus = {}, {}
    for jobs in (1, 2):
        chosen = [with_seed(plan, 100 * jobs + seed) for seed in range(cells)]
        started = time.perf_counter()
        cpus[jobs] = sum(run_pool(chosen, home, jobs))
        walls[jobs] = time.perf_counter() - started
    return {
        "cells": cells,
        "seconds_per_cell": walls[1] / cells,
        "throughput_ratio": walls[1] / walls[2],
        "cpu_ratio": cpus[2] / cpus[1],
    }


def nothing(parent: Parent) -> None:
    """What an empty child does."""


def start_and_stop() -> None:
    child = start_forked(nothing, threads=1, preload=PRELOADED)
    assert child.receive() is None  # it has ended
    child.stop()


def start_seconds() -> float:
    """Wall time of an empty process of the pool's kind, once its server is warm."""
    times = [wall(start_and_stop) for _ in range(5)]
    return sorted(times[1:])[2]


def overhead(home: Home) -> dict[str, float]:
    """Seconds of a cell in the pool beyond its work and beyond the start of its process."""
    machine = Machine(home, torch.device("cpu"))
    plan = plan_of("ridge")

    def cells(first: int, count: int) -> list[Plan]:
        return [with_seed(plan, first + seed) for seed in range(count)]

    run_plan(plan, machine)  # warm: imports, compiled code, and below the pool's server
    run_pool(cells(50, 1), home, 1)
    inside = wall(lambda: [run_plan(cell, machine) for cell in cells(100, TINY_CELLS)]) / TINY_CELLS
    pooled = wall(lambda: run_pool(cells(200, TINY_CELLS), home, 1)) / TINY_CELLS
    start = start_seconds()
    return {
        "overhead_s": pooled - inside - start,
        "process_start_s": start,
        "cell_in_pool_s": pooled,
        "cell_here_s": inside,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        home = open_home(Path(name))
        run_plan(plan_of("mean"), Machine(home, torch.device("cpu")))  # makes the data
        table = {**overhead(home), **throughput(chosen.seconds, chosen.cells, home)}
    for label, value in table.items():
        print(f"{label:18s} {value:8.3f}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
