"""What a run needs to go on exactly where it was cut: progress, weights, optimiser, best weights;
written atomically.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gsnobench.errors import DataError
from gsnobench.files import atomic
from gsnobench.home import RunFolder


@dataclass
class Clock:
    """CPU and wall seconds of training; validation is kept apart."""

    train_cpu_s: float = 0.0
    train_s: float = 0.0
    validate_cpu_s: float = 0.0


@dataclass
class Progress:
    """How far training has come."""

    phase: int = 0
    step: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    best: float = math.inf
    best_step: int = -1
    curve: list[dict[str, Any]] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)


@dataclass
class Checkpoint:
    """Everything beside the module that a resumed run needs."""

    progress: Progress = field(default_factory=Progress)
    optimiser: dict[str, Any] | None = None
    best: dict[str, torch.Tensor] | None = None
    average: dict[str, torch.Tensor] | None = None

    def write(self, folder: Path, module: nn.Module) -> None:
        """Save atomically: a kill leaves the previous checkpoint."""
        body = {
            "progress": {**vars(self.progress), "clock": vars(self.progress.clock)},
            "module": module.state_dict(),
            "optimiser": self.optimiser,
            "best": self.best,
            "average": self.average,
        }
        with atomic(RunFolder(folder).checkpoint) as part:
            torch.save(body, part)

    def follow(self, module: nn.Module, decay: float, step: int) -> None:
        """Let the averaged weights follow the live ones, with a short memory at the start."""
        now = min(decay, (1 + step) / (10 + step))
        if self.average is None:
            self.average = {
                name: value.detach().clone() for name, value in module.named_parameters()
            }
        for name, value in module.named_parameters():
            self.average[name].lerp_(value.detach(), 1 - now)

    @contextmanager
    def averaged(self, module: nn.Module) -> Iterator[None]:
        """The module holds the averaged weights inside this block, if there are any."""
        self._swap(module)
        yield
        self._swap(module)

    def _swap(self, module: nn.Module) -> None:
        if self.average is not None:
            for name, value in module.named_parameters():
                value.data, self.average[name] = self.average[name], value.data


def read_checkpoint(folder: Path, module: nn.Module, device: torch.device) -> Checkpoint:
    """The last checkpoint, its weights loaded into the module; a fresh one where there is none."""
    path = RunFolder(folder).checkpoint
    if not path.exists():
        return Checkpoint()
    try:
        body = torch.load(path, weights_only=True, map_location=device)
    except Exception as error:
        raise DataError(
            f"{path}: unreadable checkpoint ({error}); repeat the run with --force"
        ) from error
    values = body["progress"]
    load_state(module, body["module"])
    progress = Progress(**{**values, "clock": Clock(**values["clock"])})
    return Checkpoint(progress, body["optimiser"], body["best"], body["average"])


def load_state(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Load weights; buffers take the size they have in the file, since closed-form phases decide
    it.
    """
    for name, value in state.items():
        owner_name, _, leaf = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        if leaf in owner._buffers:
            owner._buffers[leaf] = value.clone()
    module.load_state_dict(dict(state))
