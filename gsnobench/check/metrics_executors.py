"""The contracts of metrics, executors and observers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from gsnobench import plugins
from gsnobench.batch import Batch
from gsnobench.check.findings import Broken, Finding, Rule, complaints, judge, require
from gsnobench.check.toy_tasks import Case, make_cases
from gsnobench.declare import Executor, Limits, Metric


def check_metric(metric: Metric) -> list[Finding]:
    """Declaration, then behaviour on every case."""
    declared = judge(Rule("X001", "the declaration is complete", _metric_is_complete), {"": metric})
    cases = {case.name: case for case in make_cases()}
    return [
        declared,
        *(
            judge(Rule(code, text, lambda case: test(metric, case)), cases)
            for code, text, test in METRIC_RULES
        ),
    ]


def check_executor(executor: Executor) -> list[Finding]:
    """Declaration and the empty set of runs: everything else an executor does is real work."""
    return [judge(rule, {"": executor}) for rule in EXECUTOR_RULES]


def check_observer(name: str) -> list[Finding]:
    """An observer loads and implements a hook."""
    others = [entry.name for entry in plugins.listed("observer") if entry.name != name]
    observers, problems = plugins.load_observers(deny=others)
    mine = [line for line in problems if line.startswith(f"observer {name} ")]
    loads = bool(observers.get_plugins()) and not mine
    return [Finding("O001", "it loads and implements an observer hook", loads, "; ".join(mine))]


def _metric_is_complete(metric: Metric) -> None:
    complaints(
        [
            (
                metric.better in ("lower", "higher"),
                f"better is {metric.better!r}; expected 'lower' or 'higher'",
            ),
            (bool(metric.help), "help is empty; say in a line what the metric measures"),
        ]
    )


def _pair(case: Case) -> tuple[torch.Tensor, torch.Tensor, Batch]:
    """A prediction that is wrong everywhere, the truth, and the batch: (B, t_out, N, C) in physical
    units.
    """
    task, samples = case.task, case.train
    meshes = samples.meshes
    frames = torch.as_tensor(np.asarray(samples.frames[:]), dtype=torch.float32)  # (S, T, N, C)
    nodes = frames.shape[2]
    points = np.stack([np.pad(mesh.points, ((0, nodes - mesh.size), (0, 0))) for mesh in meshes])
    tags = np.stack(
        [np.pad(mesh.tag_matrix(task.tags), ((0, nodes - mesh.size), (0, 0))) for mesh in meshes]
    )
    real = torch.tensor([[node < mesh.size for node in range(nodes)] for mesh in meshes])
    batch = Batch(
        task=task,
        window=frames[:, : task.t_in],
        static=torch.as_tensor(np.asarray(samples.static[:]), dtype=torch.float32),
        scalars=torch.as_tensor(np.asarray(samples.scalars[:]), dtype=torch.float32),
        points=torch.as_tensor(points, dtype=torch.float32),
        tags=torch.as_tensor(tags),
        mask=None if bool(real.all()) else real,
        geometry={},
    )
    target = frames[:, task.t_in :]
    noise = torch.randn(target.shape, generator=torch.Generator().manual_seed(0))
    return target + noise, target, batch


def _metric_shape(metric: Metric, case: Case) -> None:
    prediction, target, batch = _pair(case)
    value = metric.compute(prediction, target, batch)
    require(
        tuple(value.shape) == (batch.size,),
        f"the score is {tuple(value.shape)}; expected (B,) = ({batch.size},)",
    )


def _metric_finite(metric: Metric, case: Case) -> None:
    prediction, target, batch = _pair(case)
    for guess in (prediction, target):
        require(
            bool(torch.isfinite(metric.compute(guess, target, batch)).all()),
            "a score is not finite",
        )


def _metric_best(metric: Metric, case: Case) -> None:
    prediction, target, batch = _pair(case)
    sign = 1.0 if metric.better == "lower" else -1.0
    perfect, wrong = (sign * metric.compute(guess, target, batch) for guess in (target, prediction))
    require(
        bool((perfect < wrong).all()),
        "the truth itself does not score better than a wrong prediction",
    )
    if metric.better == "lower":
        require(
            bool((perfect.abs() <= 1e-6 * wrong.abs()).all()),
            f"the truth itself scores {float(perfect.max()):.3g}, not 0",
        )


def _metric_padding(metric: Metric, case: Case) -> None:
    prediction, target, batch = _pair(case)
    if batch.mask is None:
        return
    spoilt = torch.where(batch.mask[:, None, :, None], prediction, prediction + 1e3)
    before, after = (metric.compute(guess, target, batch) for guess in (prediction, spoilt))
    require(
        torch.allclose(before, after, rtol=1e-5),
        "values on padding nodes change the score; use batch.mask",
    )


def _metric_independent(metric: Metric, case: Case) -> None:
    prediction, target, batch = _pair(case)
    changed = prediction.clone()
    changed[1:] += 10.0
    before, after = (
        metric.compute(guess, target, replace(batch))[0] for guess in (prediction, changed)
    )
    require(
        torch.allclose(before, after, rtol=1e-5),
        "the score of a sample changes with its companions",
    )


def _executor_is_complete(executor: Executor) -> None:
    require(bool(executor.help), "help is empty; say in a line where it runs things")


def _executor_empty(executor: Executor) -> None:
    with TemporaryDirectory() as folder:
        results = list(executor.run([], Limits(Path(folder))))
    if results:
        raise Broken(f"no run was asked for, {len(results)} results came")


METRIC_RULES = (
    ("X002", "one score a sample, (B,)", _metric_shape),
    ("X003", "the score is finite", _metric_finite),
    ("X004", "the truth has the best score, and 0 where lower is better", _metric_best),
    ("X005", "padding nodes do not count", _metric_padding),
    ("X006", "a sample's score is its own", _metric_independent),
)
EXECUTOR_RULES = (
    Rule("E001", "the declaration is complete", _executor_is_complete),
    Rule("E002", "no runs, no results", _executor_empty),
)
