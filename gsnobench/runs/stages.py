"""One run as an object: its stages are methods that can be used alone or one after the other."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gsnobench.boards.reproduction.paper import read_paper
from gsnobench.data import Mesh, Samples, Split, Task
from gsnobench.datasets.store import Opened, open_file
from gsnobench.declare import Geometry, Metric, Summary
from gsnobench.drawing.curves import draw_curve
from gsnobench.files import Cache, write_arrays, write_text
from gsnobench.home import RunFolder
from gsnobench.plugins import load_metrics
from gsnobench.records import RunResult
from gsnobench.runs.animation import animate_median
from gsnobench.runs.costs import costs_of
from gsnobench.runs.gallery import draw_cases
from gsnobench.runs.machine import Machine, OnEpoch
from gsnobench.runs.plan import Plan
from gsnobench.training.bands import band_table
from gsnobench.training.evaluate import Evaluation, evaluate_split, inference_s
from gsnobench.training.fit import Job, Outcome, fit, mix
from gsnobench.training.geometry import timed_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import Normaliser, fit_normaliser
from gsnobench.training.rollout import walk

MOST_CURVE_POINTS = 60
REFERENCE_EVERY_S = 2.0  # CPU-seconds of training between two readings of the reference step
SUMMARY_PREFIX = "reference."  # of the tensors of a model's summary in their file


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything between the data and the training: module, statistics, summary."""

    module: nn.Module
    normaliser: Normaliser
    summary: Summary
    warm_s: float  # CPU-seconds it took, with a geometry that the cache may have had
    cold_s: float  # CPU-seconds it takes without a cache


@dataclass(frozen=True, eq=False)
class Run:
    """One plan on one machine in one folder; every stage returns what it made."""

    plan: Plan
    machine: Machine
    folder: RunFolder
    _loaders: dict[tuple[Setup, Opened, Split], Loader] = field(default_factory=dict, init=False)

    @classmethod
    def at_home(cls, plan: Plan, machine: Machine) -> Run:
        """The run in the folder that the home has for it."""
        return cls(plan, machine, machine.home.run_folder(plan.spec.key))

    def data_file(self) -> Path:
        """The NetCDF file of the plan's data, generated if it is missing."""
        if self.plan.dataset is None:
            assert self.plan.file is not None
            return self.plan.file
        return self.machine.ensure_data(self.plan.dataset, self.plan.task)

    def open_data(self) -> Opened:
        """The data of the plan, open for reading."""
        return open_file(self.data_file(), self.plan.task)

    def set_up(self, train: Samples) -> Setup:
        """Statistics and summary of the training split, and the module with its initial weights."""
        plan, cpu = self.plan, time.process_time()
        summary = plan.model.summary(train, plan.params) if plan.model.summary is not None else {}
        normaliser = fit_normaliser(train, plan.train, plan.horizon)
        torch.manual_seed(mix(plan.spec.seed, "weights"))
        with torch.device("cpu"):  # the same initial weights whatever the device
            module = plan.model.build(plan.model_task, plan.params)
        begun = time.process_time()
        # loaders then read it from the cache
        computed_s = sum(
            self._timed_geometry(mesh, train.task, summary)[1] for mesh in train.meshes
        )
        read_s = time.process_time() - begun
        module = module.to(self.machine.device)
        warm_s = time.process_time() - cpu
        return Setup(module, normaliser, summary, warm_s, max(warm_s, warm_s - read_s + computed_s))

    def loader(self, setup: Setup, data: Opened, split: Split) -> Loader:
        """Batches of a split; made once and kept until the run is dropped."""
        key = (setup, data, split)
        if key not in self._loaders:
            self._loaders[key] = self.new_loader(setup, data.split(split))
        return self._loaders[key]

    def new_loader(self, setup: Setup, samples: Samples) -> Loader:
        """Batches of any samples as this plan's model sees them."""
        horizon, task = self.plan.horizon, samples.task
        return Loader(
            samples,
            task=task.narrowed(horizon.window, horizon.steps),
            normaliser=setup.normaliser,
            geometries=[self._geometry(mesh, task, setup.summary) for mesh in samples.meshes],
            device=self.machine.device,
            impose_boundary=self.plan.train.impose_boundary,
            predicts_change=self.plan.train.predict == "change",
        )

    def _geometry(self, mesh: Mesh, task: Task, summary: Summary) -> Geometry:
        return self._timed_geometry(mesh, task, summary)[0]

    def _timed_geometry(self, mesh: Mesh, task: Task, summary: Summary) -> tuple[Geometry, float]:
        model, params, cache = self.plan.model, self.plan.params, Cache(self.machine.home.cache)
        return timed_geometry(model, params, task, mesh, summary=summary, cache=cache)

    def job(self, setup: Setup, data: Opened) -> Job:
        """What `fit` works on: this run's training, reported to nobody."""
        return Job(
            module=setup.module,
            train=self.loader(setup, data, "train"),
            valid=self.loader(setup, data, "valid"),
            phases=self.plan.phases,
            steps=self.plan.spec.steps,
            horizon=self.plan.horizon,
            frames=self.plan.task.t_out,
            params=self.plan.train,
            seed=self.plan.spec.seed,
            folder=self.folder.path,
            reference_every_s=REFERENCE_EVERY_S if self.machine.device.type == "cpu" else 0.0,
        )

    def train(self, setup: Setup, data: Opened, on_epoch: OnEpoch | None = None) -> Outcome:
        """Fit the module on the training split, choose weights on validation, write the curve."""
        report = self.machine.report
        report.stage(f"training {self.plan.title}")
        job = replace(self.job(setup, data), on_step=report.step)
        job = job if on_epoch is None else replace(job, on_epoch=on_epoch)
        outcome = fit(job)
        del self._loaders[setup, data, "train"]  # no later stage reads it: free its memory
        lines = [json.dumps(point) + "\n" for point in outcome.progress.curve]
        write_text(self.folder.curve, "".join(lines))
        return outcome

    def save_weights(self, setup: Setup) -> None:
        """Write weights, statistics and summary as safetensors."""
        state = setup.module.state_dict().items()
        weights = {name: value.detach().cpu().numpy() for name, value in state}
        statistics = {name: value.cpu().numpy() for name, value in setup.normaliser.state().items()}
        summary = {f"{SUMMARY_PREFIX}{name}": value for name, value in setup.summary.items()}
        write_arrays(self.folder.weights, weights)
        write_arrays(self.folder.summary, statistics | summary)

    def diverged(self, setup: Setup, outcome: Outcome) -> RunResult:
        """The result of a training that ended for a reason."""
        return RunResult(
            spec=self.plan.spec,
            status="diverged",
            reason=outcome.reason,
            curve=thinned(outcome.progress.curve),
            costs=self._costs(setup, outcome),
        )

    def score(self, setup: Setup, data: Opened, outcome: Outcome, *, may_test: bool) -> RunResult:
        """Errors on every split but train, and pictures, as a result.

        Without `may_test` on validation alone: a search may know nothing else, so no other split
        is opened.
        """
        where = "" if may_test else " on validation"
        self.machine.report.stage(f"scoring {self.plan.spec.row}{where}")
        metrics = load_metrics()
        splits: Sequence[Split] = scored_splits(data) if may_test else ("valid",)
        tables = {split: self._evaluate(setup, data, split, metrics) for split in splits}
        judge: Split = "test" if may_test else "valid"
        if may_test and not self.plan.model.is_floor:
            self.draw(setup, data, tables["test"], outcome)
        is_finite = math.isfinite(tables[judge].scores()["headline"]["rel_l2"])
        name = "test" if may_test else "validation"
        result = RunResult(
            spec=self.plan.spec,
            status="done" if is_finite else "diverged",
            reason="" if is_finite else f"the {name} error is not finite",
            scores={split: table.scores() for split, table in tables.items()},
            curve=thinned(outcome.progress.curve),
            costs={
                **self._costs(setup, outcome),
                "inference_s": self._inference_s(setup, data, judge),
            },
        )
        if not may_test:
            return result
        return replace(
            result,
            samples={
                split: tables[split].sample_table(self.plan.task)
                for split in ("test", "test_ood")
                if split in tables
            },
            frames=tables["test"].frame_table() if self.plan.task.t_out > 1 else {},
            bands=self._bands(setup, data),
        )

    def _evaluate(
        self, setup: Setup, data: Opened, split: Split, metrics: tuple[Metric, ...]
    ) -> Evaluation:
        loader, frames = self.loader(setup, data, split), self.plan.task.t_out
        return evaluate_split(setup.module, loader, frames, self.plan.train.batch, metrics)

    def _inference_s(self, setup: Setup, data: Opened, split: Split) -> float:
        """Wall seconds per sample at the batch size that all rows share."""
        loader, frames = self.loader(setup, data, split), self.plan.task.t_out
        return inference_s(setup.module, loader, frames)

    def _costs(self, setup: Setup, outcome: Outcome) -> dict[str, float]:
        return costs_of(
            setup.module,
            cold_s=setup.cold_s,
            warm_s=setup.warm_s,
            clock=outcome.progress.clock,
            device=self.machine.device,
        )

    def _bands(self, setup: Setup, data: Opened) -> dict[str, dict[str, list[float]]]:
        """Test errors by band of modes; a mesh without Laplacian modes must not cost the run."""
        loader = self.loader(setup, data, "test")
        try:
            steps = walk(setup.module, loader, self.plan.task.t_out, self.plan.train.batch)
            return band_table(steps, loader, Cache(self.machine.home.cache))
        except Exception as error:
            self._warn("no errors by band", error)
            return {}

    def draw(self, setup: Setup, data: Opened, test: Evaluation, outcome: Outcome) -> None:
        """The pictures of the run; a picture that fails must not cost the run."""
        if not (self.machine.draws or self.machine.gif):
            return
        self.machine.report.stage("drawing")
        title, task = self.plan.title, self.plan.task
        loader, scores = self.loader(setup, data, "test"), test.headline
        try:
            named: dict[str, Any] = {"title": title, "time_unit": data.time_unit}
            if self.machine.gif:
                self.animate(setup, loader, test, data.time_unit)
            if self.machine.draws:
                draw_cases(self.folder.picture, task, setup.module, loader, scores, **named)
                self._draw_curve(outcome.progress.curve, {})
        except Exception as error:
            self._warn("no picture", error)

    def draw_curve(self, floors: Mapping[str, float]) -> None:
        """Draw the curve of a finished run again, with the validation errors of floors."""
        if floors and self.folder.curve_picture.exists():
            lines = self.folder.curve.read_text(encoding="utf-8").splitlines()
            self._draw_curve([json.loads(line) for line in lines], floors)

    def _draw_curve(self, curve: Sequence[Mapping[str, Any]], floors: Mapping[str, float]) -> None:
        spec, title = self.plan.spec, self.plan.title
        levels = "; dashed: validation error of floors" if floors else ""
        printed = self._printed
        levels += "; dotted: printed in the paper" if printed is not None else ""
        named: dict[str, Any] = {"title": title, "floors": floors, "printed": printed}
        facts = f"track {spec.track}, seed {spec.seed}{levels}"
        draw_curve(self.folder.curve_picture, curve, facts=facts, **named)

    @property
    def _printed(self) -> float | None:
        """The paper's error of its own preset; it is of raw fields, ours less their reference."""
        spec, task = self.plan.spec, self.plan.task
        preset = self.plan.model.presets.get(spec.preset)
        if preset is None or not preset.is_paper or any(field.reference for field in task.fields):
            return None
        return read_paper().scores(task.id).get(spec.model)

    def animate(self, setup: Setup, loader: Loader, test: Evaluation, time_unit: str) -> None:
        """The median test sample as a GIF."""
        gif, task = self.folder.gif, self.plan.task
        named: dict[str, Any] = {"title": self.plan.title, "time_unit": time_unit}
        animate_median(gif, task, setup.module, loader, test.headline, **named)

    def _warn(self, what: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        row = self.plan.spec.row
        self.machine.report.warn(f"{row}: {what} ({reason}); the scores are not affected")


def scored_splits(data: Opened) -> list[Split]:
    """Splits that are scored after training; test_ood only where it has samples."""
    splits: tuple[Split, ...] = ("valid", "test", "test_ood")
    return [split for split in splits if data.task.sizes.get(split, 0) > 0]


def thinned(curve: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """At most MOST_CURVE_POINTS points of a curve, the last one always among them."""
    if len(curve) <= MOST_CURVE_POINTS:
        return list(curve)
    last = MOST_CURVE_POINTS - 1
    chosen = sorted({round(i * (len(curve) - 1) / last) for i in range(MOST_CURVE_POINTS)})
    return [curve[i] for i in chosen]
