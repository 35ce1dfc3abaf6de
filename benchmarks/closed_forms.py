"""What closed forms reach on a task: persistence, mean and kernel ridge in float64, plain numpy.

    OMP_NUM_THREADS=1 python benchmarks/closed_forms.py burgers2d_lively [airfoil_family ...]
        [--track laptop] [--json FILE]

A referee of the floors that shares no code with them. Ridge predicts the frames or their change
from the last given frame, with a linear, polynomial or Gaussian kernel over all inputs at all
nodes; kernel and strength are chosen on the validation split. Where nodes do not correspond, inputs
and changes are interpolated to the mesh of the first training sample and back; the last given frame
itself stays at the nodes of the sample. Data are read from the home folder and made if missing.
Fields that only some nodes carry (`car`) are not covered.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from gsnobench.data import Array, Mesh, Samples, Split, Task
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.store import open_file
from gsnobench.datasets.tasks import named_task
from gsnobench.home import open_home
from gsnobench.meshes.interpolation import interpolation

SPLITS: tuple[Split, ...] = ("train", "valid", "test", "test_ood")
STRENGTHS = 10.0 ** np.arange(-14, 4)  # relative to the mean eigenvalue of the Gram matrix
WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # relative to the rms distance of two samples
OFFSETS = (0.1, 1.0, 10.0)  # c of (c + <x, x'>)^p; <x, x'> has mean 1 over the training samples


@dataclass(frozen=True, eq=False)
class Pairs:
    """All scored windows of a split: inputs on the common mesh, targets at the samples' nodes."""

    inputs: Array  # (W, P, F): given frames, static inputs, scalars at every node
    last: list[Array]  # per window: last given frame, (N, C)
    target: list[Array]  # per window: (t_out, N, C)
    common_last: Array  # (W, P, C)
    common_target: Array  # (W, t_out, P, C)
    back: list[sp.csr_array | None]  # per window: common mesh -> its own nodes


def main() -> None:
    """Print a table per task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--track", default="laptop")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for task in options.tasks for row in measure(task, options.track)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(name: str, track: str) -> Iterator[dict[str, object]]:
    """Errors of every closed form on one task."""
    dataset, task = named_task(name, knobs={}, track=track)
    with open_file(ensure(dataset, task, home=open_home(None).root, jobs=1), task) as opened:
        splits = {split: opened.read(split) for split in SPLITS}
    pairs = {split: windows(samples, splits["train"]) for split, samples in splits.items()}
    train = pairs["train"]
    simple = {
        "persistence": lambda split: _repeated(pairs[split], task),
        "mean": lambda split: _brought_back(
            np.broadcast_to(train.common_target.mean(0), pairs[split].common_target.shape),
            pairs[split],
        ),
    }
    for form, predict in simple.items() if task.t_in else [("mean", simple["mean"])]:
        yield report(
            task, form, {split: score(predict(split), pairs[split], task) for split in SPLITS}
        )
    for changes in (False, True) if task.t_in else (False,):
        for kernel in ("linear", "square", "cube", "gauss"):
            yield fitted(task, pairs, kernel, changes=changes)


def report(task: Task, form: str, errors: dict[str, float], choice: str = "") -> dict[str, object]:
    """Print one line and return it."""
    numbers = "  ".join(f"{split} {errors[split]:.5f}" for split in SPLITS[1:])
    print(f"{task.id:24s} {form:28s} {numbers}  {choice}", flush=True)
    return {"task": task.id, "form": form, "choice": choice, **errors}


# ------------------------------------------------------------------------------------------ windows


def windows(samples: Samples, train: Samples) -> Pairs:
    """Every scored window of every trajectory of a split."""
    task, common = samples.task, train.mesh(0)
    references = np.array([field.reference for field in task.fields])
    columns: dict[str, list] = {name: [] for name in Pairs.__annotations__}
    for index in range(len(samples)):
        mesh = samples.mesh(index)
        there, back = None, None
        if not task.corresponds:
            there, back = interpolation(mesh, common.points), interpolation(common, mesh.points)
        frames = np.asarray(samples.frames[index], dtype=np.float64)[:, : mesh.size] - references
        on_common = carried(there, frames)
        fixed = fixed_inputs(samples, index, there, common)  # (P, F)
        for start in task.starts:
            first, end = start + task.t_in, start + task.t_in + task.t_out
            columns["inputs"].append(np.concatenate([*on_common[start:first], fixed], axis=1))
            columns["last"].append(frames[first - 1])
            columns["target"].append(frames[first:end])
            columns["common_last"].append(on_common[first - 1])
            columns["common_target"].append(on_common[first:end])
            columns["back"].append(back)
    stacked = ("inputs", "common_last", "common_target")
    return Pairs(
        **{name: np.stack(rows) if name in stacked else rows for name, rows in columns.items()}
    )


def fixed_inputs(samples: Samples, index: int, there: sp.csr_array | None, common: Mesh) -> Array:
    """What all windows of a sample share, at every node of the common mesh, (P, F).

    Static inputs (positive ones also as 1/x and log x), scalars, and the shape where it varies: the
    coordinates of corresponding nodes, else the distances to the tagged nodes.
    """
    task, mesh = samples.task, samples.mesh(index)
    static = np.asarray(samples.static[index], dtype=np.float64)[: mesh.size]
    positive = static[:, (static > 0).all(axis=0)]
    parts = [carried(there, np.concatenate([static, 1.0 / positive, np.log(positive)], axis=1))]
    scalars = np.asarray(samples.scalars[index], dtype=np.float64)
    parts.append(np.broadcast_to(scalars, (common.size, len(scalars))))
    if not task.fixed_mesh and task.corresponds:
        parts.append(mesh.points)
    if not task.corresponds:
        tagged = [mesh.points[mesh.tags[tag]] for tag in task.tags]
        distances = [cKDTree(nodes).query(common.points)[0] for nodes in tagged]
        parts.append(np.stack(distances, axis=1))
    return np.concatenate(parts, axis=1)


def carried(matrix: sp.csr_array | None, values: Array) -> Array:
    """Node values (..., N, C) on another mesh; on the same one without a matrix."""
    if matrix is None:
        return values
    if values.ndim == 2:
        return np.asarray(matrix @ values)
    return np.stack([matrix @ frame for frame in values])


def score(predictions: list[Array], pairs: Pairs, task: Task) -> float:
    """The headline: mean over windows and scored fields of the relative L2 error.

    All trajectories have equally many windows, so this is the mean over trajectories too.
    """
    ratios = [
        np.linalg.norm(guess[..., list(group)] - target[..., list(group)])
        / np.linalg.norm(target[..., list(group)])
        for guess, target in zip(predictions, pairs.target, strict=True)
        for group in task.scored.values()
    ]
    return float(np.mean(ratios))


def _repeated(pairs: Pairs, task: Task) -> list[Array]:
    return [np.broadcast_to(last, (task.t_out, *last.shape)) for last in pairs.last]


def _brought_back(fields: Array, pairs: Pairs, *, changes: bool = False) -> list[Array]:
    """Fields (W, t_out, P, C) of the common mesh at the nodes of each window."""
    at_nodes = [carried(back, frames) for frames, back in zip(fields, pairs.back, strict=True)]
    if not changes:
        return at_nodes
    return [frames + last for frames, last in zip(at_nodes, pairs.last, strict=True)]


# -------------------------------------------------------------------------------------------- ridge


def fitted(
    task: Task, pairs: dict[Split, Pairs], kernel: str, *, changes: bool
) -> dict[str, object]:
    """Kernel ridge; kernel and strength by the validation error."""
    train = pairs["train"]
    targets = train.common_target - (train.common_last[:, None] if changes else 0.0)
    mean = targets.mean(0)
    flat = (targets - mean).reshape(len(targets), -1)
    best: tuple[float, str, Array, dict[Split, Array]] | None = None
    for label, grams in kernels(kernel, {split: part.inputs for split, part in pairs.items()}):
        values, vectors = np.linalg.eigh(grams["train"])
        for strength in STRENGTHS:
            inverse = vectors / (np.maximum(values, 0.0) + strength * values.mean()) @ vectors.T
            dual = inverse @ flat
            fields = (grams["valid"] @ dual).reshape(-1, *mean.shape) + mean
            guess = _brought_back(fields, pairs["valid"], changes=changes)
            error = score(guess, pairs["valid"], task)
            if best is None or error < best[0]:
                best = error, f"{label} strength {strength:.0e}", dual, grams
    assert best is not None
    _, choice, dual, grams = best
    errors = {}
    for split, part in pairs.items():
        fields = (grams[split] @ dual).reshape(-1, *mean.shape) + mean
        errors[split] = score(_brought_back(fields, part, changes=changes), part, task)
    return report(task, f"ridge {kernel} {'change' if changes else 'frames'}", errors, choice)


def kernels(kernel: str, inputs: dict[Split, Array]) -> Iterator[tuple[str, dict[Split, Array]]]:
    """Candidates of a kind: label, and the kernel (W, S) between each split and training."""
    centre = inputs["train"].mean(0)  # (P, F)
    scale = np.sqrt(np.mean((inputs["train"] - centre) ** 2, axis=(0, 1)))  # (F,)
    scale[scale == 0.0] = np.inf  # an input that never varies
    scale *= np.sqrt(centre.size)  # now a training sample has squared norm 1 on average
    flat = {split: ((x - centre) / scale).reshape(len(x), -1) for split, x in inputs.items()}
    products = {split: x @ flat["train"].T for split, x in flat.items()}
    if kernel == "linear":
        yield "", products
    elif kernel == "gauss":
        norms = {split: np.sum(x**2, axis=1) for split, x in flat.items()}
        squared = {
            split: norms[split][:, None] + norms["train"] - 2.0 * products[split]
            for split in inputs
        }
        for width in WIDTHS:  # the mean squared distance of two samples is 2
            yield (
                f"width {width:g}",
                {
                    split: np.exp(-np.maximum(part, 0.0) / (4.0 * width**2))
                    for split, part in squared.items()
                },
            )
    else:
        power = {"square": 2, "cube": 3}[kernel]
        for offset in OFFSETS:
            yield (
                f"offset {offset:g}",
                {split: (offset + part) ** power for split, part in products.items()},
            )


if __name__ == "__main__":
    main()
