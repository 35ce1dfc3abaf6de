"""Overhead of the core per epoch on laptop darcy, as a share of the epoch.

Overhead is all that is not forward, backward, optimiser or validation. The loop of the core is
timed against a bare loop over the same batches, made beforehand; both in CPU-seconds of one
process, interleaved, the least of several repeats. Bar: 5 %.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from gsnobench.home import RunFolder, open_home
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.stages import Run
from gsnobench.training.fit import Job, draw_batch, fit
from gsnobench.training.metrics import relative_l2
from gsnobench.training.optimisation import make_optimiser, rate
from gsnobench.training.rollout import rollout

EPOCHS, REPEATS = 2, 5


def bare_loop(job: Job, batches: list) -> float:
    """Forward, loss, backward, clipping and optimiser, nothing else."""
    trained = list(job.module.parameters())
    optimiser = make_optimiser(trained, job.params, torch.device("cpu"))
    started = time.process_time()
    for step, (indices, batch, target, support) in enumerate(batches):
        optimiser.param_groups[0]["lr"] = job.params.lr * rate(job.params, step / len(batches))
        optimiser.zero_grad(set_to_none=True)
        prediction = rollout(job.module, job.train, batch, indices, job.frames)
        relative_l2(prediction, target, support, job.train.task).mean().backward()
        nn.utils.clip_grad_norm_(trained, job.params.clip)
        optimiser.step()
    return time.process_time() - started


def core_loop(job: Job) -> float:
    """All of fit() without its validations."""
    started = time.process_time()
    progress = fit(job).progress
    return time.process_time() - started - progress.clock.validate_cpu_s


def make_job(plan: Plan, machine: Machine, folder: Path) -> Job:
    run = Run(plan, machine, RunFolder(folder))
    with run.open_data() as data:
        job = run.job(run.set_up(data.split("train")), data)
    steps = {"fit": EPOCHS * (len(job.train) // plan.train.batch)}
    return replace(job, steps=steps, seed=0)


def main() -> None:
    torch.set_num_threads(1)
    plan = make_plan(Request("gsno", "darcy", track="laptop"))
    machine = Machine(open_home(), torch.device("cpu"))
    core, bare = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            job = make_job(plan, machine, Path(folder))
            draw = torch.Generator().manual_seed(0)
            turns = [
                draw_batch(job, plan.phases[0], number=number, done=0.0, draw=draw)
                for number in range(job.steps["fit"])
            ]
            batches = [
                (
                    turn.indices,
                    *job.train.batch(turn.indices, turn.starts, turn.frames),
                    job.train.scored_nodes(turn.indices).support,
                )
                for turn in turns
            ]
            bare_loop(job, batches)  # warm up
            bare.append(bare_loop(job, batches))
            core.append(core_loop(job))
            bare.append(bare_loop(job, batches))
    share = 1 - min(bare) / min(core)
    measured = {
        "core_cpu_s": min(core),
        "bare_cpu_s": min(bare),
        "overhead": round(share, 4),
        "bar": 0.05,
        "holds": share <= 0.05,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
