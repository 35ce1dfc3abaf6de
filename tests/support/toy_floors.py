"""Floors fitted on small data with known results; encoding and batching are the core's."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import Delaunay

import gsnobench as gb
from gsnobench.data import Array, Mesh, Samples, Task
from gsnobench.declare import Geometry
from gsnobench.meshes.modes import eigenbasis
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import Normaliser, fit_normaliser
from gsnobench.training.optimisation import TrainParams


@dataclass(frozen=True, eq=False)
class Trained:
    """A fitted floor; calling it with samples returns its predictions."""

    model: gb.Model
    module: Any  # the floor's own class, with its buffers
    params: Any
    summary: dict[str, Array]
    normaliser: Normaliser

    def loader(self, samples: Samples) -> Loader:
        def geometry(mesh: Mesh) -> Geometry:
            task, summary = samples.task, self.summary
            return compute_geometry(
                self.model, self.params, task, mesh, summary=summary, cache=gb.Cache()
            )

        return Loader(
            samples,
            task=samples.task,
            normaliser=self.normaliser,
            geometries=[geometry(mesh) for mesh in samples.meshes],
            device="cpu",
            impose_boundary=False,
        )

    def batch(self, samples: Samples, start: int = 0) -> tuple[gb.Batch, torch.Tensor]:
        """All windows that begin at one frame, and their centred targets."""
        everyone = torch.arange(len(samples))
        starts = torch.full_like(everyone, start)
        return self.loader(samples).batch(everyone, starts, samples.task.t_out)

    def batches(self, samples: Samples) -> Iterator[tuple[gb.Batch, torch.Tensor]]:
        return self.batches_of(self.loader(samples))

    def batches_of(self, loader: Loader) -> Iterator[tuple[gb.Batch, torch.Tensor]]:
        """All evaluated windows, and their encoded targets."""
        everyone, task = torch.arange(len(loader)), loader.task
        for start in task.starts:
            batch, target = loader.batch(everyone, torch.full_like(everyone, start), task.t_out)
            yield batch, self.normaliser.output.encode(target)

    def __call__(self, samples: Samples) -> Array:
        with torch.no_grad():
            return self.normaliser.output.decode(self.module(self.batch(samples)[0])).numpy()


def floor(name: str) -> gb.Model:
    return importlib.import_module(f"gsnobench_plugins.models.floors.{name}").gsnobench_model()


def train(name: str, known: Samples, valid: Samples, **knobs: object) -> Trained:
    model = floor(name)
    assert model.declines(known.task) is None
    params = model.params.make(knobs)
    summary = model.summary(known, params) if model.summary else {}
    normaliser = fit_normaliser(known, TrainParams.make(model.presets["default"].train))
    trained = Trained(model, model.build(known.task, params), params, summary, normaliser)
    loaders = {"train": trained.loader(known), "valid": trained.loader(valid)}
    for phase in model.phases(known.task, params):
        assert phase.solve is not None
        fit = gb.Fit(known.task, known, valid, lambda split: trained.batches_of(loaders[split]))
        with torch.no_grad():
            phase.solve(trained.module, fit)
    return trained


def plane_mesh(size: int = 7, stretch: float = 1.0) -> Mesh:
    line = np.linspace(0, 1, size)
    points = np.stack(np.meshgrid(line * stretch, line, indexing="ij"), axis=-1).reshape(-1, 2)
    wall = (points[:, 1] == 0) | (points[:, 1] == 1)
    return Mesh(points, Delaunay(points).simplices.astype(np.int64), {"wall": wall})


def make_task(**changes: Any) -> Task:
    base = Task(id="toy", dataset="toy", fields=(gb.Field("u"),), dim=2, tags=("wall",))
    return replace(base, **changes)


def make_samples(
    task: Task, meshes: Mesh | list[Mesh], frames: Array, static: Array | None = None
) -> Samples:
    shared = (meshes,) if isinstance(meshes, Mesh) else tuple(meshes)
    static = np.zeros((*frames.shape[:1], frames.shape[2], 0)) if static is None else static
    return Samples(task, shared, frames, static, np.zeros((len(frames), 0)))


def relative(guess: Array, truth: Array) -> float:
    return float(np.linalg.norm(guess - truth) / np.linalg.norm(truth))


def steady(mesh: Mesh, operator: Any, count: int, seed: int) -> Samples:
    """u = operator(x) of positive inputs x = exp(g), g random among eight smooth functions."""
    task = make_task(static=(gb.Field("x"),))
    draw = np.random.default_rng(seed).normal(size=(count, 8)) * 0.3
    angles = [np.pi * (mesh.points @ [i, j]) for i in range(4) for j in range(2)]
    waves = np.stack([np.cos(angle) for angle in angles])  # (8, N)
    x = np.exp(draw @ waves)
    return make_samples(task, mesh, operator(x)[:, None, :, None], x[..., None])


def moving(
    mesh: Mesh, count: int, seed: int, rate: Any, t_in: int = 3, t_out: int = 8, k: int = 12
) -> Samples:
    """Trajectories of two fields, one about 5.0; each mode follows its law about a mean state."""
    basis = eigenbasis(mesh, k)
    fields = (gb.Field("h", reference=5.0), gb.Field("p"))
    task = make_task(
        fields=fields, t_in=t_in, t_out=t_out, times=tuple(float(t) for t in range(t_in + t_out))
    )
    real, imaginary = np.random.default_rng(seed).normal(size=(2, count, k, 2))
    law = np.stack([rate(basis.values, t) for t in range(t_in + t_out)])  # (T, k) complex
    series = np.einsum("tk,skc->stkc", law, real + 1j * imaginary).real + 0.5
    frames = np.einsum("nk,stkc->stnc", basis.vectors, series) + [5.0, 0.0]
    return make_samples(task, mesh, frames)


def heat(values: Array, t: int) -> Array:
    """Decay."""
    return np.exp(-0.004 * values * t)


def wave(values: Array, t: int) -> Array:
    """Oscillation of any phase."""
    return np.exp(0.15j * np.sqrt(np.abs(values)) * t)


def shapes(count: int, seed: int = 0, t_in: int = 0, t_out: int = 1) -> Samples:
    """Rectangles of different widths and node counts, each with values of its own."""
    draw = np.random.default_rng(seed)
    meshes = [plane_mesh(5 + index % 3, 1 + 0.3 * index) for index in range(count)]
    largest = max(mesh.size for mesh in meshes)
    task = make_task(
        fields=(gb.Field("u", reference=1.0), gb.Field("w", support="wall")), t_in=t_in, t_out=t_out
    )
    frames = draw.normal(size=(count, t_in + t_out, largest, 2))
    return make_samples(replace(task, corresponds=False, fixed_mesh=False), meshes, frames)
