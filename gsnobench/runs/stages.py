"""The stations of a run: data, preprocessing, training, scores, pictures; each can be used alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from gsnobench.data import Samples, Split
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.store import Opened
from gsnobench.declare import Metric, Summary
from gsnobench.errors import PluginError
from gsnobench.files import Cache, atomic, write_text
from gsnobench.plugins import listed, load
from gsnobench.records import RunResult, Status
from gsnobench.runs.animation import animate_median
from gsnobench.runs.cases import draw_cases
from gsnobench.runs.costs import costs
from gsnobench.runs.gallery import curve
from gsnobench.runs.machine import Machine, OnEpoch
from gsnobench.runs.plan import Plan
from gsnobench.training.bands import band_table
from gsnobench.training.evaluate import Evaluation, evaluate_split
from gsnobench.training.fit import Job, Outcome, fit, mix
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import Normaliser, fit_normaliser
from gsnobench.training.rollout import walk

MOST_CURVE_POINTS = 60


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything between the data and the training: module, statistics, summary."""

    module: nn.Module
    normaliser: Normaliser
    summary: Summary
    prepare_cpu_s: float


def train(
    plan: Plan, machine: Machine, setup: Setup, opened: Opened, *, folder: Path, on_epoch: OnEpoch
) -> Outcome:
    """Fit the module on the training split, choosing weights on validation; the curve is written
    beside.
    """
    machine.report.stage(f"training {plan.spec.row} on {plan.task.id}")
    job = Job(
        module=setup.module,
        train=make_loader(plan, machine, setup, opened.split("train")),
        valid=make_loader(plan, machine, setup, opened.split("valid")),
        phases=plan.phases,
        steps=plan.spec.steps,
        horizon=plan.horizon,
        frames=plan.task.t_out,
        params=plan.train,
        seed=plan.spec.seed,
        folder=folder,
        on_epoch=on_epoch,
        on_step=machine.report.step,
    )
    outcome = fit(job)
    write_text(
        folder / "curve.jsonl",
        "".join(json.dumps(point) + "\n" for point in outcome.progress.curve),
    )
    return outcome


def score(
    plan: Plan, machine: Machine, setup: Setup, opened: Opened, folder: Path, outcome: Outcome
) -> RunResult:
    """Errors on every split but train, pictures, and all of it as a result."""
    machine.report.stage("scoring")
    tables = {
        split: _evaluate(plan, machine, setup, opened, split) for split in scored_splits(opened)
    }
    test = tables["test"]
    status: Status = "done" if math.isfinite(test.scores()["headline"]["rel_l2"]) else "diverged"
    loader = make_loader(plan, machine, setup, opened.split("test"))
    if not plan.model.is_floor:
        _draw(plan, machine, folder, setup.module, loader, test, outcome.progress.curve)
    return RunResult(
        spec=plan.spec,
        status=status,
        reason="" if status == "done" else "the test error is not finite",
        scores={split: table.scores() for split, table in tables.items()},
        samples=test.sample_table(plan.task),
        frames=test.frame_table() if plan.task.t_out > 1 else {},
        curve=thinned(outcome.progress.curve),
        costs={
            **costs(setup.module, setup.prepare_cpu_s, outcome.progress, machine.device),
            "inference_s": test.inference_s,
        },
        bands=_bands(plan, machine, setup, loader),
    )


def score_on_validation(
    plan: Plan, machine: Machine, setup: Setup, opened: Opened, outcome: Outcome
) -> RunResult:
    """Errors on the validation split as a result: all that a search may know, so no other split is
    opened.
    """
    machine.report.stage("scoring on validation")
    valid = _evaluate(plan, machine, setup, opened, "valid")
    is_finite = math.isfinite(valid.scores()["headline"]["rel_l2"])
    return RunResult(
        spec=plan.spec,
        status="done" if is_finite else "diverged",
        reason="" if is_finite else "the validation error is not finite",
        scores={"valid": valid.scores()},
        curve=thinned(outcome.progress.curve),
        costs={
            **costs(setup.module, setup.prepare_cpu_s, outcome.progress, machine.device),
            "inference_s": valid.inference_s,
        },
    )


def data_path(plan: Plan, machine: Machine) -> Path:
    """The NetCDF file of the plan's data, generated if it is not there."""
    if plan.dataset is None:
        assert plan.file is not None
        return plan.file
    machine.report.stage(f"data of {plan.task.id}")
    return ensure(
        plan.dataset,
        plan.task,
        home=machine.home.root,
        jobs=machine.jobs,
        progress=machine.report.data,
    )


def scored_splits(opened: Opened) -> list[Split]:
    """Splits that are scored after training; out-of-distribution samples only where there are any."""
    wanted: tuple[Split, ...] = ("valid", "test", "test_ood")
    return [split for split in wanted if opened.task.sizes.get(split, 0) > 0]


def prepare(plan: Plan, machine: Machine, train: Samples) -> Setup:
    """Statistics and summary of the training split, and the module with its initial weights."""
    cpu = time.process_time()
    summary = plan.model.summary(train, plan.params) if plan.model.summary is not None else {}
    normaliser = fit_normaliser(train, plan.preset)
    torch.manual_seed(mix(plan.spec.seed, "weights"))
    with torch.device("cpu"):  # the same initial weights whatever the device
        module = plan.model.build(plan.model_task, plan.params)
    for mesh in train.meshes:  # counted here, so that loaders find everything in the cache
        compute_geometry(
            plan.model,
            plan.params,
            train.task,
            mesh,
            summary=summary,
            cache=Cache(machine.home.cache),
        )
    return Setup(module.to(machine.device), normaliser, summary, time.process_time() - cpu)


def make_loader(plan: Plan, machine: Machine, setup: Setup, samples: Samples) -> Loader:
    """Batches of a split as this plan's model sees them."""
    task = samples.task.narrowed(plan.horizon.window, plan.horizon.steps)
    cache = Cache(machine.home.cache)
    geometries = [
        compute_geometry(
            plan.model, plan.params, samples.task, mesh, summary=setup.summary, cache=cache
        )
        for mesh in samples.meshes
    ]
    return Loader(
        samples,
        task=task,
        normaliser=setup.normaliser,
        geometries=geometries,
        device=machine.device,
        impose_boundary=plan.preset.impose_boundary,
    )


def save_weights(folder: Path, setup: Setup) -> None:
    """Weights, statistics and summary, as safetensors."""
    state = {
        name: value.detach().cpu().contiguous() for name, value in setup.module.state_dict().items()
    }
    statistics = {
        name: value.cpu().contiguous() for name, value in setup.normaliser.state().items()
    }
    summary = {
        f"reference.{name}": torch.from_numpy(np.ascontiguousarray(value))
        for name, value in setup.summary.items()
    }
    for name, tensors in (("weights", state), ("reference", statistics | summary)):
        with atomic(folder / f"{name}.safetensors") as part:
            save_file(tensors, part)


def _evaluate(
    plan: Plan, machine: Machine, setup: Setup, opened: Opened, split: Split
) -> Evaluation:
    loader = make_loader(plan, machine, setup, opened.split(split))
    return evaluate_split(setup.module, loader, plan.task.t_out, plan.train.batch, _metrics())


def _metrics() -> tuple[Metric, ...]:
    """The metric plugins that are installed; a broken one is shown by `list` and hurts nobody here."""
    found = []
    for entry in listed("metric"):
        with suppress(PluginError):
            found.append(load("metric", entry.name))
    return tuple(found)


def _bands(
    plan: Plan, machine: Machine, setup: Setup, loader: Loader
) -> dict[str, dict[str, list[float]]]:
    """Test errors by band of modes; a mesh that has no Laplacian modes must not cost the run."""
    try:
        return band_table(
            walk(setup.module, loader, plan.task.t_out, plan.train.batch),
            loader,
            Cache(machine.home.cache),
        )
    except Exception as error:
        machine.report.warn(
            f"{plan.spec.row}: no errors by band ({type(error).__name__}: {error}); the scores are "
            "not affected"
        )
        return {}


def _draw(
    plan: Plan,
    machine: Machine,
    folder: Path,
    module: nn.Module,
    loader: Loader,
    test: Evaluation,
    history: list[dict[str, Any]],
) -> None:
    """The picture of the run; a picture that fails must not cost the run."""
    machine.report.stage("drawing")
    try:
        draw_cases(folder, plan, module, loader, test)
        if machine.gif:
            animate_median(folder, plan, module, loader, test)
        curve(folder / "figures" / "curve.png", history, title=f"{plan.spec.row} on {plan.task.id}")
    except Exception as error:
        machine.report.warn(
            f"{plan.spec.row}: no picture ({type(error).__name__}: {error}); the scores are not "
            "affected"
        )


def thinned(curve: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """At most so many points, the last one always among them."""
    if len(curve) <= MOST_CURVE_POINTS:
        return list(curve)
    chosen = sorted(
        {round(i * (len(curve) - 1) / (MOST_CURVE_POINTS - 1)) for i in range(MOST_CURVE_POINTS)}
    )
    return [curve[i] for i in chosen]
