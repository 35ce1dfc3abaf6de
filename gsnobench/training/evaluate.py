"""Scores of a trained module on a split: per sample first, in physical units, with the figures that
a board needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from gsnobench.data import Array, Task
from gsnobench.declare import Metric
from gsnobench.records import rounded
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import frame_errors, sample_errors
from gsnobench.training.rollout import Step, walk


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Errors of one split; a trajectory with several starts counts as one sample."""

    samples: Mapping[str, Mapping[str, Array]]  # field -> metric -> (S,)
    frames: Mapping[str, Array]  # scored field -> (S, T)
    inference_s: float  # a sample, wall, warm

    @property
    def headline(self) -> Array:
        """Relative L2 of each sample, (S,), averaged over the scored fields."""
        return self.samples["headline"]["rel_l2"]

    def scores(self) -> dict[str, dict[str, float]]:
        """Means over samples; `max` is the largest."""
        return {
            name: {
                metric: float(values.max() if metric == "max" else values.mean())
                for metric, values in table.items()
            }
            for name, table in self.samples.items()
        }

    def sample_table(self, task: Task) -> dict[str, dict[str, list[float]]]:
        """Per-sample errors of the scored fields with four digits: enough to recompute every table."""
        wanted = ("rel_l2", "rel_l2_raw")
        return {
            name: {
                metric: [rounded(value) for value in self.samples[name][metric].tolist()]
                for metric in wanted
            }
            for name in task.scored
        }

    def frame_table(self) -> dict[str, dict[str, list[float]]]:
        """Quantiles over samples of the error of each frame."""
        return {
            name: {
                f"q{q}": [rounded(value) for value in np.quantile(table, q / 100, axis=0).tolist()]
                for q in (10, 50, 90)
            }
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
    # warm up, so that the timing below is of a warm model
    next(walk(module, loader, frames, batch_size))
    return collect(walk(module, loader, frames, batch_size), loader, metrics)


def collect(steps: Iterable[Step], loader: Loader, metrics: tuple[Metric, ...] = ()) -> Evaluation:
    """All metrics of evaluated batches, wherever their predictions come from."""
    starts = len(loader.samples.task.starts)
    collected: dict[str, dict[str, list[torch.Tensor]]] = {}
    by_frame: dict[str, list[torch.Tensor]] = {}
    seconds = 0.0
    for step in steps:
        seconds += step.seconds
        scored = loader.scored_nodes(step.indices)
        errors = sample_errors(step.prediction, step.target, scored, loader.task)
        errors["headline"] |= {
            one.name: one.compute(step.prediction, step.target, step.batch) for one in metrics
        }
        for name, table in errors.items():
            for metric, values in table.items():
                collected.setdefault(name, {}).setdefault(metric, []).append(values.cpu())
        for name, values in frame_errors(step.prediction, step.target, scored, loader.task).items():
            by_frame.setdefault(name, []).append(values.cpu())
    return Evaluation(
        samples={
            name: {metric: _per_sample(values, starts) for metric, values in table.items()}
            for name, table in collected.items()
        },
        frames={name: _per_sample(values, starts) for name, values in by_frame.items()},
        inference_s=seconds / (len(loader) * starts),
    )


def _per_sample(values: list[torch.Tensor], starts: int) -> Array:
    """Mean over the starts of a trajectory: it is the statistical unit."""
    joined = torch.cat(values).double().numpy()
    return joined.reshape(-1, starts, *joined.shape[1:]).mean(axis=1)


def predict_samples(module: nn.Module, loader: Loader, frames: int, batch_size: int) -> Array:
    """Predictions in physical units, (S * starts, frames, N, C)."""
    pieces = [
        (step.prediction + loader.reference).cpu()
        for step in walk(module, loader, frames, batch_size)
    ]
    return torch.cat(pieces).numpy()
