"""`PRESET+features`: the computed inputs offered to any model.

A board can then separate the effect of a model's layers from the effect of its inputs.

The wrapped model sees them as further static fields: distances to the boundaries, contrasts of its
inputs and, where frames are given, frames of a linear propagator. A model that is trained by the
core's loss then predicts what is to be added to the propagator's trajectory, in units of what that
leaves on the training split. A model with losses of its own keeps its target, since the core cannot
know what its phases do with it.
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
from gsnobench.records import FEATURES, FEATURES_REVISION
from gsnobench.training.computed_inputs import (
    ComputedInputs,
    computed_geometry,
    domain_length,
    fit_propagator,
    residual_size,
)

MODES = 128  # of the propagator
FRAMES = 23  # of its trajectory that are shown, at most
OWN = "hints."  # how names of ours begin in a geometry, its axes and a summary; part of cache keys


def with_features(model: Model) -> Model:
    """The same model under the same names, its task widened by the computed inputs."""
    if model.is_floor:
        raise ParamError(f"{model.name}: a floor takes no features; leave out {FEATURES!r}")

    def phases(task: Task, params: Params) -> tuple[Phase, ...]:
        inner = tuple(_inner_phase(phase) for phase in model.phases(widened(task), params))
        return (Phase("features", solve=_solve), *inner) if task.t_in else inner

    return replace(
        model,
        build=lambda task, params: WithComputedInputs(model, task, params),
        summary=lambda train, params: _summary(model, train, params),
        geometry=lambda mesh, task, params, summary: _geometry(model, mesh, task, params, summary),
        phases=phases,
        revision=model.revision + FEATURES_REVISION,  # grows with either
    )


def offered_preset(preset: Preset, task: Task) -> Preset:
    """The preset on a task with computed inputs.

    The propagator has no constant term, so neither its window nor its frames may be shifted.
    """
    if not make_computed_inputs(task).channels:
        raise ParamError(
            f"{task.id}: has no boundaries, no inputs and no frames to make features of; leave out "
            f"{FEATURES!r}"
        )
    if not task.t_in:
        return preset
    needed = {"scale_window": "scale", "scale_outputs": "scale", "predict": "field"}
    return replace(preset, train={**preset.train, **needed})


def make_computed_inputs(task: Task) -> ComputedInputs:
    """All computed inputs of a task."""
    return ComputedInputs(task, has_features=True, propagated=FRAMES, modes=MODES)


def widened(task: Task) -> Task:
    """The task as the wrapped model sees it; its width depends on the frames of one call."""
    channels = make_computed_inputs(task).channels
    fields = (Field(f"feature {number}") for number in range(1, channels + 1))
    return replace(task, static=(*task.static, *fields))


class WithComputedInputs(nn.Module):
    """A model that is also given the computed inputs."""

    def __init__(self, model: Model, task: Task, params: Params) -> None:
        super().__init__()
        self.task, self.hints = widened(task), make_computed_inputs(task)
        self.inner = model.build(self.task, params)
        self.gain: Tensor  # size of what the propagator leaves, per frame and field
        self.register_buffer("gain", torch.ones(task.t_out, 1, len(task.fields)))
        self.adds = all(phase.loss is None for phase in model.phases(self.task, params))

    def forward(self, batch: Batch) -> Tensor:
        seen, start = self.look(batch)
        prediction: Tensor = self.inner(seen)  # (B, t_out, N, C)
        return start + self.gain * prediction if self.adds else prediction

    def look(self, batch: Batch) -> tuple[Batch, Tensor]:
        """The batch as the wrapped model sees it, and the propagator's frames (B, t_out, N, C)."""
        inputs, start = self.hints(own_view(batch))
        static = torch.cat([batch.static, inputs], -1)
        rest = {name: value for name, value in batch.geometry.items() if not name.startswith(OWN)}
        return replace(batch, task=self.task, static=static, geometry=rest), start


def own_view(batch: Batch) -> Batch:
    """The batch with only our parts of the geometry, under their own names."""
    parts = batch.geometry.items()
    own = {name.removeprefix(OWN): value for name, value in parts if name.startswith(OWN)}
    return replace(batch, geometry=own)


# ----------------------------------------------------------------------------------------- geometry


def _summary(model: Model, train: Samples, params: Any) -> Summary:
    inner = {} if model.summary is None else model.summary(train, params)
    length = np.mean([domain_length(mesh) for mesh in train.meshes])
    return {f"{OWN}length": np.array([length]), **inner}


def _geometry(model: Model, mesh: Mesh, task: Task, params: Any, summary: Summary) -> Geometry:
    rest = {name: value for name, value in summary.items() if not name.startswith(OWN)}
    inner = {} if model.geometry is None else model.geometry(mesh, widened(task), params, rest)
    own = computed_geometry(mesh, task, float(summary[f"{OWN}length"][0]))
    own |= _modes(mesh, task) if task.t_in else {}
    return inner | {
        f"{OWN}{name}": replace(part, axes=tuple(map(_own_axis, part.axes)))
        for name, part in own.items()
    }


def _own_axis(axis: str) -> str:
    return axis if axis == "node" else f"{OWN}{axis}"


def _modes(mesh: Mesh, task: Task) -> Geometry:
    """Modes that vanish where every field does; zeros for those that a small mesh does not have."""
    known = task.dirichlet_tags()
    free = mesh.size - int(mesh.tag_matrix(known).any(axis=1).sum())
    basis = eigenbasis(mesh, min(MODES, max(1, free // 2)), dirichlet=known)
    volume, missing = basis.mass.sum(), MODES - basis.vectors.shape[1]
    vectors = np.pad(basis.vectors, ((0, 0), (0, missing))) * volume**0.5
    return {"modes": Part(vectors, ("node", "wave")), "mass": Part(basis.mass / volume, ("node",))}


# ------------------------------------------------------------------------------------------- phases


def _solve(module: nn.Module, fit: Fit) -> None:
    """The phase `features`: fit the propagator and measure what it leaves."""
    wrapper = _wrapper(module)
    assert wrapper.hints.propagator is not None

    def batches(split: Split) -> Iterator[tuple[Batch, Tensor]]:
        return ((own_view(batch), target) for batch, target in fit.batches(split))

    own = replace(fit, batches=batches)
    fit_propagator(wrapper.hints.propagator, own)
    wrapper.gain.copy_(residual_size(wrapper.hints, own)[:, None])


def _inner_phase(phase: Phase) -> Phase:
    """A phase of the wrapped model; its functions get the module and the batches they know."""
    loss, parameters = phase.loss, phase.parameters
    changed: dict[str, Any] = {}
    if loss is not None:
        changed["loss"] = lambda module, batch, target, progress: loss(
            module.inner, _wrapper(module).look(batch)[0], target, progress
        )
    if parameters is not None:
        changed["parameters"] = lambda module: parameters(module.inner)
    for name in ("solve", "prepare", "score"):
        function = getattr(phase, name)
        if function is not None:
            changed[name] = partial(_call_inner, function)
    rates = {f"inner.{name}": rate for name, rate in phase.rates.items()}
    return replace(phase, rates=rates, **changed)


def _call_inner(function: Callable[[nn.Module, Fit], Any], module: nn.Module, fit: Fit) -> Any:
    """Call a function of the wrapped model on all batches, with the targets that it must predict.

    `Fit.train` and `Fit.valid` stay as they are.
    """
    wrapper = _wrapper(module)

    def batches(split: Split) -> Iterator[tuple[Batch, Tensor]]:
        for batch, target in fit.batches(split):
            seen, start = wrapper.look(batch)
            yield seen, (target - start) / wrapper.gain if wrapper.adds else target

    return function(wrapper.inner, replace(fit, task=wrapper.task, batches=batches))


def _wrapper(module: nn.Module) -> WithComputedInputs:
    assert isinstance(module, WithComputedInputs)
    return module
