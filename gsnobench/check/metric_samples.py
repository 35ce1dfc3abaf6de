"""Samples on which a metric is checked: toy tasks, or tiny datasets if it applies to no toy."""

from __future__ import annotations

from functools import cache

from gsnobench.check.toy_tasks import make_toy_tasks
from gsnobench.data import Mesh, Samples, Task
from gsnobench.datasets.generate import gathered
from gsnobench.datasets.tasks import TINY, resolve
from gsnobench.declare import Metric
from gsnobench.files import Cache
from gsnobench.plugins import listed, load

COUNT = 2  # samples of a dataset: one of them must not see the other


def samples_for(metric: Metric) -> dict[str, Samples]:
    """Task -> samples to which the metric applies; empty if there are none anywhere."""

    def applies(task: Task, *meshes: Mesh) -> bool:
        return all(metric.applies(task, mesh) for mesh in meshes)

    toys = {toy.name: toy.train for toy in make_toy_tasks()}
    chosen = {name: toy for name, toy in toys.items() if applies(toy.task, *toy.meshes)}
    if chosen:
        return chosen
    names = [entry.name for entry in listed("dataset") if entry.problem is None]
    made = {name: _tiny_samples(name) for name in names}
    return {name: tiny for name, tiny in made.items() if applies(tiny.task, *tiny.meshes)}


@cache
def _tiny_samples(name: str) -> Samples:
    """Some training samples of the tiny version of a dataset."""
    dataset = load("dataset", name)
    task = resolve(dataset, name, track=TINY)
    setup = dataset.setup(dataset.params.make(label="data"), task.resolution, Cache())
    made = list(dataset.generate(setup, task.data_seed, "train", range(COUNT)))
    return gathered(dataset, task, made, dataset.mesh(setup))
