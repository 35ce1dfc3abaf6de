"""rollout() and fit(): the only training loop. A step depends on (seed, phase, step) alone, so a
resumed run is the same run.
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
from gsnobench.training.checkpoint import Checkpoint, Progress, read_checkpoint
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import relative_l2
from gsnobench.training.optimisation import (
    TrainParams,
    make_optimiser,
    rate,
    rate_groups,
    steps_per_epoch,
)
from gsnobench.training.rollout import headline, rollout, windows

MOST_VALIDATIONS = 60  # a run: enough to select weights, cheap beside the training
CHECKPOINT_S = 20.0  # seconds between two checkpoints; GSNOBENCH_CHECKPOINT_S overrides
EXPLODED = 1e4  # a relative error beyond this does not come back


@dataclass(frozen=True, eq=False)
class Job:
    """What fit() works on."""

    module: nn.Module
    train: Loader
    valid: Loader
    phases: tuple[Phase, ...]
    steps: Mapping[str, int]
    horizon: Horizon
    frames: int  # to predict in all
    params: TrainParams
    seed: int
    folder: Path
    on_epoch: Callable[[str, int, Mapping[str, float]], None] = lambda phase, epoch, scores: None
    on_step: Callable[[int, int, float], None] = lambda step, total, best: None


@dataclass(frozen=True)
class Outcome:
    """How training ended: the module holds the best weights on validation."""

    reason: str  # empty: well
    progress: Progress


def fit(job: Job) -> Outcome:
    """All phases in order, from the checkpoint in the folder if there is one."""
    state = read_checkpoint(job.folder, job.module, job.train.device)
    progress = state.progress
    while progress.phase < len(job.phases):
        phase = job.phases[progress.phase]
        reason = (
            _solve(job, phase, progress) if phase.solve is not None else _descend(job, phase, state)
        )
        if reason:
            return Outcome(reason, progress)
        progress.phase, progress.step, progress.best, progress.best_step = (
            progress.phase + 1,
            0,
            math.inf,
            -1,
        )
        state.optimiser, state.best = None, None
        state.write(job.folder, job.module)
    return Outcome("", progress)


def fit_view(job: Job) -> Fit:
    """What closed-form phases and preparations see: training and validation, never test."""
    loaders = {"train": job.train, "valid": job.valid}

    def batches(split: Split) -> Iterator[tuple[Batch, torch.Tensor]]:
        loader = loaders[split]
        for indices, starts in windows(loader, job.params.batch, _starts_to_learn_from(job)):
            batch, target = loader.batch(indices, starts, job.horizon.steps)
            yield batch, loader.normaliser.output.encode(target)

    return Fit(
        task=job.train.task, train=job.train.samples, valid=job.valid.samples, batches=batches
    )


def _starts_to_learn_from(job: Job) -> Sequence[int]:
    """The evaluated starts; for a model that is called several times also later ones, where its
    later calls begin.
    """
    starts = job.train.starts
    if job.horizon.steps >= job.frames:
        return starts
    last = int(job.train.samples.frames.shape[1]) - job.horizon.window - job.horizon.steps
    return sorted({*starts, *range(0, last + 1, max(1, job.horizon.steps // 4))})


def _solve(job: Job, phase: Phase, progress: Progress) -> str:
    assert phase.solve is not None
    cpu, wall = time.process_time(), time.perf_counter()
    with torch.no_grad():
        phase.solve(job.module, fit_view(job))
    progress.clock.train_cpu_s += time.process_time() - cpu
    progress.clock.train_s += time.perf_counter() - wall
    score = _validation_score(job, phase, progress)
    progress.curve.append({"phase": phase.name, "epoch": 1, "step": 0, "valid": score})
    job.on_epoch(phase.name, 1, {"valid": score})
    return "" if math.isfinite(score) else f"{phase.name}: the validation error is not finite"


def _descend(job: Job, phase: Phase, state: Checkpoint) -> str:
    """One phase of gradient descent; returns why it diverged, or nothing."""
    params, progress, total = job.params, state.progress, job.steps[phase.name]
    if phase.prepare is not None and progress.step == 0:
        phase.prepare(job.module, fit_view(job))
    module: nn.Module = torch.compile(job.module) if params.compile else job.module  # type: ignore[assignment]
    trained = [
        one for one in (phase.parameters or nn.Module.parameters)(job.module) if one.requires_grad
    ]
    optimiser = make_optimiser(
        rate_groups(job.module, trained, phase.rates), params, job.train.device
    )
    if state.optimiser is not None:
        optimiser.load_state_dict(state.optimiser)
    an_epoch = steps_per_epoch(len(job.train), len(job.train.starts), params)
    every = max(1, math.ceil(total / an_epoch / MOST_VALIDATIONS))  # epochs between validations
    patience = float(os.environ.get("GSNOBENCH_CHECKPOINT_S", CHECKPOINT_S))
    saved = time.perf_counter()
    module.train()
    while progress.step < total:
        cpu, wall = time.process_time(), time.perf_counter()
        loss = _step(job, phase, module, trained, optimiser, progress, state)
        progress.step += 1
        progress.loss_sum, progress.loss_count = progress.loss_sum + loss, progress.loss_count + 1
        progress.clock.train_cpu_s += time.process_time() - cpu
        progress.clock.train_s += time.perf_counter() - wall
        job.on_step(progress.step, total, progress.best)
        is_last = progress.step == total
        if progress.step % an_epoch == 0 or is_last:
            reason = _end_epoch(
                job,
                phase,
                state,
                an_epoch,
                validate=is_last or progress.step // an_epoch % every == 0,
            )
            if reason:
                return reason
        if time.perf_counter() - saved > patience and not is_last:
            state.optimiser = optimiser.state_dict()
            state.write(job.folder, job.module)
            saved = time.perf_counter()
    if state.best is None:
        return f"{phase.name}: no finite validation error in {total} steps"
    job.module.load_state_dict(state.best)
    return ""


def _step(
    job: Job,
    phase: Phase,
    module: nn.Module,
    trained: list[nn.Parameter],
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    state: Checkpoint,
) -> float:
    """One optimiser step; returns its loss."""
    params, done = job.params, progress.step / job.steps[phase.name]
    # dropout and the like follow the step, not the history
    torch.manual_seed(mix(job.seed, phase.name, progress.step))
    draw = torch.Generator().manual_seed(mix(job.seed, phase.name, progress.step, "draw"))
    for group in optimiser.param_groups:
        group["lr"] = params.lr * group.get("share", 1.0) * rate(params, done)
    optimiser.zero_grad(set_to_none=True)
    value = 0.0
    for part in range(params.accumulate):
        indices, starts, frames = _draw(
            job, phase, progress.step * params.accumulate + part, done, draw
        )
        with _precision(job.train.device, params.amp):
            loss = _loss(job, phase, module, indices, starts, frames, done) / params.accumulate
            loss.backward()
        value += float(loss.detach())
    if params.clip > 0:
        nn.utils.clip_grad_norm_(trained, params.clip)
    optimiser.step()
    if params.average > 0:
        state.follow(job.module, params.average, progress.step)
    return value


@contextmanager
def _precision(device: torch.device, amp: bool) -> Iterator[None]:
    """Autocast to bfloat16 on request. On a CPU without oneDNN: it crashes where a virtual machine
    names AMX but bars it.
    """
    without = (
        torch.backends.mkldnn.flags(enabled=False)
        if amp and device.type == "cpu"
        else nullcontext()
    )
    with without, torch.autocast(device.type, dtype=torch.bfloat16, enabled=amp):
        yield


def _draw(
    job: Job, phase: Phase, turn: int, done: float, draw: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Samples and windows of one batch: epoch permutations; a one-shot model sees the task's
    starts, others random windows.
    """
    starts_on_offer = job.train.starts
    count = len(job.train) * len(starts_on_offer)
    per_epoch = math.ceil(count / job.params.batch)
    order = torch.Generator().manual_seed(mix(job.seed, phase.name, turn // per_epoch, "order"))
    first = (turn % per_epoch) * job.params.batch
    items = torch.randperm(count, generator=order)[first : first + job.params.batch]
    indices = items // len(starts_on_offer)
    starts = torch.tensor(starts_on_offer)[items % len(starts_on_offer)]
    horizon, steps = job.horizon, job.horizon.steps
    if steps >= job.frames:
        return indices, starts, job.frames
    unrolls = (
        done >= job.params.unroll_after
        and float(torch.rand((), generator=draw)) < job.params.unroll_share
    )
    frames = min(job.frames, steps * horizon.unroll if unrolls else steps)
    last = int(job.train.samples.frames.shape[1]) - horizon.window - frames
    anywhere = torch.randint(0, last + 1, (len(indices),), generator=draw)
    stays = torch.rand(len(indices), generator=draw) < job.params.start_share
    return indices, torch.where(stays, starts.clamp_max(last), anywhere), frames


def _loss(
    job: Job,
    phase: Phase,
    module: nn.Module,
    indices: torch.Tensor,
    starts: torch.Tensor,
    frames: int,
    done: float,
) -> torch.Tensor:
    loader = job.train
    batch, target = loader.batch(indices, starts, frames)
    if phase.loss is not None:
        # it knows the class, compiled or not
        return phase.loss(job.module, batch, loader.normaliser.output.encode(target), done)
    prediction = rollout(module, loader, batch, indices, frames).float()
    support = loader.scored_nodes(indices).support
    if job.params.loss == "mse":
        error = (prediction - target) / loader.normaliser.output.scale
        return (error.square() * support[:, None]).sum() / (
            support.sum() * frames * len(indices) / support.shape[0]
        )
    return relative_l2(prediction, target, support, loader.task).mean()


def _end_epoch(job: Job, phase: Phase, state: Checkpoint, an_epoch: int, *, validate: bool) -> str:
    progress = state.progress
    loss = progress.loss_sum / max(progress.loss_count, 1)
    progress.loss_sum, progress.loss_count = 0.0, 0
    epoch = math.ceil(progress.step / an_epoch)
    scores = {
        "loss": loss,
        "lr": job.params.lr * rate(job.params, progress.step / job.steps[phase.name]),
    }
    if not math.isfinite(loss) or loss > EXPLODED:
        return f"{phase.name}: the training loss was {loss:.3g} at step {progress.step}"
    if validate:
        with state.averaged(job.module):
            scores["valid"] = _validation_score(job, phase, progress)
            if scores["valid"] < progress.best:
                progress.best, progress.best_step = scores["valid"], progress.step
                state.best = copy.deepcopy(job.module.state_dict())
    progress.curve.append({"phase": phase.name, "epoch": epoch, "step": progress.step, **scores})
    job.on_epoch(phase.name, epoch, scores)
    return ""


def _validation_score(job: Job, phase: Phase, progress: Progress) -> float:
    cpu = time.process_time()
    if phase.score is not None:
        score = phase.score(job.module, fit_view(job))
    else:
        score = headline(job.module, job.valid, job.frames, job.params.batch)
    progress.clock.validate_cpu_s += time.process_time() - cpu
    return score


# ------------------------------------------------------------------------------------- small pieces


def mix(*parts: object) -> int:
    """A 63-bit seed from any parts, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1
