"""Scaling of inputs and outputs per channel, with statistics of the training split alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from gsnobench.data import Array, Field, Samples
from gsnobench.declare import Horizon, Scaling
from gsnobench.training.optimisation import TrainParams


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> (x - shift) / scale, one pair of numbers per channel (the last axis)."""

    shift: torch.Tensor  # (C,)
    scale: torch.Tensor  # (C,)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.shift) / self.scale

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift

    def to(self, device: torch.device | str) -> Affine:
        return Affine(self.shift.to(device), self.scale.to(device))


@dataclass(frozen=True, eq=False)
class Normaliser:
    """All scalings of a run; those of fields apply after their reference is subtracted."""

    window: Affine  # given frames
    output: Affine  # predicted frames, or their change since the last given frame
    static: Affine
    scalars: Affine
    points: Affine

    def to(self, device: torch.device | str) -> Normaliser:
        return Normaliser(**{name: getattr(self, name).to(device) for name in _NAMES})

    def state(self) -> dict[str, torch.Tensor]:
        """All tensors by name, to be saved with the weights."""
        state: dict[str, torch.Tensor] = {}
        for name in _NAMES:
            affine = getattr(self, name)
            state |= {f"{name}.shift": affine.shift, f"{name}.scale": affine.scale}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, torch.Tensor]) -> Normaliser:
        """The inverse of `state`."""
        pairs = {name: (state[f"{name}.shift"], state[f"{name}.scale"]) for name in _NAMES}
        return cls(**{name: Affine(*pair) for name, pair in pairs.items()})


_NAMES = ("window", "output", "static", "scalars", "points")


def fit_normaliser(
    train: Samples, params: TrainParams, horizon: Horizon | None = None
) -> Normaliser:
    """Statistics of the training split, over the nodes that carry a field and without padding.

    A model without a horizon of its own predicts all frames in one call.
    """
    task = train.task
    horizon = horizon or Horizon(task.t_in, task.t_out)
    fields = [_field_values(train, position, field) for position, field in enumerate(task.fields)]
    static = [_static_values(train, position, field) for position, field in enumerate(task.static)]
    all_scalars = np.asarray(train.scalars[:], dtype=np.float64)
    scalars = [all_scalars[:, position] for position in range(len(task.scalars))]
    points = np.concatenate([mesh.points for mesh in train.meshes])
    predicted = fields if params.predict == "field" else _changes(train, horizon)
    return Normaliser(
        window=_affine(fields, params.scale_window),
        output=_affine(predicted, params.scale_outputs),
        static=_affine(static, params.scale_static),
        scalars=_affine(scalars, params.scale_static),
        points=_affine(list(points.T), params.scale_points),
    )


def _field_values(train: Samples, position: int, field: Field) -> Array:
    """All values of a field, centred on its reference."""
    pieces = [frames.ravel() for frames in _trajectories(train, position, field)]
    return np.concatenate(pieces) - field.reference


def _changes(train: Samples, horizon: Horizon) -> list[Array]:
    """Of every field: what calls that follow one another add to their last given frame."""
    first, steps = horizon.window - 1, horizon.steps

    def changes(frames: Array) -> list[Array]:
        starts = range(first, len(frames) - steps, steps)
        return [(frames[start + 1 : start + 1 + steps] - frames[start]).ravel() for start in starts]

    return [
        np.concatenate(
            [piece for frames in _trajectories(train, position, field) for piece in changes(frames)]
        )
        for position, field in enumerate(train.task.fields)
    ]


def _trajectories(train: Samples, position: int, field: Field) -> Iterator[Array]:
    """All frames of a field per sample, (T, n), at the nodes that carry it."""
    for index in range(len(train)):
        mesh = train.mesh(index)
        frames = np.asarray(train.frames[index], dtype=np.float64)  # (T, N, C)
        yield frames[:, : mesh.size, position][:, field.nodes(mesh)]


def _static_values(train: Samples, position: int, field: Field) -> Array:
    """All values of a static input, centred on its reference."""
    pieces = []
    for index in range(len(train)):
        static = np.asarray(train.static[index], dtype=np.float64)  # (N, F)
        pieces.append(static[: train.mesh(index).size, position])
    return np.concatenate(pieces) - field.reference


def _affine(channels: list[Array], scaling: Scaling) -> Affine:
    pairs = [_shift_and_scale(channel, scaling) for channel in channels]
    table = torch.tensor(pairs, dtype=torch.float32).reshape(-1, 2)  # (C, 2)
    return Affine(shift=table[:, 0].contiguous(), scale=table[:, 1].contiguous())


def _shift_and_scale(values: Array, scaling: Scaling) -> tuple[float, float]:
    low, high, std = float(values.min()), float(values.max()), float(values.std())
    shift, scale = {
        "none": (0.0, 1.0),
        "minmax": (low, high - low),
        "box": ((low + high) / 2, (high - low) / 2),
        "zscore": (float(values.mean()), std),
        "scale": (0.0, std),
    }[scaling]
    return shift, scale if scale > 0 else 1.0  # a constant channel stays constant
