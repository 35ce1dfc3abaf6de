"""`PRESET+features`: any model, offered inputs that are computed and not learned: a ranking can
then tell layers from inputs.

The wrapped model sees them as further static fields: distances to the boundaries and smoothed
inputs, and where frames are given, the frames of a linear propagator. Trained by the core's loss it
answers with what is to be added to the propagator's trajectory; a model with losses of its own
keeps its target, since the core cannot know what its stages make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsnobench.batch import Batch
from gsnobench.data import Field, Mesh, Samples, Split, Task
from gsnobench.declare import Fit, Geometry, Model, Part, Phase, Preset, Summary
from gsnobench.errors import ParamError
from gsnobench.meshes.modes import eigenbasis
from gsnobench.params import Params
from gsnobench.records import FEATURES
from gsnobench.training.hints import Hints, domain_length, feature_geometry, fit_propagator

MODES = 128  # of the propagator
FRAMES = 23  # of its trajectory that are shown, at most
REVISION = 0  # to be raised when features change: results with them are then outdated
OWN = "hints."  # start of the names of what is ours in a geometry, its axes and a reference


def with_features(model: Model) -> Model:
    """The same model behind the same names, its task widened by the features."""
    if model.is_floor:
        raise ParamError(f"{model.name}: a floor takes no features; leave out {FEATURES!r}")

    def phases(task: Task, params: Params) -> tuple[Phase, ...]:
        inner = tuple(_of_inner(phase) for phase in model.phases(widened(task), params))
        return (Phase("features", solve=_solve), *inner) if task.t_in else inner

    return replace(
        model,
        build=lambda task, params: Featured(model, task, params),
        summary=lambda train, params: _summary(model, train, params),
        geometry=lambda mesh, task, params, summary: _geometry(model, mesh, task, params, summary),
        phases=phases,
        revision=model.revision + REVISION,  # grows with either
    )


def offered_preset(preset: Preset, task: Task) -> Preset:
    """The preset on a task with features: the propagator has no constant term, so what is given and
    found must not be shifted.
    """
    if not make_hints(task).channels:
        raise ParamError(
            f"{task.id}: has no boundaries, no inputs and no frames to make features of; leave out "
            f"{FEATURES!r}"
        )
    return replace(preset, inputs="scale", outputs="scale") if task.t_in else preset


def make_hints(task: Task) -> Hints:
    return Hints(task, has_features=True, propagated=FRAMES, modes=MODES)


def widened(task: Task) -> Task:
    """The task as the wrapped model sees it; how many frames are shown depends on the frames that
    one call finds.
    """
    names = (f"feature {number}" for number in range(1, make_hints(task).channels + 1))
    return replace(task, static=(*task.static, *(Field(name) for name in names)))


class Featured(nn.Module):
    """A model behind the features."""

    def __init__(self, model: Model, task: Task, params: Params) -> None:
        super().__init__()
        self.task, self.hints = widened(task), make_hints(task)
        self.inner = model.build(self.task, params)
        self.adds = all(phase.loss is None for phase in model.phases(self.task, params))

    def forward(self, batch: Batch) -> Tensor:
        seen, start = self.look(batch)
        found: Tensor = self.inner(seen)  # (B, t_out, N, C)
        return start + found if self.adds else found

    def look(self, batch: Batch) -> tuple[Batch, Tensor]:
        """The batch with features, as the wrapped model sees it, and the propagator's trajectory
        (B, t_out, N, C).
        """
        features, start = self.hints(own_view(batch))
        rest = {name: value for name, value in batch.geometry.items() if not name.startswith(OWN)}
        return replace(
            batch, task=self.task, static=torch.cat([batch.static, features], -1), geometry=rest
        ), start


def own_view(batch: Batch) -> Batch:
    """The batch as the features see it: with what is theirs in the geometry, under their own names."""
    own = {
        name.removeprefix(OWN): value
        for name, value in batch.geometry.items()
        if name.startswith(OWN)
    }
    return replace(batch, geometry=own)


# ----------------------------------------------------------------------------------------- geometry


def _summary(model: Model, train: Samples, params: Any) -> Summary:
    inner = {} if model.summary is None else model.summary(train, params)
    return {
        f"{OWN}length": np.array([np.mean([domain_length(mesh) for mesh in train.meshes])]),
        **inner,
    }


def _geometry(model: Model, mesh: Mesh, task: Task, params: Any, summary: Summary) -> Geometry:
    rest = {name: value for name, value in summary.items() if not name.startswith(OWN)}
    inner = {} if model.geometry is None else model.geometry(mesh, widened(task), params, rest)
    own = feature_geometry(mesh, task, float(summary[f"{OWN}length"][0])) | (
        _modes(mesh, task) if task.t_in else {}
    )
    return inner | {
        f"{OWN}{name}": replace(part, axes=tuple(map(_own_axis, part.axes)))
        for name, part in own.items()
    }


def _own_axis(axis: str) -> str:
    return axis if axis == "node" else f"{OWN}{axis}"


def _modes(mesh: Mesh, task: Task) -> Geometry:
    """Modes that vanish where every field does; nothing stands for those that a small mesh does not
    have.
    """
    known = task.dirichlet_tags()
    free = mesh.size - int(mesh.tag_matrix(known).any(axis=1).sum())
    basis = eigenbasis(mesh, min(MODES, max(1, free // 2)), dirichlet=known)
    volume, missing = basis.mass.sum(), MODES - basis.vectors.shape[1]
    vectors = np.pad(basis.vectors, ((0, 0), (0, missing))) * volume**0.5
    return {"modes": Part(vectors, ("node", "wave")), "mass": Part(basis.mass / volume, ("node",))}


# ------------------------------------------------------------------------------------------- phases


def _solve(module: nn.Module, fit: Fit) -> None:
    propagator = _featured(module).hints.propagator
    assert propagator is not None
    own = replace(
        fit,
        batches=lambda split: ((own_view(batch), target) for batch, target in fit.batches(split)),
    )
    fit_propagator(propagator, own)


def _of_inner(phase: Phase) -> Phase:
    """A phase of the wrapped model: what it calls gets the module it knows, and batches with
    features.
    """
    loss, solve, prepare, parameters, score = (
        phase.loss,
        phase.solve,
        phase.prepare,
        phase.parameters,
        phase.score,
    )
    changed: dict[str, Any] = {
        "rates": {f"inner.{name}": rate for name, rate in phase.rates.items()}
    }
    if loss is not None:
        changed["loss"] = lambda module, batch, target, progress: loss(
            module.inner, _featured(module).look(batch)[0], target, progress
        )
    if parameters is not None:
        changed["parameters"] = lambda module: parameters(module.inner)
    for name, call in (("solve", solve), ("prepare", prepare), ("score", score)):
        if call is not None:
            changed[name] = partial(_call, call)
    return replace(phase, **changed)


def _call(call: Callable[[nn.Module, Fit], Any], module: nn.Module, fit: Fit) -> Any:
    """What a wrapped model does with all samples at once: its targets are what it is asked for, the
    samples stay as they are.
    """
    featured = _featured(module)

    def batches(split: Split) -> Iterator[tuple[Batch, Tensor]]:
        for batch, target in fit.batches(split):
            seen, start = featured.look(batch)
            yield seen, target - start if featured.adds else target

    return call(featured.inner, replace(fit, task=featured.task, batches=batches))


def _featured(module: nn.Module) -> Featured:
    assert isinstance(module, Featured)
    return module
