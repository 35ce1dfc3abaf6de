"""Kills of processes, as tests of faults make them."""

from __future__ import annotations

from contextlib import suppress

import psutil


def kill_tree(pid: int) -> None:
    """A process and all it has started, at once, as a power cut would."""
    first = psutil.Process(pid)
    processes = [first, *first.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # some end with the first
            process.kill()
    assert not psutil.wait_procs(processes, timeout=60)[1]
