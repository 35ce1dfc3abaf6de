"""fit(), the only training loop.

A step depends on (seed, phase, step) alone, so an interrupted and resumed run gives the same
weights as a run without interruption. Read from top to bottom: a Job, its phases, one step of a
phase, what a step draws, its loss, and the validation that selects weights.
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from gsnobench.batch import Batch
from gsnobench.data import Split
from gsnobench.declare import Fit, Horizon, Phase
from gsnobench.errors import Interrupted
from gsnobench.training.checkpoint import Checkpoint, Clock, Progress, read_checkpoint
from gsnobench.training.ctrl_c import CtrlC
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import relative_l2
from gsnobench.training.optimisation import (
    TrainParams,
    beta1,
    make_optimiser,
    rate,
    rate_groups,
    steps_per_epoch,
    trained_parameters,
)
from gsnobench.training.reference_step import Metronome
from gsnobench.training.rollout import headline, rollout, windows

MOST_VALIDATIONS = 60  # per phase: enough to select weights, cheap beside the training
CHECKPOINT_S = 20.0  # seconds between two checkpoints; GSNOBENCH_CHECKPOINT_S overrides it
EXPLODED = 1e4  # a model with a larger relative error does not recover


def _ignore(*_: object) -> None:
    """The default of both callbacks."""


@dataclass(frozen=True, eq=False)
class Job:
    """What fit() works on."""

    module: nn.Module
    train: Loader
    valid: Loader
    phases: tuple[Phase, ...]
    steps: Mapping[str, int]  # phase -> optimiser steps
    horizon: Horizon
    frames: int  # to predict in all, by as many calls of the module as it takes
    params: TrainParams
    seed: int
    folder: Path  # of the checkpoint
    reference_every_s: float = 0.0  # CPU-seconds between readings of the reference step; 0: none
    on_epoch: Callable[[str, int, Mapping[str, float]], None] = _ignore  # phase, epoch, scores
    on_step: Callable[[int, int, float], None] = _ignore  # step, steps in all, best score


@dataclass(frozen=True)
class Outcome:
    """How training ended; the module then holds the weights with the best validation score."""

    reason: str  # why it diverged; empty if it did not
    progress: Progress


def fit(job: Job) -> Outcome:
    """All phases in order, from the checkpoint in the folder if there is one."""
    state = read_checkpoint(job.folder, job.module, job.train.device)
    progress = state.progress
    while progress.phase < len(job.phases):
        phase = job.phases[progress.phase]
        is_closed_form = phase.solve is not None
        reason = _solve(job, phase, progress) if is_closed_form else _descend(job, phase, state)
        if reason:
            return Outcome(reason, progress)
        progress.start_next_phase()
        state.optimiser, state.best = None, None
        state.write(job.folder, job.module)
    return Outcome("", progress)


# ---------------------------------------------------------------------------- two kinds of phases


def prepare(job: Job, phase: Phase, clock: Clock) -> None:
    """What a phase computes once: its closed form, or what its steps need; a part of training."""
    with clock.training():
        if phase.solve is not None:
            with torch.no_grad():
                phase.solve(job.module, fit_view(job))
        elif phase.prepare is not None:
            phase.prepare(job.module, fit_view(job))


def _solve(job: Job, phase: Phase, progress: Progress) -> str:
    """A closed-form phase; returns why it failed, or nothing."""
    prepare(job, phase, progress.clock)
    score = _validation_score(job, phase, progress)
    progress.curve.append({"phase": phase.name, "epoch": 1, "step": 0, "valid": score})
    job.on_epoch(phase.name, 1, {"valid": score})
    return "" if math.isfinite(score) else f"{phase.name}: the validation error is not finite"


@dataclass(frozen=True, eq=False)
class Descent:
    """A phase of gradient descent: what its steps share."""

    job: Job
    phase: Phase
    state: Checkpoint
    module: nn.Module  # the job's, compiled if requested
    trained: list[nn.Parameter]
    optimiser: torch.optim.Optimizer

    @property
    def progress(self) -> Progress:
        return self.state.progress

    @property
    def total(self) -> int:
        """Steps of the phase."""
        return self.job.steps[self.phase.name]

    @property
    def done(self) -> float:
        """Share of the steps that have been made."""
        return self.progress.step / self.total

    @property
    def epoch_steps(self) -> int:
        """Steps per epoch."""
        train = self.job.train
        return steps_per_epoch(len(train), len(train.starts), self.job.params)


def _descend(job: Job, phase: Phase, state: Checkpoint) -> str:
    """A phase of gradient descent; returns why it diverged, or nothing."""
    if state.progress.step == 0:
        prepare(job, phase, state.progress.clock)
    descent = _begin(job, phase, state)
    descent.module.train()
    with CtrlC() as ctrl_c:
        reason = _make_steps(descent, ctrl_c)
    if reason:
        return reason
    if state.best is None:
        return f"{phase.name}: no finite validation error in {descent.total} steps"
    job.module.load_state_dict(state.best)
    return ""


def _make_steps(descent: Descent, ctrl_c: CtrlC) -> str:
    """All steps that are left, with validations and checkpoints; returns why they diverged."""
    job, progress, total = descent.job, descent.progress, descent.total
    patience = float(os.environ.get("GSNOBENCH_CHECKPOINT_S", CHECKPOINT_S))
    saved = time.perf_counter()
    metronome = Metronome(progress.clock, job.reference_every_s) if job.reference_every_s else None
    while progress.step < total:
        with progress.clock.training():
            progress.add_loss(_step(descent))
            progress.step += 1
            is_last = progress.step == total
            ends_epoch = progress.step % descent.epoch_steps == 0 or is_last
            if ends_epoch:  # the only time that the loop waits for an accelerator
                _synchronise(job.train.device)
        if metronome is not None:
            metronome.tick(is_last=is_last)
        job.on_step(progress.step, total, progress.best)
        if ends_epoch and (reason := _end_epoch(descent)):
            return reason
        is_due = ctrl_c.came or time.perf_counter() - saved > patience
        if is_due and not is_last:
            descent.state.optimiser = descent.optimiser.state_dict()
            descent.state.write(job.folder, job.module)
            saved = time.perf_counter()
            if ctrl_c.came:
                raise Interrupted(
                    f"interrupted at step {progress.step} of {total}; a checkpoint is written, the "
                    "same command goes on from there"
                )
    return ""


def _begin(job: Job, phase: Phase, state: Checkpoint) -> Descent:
    """The module and its optimiser, in the state of the checkpoint."""
    module: nn.Module = job.module
    if job.params.compile:
        module = torch.compile(job.module)  # type: ignore[assignment]
    trained = trained_parameters(phase, job.module)
    groups = rate_groups(job.module, trained, phase.rates)
    optimiser = make_optimiser(groups, job.params, job.train.device)
    if state.optimiser is not None:
        optimiser.load_state_dict(state.optimiser)
    return Descent(job, phase, state, module, trained, optimiser)


def steps_of(job: Job, phase: Phase, clock: Clock | None = None) -> Iterator[None]:
    """Make the steps of a prepared phase, one per item, without validation: to be timed."""
    descent = _begin(job, phase, Checkpoint(Progress(clock=clock or Clock())))
    descent.module.train()
    while descent.progress.step < descent.total:
        with descent.progress.clock.training():
            _step(descent)
            descent.progress.step += 1
            _synchronise(job.train.device)
        yield


def fit_view(job: Job) -> Fit:
    """What closed-form phases and preparations see: training and validation data, never test."""
    loaders = {"train": job.train, "valid": job.valid}

    def batches(split: Split) -> Iterator[tuple[Batch, torch.Tensor]]:
        loader = loaders[split]
        for indices, starts in windows(loader, job.params.batch, _starts_to_learn_from(job)):
            batch, target = loader.batch(indices, starts, job.horizon.steps)
            yield batch, loader.encode_target(target, batch)

    train, valid = job.train.samples, job.valid.samples
    return Fit(task=job.train.task, train=train, valid=valid, batches=batches)


def _starts_to_learn_from(job: Job) -> Sequence[int]:
    """The scored starts; for a model that is called several times also where later calls begin."""
    starts, horizon = job.train.starts, job.horizon
    if horizon.steps >= job.frames:
        return starts
    last = int(job.train.samples.frames.shape[1]) - horizon.window - horizon.steps
    return sorted({*starts, *range(0, last + 1, max(1, horizon.steps // 4))})


# --------------------------------------------------------------------------------------- one step


def _step(descent: Descent) -> torch.Tensor:
    """One optimiser step; returns its loss, in double precision and still on the device."""
    job, params, optimiser = descent.job, descent.job.params, descent.optimiser
    step, name, done = descent.progress.step, descent.phase.name, descent.done
    torch.manual_seed(mix(job.seed, name, step))  # dropout must not depend on earlier steps
    draw = torch.Generator().manual_seed(mix(job.seed, name, step, "draw"))
    for group in optimiser.param_groups:
        group["lr"] = params.lr * group.get("share", 1.0) * rate(params, done)
        group["betas"] = (beta1(params, done), params.beta2)
    optimiser.zero_grad(set_to_none=True)
    total = torch.zeros((), dtype=torch.float64, device=job.train.device)
    for part in range(params.accumulate):
        number = step * params.accumulate + part
        drawn = draw_batch(job, descent.phase, number=number, done=done, draw=draw)
        with _precision(job.train.device, params.amp):
            loss = batch_loss(job, descent.phase, descent.module, drawn) / params.accumulate
            loss.backward()
        total += loss.detach()
    if params.clip > 0:
        nn.utils.clip_grad_norm_(descent.trained, params.clip)
    optimiser.step()
    if params.average > 0:
        descent.state.follow(job.module, params.average, step)
    return total


@contextmanager
def _precision(device: torch.device, amp: bool) -> Iterator[None]:
    """Autocast to bfloat16 if requested.

    On a CPU without oneDNN, which crashes on a virtual machine that announces AMX but forbids it.
    """
    is_risky = amp and device.type == "cpu"
    without = torch.backends.mkldnn.flags(enabled=False) if is_risky else nullcontext()
    with without, torch.autocast(device.type, dtype=torch.bfloat16, enabled=amp):
        yield


def _synchronise(device: torch.device) -> None:
    """Wait until the device has done what it was given, so that clocks are right."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# ----------------------------------------------------------------------------- what a step draws


@dataclass(frozen=True, eq=False)
class Drawn:
    """The samples and windows of one batch."""

    indices: torch.Tensor  # (B,)
    starts: torch.Tensor  # (B,)
    frames: int  # to predict
    done: float  # share of the phase's steps that have been made


def draw_batch(job: Job, phase: Phase, *, number: int, done: float, draw: torch.Generator) -> Drawn:
    """The batch of this number: the next part of all training items in the epoch's random order.

    A model that predicts all frames at once sees the scored windows, other models random windows.
    """
    scored_starts, batch = job.train.starts, job.params.batch
    count = len(job.train) * len(scored_starts)
    per_epoch = math.ceil(count / batch)
    epoch, position = divmod(number, per_epoch)
    order = torch.Generator().manual_seed(mix(job.seed, phase.name, epoch, "order"))
    items = torch.randperm(count, generator=order)[position * batch : (position + 1) * batch]
    indices = items // len(scored_starts)
    starts = torch.tensor(scored_starts)[items % len(scored_starts)]
    if job.horizon.steps >= job.frames:
        return Drawn(indices, starts, job.frames, done)
    return _random_windows(job, Drawn(indices, starts, job.horizon.steps, done), draw)


def _random_windows(job: Job, drawn: Drawn, draw: torch.Generator) -> Drawn:
    """The same samples; a share of the windows stays at the scored starts, the rest is random."""
    params, horizon = job.params, job.horizon
    unrolls = (
        drawn.done >= params.unroll_after
        and float(torch.rand((), generator=draw)) < params.unroll_share
    )
    frames = min(job.frames, horizon.steps * horizon.unroll if unrolls else horizon.steps)
    last = int(job.train.samples.frames.shape[1]) - horizon.window - frames
    anywhere = torch.randint(0, last + 1, (len(drawn.indices),), generator=draw)
    stays = torch.rand(len(drawn.indices), generator=draw) < params.start_share
    starts = torch.where(stays, drawn.starts.clamp_max(last), anywhere)
    return Drawn(drawn.indices, starts, frames, drawn.done)


# --------------------------------------------------------------------------------------- its loss


def batch_loss(job: Job, phase: Phase, module: nn.Module, drawn: Drawn) -> torch.Tensor:
    """The loss of a batch: the phase's own in encoded units, else the core's in physical units."""
    loader, indices, frames = job.train, drawn.indices, drawn.frames
    batch, target = loader.batch(indices, drawn.starts, frames)
    if phase.loss is not None:  # it knows the module's class, so it gets the one not compiled
        encoded = loader.encode_target(target, batch)
        return phase.loss(job.module, batch, encoded, drawn.done)
    prediction = rollout(module, loader, batch, indices, frames).float()
    support = loader.scored_nodes(indices).support  # (1 or B, N, C)
    if job.params.loss == "mse":
        error = (prediction - target) / loader.normaliser.output.scale
        count = support.sum() * frames * len(indices) / support.shape[0]
        return (error.square() * support[:, None]).sum() / count
    return relative_l2(prediction, target, support, loader.task).mean()


# -------------------------------------------------------------------------- epochs and validation


def _end_epoch(descent: Descent) -> str:
    """Validate if it is time, keep the best weights; returns why the phase diverged, or nothing."""
    job, phase, progress = descent.job, descent.phase, descent.progress
    loss = progress.take_mean_loss()
    if not math.isfinite(loss) or loss > EXPLODED:
        return f"{phase.name}: the training loss was {loss:.3g} at step {progress.step}"
    scores = {"loss": loss, "lr": job.params.lr * rate(job.params, descent.done)}
    if _is_validated(descent):
        with descent.state.averaged(job.module):
            scores["valid"] = _validation_score(job, phase, progress)
            if scores["valid"] < progress.best:
                progress.best, progress.best_step = scores["valid"], progress.step
                descent.state.best = copy.deepcopy(job.module.state_dict())
    epoch = math.ceil(progress.step / descent.epoch_steps)
    progress.curve.append({"phase": phase.name, "epoch": epoch, "step": progress.step, **scores})
    job.on_epoch(phase.name, epoch, scores)
    return ""


def _is_validated(descent: Descent) -> bool:
    """Whether this epoch ends with a validation: the last one does, and at most so many others."""
    step, total, epoch_steps = descent.progress.step, descent.total, descent.epoch_steps
    every = max(1, math.ceil(total / epoch_steps / MOST_VALIDATIONS))  # epochs
    return step == total or step // epoch_steps % every == 0


def _validation_score(job: Job, phase: Phase, progress: Progress) -> float:
    with progress.clock.validation():
        if phase.score is not None:
            return phase.score(job.module, fit_view(job))
        return headline(job.module, job.valid, job.frames, job.params.batch)


# ------------------------------------------------------------------------------------------- seeds


def mix(*parts: object) -> int:
    """A 63-bit seed from any parts, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1
