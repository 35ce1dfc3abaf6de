"""Kills of processes, as tests of faults make them."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import Any

import psutil


def kill_tree(pid: int) -> None:
    """A process and all it has started, at once, as a power cut would."""
    first = psutil.Process(pid)
    processes = [first, *first.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # some end with the first
            process.kill()
    assert not psutil.wait_procs(processes, timeout=60)[1]


def start_again(database: Any) -> None:
    """Start a killed database; what a kill leaves can refuse a start on a busy machine for a while.

    How a database comes back is its own affair: judged is what goes on with it.
    """
    for pause_s in (1, 5, 20):
        try:
            return database.ensure_postgres_running()
        except subprocess.CalledProcessError:
            time.sleep(pause_s)
    database.ensure_postgres_running()
