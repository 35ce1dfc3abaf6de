"""Inverse problems of a task: truths from the prior, observed by a finer solver, with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from gsnobench.data import Array, Field, Mesh, Task
from gsnobench.declare import Dataset, Decoder, Inverse
from gsnobench.errors import ParamError
from gsnobench.files import Cache
from gsnobench.training.fit import mix


@dataclass(frozen=True, eq=False)
class Problem:
    """One truth and what is observed of it."""

    number: int
    truth: Array  # (K,) coefficients
    frame: Array  # (N,) solved on the finer mesh, without noise
    data: Array  # (S,) at the sensors, with noise
    sigma: float  # of the noise


@dataclass(frozen=True, eq=False)
class World:
    """What all problems of a task share."""

    dataset: Dataset
    task: Task
    sensors: Array  # (S,) nodes
    unseen: int  # the node that is farthest from all sensors
    noise: float  # of the root mean square of the frame
    cache: Cache

    @property
    def inverse(self) -> Inverse:
        assert self.dataset.inverse is not None
        return self.dataset.inverse

    @cached_property
    def setup(self) -> Any:
        """Of the solver that made the training data."""
        return self._setup(self._params)

    @cached_property
    def finer(self) -> Any:
        """Of the solver that makes the observations."""
        return self._setup(self.inverse.finer(self._params))

    @property
    def _params(self) -> Any:
        return self.dataset.params.make(self.task.data, label="data")

    @property
    def identity(self) -> dict[str, Any]:
        """What the solver's numbers depend on."""
        task = self.task
        known = {"task": task.dataset, "version": task.version, "nodes": task.resolution}
        return {**known, "knobs": self._params.to_dict()}

    def _setup(self, params: Any) -> Any:
        return self.dataset.setup(params, self.task.resolution, self.cache)

    @cached_property
    def decoder(self) -> Decoder:
        """Coefficients -> input."""
        return self.inverse.decode(self.setup)

    @cached_property
    def matrix(self) -> torch.Tensor:
        """(N, K): coefficients -> field before the link."""
        return torch.from_numpy(np.asarray(self.decoder.matrix))

    @cached_property
    def mesh(self) -> Mesh:
        mesh = self.dataset.mesh(self.setup)
        assert mesh is not None
        return mesh

    def inputs(self, xi: torch.Tensor) -> torch.Tensor:
        """The static input of coefficients (B, K) at the nodes, (B, N)."""
        return self.decoder.link(xi @ self.matrix.T)

    def solved(self, xi: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The frame that the solver of the data gives, (N,), and how weights of it are pulled back.

        Without an adjoint nothing can be pulled back.
        """
        if self.inverse.adjoint is None or not self.decoder.is_smooth:
            return np.asarray(self.inverse.solve(self.setup, xi)[-1, :, 0]), _no_gradient
        frames, pull = self.inverse.adjoint(self.setup, xi)

        def pulled(weights: Array) -> Array:
            full = np.zeros(frames.shape)
            full[-1, :, 0] = weights
            return np.asarray(pull(full))

        return np.asarray(frames[-1, :, 0]), pulled

    def problem(self, number: int) -> Problem:
        """A problem by its number; its random numbers depend on nothing else."""
        rng = np.random.default_rng(mix("inverse problem", number))
        truth, errors = rng.standard_normal(self.inverse.dim), rng.standard_normal(self.mesh.size)
        finer = self.inverse.finer(self._params).to_dict()
        key = {**self.identity, "knobs": finer, "number": number}
        frame = self.cache.arrays(
            "inverse-truth-v1", key, lambda: {"frame": self._observed(truth)}
        )["frame"]
        sigma = self.noise * float(np.sqrt(np.mean(frame**2)))
        data = (frame + sigma * errors)[self.sensors]
        return Problem(number, truth, frame, data, sigma)

    def _observed(self, truth: Array) -> Array:
        return np.asarray(self.inverse.solve(self.finer, truth)[-1, :, 0])


def _no_gradient(weights: Array) -> Array:
    del weights
    raise ParamError("the solver has no adjoint; use --law prior and samplers without a gradient")


def world_of(dataset: Dataset, task: Task, *, sensors: int, noise: float, cache: Cache) -> World:
    """Checks that the task can be inverted, and places the sensors."""
    if dataset.inverse is None:
        raise ParamError(
            f"{task.id}: its dataset declares no inverse problem; choose one that does"
        )
    if not task.fixed_mesh or task.t_in or len(task.fields) != 1 or len(task.static) != 1:
        raise ParamError(
            f"{task.id}: expected a steady task with one mesh, one field and one static input"
        )
    bare = World(dataset, task, np.zeros(0, int), 0, noise, cache)
    free = np.flatnonzero(~_known(bare.mesh, task.fields[0]))
    count = sensors or len(free)
    if not 1 <= count <= len(free):
        raise ParamError(f"sensors: {sensors} is out of range; expected 1..{len(free)}, or 0: all")
    order, distance = _spread(bare.mesh.points[free], count)
    chosen, unseen = free[order], int(free[int(np.argmax(distance))])
    return World(dataset, task, chosen, unseen, noise, cache)


def _known(mesh: Mesh, field: Field) -> Array:
    """Nodes whose value the boundary condition gives, (N,)."""
    tags = [tag for tag, kind in field.boundary.items() if kind == "dirichlet"]
    return np.any([mesh.tags[tag] for tag in tags] or [np.zeros(mesh.size, bool)], axis=0)


def _spread(points: Array, count: int) -> tuple[Array, Array]:
    """Points chosen one after the other, each the farthest from those before; distances to them."""
    chosen = [int(np.argmin(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    distance = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen), distance
