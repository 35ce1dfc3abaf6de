"""The processes of a sweep on this host: each asks, trains and tells by itself; one that dies is
replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from gsnobench.declare import Limits
from gsnobench.errors import GsnobenchError, RunError
from gsnobench.home import open_home
from gsnobench.processes import die_with, pinned
from gsnobench.runs.machine import Machine, Report, choose_device, devices_of
from gsnobench.sweep.search import Search, open_trials, work
from gsnobench.tracking.observer import WAIT_VARIABLE

MOST_DEATHS = 8  # of workers in one command: beyond that the machine is at fault, not chance


@dataclass(frozen=True)
class Place:
    """Where a sweep runs; nothing here changes what it finds."""

    home: Path
    # address of a database, else a journal in the home; may hold a password, so it is never an
    # argument
    storage: str = ""
    device: str = "auto"
    workers: int = 1
    threads: int = 1
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Worker:
    """One process and the line to it."""

    process: Any
    channel: Connection
    slot: int
    device: str

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.channel.close()


def run_workers(
    search: Search, place: Place, hear: Callable[[str, Mapping[str, Any]], None]
) -> None:
    """Work until nothing is left to do; a worker's mistake ends them all, its death does not."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gsnobench.sweep.workers"])
    devices = devices_of(
        Limits(home=place.home, device=place.device, jobs=place.workers, threads=place.threads)
    )
    workers = [
        _start(context, search, replace(place, device=device), slot)
        for slot, device in enumerate(devices)
    ]
    deaths = 0
    try:
        while workers:
            for channel in wait([one.channel for one in workers]):
                worker = next(one for one in workers if one.channel is channel)
                event, content = _receive(worker.channel)
                if event == "mistake":
                    raise RunError(str(content["text"]))
                if event not in ("end", "death"):
                    hear(event, content)
                    continue
                worker.stop()
                workers.remove(worker)
                if event == "death":
                    deaths += 1
                    if deaths > MOST_DEATHS:
                        raise RunError(
                            f"sweep {search.name}: {deaths} workers died; look at the memory, or "
                            "use fewer --workers"
                        )
                    hear("death", {"deaths": deaths})
                    workers.append(
                        _start(context, search, replace(place, device=worker.device), worker.slot)
                    )
    finally:
        for one in workers:
            one.stop()


def _start(context: Any, search: Search, place: Place, slot: int) -> Worker:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, search, place, slot))
    with pinned(place.threads):  # the fork server takes its environment from its first start
        process.start()
    theirs.close()
    return Worker(process, ours, slot, place.device)


def _receive(channel: Connection) -> tuple[str, Mapping[str, Any]]:
    try:
        event, content = channel.recv()
        return str(event), content
    except (EOFError, OSError):
        return "death", {}


def _serve(channel: Connection, search: Search, place: Place, slot: int) -> None:
    """The life of a worker's process; it ends with its work, or with the process that started it."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the starter's to answer
    threading.Thread(target=die_with, args=(channel,), daemon=True).start()
    torch.set_num_threads(place.threads)
    # the mirror follows by itself: a trial need not wait for it
    os.environ.setdefault(WAIT_VARIABLE, "0")
    report = Report(warn=lambda text: channel.send(("warning", {"text": text})))
    try:
        home = open_home(place.home)
        machine = Machine(
            home, choose_device(place.device), jobs=place.threads, tags=place.tags, report=report
        )
        work(
            search,
            open_trials(search, home, place.storage),
            machine,
            lambda *told: channel.send(told),
            slot=slot,
        )
        channel.send(("end", {}))
    except GsnobenchError as error:
        channel.send(("mistake", {"text": str(error)}))
