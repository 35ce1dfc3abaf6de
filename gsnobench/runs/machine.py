"""The machine of a run: its home folder, its device, its processes, and who sees the progress."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch

from gsnobench.data import Task
from gsnobench.datasets.ensure import ensure
from gsnobench.declare import Dataset, Limits
from gsnobench.errors import RunError
from gsnobench.home import Home

MOST_WORK = 16_384  # nodes x samples of a step that one thread computes faster than two
PICTURES_VARIABLE = "GSNOBENCH_PICTURES"  # `none`: runs draw nothing
# Parameters of mallopt in glibc's malloc.h, and the bytes of free memory that a process keeps.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES, LARGEST_KEPT_BLOCK = 2**30, 2**27
MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
OnEpoch = Callable[[str, int, Mapping[str, float]], None]  # phase, epoch, scores


@dataclass(frozen=True)
class Report:
    """Who sees the progress; every call is cheap and may be ignored."""

    stage: Callable[[str], None] = lambda text: None
    data: Callable[[int, int], None] = lambda done, total: None
    step: Callable[[int, int, float], None] = lambda step, total, best: None
    warn: Callable[[str], None] = lambda text: None


def wants_pictures() -> bool:
    """Whether runs draw: a picture takes longer than a short training, and some have no reader."""
    value = os.environ.get(PICTURES_VARIABLE, "")
    if value not in ("", "none"):
        raise RunError(f"{PICTURES_VARIABLE}: {value!r} is unknown; expected none, or unset it")
    return not value


@dataclass(frozen=True)
class Machine:
    """What a run needs beside its plan; nothing here changes the key of the run."""

    home: Home
    device: torch.device
    jobs: int = 0  # processes that generate data; 0: one per core
    threads: int = 0  # of the training; 0: by the size of the work
    tags: Mapping[str, str] | None = None  # for the observers
    report: Report = Report()
    draws: bool = field(default_factory=wants_pictures)  # cases and curve of a trained model
    gif: bool = False  # also animate the median test sample
    watch: OnEpoch | None = None  # may raise `gb.Prune`: a search ends a run early with it

    def ensure_data(self, dataset: Dataset, task: Task, *, label: str = "") -> Path:
        """The NetCDF file of a task, generated here if it is missing."""
        self.report.stage(f"data of {label or task.id}")
        return ensure(dataset, task, home=self.home.root, jobs=self.jobs, progress=self.report.data)


def threads_for(work: int) -> int:
    """Threads for steps of so many nodes x samples: more than one slow small steps down."""
    return max(1, min(os.cpu_count() or 1, work // MOST_WORK))


@cache
def keep_freed_memory() -> bool:
    """Let this process keep the memory that a step frees, for the next step; whether it does.

    glibc returns free memory to the system at sizes that depend on what was allocated before, and
    every page that comes back is a fault. So the same step cost up to 45 % more CPU in one process
    than in another. A person's own settings win; other allocators have no `mallopt`.
    """
    if any(os.environ.get(name) for name in MALLOC_VARIABLES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BLOCK) and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    )


@contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Compute with so many threads inside this block."""
    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_device(text: str) -> torch.device:
    """`auto` is CUDA if there is one, else the CPU."""
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
    except RuntimeError:
        raise RunError(
            f"device: {text!r} is not a device; expected auto, cpu, cuda or cuda:0"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RunError("device: no CUDA device is available here; use --device cpu")
    return device


def devices_of(limits: Limits) -> list[str]:
    """One device per cell that runs at a time: the graphics cards in turn, or the CPU."""
    if choose_device(limits.device).type != "cuda" or ":" in limits.device:
        return [limits.device] * (limits.jobs or max(1, (os.cpu_count() or 1) // limits.threads))
    cards = torch.cuda.device_count()
    return [f"cuda:{slot % cards}" for slot in range(limits.jobs or cards)]
