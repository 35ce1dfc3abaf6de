"""The contracts of metrics, executors and observers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from gsnobench import plugins
from gsnobench.batch import Batch
from gsnobench.check.findings import Broken, Finding, Rule, complaints, judge, require
from gsnobench.check.toy_tasks import ToyTask, make_toy_tasks
from gsnobench.data import Array
from gsnobench.declare import Executor, Limits, Metric


def check_metric(metric: Metric) -> list[Finding]:
    """Declaration, then behaviour on every toy task."""
    declared = judge(Rule("X001", "the declaration is complete", _metric_is_complete), {"": metric})
    toys = {toy.name: toy for toy in make_toy_tasks()}
    rules = [Rule(code, sentence, partial(test, metric)) for code, sentence, test in METRIC_RULES]
    return [declared, *(judge(rule, toys) for rule in rules)]


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


def _pair(toy: ToyTask) -> tuple[torch.Tensor, torch.Tensor, Batch]:
    """A prediction that is wrong everywhere, the truth, both (B, t_out, N, C), and the batch."""
    task, samples = toy.task, toy.train
    frames = _tensor(samples.frames[:])  # (S, T, N, C), physical units
    nodes = frames.shape[2]

    def padded(value: Array) -> Array:
        return np.pad(value, ((0, nodes - len(value)), (0, 0)))

    points = np.stack([padded(mesh.points) for mesh in samples.meshes])
    tags = np.stack([padded(mesh.tag_matrix(task.tags)) for mesh in samples.meshes])
    is_node = np.stack([np.arange(nodes) < mesh.size for mesh in samples.meshes])
    batch = Batch(
        task=task,
        window=frames[:, : task.t_in],
        static=_tensor(samples.static[:]),
        scalars=_tensor(samples.scalars[:]),
        points=_tensor(points),
        tags=torch.as_tensor(tags),
        mask=None if is_node.all() else torch.as_tensor(is_node),
        geometry={},
    )
    target = frames[:, task.t_in :]
    noise = torch.randn(target.shape, generator=torch.Generator().manual_seed(0))
    return target + noise, target, batch


def _tensor(values: Array) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def _metric_shape(metric: Metric, toy: ToyTask) -> None:
    prediction, target, batch = _pair(toy)
    shape = tuple(metric.compute(prediction, target, batch).shape)
    require(shape == (batch.size,), f"the score is {shape}; expected (B,) = ({batch.size},)")


def _metric_finite(metric: Metric, toy: ToyTask) -> None:
    prediction, target, batch = _pair(toy)
    for guess in (prediction, target):
        is_finite = torch.isfinite(metric.compute(guess, target, batch)).all()
        require(bool(is_finite), "a score is not finite")


def _metric_best(metric: Metric, toy: ToyTask) -> None:
    prediction, target, batch = _pair(toy)
    sign = 1.0 if metric.better == "lower" else -1.0
    perfect, wrong = (sign * metric.compute(guess, target, batch) for guess in (target, prediction))
    is_best = bool((perfect < wrong).all())
    require(is_best, "the truth itself does not score better than a wrong prediction")
    if metric.better == "lower":
        is_zero = bool((perfect.abs() <= 1e-6 * wrong.abs()).all())
        require(is_zero, f"the truth itself scores {float(perfect.max()):.3g}, not 0")


def _metric_padding(metric: Metric, toy: ToyTask) -> None:
    prediction, target, batch = _pair(toy)
    if batch.mask is None:
        return
    spoilt = torch.where(batch.mask[:, None, :, None], prediction, prediction + 1e3)
    before, after = (metric.compute(guess, target, batch) for guess in (prediction, spoilt))
    is_same = torch.allclose(before, after, rtol=1e-5)
    require(is_same, "values on padding nodes change the score; use batch.mask")


def _metric_independent(metric: Metric, toy: ToyTask) -> None:
    prediction, target, batch = _pair(toy)
    changed = prediction.clone()
    changed[1:] += 10.0
    before, after = (metric.compute(guess, target, batch)[0] for guess in (prediction, changed))
    is_same = torch.allclose(before, after, rtol=1e-5)
    require(is_same, "the score of a sample changes with the other samples of its batch")


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
)
EXECUTOR_RULES = (
    Rule("E001", "the declaration is complete", _executor_is_complete),
    Rule("E002", "no runs, no results", _executor_empty),
)
