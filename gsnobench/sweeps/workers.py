"""The processes of a sweep on this host: each runs trials by itself; one that dies is replaced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.declare import Limits
from gsnobench.errors import GsnobenchError, RunError
from gsnobench.home import open_home
from gsnobench.processes import Child, Parent, ready, start_forked, stopped_at_end
from gsnobench.runs.machine import Machine, Report, choose_device, devices_of
from gsnobench.sweeps.search import OnEvent, Search, open_trials, work
from gsnobench.tracking.observer import WAIT_VARIABLE

MOST_DEATHS = 8  # of workers in one command: beyond that the machine is at fault, not chance
PRELOADED = ("gsnobench.sweeps.workers",)


@dataclass(frozen=True)
class WorkerOptions:
    """How many workers run, and on what; nothing here changes the result of a sweep."""

    home: Path
    storage: str = ""  # a database, else a journal in the home; may hold a password
    device: str = "auto"
    workers: int = 1
    threads: int = 1
    tags: Mapping[str, str] | None = None


def run_workers(search: Search, options: WorkerOptions, on_event: OnEvent) -> None:
    """Work until nothing is left to do; the error of a worker ends them all, its death does not."""
    limits = Limits(
        home=options.home, device=options.device, jobs=options.workers, threads=options.threads
    )
    devices = devices_of(limits)
    slots: dict[Child, int] = {}

    def start(slot: int) -> None:
        slots[_start(search, replace(options, device=devices[slot]))] = slot

    deaths = 0
    with stopped_at_end(slots):
        for slot in range(len(devices)):
            start(slot)
        while slots:
            for child in ready(slots):
                message: tuple[str, Mapping[str, Any]] = child.receive() or ("death", {})
                event, content = message
                if event == "error":
                    raise RunError(str(content["text"]))
                if event not in ("end", "death"):
                    on_event(event, content)
                    continue
                child.stop()
                slot = slots.pop(child)
                if event == "death":
                    deaths += 1
                    if deaths > MOST_DEATHS:
                        raise RunError(
                            f"sweep {search.name}: {deaths} workers died; look at the memory, or "
                            "use fewer --workers"
                        )
                    on_event("death", {"deaths": deaths})
                    start(slot)


def _start(search: Search, options: WorkerOptions) -> Child:
    return start_forked(_run_worker, search, options, threads=options.threads, preload=PRELOADED)


def _run_worker(parent: Parent, search: Search, options: WorkerOptions) -> None:
    """What the process of a worker does."""
    os.environ.setdefault(WAIT_VARIABLE, "0")  # a trial need not wait for the mirror of its run
    report = Report(warn=lambda text: parent.send(("warning", {"text": text})))
    try:
        home = open_home(options.home)
        machine = Machine(
            home,
            choose_device(options.device),
            jobs=options.threads,
            threads=options.threads,
            tags=options.tags,
            report=report,
        )
        trials = open_trials(search, home, options.storage)
        work(search, trials, machine, lambda *event: parent.send(event))
        parent.send(("end", {}))
    except GsnobenchError as error:
        parent.send(("error", {"text": str(error)}))
