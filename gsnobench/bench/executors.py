"""Where a set of runs happens: in this process, or in a pool of processes; other places are plugins
of the same hook.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from gsnobench.declare import Executor, Limits
from gsnobench.errors import PluginError, RunError, did_you_mean
from gsnobench.home import open_home
from gsnobench.plugins import listed, load
from gsnobench.processes import die_with, pinned, receive
from gsnobench.records import RunResult, RunSpec
from gsnobench.runs.machine import devices_of
from gsnobench.runs.run import record_failure

POLL_S = 0.2  # between two looks at the time and the memory of running cells
# a process that dies without a word (say, at the hand of the system) is replaced so many times,
# less one
LIVES = 2
# what every cell would import; the second comes with the first optimiser
PRELOADED = ["gsnobench.bench.worker", "torch._dynamo"]


def executor(name: str) -> Executor:
    """An executor by name: `local` and `pool` are here, the others come from plugins."""
    known = {*BUILT_IN, *(one.name for one in listed("executor"))}
    if name not in known:
        raise PluginError(f"{name}: no such executor; {did_you_mean(name, known)}")
    return BUILT_IN[name] if name in BUILT_IN else load("executor", name)


# -------------------------------------------------------------------------------------------- local


def _check_local(limits: Limits) -> None:
    if limits.seconds or limits.memory_mb or limits.jobs > 1:
        raise RunError(
            "executor local: runs one cell at a time and cannot limit it; use --executor pool"
        )


def _run_local(specs: Sequence[RunSpec], limits: Limits) -> Iterator[RunResult]:
    from gsnobench.bench.worker import answer

    for spec in specs:
        yield RunResult.from_json(
            answer(json.dumps(spec.to_dict()), limits.home, limits.device, limits.threads)
        )


# --------------------------------------------------------------------------------------------- pool


@dataclass
class Running:
    """A cell in its process."""

    spec: RunSpec
    process: Any  # multiprocessing's process of the fork server
    channel: Connection
    device: str
    lives: int
    begun: float

    def overrun(self, limits: Limits) -> str:
        """Why the cell has to be stopped, or nothing."""
        if limits.seconds and time.monotonic() - self.begun > limits.seconds:
            return f"time: over the limit of {limits.seconds:g} s"
        used = _memory_mb(self.process.pid) if limits.memory_mb else 0.0
        return (
            f"memory: {used:.0f} MB, over the limit of {limits.memory_mb:g} MB"
            if used > limits.memory_mb
            else ""
        )

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.channel.close()


def _run_pool(specs: Sequence[RunSpec], limits: Limits) -> Iterator[RunResult]:
    """A process a cell, `jobs` at a time, each on its own threads or device: what one cell does
    cannot reach the others.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    home = open_home(limits.home)
    waiting = deque((spec, LIVES) for spec in specs)
    devices, running = deque(devices_of(limits)), list[Running]()
    try:
        while waiting or running:
            while waiting and devices:
                spec, lives = waiting.popleft()
                running.append(_start(context, spec, lives, devices.popleft(), limits))
            ready = wait([one.channel for one in running], POLL_S)
            for one in list(running):
                text = receive(one.channel) if one.channel in ready else None
                reason = "" if one.channel in ready else one.overrun(limits)
                if one.channel not in ready and not reason:
                    continue
                one.stop()
                running.remove(one)
                devices.append(one.device)
                if text is None and not reason and one.lives > 1:
                    waiting.append((one.spec, one.lives - 1))
                elif text is None:
                    yield record_failure(
                        one.spec, home, reason or f"its process died {LIVES} times"
                    )
                else:
                    yield RunResult.from_json(text)
    finally:
        for one in running:
            one.stop()


def run_alone(spec_json: str, limits: Limits) -> str:
    """One run in a process of its own within its limits: what other executors send to their
    machines.
    """
    spec = RunSpec.from_dict(json.loads(spec_json))
    return next(_run_pool([spec], replace(limits, jobs=1))).to_json()


def _start(context: Any, spec: RunSpec, lives: int, device: str, limits: Limits) -> Running:
    ours, theirs = context.Pipe()
    args = (theirs, json.dumps(spec.to_dict()), limits.home, device, limits.threads)
    process = context.Process(target=_serve, args=args)
    with pinned(limits.threads):  # the fork server takes its environment from its first start
        process.start()
    theirs.close()
    return Running(spec, process, ours, device, lives, time.monotonic())


def _serve(channel: Connection, spec_json: str, home: Any, device: str, threads: int) -> None:
    """The life of a cell's process; it ends with the cell, or with the process that asked for it."""
    from gsnobench.bench.worker import answer

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the asker's to answer
    threading.Thread(target=die_with, args=(channel,), daemon=True).start()
    channel.send(answer(spec_json, home, device, threads))


def _memory_mb(pid: int) -> float:
    """Memory of a process and its children; 0 where it is gone already."""
    try:
        process = psutil.Process(pid)
        return (
            sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
            / 2**20
        )
    except psutil.Error:
        return 0.0


BUILT_IN = {
    "local": Executor(
        "local", _run_local, _check_local, help="this process, one run after the other"
    ),
    "pool": Executor(
        "pool", _run_pool, help="a process a run, on pinned threads or one graphics card each"
    ),
}
