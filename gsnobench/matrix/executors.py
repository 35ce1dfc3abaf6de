"""Executors: they run a set of specs, in this process or in a pool; plugins offer other engines.

A run travels as its RunSpec. The side that requests it makes a Plan from names and knobs, and sends
only the plan's spec, as JSON. The side that runs it makes its own Plan from the spec
(`plan_of_spec`), and refuses to run if the spec of that plan differs in any entry: its plugins or
its registry are then of another version. So a spec is all that a process, a node or a batch job
needs, and no machine can return the result of another question. The RunResult comes back as JSON;
what `run` would refuse in one line comes back as a failed result with that line as its reason.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from gsnobench.declare import Executor, Limits
from gsnobench.errors import GsnobenchError, PluginError, RunError, did_you_mean
from gsnobench.home import open_home
from gsnobench.plugins import listed, load
from gsnobench.processes import Child, Parent, ready, start_forked, stopped_at_end
from gsnobench.records import RunResult, RunSpec
from gsnobench.registry import read_registry
from gsnobench.runs.machine import Machine, choose_device, devices_of
from gsnobench.runs.plan import plan_of_spec
from gsnobench.runs.run import record_failure, run_plan

POLL_S = 0.2  # between two looks at the time and the memory of running cells
LIVES = 2  # processes that a cell may use up: one that dies without a message is replaced once
SHARED_DISK = ("local", "pool")  # cells see this home: their data are made first, by all cores
# what every cell would import; the second comes with the first optimiser
PRELOADED = ("gsnobench.matrix.executors", "torch._dynamo")


def executor(name: str) -> Executor:
    """An executor by name: `local` and `pool` are here, the others come from plugins."""
    known = {*BUILT_IN, *(entry.name for entry in listed("executor"))}
    if name not in known:
        raise PluginError(f"{name}: no such executor; {did_you_mean(name, known)}")
    return BUILT_IN[name] if name in BUILT_IN else load("executor", name)


def run_spec(spec_json: str, home: Path, device: str, threads: int) -> str:
    """The result of a spec, computed in this process; every error becomes a failed result."""
    spec, opened = RunSpec.from_dict(json.loads(spec_json)), open_home(home)
    try:
        machine = Machine(opened, choose_device(device), jobs=threads, threads=threads)
        return run_plan(plan_of_spec(spec, read_registry(home=opened)), machine).to_json()
    except GsnobenchError as error:
        return record_failure(spec, opened, str(error)).to_json()


def run_alone(spec_json: str, limits: Limits) -> str:
    """One run in a process of its own, within its limits: what plugins send to their machines."""
    spec = RunSpec.from_dict(json.loads(spec_json))
    return next(_run_pool([spec], replace(limits, jobs=1))).to_json()


# -------------------------------------------------------------------------------------------- local


def _check_local(limits: Limits) -> None:
    if limits.seconds or limits.memory_mb or limits.jobs > 1:
        raise RunError(
            "executor local: runs one cell at a time and cannot limit it; use --executor pool"
        )


def _run_local(specs: Sequence[RunSpec], limits: Limits) -> Iterator[RunResult]:
    for spec in specs:
        text = run_spec(json.dumps(spec.to_dict()), limits.home, limits.device, limits.threads)
        yield RunResult.from_json(text)


# --------------------------------------------------------------------------------------------- pool


@dataclass(frozen=True)
class Running:
    """A cell that runs in a process."""

    spec: RunSpec
    device: str
    lives: int
    begun: float

    def overrun(self, child: Child, limits: Limits) -> str:
        """Why the cell has to be stopped; empty if it need not be."""
        if limits.seconds and time.monotonic() - self.begun > limits.seconds:
            return f"time: over the limit of {limits.seconds:g} s"
        used = _memory_mb(child.pid) if limits.memory_mb else 0.0
        if used > limits.memory_mb:
            return f"memory: {used:.0f} MB, over the limit of {limits.memory_mb:g} MB"
        return ""


def _run_pool(specs: Sequence[RunSpec], limits: Limits) -> Iterator[RunResult]:
    """One process per cell, `jobs` at a time, each on its own threads or device.

    What a cell does cannot reach the others.
    """
    home = open_home(limits.home)
    waiting = deque((spec, LIVES) for spec in specs)
    devices = deque(devices_of(limits))
    running: dict[Child, Running] = {}
    with stopped_at_end(running):
        while waiting or running:
            while waiting and devices:
                spec, lives = waiting.popleft()
                cell = Running(spec, devices.popleft(), lives, time.monotonic())
                running[_start(cell, limits)] = cell
            is_ready = set(ready(running, POLL_S))
            for child, cell in list(running.items()):
                reason = "" if child in is_ready else cell.overrun(child, limits)
                if child not in is_ready and not reason:
                    continue
                text = child.receive() if child in is_ready else None
                child.stop()
                del running[child]
                devices.append(cell.device)
                if text is not None:
                    yield RunResult.from_json(text)
                elif not reason and cell.lives > 1:
                    waiting.append((cell.spec, cell.lives - 1))
                else:
                    reason = reason or f"its process died {LIVES} times"
                    yield record_failure(cell.spec, home, reason)


def _start(cell: Running, limits: Limits) -> Child:
    args = (json.dumps(cell.spec.to_dict()), limits.home, cell.device, limits.threads)
    return start_forked(_run_cell, *args, threads=limits.threads, preload=PRELOADED)


def _run_cell(parent: Parent, spec_json: str, home: Path, device: str, threads: int) -> None:
    """What the process of a cell does."""
    parent.send(run_spec(spec_json, home, device, threads))


def _memory_mb(pid: int) -> float:
    """Memory of a process and its children; 0 if it has ended."""
    try:
        process = psutil.Process(pid)
        family = (process, *process.children(recursive=True))
        return sum(member.memory_info().rss for member in family) / 2**20
    except psutil.Error:
        return 0.0


BUILT_IN = {
    "local": Executor(
        "local", _run_local, _check_local, help="this process, one run after the other"
    ),
    "pool": Executor(
        "pool", _run_pool, help="one process per run, on pinned threads or one graphics card each"
    ),
}
