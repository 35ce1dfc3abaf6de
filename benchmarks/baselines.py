"""Cost of one training step of every model: time in matrix products, memory on the full car.

    OMP_NUM_THREADS=1 python benchmarks/baselines.py [--models a,b] [--repeats 5] [--memory]
                                                     [--json FILE]

Time: batch 4 on 1184 random points of the unit square, one input and one output, preset `paper`,
forward, backward and optimiser, in CPU-seconds, in units of a 4736 x 256 x 1024 float32 product
("cal"). The clock of a shared machine drifts by a third, so every step is divided by the median of
the products right before and after it; the median of these ratios counts. Memory (`--memory`): peak
resident set of two steps on a car of 32186 points, batch 1, each model in a process of its own,
less that of the process before the model is made.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gsnobench as gb
from gsnobench.datasets.store import write
from gsnobench.home import RunFolder, open_home
from gsnobench.plugins import load
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.stages import Run
from gsnobench.training.fit import Job, batch_loss, draw_batch, fit_view
from gsnobench.training.optimisation import make_optimiser

BARS = {
    "deeponet": 0.3,
    "transolver": 30,
    "gnot": 120,
    "amg": 400,
    "sp2gno": 12,
    "geofno": 5,
    "mgkn": 150,
    "coral": 19,
}
NODES, BATCH, CAR_NODES = 1184, 4, 32186
MEMORY_BARS = {"compact": 10_000, "official": 20_000}  # MB


def square_file(folder: Path) -> Path:
    """Unrelated random fields on random points: what is learnt does not matter here."""
    draw = np.random.default_rng(0)
    mesh = gb.Mesh(draw.random((NODES, 2)), None, {})
    task = gb.Task(
        "square", "square", (gb.Field("u"),), dim=2, static=(gb.Field("a"),), resolution=NODES
    )
    splits: dict[Any, gb.Samples] = {}
    for split in ("train", "valid", "test"):
        fields = draw.normal(size=(2, BATCH, NODES)).astype("f4")
        splits[split] = gb.Samples(
            task,
            (mesh,),
            fields[0][:, None, :, None],
            fields[1][..., None],
            np.zeros((BATCH, 0), "f4"),
        )
    provenance = {"title": "random fields", "source": "benchmarks/baselines.py"}
    write(folder / "square.nc", splits, provenance=provenance)
    return folder / "square.nc"


def car_file(folder: Path) -> Path:
    """Two full cars."""
    car = load("dataset", "car")
    params = car.params()
    setup = car.setup(params, CAR_NODES, gb.Cache(folder))
    task = make_plan(Request("mean", "car", track="paper", resolution=CAR_NODES)).task
    splits: dict[Any, gb.Samples] = {}
    for split in ("train", "valid"):
        sample = next(iter(car.generate(setup, 0, split, [0])))
        assert sample.mesh is not None
        arrays = (sample.frames[None], sample.static[None], sample.scalars[None])
        splits[split] = gb.Samples(task, (sample.mesh,), *arrays)
    write(folder / "car.nc", splits, provenance={"title": "two cars", "source": car.solver})
    return folder / "car.nc"


def make_job(plan: Plan, folder: Path) -> Job:
    """The job that `run` would fit, with a batch of the benchmark."""
    machine = Machine(open_home(folder / "home"), torch.device("cpu"))
    run = Run(plan, machine, RunFolder(folder))
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        job = run.job(setup, data)
        # in memory, so that the job outlives the open file
        train, valid = (run.new_loader(setup, data.read(split)) for split in ("train", "valid"))
    steps = {phase.name: 10 for phase in plan.phases}
    return replace(job, train=train, valid=valid, steps=steps, seed=0)


def make_step(job: Job) -> Callable[[], None]:
    """One step of the model's first phase."""
    phase = job.phases[0]
    if phase.prepare is not None:
        phase.prepare(job.module, fit_view(job))
    trained = [
        parameter
        for parameter in (phase.parameters or torch.nn.Module.parameters)(job.module)
        if parameter.requires_grad
    ]
    optimiser = make_optimiser(trained, job.params, torch.device("cpu"))
    draw = torch.Generator().manual_seed(0)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        drawn = draw_batch(job, phase, number=0, done=0.0, draw=draw)
        batch_loss(job, phase, job.module, drawn).backward()
        optimiser.step()

    return step


def times(models: list[str], repeats: int) -> dict[str, float]:
    """Model -> cal."""
    with tempfile.TemporaryDirectory() as name:
        file = square_file(Path(name))
        steps = {}
        for model in models:
            knobs = {"train.batch": str(BATCH), "train.optimiser": "adam"}
            plan = make_plan(Request(model, str(file), preset="paper", knobs=knobs))
            steps[model] = make_step(make_job(plan, Path(name) / model))
        for step in steps.values():
            step()  # warm
        ratios: dict[str, list[float]] = {model: [] for model in models}
        for _ in range(repeats):
            for model, step in steps.items():
                ratios[model].append(in_products(step))
    return {model: float(np.median(values)) for model, values in ratios.items()}


def in_products(step: Callable[[], None]) -> float:
    """A step, or the mean of those in about 0.1 s, in units of the products around it."""
    a, b = torch.randn(4736, 256), torch.randn(256, 1024)
    count = max(1, round(0.1 / spent(step)))
    before = [spent(lambda: a @ b) for _ in range(8)]
    seconds = spent(lambda: [step() for _ in range(count)]) / count
    after = [spent(lambda: a @ b) for _ in range(8)]
    return seconds / float(np.median(before + after))


def spent(work: Callable[[], Any]) -> float:
    """CPU-seconds of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def memory(model: str, preset: str, file: Path) -> float:
    """Megabytes that two steps on a full car add to this process."""
    plan = make_plan(Request(model, str(file), preset=preset, knobs={"train.batch": "1"}))
    if plan.declined is not None:
        raise SystemExit(plan.declined)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as name:
        step = make_step(make_job(plan, Path(name)))
        step()
        step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10


def memories(models: list[str]) -> dict[str, dict[str, float | str]]:
    """Model -> preset -> megabytes, or the reason why there are none."""
    result: dict[str, dict[str, float | str]] = {}
    with tempfile.TemporaryDirectory() as name:
        file = car_file(Path(name))
        for model in models:
            for preset in MEMORY_BARS:
                result.setdefault(model, {})[preset] = measured = memory_apart(model, preset, file)
                print(f"{model}@{preset}: {measured} MB", file=sys.stderr, flush=True)
    return result


def memory_apart(model: str, preset: str, file: Path) -> float | str:
    """`memory` in a process of its own, or its last message if it fails."""
    command = [sys.executable, __file__, "--car", str(file), "--models", f"{model}@{preset}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode == 0:
        return float(ended.stdout)
    return (ended.stdout.strip() or ended.stderr.strip() or "no message").splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(BARS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--car", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    models = chosen.models.split(",")
    if chosen.car is not None:
        print(memory(*models[0].split("@"), chosen.car))
        return
    torch.set_num_threads(1)
    table: dict[str, Any] = {}
    if chosen.memory:
        table["memory_mb"] = memories(models)
    else:
        table["cal"] = times(models, chosen.repeats)
        for model, cal in table["cal"].items():
            print(f"{model:12s} {cal:8.2f} cal  (bar {BARS.get(model, float('nan')):g})")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
