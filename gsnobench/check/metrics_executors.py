"""The contracts of metrics, executors and observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from gsnobench import plugins
from gsnobench.batch import Batch
from gsnobench.check.findings import Broken, Finding, Rule, complaints, judge, require
from gsnobench.check.metric_samples import samples_for
from gsnobench.data import Array, Mesh, Samples
from gsnobench.declare import Executor, Limits, Metric


def check_metric(metric: Metric) -> list[Finding]:
    """Declaration, then behaviour on every task to which it applies."""
    return check_metric_on(metric, samples_for(metric))


def check_metric_on(metric: Metric, tasks: Mapping[str, Samples]) -> list[Finding]:
    """The same on given tasks: name -> samples."""
    declared = judge(Rule("X001", "the declaration is complete", _metric_is_complete), {"": metric})
    rules = [Rule(code, sentence, partial(test, metric)) for code, sentence, test in METRIC_RULES]
    somewhere = Rule("X007", "it applies to a toy task or an installed dataset", _metric_applies)
    behaviour = [judge(rule, tasks) for rule in rules]
    return sorted([declared, *behaviour, judge(somewhere, {"": tasks})], key=lambda item: item.code)


def check_executor(executor: Executor) -> list[Finding]:
    """Declaration, and that no runs give no results: all else an executor does is real work."""
    return [judge(rule, {"": executor}) for rule in EXECUTOR_RULES]


def check_observer(name: str) -> list[Finding]:
    """An observer loads and implements a hook."""
    others = [entry.name for entry in plugins.listed("observer") if entry.name != name]
    observers, problems = plugins.load_observers(deny=others)
    mine = [line for line in problems if line.startswith(f"observer {name} ")]
    loads = bool(observers.get_plugins()) and not mine
    return [Finding("O001", "it loads and implements an observer hook", loads, "; ".join(mine))]


def _metric_is_complete(metric: Metric) -> None:
    is_known = metric.better in ("lower", "higher")
    complaints(
        [
            (is_known, f"better is {metric.better!r}; expected 'lower' or 'higher'"),
            (bool(metric.help), "help is empty; say in a line what the metric measures"),
        ]
    )


def _metric_applies(tasks: Mapping[str, Samples]) -> str:
    require(bool(tasks), "it applies to none; correct `applies`, or install the dataset it is for")
    return f"checked on {', '.join(tasks)}"


def _pair(samples: Samples) -> tuple[torch.Tensor, torch.Tensor, Batch]:
    """A prediction that is wrong everywhere, the truth, both (B, t_out, N, C), and the batch."""
    task, count = samples.task, len(samples)
    reference = np.array([field.reference for field in task.fields])
    frames = _tensor(np.asarray(samples.frames[:]) - reference)  # (S, T, N, C), centred
    nodes, meshes = frames.shape[2], tuple(samples.mesh(index) for index in range(count))

    def padded(value: Array) -> Array:
        return np.pad(value, ((0, nodes - len(value)), (0, 0)))

    tags = np.stack([padded(mesh.tag_matrix(task.tags)) for mesh in meshes])
    is_node = np.stack([np.arange(nodes) < mesh.size for mesh in meshes])
    batch = Batch(
        task=task,
        window=frames[:, : task.t_in],
        static=_tensor(samples.static[:]),
        scalars=_tensor(samples.scalars[:]),
        points=_tensor(np.stack([padded(mesh.points) for mesh in meshes])),
        tags=torch.as_tensor(tags),
        mask=None if is_node.all() else torch.as_tensor(is_node),
        geometry={},
        meshes=meshes,
    )
    target = frames[:, task.t_in : task.t_in + task.t_out]
    noise = torch.randn(target.shape, generator=torch.Generator().manual_seed(0))
    return target + noise * target.std(), target, batch


def _tensor(values: Array) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def _metric_shape(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    shape = tuple(metric.compute(prediction, target, batch).shape)
    require(shape == (batch.size,), f"the score is {shape}; expected (B,) = ({batch.size},)")


def _metric_finite(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    for guess in (prediction, target):
        is_finite = torch.isfinite(metric.compute(guess, target, batch)).all()
        require(bool(is_finite), "a score is not finite")


def _metric_best(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    sign = 1.0 if metric.better == "lower" else -1.0
    perfect, wrong = (sign * metric.compute(guess, target, batch) for guess in (target, prediction))
    is_best = bool((perfect < wrong).all())
    require(is_best, "the truth itself does not score better than a wrong prediction")
    if metric.better == "lower":
        is_zero = bool((perfect.abs() <= 1e-6 * wrong.abs()).all())
        require(is_zero, f"the truth itself scores {float(perfect.max()):.3g}, not 0")


def _metric_padding(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    if batch.mask is None:
        return
    spoilt = torch.where(batch.mask[:, None, :, None], prediction, prediction + 1e3)
    before, after = (metric.compute(guess, target, batch) for guess in (prediction, spoilt))
    is_same = torch.allclose(before, after, rtol=1e-5)
    require(is_same, "values on padding nodes change the score; use batch.mask")


def _metric_independent(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    changed = prediction.clone()
    changed[1:] += 10.0
    before, after = (metric.compute(guess, target, batch)[0] for guess in (prediction, changed))
    is_same = torch.allclose(before, after, rtol=1e-5)
    require(is_same, "the score of a sample changes with the other samples of its batch")


def _metric_renumbered(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    generator = np.random.default_rng(0)
    orders = {mesh.key: generator.permutation(mesh.size) for mesh in batch.meshes}
    meshes = {mesh.key: _renumbered_mesh(mesh, orders[mesh.key]) for mesh in batch.meshes}

    def renumbered(values: torch.Tensor, axis: int) -> torch.Tensor:
        """Values of all samples (B, ...) with nodes along an axis; padding stays at the end."""
        copy = values.clone()
        for index, mesh in enumerate(batch.meshes):
            order = torch.as_tensor(orders[mesh.key])
            copy[index].narrow(axis - 1, 0, mesh.size).copy_(
                values[index].index_select(axis - 1, order)
            )
        return copy

    other = replace(
        batch,
        window=renumbered(batch.window, 2),
        static=renumbered(batch.static, 1),
        points=renumbered(batch.points, 1),
        tags=renumbered(batch.tags, 1),
        meshes=tuple(meshes[mesh.key] for mesh in batch.meshes),
    )
    before = metric.compute(prediction, target, batch)
    after = metric.compute(renumbered(prediction, 2), renumbered(target, 2), other)
    is_same = torch.allclose(before, after, rtol=1e-4)
    require(is_same, "the score changes when the nodes of mesh and fields are renumbered")


def _renumbered_mesh(mesh: Mesh, order: Array) -> Mesh:
    """The same mesh, whose node i is now what was node order[i]."""
    cells = None if mesh.cells is None else np.argsort(order)[mesh.cells]
    tags = {tag: np.asarray(tagged)[order] for tag, tagged in mesh.tags.items()}
    return Mesh(mesh.points[order], cells, tags)


def _metric_unscaled(metric: Metric, samples: Samples) -> None:
    prediction, target, batch = _pair(samples)
    names = ("window", "static", "scalars", "points")
    scaled = replace(batch, **{name: 3 * getattr(batch, name) + 1 for name in names})
    before, after = (metric.compute(prediction, target, given) for given in (batch, scaled))
    is_same = torch.allclose(before, after, rtol=1e-5)
    require(is_same, "the scaling of the inputs changes the score; use batch.meshes and batch.task")


def _executor_is_complete(executor: Executor) -> None:
    require(bool(executor.help), "help is empty; say in a line where it runs things")


def _executor_empty(executor: Executor) -> None:
    with TemporaryDirectory() as folder:
        results = list(executor.run([], Limits(Path(folder))))
    if results:
        raise Broken(f"no run was requested, {len(results)} results came")


METRIC_RULES = (
    ("X002", "one score per sample, (B,)", _metric_shape),
    ("X003", "the score is finite", _metric_finite),
    ("X004", "the truth has the best score, and 0 where lower is better", _metric_best),
    ("X005", "padding nodes do not count", _metric_padding),
    ("X006", "a sample's score does not depend on the other samples", _metric_independent),
    ("X008", "renumbered nodes do not change the score", _metric_renumbered),
    ("X009", "the scaling of the inputs does not change the score", _metric_unscaled),
)
EXECUTOR_RULES = (
    Rule("E001", "the declaration is complete", _executor_is_complete),
    Rule("E002", "no runs, no results", _executor_empty),
)
