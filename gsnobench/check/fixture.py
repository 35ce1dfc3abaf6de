"""A model set up on a toy task as a run does it: summary, normaliser, geometry, module, phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import nn

from gsnobench.batch import Batch
from gsnobench.check.toy_tasks import ToyTask
from gsnobench.data import Array, Mesh, Samples, Task
from gsnobench.declare import Geometry, Horizon, Model, Part, Phase, Summary
from gsnobench.files import Cache
from gsnobench.training.fit import Job, fit_view
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import Normaliser, fit_normaliser
from gsnobench.training.optimisation import TrainParams

BATCH = (0, 1)  # samples of the batch


@dataclass(frozen=True, eq=False)
class ModelOnTask:
    """One model with one preset on one toy task."""

    model: Model
    toy: ToyTask
    params: Any
    train: TrainParams
    horizon: Horizon
    task: Task  # narrowed to the horizon
    summary: Summary
    normaliser: Normaliser
    cache: Cache

    def geometry(self, mesh: Mesh) -> Geometry:
        """What the model precomputes on a mesh."""
        return compute_geometry(
            self.model, self.params, self.task, mesh, summary=self.summary, cache=self.cache
        )

    def loader(self, samples: Samples, geometries: Sequence[Geometry] | None = None) -> Loader:
        """Batches of these samples, with these geometries or those of their meshes."""
        if geometries is None:
            geometries = [self.geometry(mesh) for mesh in samples.meshes]
        return Loader(
            samples,
            task=self.task,
            normaliser=self.normaliser,
            geometries=geometries,
            device="cpu",
            impose_boundary=self.train.impose_boundary,
            predicts_change=self.train.predict == "change",
        )

    def batch(
        self, samples: Samples, indices: Sequence[int], geometries: Sequence[Geometry] | None = None
    ) -> Batch:
        """The inputs of some samples, windows at frame 0."""
        chosen = torch.tensor(indices)
        loader = self.loader(samples, geometries)
        return loader.batch(chosen, torch.zeros_like(chosen), self.horizon.steps)[0]

    def phases(self) -> tuple[Phase, ...]:
        """The phases of its training."""
        return self.model.phases(self.task, self.params)

    def build(self, seed: int) -> nn.Module:
        """A new module; the caller's random state stays as it is."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.model.build(self.task, self.params)

    def job(self, module: nn.Module, *, folder: Path, steps: int) -> Job:
        """What the training loop works on."""
        return Job(
            module=module,
            train=self.loader(self.toy.train),
            valid=self.loader(self.toy.valid),
            phases=self.phases(),
            steps={phase.name: steps for phase in self.phases()},
            horizon=self.horizon,
            frames=self.toy.task.t_out,
            params=self.train,
            seed=0,
            folder=folder,
        )

    @cached_property
    def module(self) -> nn.Module:
        """The module of all rules that do not train it."""
        return self.solved(0)

    @cached_property
    def inputs(self) -> Batch:
        """The batch of most rules."""
        return self.batch(self.toy.train, BATCH)

    @cached_property
    def output(self) -> torch.Tensor:
        """The prediction of `module` for `inputs`, (B, steps, N, C)."""
        return predict(self.module, self.inputs)

    def solved(self, seed: int) -> nn.Module:
        """A new module in evaluation mode; closed-form phases and preparations have run."""
        module = self.build(seed)
        fit = fit_view(self.job(module, folder=Path(), steps=1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for phase in self.phases():
                if phase.solve is not None:
                    with torch.no_grad():
                        phase.solve(module, fit)
                elif phase.prepare is not None:
                    phase.prepare(module, fit)
        return module.eval()


def set_up(model: Model, preset_name: str, toy: ToyTask, cache: Cache) -> ModelOnTask:
    """Everything that comes before the module is built."""
    preset = model.presets[preset_name]
    params = model.params.make(preset.model, label=f"{model.name}@{preset_name}")
    train = TrainParams.make(preset.train, {"batch": 4}, label="train")
    horizon = model.horizon(toy.task, params)
    return ModelOnTask(
        model=model,
        toy=toy,
        params=params,
        train=train,
        horizon=horizon,
        task=toy.task.narrowed(horizon.window, horizon.steps),
        summary=model.summary(toy.train, params) if model.summary is not None else {},
        normaliser=fit_normaliser(toy.train, train, horizon),
        cache=cache,
    )


def predict(module: nn.Module, batch: Batch) -> torch.Tensor:
    """The module's output without gradients, (B, steps, N, C)."""
    with torch.no_grad():
        return module(batch)


# ----------------------------------------------------------------------------- changes of numbering


def permuted(samples: Samples, orders: Sequence[Array]) -> Samples:
    """The same samples with renumbered nodes: new node i is old node order[i]; padding stays."""
    pairs = zip(samples.meshes, orders, strict=True)
    meshes = tuple(_permuted_mesh(mesh, order) for mesh, order in pairs)
    frames, static = np.array(samples.frames[:]), np.array(samples.static[:])
    for index in range(len(samples)):
        order = orders[index % len(orders)]
        frames[index, :, : len(order)] = frames[index][:, order]
        static[index, : len(order)] = static[index, order]
    return replace(samples, meshes=meshes, frames=frames, static=static)


def _permuted_mesh(mesh: Mesh, order: Array) -> Mesh:
    cells = None if mesh.cells is None else np.argsort(order)[mesh.cells]
    tags = {tag: np.asarray(value)[order] for tag, value in mesh.tags.items()}
    return Mesh(mesh.points[order], cells, tags)


def permuted_geometry(geometry: Geometry, order: Array) -> Geometry:
    """The geometry with renumbered nodes; computed anew, a basis could change its signs."""
    return {name: _permuted_part(part, order) for name, part in geometry.items()}


def _permuted_part(part: Part, order: Array) -> Part:
    value: Any = part.value
    for axis, name in enumerate(part.axes):
        if name == "node":
            value = value[(slice(None),) * axis + (order,)]
    if scipy.sparse.issparse(value):
        value = scipy.sparse.csr_array(value)
        value.sort_indices()
    if part.index == "node":
        value = np.argsort(order)[value]
    return replace(part, value=value)


def placed(batch: Batch, device: torch.device | str) -> Batch:
    """The batch on another device."""
    mask = None if batch.mask is None else batch.mask.to(device)
    geometry = {name: value.to(device) for name, value in batch.geometry.items()}
    names = ("window", "static", "scalars", "points", "tags")
    moved = {name: getattr(batch, name).to(device) for name in names}
    return replace(batch, mask=mask, geometry=geometry, **moved)
