"""Inverse problems are reproducible, their sensors spread, and tasks without one are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Task
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Dataset
from gsnobench.plugins import dataset_named
from gsnobench.studies.inverse.problems import World, world_of


@pytest.fixture(scope="module")
def darcy() -> tuple[Dataset, Task]:
    dataset = dataset_named("darcy")
    return dataset, resolve(dataset, "darcy", track="smoke")


@pytest.fixture(scope="module")
def world(darcy: tuple[Dataset, Task], tmp_path_factory: pytest.TempPathFactory) -> World:
    cache = gb.Cache(tmp_path_factory.mktemp("cache"))
    return world_of(*darcy, sensors=20, noise=0.05, cache=cache)


def test_sensors_are_inside_apart_and_one_node_is_left(world: World) -> None:
    mesh, sensors = world.mesh, world.sensors
    assert len(set(sensors.tolist())) == 20 and not mesh.tags["boundary"][sensors].any()
    gaps = np.linalg.norm(mesh.points[sensors][:, None] - mesh.points[sensors], axis=-1)
    nearest = (gaps + np.eye(20)).min(axis=1)
    to_unseen = np.linalg.norm(mesh.points[sensors] - mesh.points[world.unseen], axis=1).min()
    assert nearest.min() >= to_unseen > 0.03
    assert world.unseen not in sensors


def test_a_problem_is_a_function_of_its_number(world: World) -> None:
    first, again, other = (world.problem(number) for number in (0, 0, 1))
    assert (first.data == again.data).all() and (first.truth != other.truth).all()
    size = np.sqrt(np.mean(first.frame**2))
    assert first.sigma == pytest.approx(0.05 * size)
    noise = (first.data - first.frame[world.sensors]) / first.sigma
    assert 0.5 < noise.std() < 1.6
    coarse, _ = world.solved(first.truth)  # by the solver of the data: near, and not the same
    assert 1e-5 < np.linalg.norm(coarse - first.frame) / np.linalg.norm(first.frame) < 5e-3


def test_tasks_that_cannot_be_inverted_are_one_line(
    darcy: tuple[Dataset, Task], world: World
) -> None:
    dataset, task = darcy
    settings = {"sensors": 8, "noise": 0.01, "cache": world.cache}
    with pytest.raises(gb.ParamError, match="declares no inverse problem"):
        world_of(replace(dataset, inverse=None), task, **settings)
    with pytest.raises(gb.ParamError, match="expected a steady task"):
        world_of(dataset, replace(task, t_in=1), **settings)
    with pytest.raises(gb.ParamError, match=r"sensors: 5000 is out of range; expected 1\.\."):
        world_of(dataset, task, **{**settings, "sensors": 5000})
