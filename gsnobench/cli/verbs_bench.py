"""What `bench` and `status` do; each returns its exit code and prints either text or one JSON
document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gsnobench.bench.executors import executor
from gsnobench.bench.matrix import (
    Cell,
    Choice,
    cell_of,
    cheap_first,
    chosen,
    differences,
    make_data,
    matrix,
    need,
    run_cells,
    settle,
)
from gsnobench.cli.console import print_table, progress
from gsnobench.cli.matrix_view import grid, live, remarks, summary
from gsnobench.declare import Limits
from gsnobench.home import Home, open_home
from gsnobench.runs.machine import Machine, choose_device

# executors whose cells see this home: their data are made beforehand, by all cores
SHARED_DISK = ("local", "pool")


@dataclass(frozen=True)
class BenchOptions:
    """How `bench` goes about it; nothing here changes a question."""

    executor: str = "pool"
    device: str = "auto"
    jobs: int = 0  # 0: as many as the executor has room for
    threads: int = 1
    gpus: float = 0.0
    seconds: float = 0.0
    memory_mb: float = 0.0
    address: str = ""
    only: Sequence[str] = ("missing", "stale")
    dry_run: bool = False


def bench(choice: Choice, options: BenchOptions, *, home: Path | None, as_json: bool) -> int:
    """`bench`: run what is missing of the matrix; exit 3 if a cell failed or diverged."""
    place = open_home(home)
    cells = [cell_of(plan, place) for plan in matrix(choice)]
    wanted = cheap_first(chosen(cells, options.only), place)
    if options.dry_run:
        return _dry_run(wanted, place, options, as_json)
    runner = executor(options.executor)
    limits = _limits(options, place)
    runner.check(limits)
    settle(cells, place)
    with progress(quiet=as_json) as report:
        if options.executor in SHARED_DISK:
            make_data(wanted, place, report)
    ended = _run(cells, wanted, options, limits, place, as_json)
    cells = [cell_of(cell.plan, place) for cell in cells]
    _print_matrix(cells, choice.track, as_json)
    return 3 if any(cell.state in ("failed", "diverged") for cell in ended) else 0


def _run(
    cells: Sequence[Cell],
    wanted: Sequence[Cell],
    options: BenchOptions,
    limits: Limits,
    place: Home,
    as_json: bool,
) -> list[Cell]:
    ended: list[Cell] = []
    with live(lambda: [cell_of(cell.plan, place) for cell in cells], quiet=as_json) as tell:
        for cell in run_cells(wanted, executor(options.executor), limits, place):
            ended.append(cell)
            tell(cell, len(ended), len(wanted))
    return ended


def _limits(options: BenchOptions, place: Home) -> Limits:
    return Limits(
        home=place.root,
        device=options.device,
        jobs=options.jobs,
        threads=options.threads,
        gpus=options.gpus,
        seconds=options.seconds,
        memory_mb=options.memory_mb,
        address=options.address,
    )


def _dry_run(cells: Sequence[Cell], place: Home, options: BenchOptions, as_json: bool) -> int:
    needs = [need(cell, place) for cell in cells]
    known = [one.cpu_s for one in needs if one.cpu_s is not None]
    facts = {"count": len(cells), "cpu_s": sum(known), "unknown": len(needs) - len(known)}
    if as_json:
        told = [{**cell.to_dict(), **vars(one)} for cell, one in zip(cells, needs, strict=True)]
        print(json.dumps({**facts, "cells": told}))
        return 0
    rows = [
        [
            cell.spec.row,
            cell.spec.task,
            str(cell.spec.seed),
            cell.state,
            _number(one.cpu_s),
            _number(one.memory_mb),
        ]
        for cell, one in zip(cells, needs, strict=True)
    ]
    print_table("Cells to run", ["model", "task", "seed", "state", "CPU-s", "MB"], rows)
    unknown = f", and {facts['unknown']} cells nobody has timed" if facts["unknown"] else ""
    total = sum(known)
    print(
        f"about {f'{total:.0f} CPU-seconds' if total < 120 else f'{total / 60:.0f} CPU-minutes'}{unknown}"
    )
    return 0


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def status(choice: Choice, against: Path | None, *, home: Path | None, as_json: bool) -> int:
    """`status`: every cell and its state, or what differs from another folder of evidence."""
    place = open_home(home)
    if against is not None:
        return _print_differences(place, against, as_json)
    _print_matrix([cell_of(plan, place) for plan in matrix(choice)], choice.track, as_json)
    return 0


def _print_matrix(cells: Sequence[Cell], track: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"track": track, "cells": [cell.to_dict() for cell in cells]}))
        return
    print_table(f"Track {track}: mean test error (seeds), or the state", *grid(cells))
    for line in remarks(cells):
        print(line)
    print(summary(cells))
    if any(cell.state == "failed" for cell in cells):
        print("run the failed ones again with --only failed")


def _print_differences(place: Home, against: Path, as_json: bool) -> int:
    found = differences(place.results, against)
    if as_json:
        print(json.dumps([one.to_dict() for one in found]))
        return 0
    rows = [
        [
            one.spec.track,
            one.spec.task,
            one.spec.row,
            str(one.spec.seed),
            one.spec.short,
            _score(one.here),
            _score(one.there),
        ]
        for one in found
    ]
    print_table(
        f"Evidence here and in {against}",
        ["track", "task", "model", "seed", "key", "here", "there"],
        rows,
    )
    return 0


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


# -------------------------------------------------------------------------------------- calibration


def calibrate_pairs(choice: Choice, *, device: str, home: Path | None, as_json: bool) -> int:
    """`bench --calibrate`: steps that fit the track's budget, written to registry.toml."""
    from gsnobench.bench.calibrate import calibrate

    written: dict[str, dict[str, int]] = {}
    with progress(quiet=as_json) as report:
        machine = Machine(open_home(home), choose_device(device), report=report)
        for plan in matrix(replace(choice, seeds=(0,))):
            if plan.declined is None:
                written[f"{plan.spec.row} on {plan.spec.task}"] = calibrate(plan, machine)
    if as_json:
        print(json.dumps(written))
        return 0
    rows = [[pair, str(steps or "closed form")] for pair, steps in written.items()]
    print_table(f"Steps on track {choice.track}", ["pair", "steps"], rows)
    return 0
