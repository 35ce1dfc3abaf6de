"""Predictions as files, ours or anybody's, scored by the metrics of every run."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gsnobench.data import SPLITS, Array, Samples, Task
from gsnobench.datasets.store import Opened, open_file, verify, write
from gsnobench.datasets.tasks import resolve
from gsnobench.errors import DataError, RunError
from gsnobench.plugins import dataset_named, load_metrics
from gsnobench.reading import read_npy, read_npz
from gsnobench.records import RunSpec
from gsnobench.registry import read_registry
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, known_file
from gsnobench.training.evaluate import Evaluation, collect
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import Affine, Normaliser
from gsnobench.training.rollout import Step

BATCH = 16  # samples at a time: bounds the memory, changes no number
NAMES = ("predictions", "frames")  # of the array in an .npz that holds several

# -------------------------------------------------------------------------------------------- truth


def open_truth(
    spec: RunSpec, machine: Machine, *, data: Path | None = None, task: Task | None = None
) -> Opened:
    """The data of a stored run: generated again, or the user's own file with the same content."""
    if spec.source:
        data = data or known_file(spec, read_registry(home=machine.home))
        verify(data)
        opened = open_file(data, task)
        if opened.content_hash != spec.source:
            opened.close()
            raise DataError(
                f"{data}: its content is not what the run was made on ({spec.source[:12]}); name "
                "that file"
            )
        return opened
    dataset = dataset_named(spec.task)
    requested = resolve(
        dataset,
        spec.task,
        track=spec.track,
        resolution=spec.resolution,
        samples=spec.sizes["train"],
        knobs=spec.data,
        data_seed=spec.data_seed,
    )
    here = (requested.id, requested.version, dict(requested.sizes))
    if here != (spec.task, spec.version, dict(spec.sizes)):
        raise RunError(
            f"{spec.task}: its name, version or sizes differ here; install the dataset's version "
            f"{spec.version}"
        )
    return open_file(machine.ensure_data(dataset, requested), requested)


# -------------------------------------------------------------------------------------------- files


def write_predictions(path: Path, samples: Samples, predicted: Array, plan: Plan) -> None:
    """Predicted frames (S, T, N, C) on the samples' own meshes beside their inputs, as NetCDF."""
    base, mark, _ = samples.task.id.partition("@")
    windowed = samples.task.narrowed(plan.task.t_in, plan.task.t_out)
    times = tuple(samples.task.times[frame] for frame in windowed.predicted_frames())
    name = f"{base}@{windowed.t_in}-{windowed.t_out}" if mark else base
    task = replace(windowed, id=name, t_in=0, t_out=len(times), times=times, starts=(0,))
    provenance = {"title": plan.title, "source": f"gsnobench run {plan.spec.short}"}
    frames = predicted.reshape(len(samples), len(times), *predicted.shape[2:])
    write(path, {"test": replace(samples, task=task, frames=frames)}, provenance=provenance)


def read_predictions(path: Path, truth: Samples) -> Array:
    """Predicted frames (S, T, N, C) for these samples, from NetCDF or NumPy."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected predictions as .nc, .npz or .npy")
    if path.suffix == ".nc":
        return _shaped(path, _from_netcdf(path, truth), truth)
    if path.suffix in (".npz", ".npy"):
        return _shaped(path, _from_numpy(path), truth)
    raise DataError(
        f"{path}: predictions are read from .nc, .npz or .npy, not from "
        f"{path.suffix or 'a file without ending'!r}"
    )


def _from_netcdf(path: Path, truth: Samples) -> Array:
    with open_file(path) as opened:
        task, splits = opened.task, [split for split in SPLITS if split in opened.task.sizes]
        if task.base != truth.task.base:
            raise DataError(
                f"{path}: holds predictions for {task.id!r}; expected {truth.task.id!r}; name its "
                "--dataset"
            )
        given, expected = ([field.name for field in t.fields] for t in (task, truth.task))
        if given != expected:
            raise DataError(f"{path}: its fields are {given}; expected {expected}")
        if len(splits) != 1:
            raise DataError(
                f"{path}: holds the splits {', '.join(splits)}; expected predictions of one split"
            )
        times = [truth.task.times[frame] for frame in truth.task.predicted_frames()]
        if len(task.times) != len(times) or not np.allclose(task.times, times):
            raise DataError(
                f"{path}: holds {len(task.times)} frames of {task.id!r}; expected {len(times)} "
                f"of {truth.task.id!r}"
            )
        samples = opened.read(splits[0])
        _check_samples(path, samples, truth)
        return np.asarray(samples.frames)


def _check_samples(path: Path, samples: Samples, truth: Samples) -> None:
    """Refuse other meshes or inputs than those of the truth: another seed or order."""
    if len(samples) != len(truth):
        return  # the shape says it better
    for index in range(len(truth)):
        expected, given = truth.mesh(index).points, samples.mesh(index).points
        nodes, tolerance = len(expected), 1e-6 * np.ptp(expected)
        if expected.shape != given.shape or not np.allclose(expected, given, atol=tolerance):
            raise DataError(
                f"{path}: the mesh of sample {index} is not the task's; expected its resolution, "
                "seed and order"
            )
        expected, given = np.asarray(truth.static[index])[:nodes], np.asarray(samples.static[index])
        tolerance = 1e-3 * float(np.abs(expected).max(initial=0.0))
        if given.shape[1:] == expected.shape[1:] and not np.allclose(
            given[:nodes], expected, rtol=1e-2, atol=tolerance
        ):
            raise DataError(
                f"{path}: the inputs of sample {index} are not the task's; expected its data seed "
                "and order"
            )


def _from_numpy(path: Path) -> Array:
    if not zipfile.is_zipfile(path):
        return read_npy(path)
    arrays = read_npz(path)
    chosen = [name for name in arrays if len(arrays) == 1 or name in NAMES]
    if chosen:
        return arrays[chosen[0]]
    raise DataError(
        f"{path}: holds the arrays {', '.join(arrays) or 'none'}; expected one array, or one "
        "called 'predictions'"
    )


def _shaped(path: Path, values: Array, truth: Samples) -> Array:
    """(S, T, N, C), from any shape that can only mean this.

    A file may be padded to its own largest mesh.
    """
    task, count, padded = truth.task, len(truth), int(truth.frames.shape[2])
    frames, fields = len(task.predicted_frames()), len(task.fields)
    if values.dtype.kind not in "fiu":
        raise DataError(f"{path}: holds values of type {values.dtype}; expected real numbers")
    if values.ndim and len(values) != count:
        raise DataError(
            f"{path}: holds {len(values)} samples, shape {values.shape}; expected {count} of "
            f"{task.id}, in their order"
        )
    for nodes in {padded, max(mesh.size for mesh in truth.meshes)}:
        whole = (count, frames, nodes, fields)
        without_time = [(count, nodes, fields)] if frames == 1 else []
        without_field = [(count, frames, nodes)] if fields == 1 else []
        alone = [(count, nodes)] if frames == fields == 1 else []
        if values.shape in (whole, *without_time, *without_field, *alone):
            full = np.zeros((count, frames, padded, fields), dtype=np.float32)
            # what float32 cannot hold becomes infinite, and is refused as such
            with np.errstate(over="ignore"):
                full[:, :, :nodes] = values.reshape(whole)
            return full
    expected = (count, frames, padded, fields)
    raise DataError(
        f"{path}: has the shape {values.shape}; expected {expected}: samples, frames, nodes, "
        f"fields of {task.id}"
    )


# ------------------------------------------------------------------------------------------- scores


def score_predictions(values: Array, truth: Samples, subject: str = "predictions") -> Evaluation:
    """Errors of predicted frames (S, T, N, C) in physical units.

    Nodes outside a field's support do not count; padding has no support.
    """
    loader = _plain_loader(truth)
    counts = np.broadcast_to(loader.support.bool().cpu().numpy()[:, None], values.shape)
    bad = np.argwhere(~np.isfinite(values) & counts)
    if len(bad):
        sample, frame, node, field = bad[0].tolist()
        name, value = truth.task.fields[field].name, float(values[tuple(bad[0])])
        raise DataError(
            f"{subject}: {name} is {value!r} in sample {sample}, frame {frame}, node {node}; "
            "expected finite numbers wherever a field is scored"
        )
    steps = _steps(np.where(counts, values, np.float32(0)), loader)
    return collect(steps, loader, load_metrics())


def _steps(values: Array, loader: Loader) -> Iterator[Step]:
    """The stored predictions as if a model had just made them, window by window."""
    starts, frames = torch.tensor(loader.starts), loader.task.t_out
    for first in range(0, len(loader), BATCH):
        rows = torch.arange(first, min(first + BATCH, len(loader)))
        indices, begin = rows.repeat_interleave(len(starts)), starts.repeat(len(rows))
        batch, target = loader.batch(indices, begin, frames)
        stored = torch.from_numpy(values[rows.numpy()]).reshape(-1, frames, *values.shape[2:])
        yield Step(indices, batch, target, stored - loader.reference, 0.0)


def _plain_loader(truth: Samples) -> Loader:
    """Batches without scaling or geometry: no model sees them, the metrics need truth alone."""
    task = truth.task
    widths = {
        "window": len(task.fields),
        "output": len(task.fields),
        "static": len(task.static),
        "scalars": len(task.scalars),
        "points": task.dim,
    }
    normaliser = Normaliser(
        **{name: Affine(torch.zeros(width), torch.ones(width)) for name, width in widths.items()}
    )
    return Loader(
        truth, task=task, normaliser=normaliser, geometries=(), device="cpu", impose_boundary=False
    )
