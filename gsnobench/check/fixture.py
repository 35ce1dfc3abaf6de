"""A model set up on one case the way a run sets it up: summary, normalisation, geometry, module,
closed-form phases.
"""

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
from gsnobench.check.toy_tasks import Case
from gsnobench.data import Array, Mesh, Samples, Task
from gsnobench.declare import Geometry, Horizon, Model, Part, Phase, Preset, Summary
from gsnobench.files import Cache
from gsnobench.training.fit import Job, fit_view
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import Normaliser, fit_normaliser
from gsnobench.training.optimisation import TrainParams

BATCH = (0, 1)  # samples of the batch


@dataclass(frozen=True, eq=False)
class Trial:
    """One model, one preset, one case."""

    model: Model
    preset: Preset
    case: Case
    params: Any
    horizon: Horizon
    task: Task  # narrowed to the horizon
    summary: Summary
    normaliser: Normaliser
    cache: Cache

    def geometry(self, mesh: Mesh) -> Geometry:
        """The preprocessing of one mesh."""
        return compute_geometry(
            self.model, self.params, self.task, mesh, summary=self.summary, cache=self.cache
        )

    def loader(self, samples: Samples, geometries: Sequence[Geometry] | None = None) -> Loader:
        """Batches of these samples."""
        return Loader(
            samples,
            task=self.task,
            normaliser=self.normaliser,
            geometries=[self.geometry(mesh) for mesh in samples.meshes]
            if geometries is None
            else geometries,
            device="cpu",
            impose_boundary=self.preset.impose_boundary,
        )

    def batch(
        self, samples: Samples, indices: Sequence[int], geometries: Sequence[Geometry] | None = None
    ) -> Batch:
        """The inputs of some samples, windows at frame 0."""
        chosen = torch.tensor(indices)
        return self.loader(samples, geometries).batch(
            chosen, torch.zeros_like(chosen), self.horizon.steps
        )[0]

    def phases(self) -> tuple[Phase, ...]:
        return self.model.phases(self.task, self.params)

    def build(self, seed: int) -> nn.Module:
        """A fresh module; the caller's random state is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.model.build(self.task, self.params)

    def job(self, module: nn.Module, *, folder: Path, steps: int) -> Job:
        """What the training loop works on."""
        return Job(
            module=module,
            train=self.loader(self.case.train),
            valid=self.loader(self.case.valid),
            phases=self.phases(),
            steps={phase.name: steps for phase in self.phases()},
            horizon=self.horizon,
            frames=self.case.task.t_out,
            params=TrainParams.make(self.preset.train, {"batch": 4}, label="train"),
            seed=0,
            folder=folder,
            on_epoch=lambda phase, epoch, scores: None,
            on_step=lambda step, total, best: None,
        )

    @cached_property
    def module(self) -> nn.Module:
        """The module that all rules share which only ask it."""
        return self.solved(0)

    @cached_property
    def inputs(self) -> Batch:
        """The batch that most rules ask about."""
        return self.batch(self.case.train, BATCH)

    @cached_property
    def output(self) -> torch.Tensor:
        """What the shared module answers to it, (B, steps, N, C)."""
        return answer(self.module, self.inputs)

    def solved(self, seed: int) -> nn.Module:
        """A fresh module in evaluation mode, its closed-form phases solved and its preparations
        done.
        """
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


def make_trial(model: Model, preset_name: str, case: Case, cache: Cache) -> Trial:
    """Everything that comes before the module is built."""
    preset = model.presets[preset_name]
    params = model.params.make(preset.model, label=f"{model.name}@{preset_name}")
    horizon = model.horizon(case.task, params)
    return Trial(
        model=model,
        preset=preset,
        case=case,
        params=params,
        horizon=horizon,
        task=case.task.narrowed(horizon.window, horizon.steps),
        summary=model.summary(case.train, params) if model.summary is not None else {},
        normaliser=fit_normaliser(case.train, preset),
        cache=cache,
    )


def answer(module: nn.Module, batch: Batch) -> torch.Tensor:
    """The module's output without gradients, (B, steps, N, C)."""
    with torch.no_grad():
        return module(batch)


# ----------------------------------------------------------------------------- changes of numbering


def permuted(samples: Samples, orders: Sequence[Array]) -> Samples:
    """The same samples with nodes renumbered: new node i is old node order[i]; padding stays at the
    end.
    """
    meshes = tuple(
        _permuted_mesh(mesh, order) for mesh, order in zip(samples.meshes, orders, strict=True)
    )
    frames, static = np.array(samples.frames[:]), np.array(samples.static[:])
    for index in range(len(samples)):
        order = orders[index % len(orders)]
        frames[index, :, : len(order)] = frames[index][:, order]
        static[index, : len(order)] = static[index, order]
    return replace(samples, meshes=meshes, frames=frames, static=static)


def _permuted_mesh(mesh: Mesh, order: Array) -> Mesh:
    cells = None if mesh.cells is None else np.argsort(order)[mesh.cells]
    return Mesh(
        mesh.points[order],
        cells,
        {tag: np.asarray(value)[order] for tag, value in mesh.tags.items()},
    )


def permuted_geometry(geometry: Geometry, order: Array) -> Geometry:
    """The preprocessing carried along with the nodes instead of computed anew: a basis is only
    unique up to sign.
    """
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
    moved = {
        name: getattr(batch, name).to(device)
        for name in ("window", "static", "scalars", "points", "tags")
    }
    return replace(
        batch,
        mask=mask,
        geometry={name: value.to(device) for name, value in batch.geometry.items()},
        **moved,
    )
