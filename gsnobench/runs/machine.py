"""Where a run happens: the home folder, the device, and whom to tell about progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from gsnobench.declare import Limits
from gsnobench.errors import RunError
from gsnobench.home import Home

OnEpoch = Callable[[str, int, Mapping[str, float]], None]


@dataclass(frozen=True)
class Report:
    """Where progress goes; every call is cheap and may be ignored."""

    stage: Callable[[str], None] = lambda text: None
    data: Callable[[int, int], None] = lambda done, total: None
    step: Callable[[int, int, float], None] = lambda step, total, best: None
    warn: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Machine:
    """The machine's side of a run: nothing here changes the question."""

    home: Home
    device: torch.device
    jobs: int = 0
    tags: Mapping[str, str] | None = None
    report: Report = Report()
    gif: bool = False  # also animate a case, where there are frames to animate
    # hears of every epoch and may raise `gb.Prune`: how a search ends a run early
    watch: OnEpoch | None = None


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
    """A device for each cell that runs at a time: the graphics cards in turn, or the CPU."""
    if choose_device(limits.device).type != "cuda" or ":" in limits.device:
        return [limits.device] * (limits.jobs or max(1, (os.cpu_count() or 1) // limits.threads))
    cards = torch.cuda.device_count()
    return [f"cuda:{slot % cards}" for slot in range(limits.jobs or cards)]
