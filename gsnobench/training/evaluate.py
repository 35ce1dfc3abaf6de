"""Scores of a trained module on a split: per sample first, in physical units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

import numpy as np
import torch
from torch import nn

from gsnobench.data import Array, Samples, Task
from gsnobench.declare import Metric
from gsnobench.records import rounded
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import ScoredNodes, frame_errors, sample_errors
from gsnobench.training.rollout import Step, walk

INFERENCE_BATCH = 8  # samples per call when inference is timed
INFERENCE_BATCHES = 6  # calls that are timed


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Errors of one split; a trajectory with several starts counts as one sample."""

    samples: Mapping[str, Mapping[str, Array]]  # field -> metric -> (S,)
    frames: Mapping[str, Array]  # scored field -> (S, T)

    @property
    def headline(self) -> Array:
        """Relative L2 of each sample, (S,), averaged over the scored fields."""
        return self.samples["headline"]["rel_l2"]

    def scores(self) -> dict[str, dict[str, float]]:
        """Means over samples; the metric `max` is the largest over samples."""

        def score(metric: str, values: Array) -> float:
            return float(values.max() if metric == "max" else values.mean())

        return {
            name: {metric: score(metric, values) for metric, values in table.items()}
            for name, table in self.samples.items()
        }

    def sample_table(self, task: Task) -> dict[str, dict[str, list[float]]]:
        """Errors per sample of the scored fields, four digits: every board can be recomputed."""

        def column(name: str, metric: str) -> list[float]:
            return [rounded(value) for value in self.samples[name][metric].tolist()]

        metrics = ("rel_l2", "rel_l2_raw")
        return {name: {metric: column(name, metric) for metric in metrics} for name in task.scored}

    def frame_table(self) -> dict[str, dict[str, list[float]]]:
        """Quantiles over samples of the error of each frame."""

        def curve(table: Array, percent: int) -> list[float]:
            return [rounded(value) for value in np.quantile(table, percent / 100, axis=0).tolist()]

        return {
            name: {f"q{percent}": curve(table, percent) for percent in (10, 50, 90)}
            for name, table in self.frames.items()
        }


def evaluate_split(
    module: nn.Module,
    loader: Loader,
    frames: int,
    batch_size: int,
    metrics: tuple[Metric, ...] = (),
) -> Evaluation:
    """All metrics on all samples."""
    return collect(walk(module, loader, frames, batch_size), loader, metrics)


def inference_s(module: nn.Module, loader: Loader, frames: int) -> float:
    """Wall seconds per sample, at the same batch size for every model: median of some batches."""
    with closing(walk(module, loader, frames, INFERENCE_BATCH)) as steps:
        timed = [step.seconds / len(step.indices) for step in islice(steps, 1 + INFERENCE_BATCHES)]
    return median(timed[1:] or timed)  # the first call is slow


def collect(steps: Iterable[Step], loader: Loader, metrics: tuple[Metric, ...] = ()) -> Evaluation:
    """All metrics of evaluated batches, whatever made their predictions."""
    starts = len(loader.samples.task.starts)
    metrics = _applicable(metrics, loader.samples)
    by_metric: dict[str, dict[str, list[torch.Tensor]]] = {}  # field -> metric -> batches of (B,)
    by_frame: dict[str, list[torch.Tensor]] = {}  # scored field -> batches of (B, T)
    for step in steps:
        scored = loader.scored_nodes(step.indices)
        errors = sample_errors(step.prediction, step.target, scored, loader.task)
        errors["headline"] |= _plugin_errors(metrics, step, scored, loader.samples)
        for name, table in errors.items():
            for metric_name, values in table.items():
                by_metric.setdefault(name, {}).setdefault(metric_name, []).append(values.cpu())
        for name, values in frame_errors(step.prediction, step.target, scored, loader.task).items():
            by_frame.setdefault(name, []).append(values.cpu())
    return Evaluation(
        samples={
            name: {metric: _per_sample(values, starts) for metric, values in table.items()}
            for name, table in by_metric.items()
        },
        frames={name: _per_sample(values, starts) for name, values in by_frame.items()},
    )


def _applicable(metrics: tuple[Metric, ...], samples: Samples) -> tuple[Metric, ...]:
    """The metrics that make sense on every mesh of a split."""
    return tuple(
        metric
        for metric in metrics
        if all(metric.applies(samples.task, mesh) for mesh in samples.meshes)
    )


def _plugin_errors(
    metrics: tuple[Metric, ...], step: Step, scored: ScoredNodes, samples: Samples
) -> dict[str, torch.Tensor]:
    """Metric -> (B,).

    What a model predicts where a field is not defined counts nowhere: the truth is put there.
    """
    meshes = tuple(samples.mesh(index) for index in step.indices.tolist())
    batch = replace(step.batch, task=samples.task, meshes=meshes)  # the task with its own window
    prediction = torch.where(scored.support[:, None] > 0, step.prediction, step.target)
    return {metric.name: metric.compute(prediction, step.target, batch) for metric in metrics}


def _per_sample(values: list[torch.Tensor], starts: int) -> Array:
    """Mean over the starts of a trajectory, which is the statistical unit: (S, ...)."""
    joined = torch.cat(values).double().numpy()
    return joined.reshape(-1, starts, *joined.shape[1:]).mean(axis=1)


def predict_samples(module: nn.Module, loader: Loader, frames: int, batch_size: int) -> Array:
    """Predictions in physical units, (S * starts, frames, N, C)."""
    pieces = [
        (step.prediction + loader.reference).cpu()
        for step in walk(module, loader, frames, batch_size)
    ]
    return torch.cat(pieces).numpy()
