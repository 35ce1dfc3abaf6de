"""What a run needs to resume exactly: progress, weights, optimiser, best and averaged weights."""

from __future__ import annotations

import hashlib
import io
import math
import time
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

CHECKSUM_BYTES = 32  # of SHA-256, before the content


@dataclass
class Clock:
    """CPU and wall seconds of training; validation is counted apart."""

    train_cpu_s: float = 0.0
    train_s: float = 0.0
    validate_cpu_s: float = 0.0
    reference_sum_s: float = 0.0  # CPU-seconds of the reference step, all readings added
    reference_readings: int = 0

    @property
    def reference_step_s(self) -> float:
        """Mean CPU-seconds of the reference step during the training; 0: not timed."""
        return self.reference_sum_s / max(self.reference_readings, 1)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Count the time of this block as training."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.train_cpu_s += time.process_time() - cpu
        self.train_s += time.perf_counter() - wall

    @contextmanager
    def validation(self) -> Iterator[None]:
        """Count the time of this block as validation."""
        cpu = time.process_time()
        yield
        self.validate_cpu_s += time.process_time() - cpu


@dataclass
class Progress:
    """How far training has come."""

    phase: int = 0
    step: int = 0  # of the phase
    loss_sum: float | torch.Tensor = 0.0  # of the epoch, on the device until the epoch ends
    loss_count: int = 0
    best: float = math.inf  # validation score of the phase
    best_step: int = -1
    curve: list[dict[str, Any]] = field(default_factory=list)  # one entry per epoch
    clock: Clock = field(default_factory=Clock)

    def add_loss(self, loss: torch.Tensor) -> None:
        """Add the loss of a step to the epoch's mean, without waiting for its device."""
        self.loss_sum, self.loss_count = self.loss_sum + loss, self.loss_count + 1

    def take_mean_loss(self) -> float:
        """The mean loss of the epoch; the next epoch begins at zero."""
        mean = float(self.loss_sum) / max(self.loss_count, 1)
        self.loss_sum, self.loss_count = 0.0, 0
        return mean

    def start_next_phase(self) -> None:
        """Begin the next phase at step 0 without a best score."""
        self.phase, self.step = self.phase + 1, 0
        self.best, self.best_step = math.inf, -1


@dataclass
class Checkpoint:
    """Everything beside the module that a resumed run needs."""

    progress: Progress = field(default_factory=Progress)
    optimiser: dict[str, Any] | None = None  # state of the phase's optimiser
    best: dict[str, torch.Tensor] | None = None  # weights with the best validation score
    average: dict[str, torch.Tensor] | None = None  # exponential moving average of the weights

    def write(self, folder: Path, module: nn.Module) -> None:
        """Save atomically: a killed process leaves the previous checkpoint."""
        body = {
            "progress": {**vars(self.progress), "clock": vars(self.progress.clock)},
            "module": module.state_dict(),
            "optimiser": self.optimiser,
            "best": self.best,
            "average": self.average,
        }
        content = io.BytesIO()
        torch.save(body, content)
        with atomic(RunFolder(folder).checkpoint) as part, part.open("wb") as file:
            file.write(hashlib.sha256(content.getbuffer()).digest())
            file.write(content.getbuffer())

    def follow(self, module: nn.Module, decay: float, step: int) -> None:
        """Move the averaged weights towards the trained ones, faster in the first steps."""
        slow = min(decay, (1 + step) / (10 + step))
        weights = {name: value.detach() for name, value in module.named_parameters()}
        if self.average is None:
            self.average = {name: value.clone() for name, value in weights.items()}
        for name, value in weights.items():
            self.average[name].lerp_(value, 1 - slow)

    @contextmanager
    def averaged(self, module: nn.Module) -> Iterator[None]:
        """The module holds the averaged weights inside this block, if there are any."""
        self._swap(module)
        try:
            yield
        finally:
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
        content = path.read_bytes()
        if hashlib.sha256(content[CHECKSUM_BYTES:]).digest() != content[:CHECKSUM_BYTES]:
            raise ValueError("its checksum does not match its content")
        stored = io.BytesIO(content[CHECKSUM_BYTES:])
        body = torch.load(stored, weights_only=True, map_location=device)
    except Exception as error:
        raise DataError(
            f"{path}: unreadable checkpoint ({error}); --force begins the run again"
        ) from error
    load_state(module, body["module"])
    progress = Progress(**body["progress"])
    progress.clock = Clock(**body["progress"]["clock"])
    return Checkpoint(progress, body["optimiser"], body["best"], body["average"])


def load_state(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Load weights; buffers get the size they have in the file, as closed-form phases decide it."""
    for name, value in state.items():
        owner_name, _, leaf = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        if leaf in owner._buffers:
            owner._buffers[leaf] = value.clone()
    module.load_state_dict(dict(state))
