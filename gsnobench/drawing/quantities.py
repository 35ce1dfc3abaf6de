"""A scored quantity as one number per node: a field, or the length of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsnobench.data import Array, Mesh, Task
from gsnobench.drawing.rules import FIELD_COLOURS, labelled
from gsnobench.drawing.scales import Scale, decays, is_signed


@dataclass(frozen=True)
class Quantity:
    """What a panel shows; equal quantities have equal colours, given or predicted."""

    name: str
    unit: str
    columns: tuple[int, ...]  # of the fields of a task; several: a vector
    reference: float  # of a single field

    @property
    def is_vector(self) -> bool:
        return len(self.columns) > 1

    @property
    def label(self) -> str:
        """Name and unit; bars around a vector, whose length is drawn."""
        return labelled(f"|{self.name}|" if self.is_vector else self.name, self.unit)

    def of(self, frames: Array) -> Array:
        """Frames of all fields (..., N, C) as this quantity, (..., N)."""
        chosen = frames[..., list(self.columns)]
        return np.linalg.norm(chosen, axis=-1) if self.is_vector else chosen[..., 0]

    def error(self, truth: Array, prediction: Array) -> Array:
        """Prediction less truth, (..., N); of a vector the length of it."""
        chosen = (prediction - truth)[..., list(self.columns)]
        return np.linalg.norm(chosen, axis=-1) if self.is_vector else chosen[..., 0]

    def is_signed(self, values: Array) -> bool:
        """Whether values lie on both sides of the reference: then colours diverge there."""
        return not self.is_vector and is_signed(values, self.reference)

    def scale(self, values: Array, *, signed: bool, label: str | None = None) -> Scale:
        """The scale of some values of this quantity."""
        text = self.label if label is None else label
        if signed:
            return Scale.about(values, text, self.reference)
        return Scale.spanning(values, text, FIELD_COLOURS)

    def scales(self, frames: Sequence[Array], *, signed: bool) -> list[Scale]:
        """A scale per frame: the same for all, or one each where the quantity decays."""
        reference = self.reference if signed else 0.0
        if decays(frames, reference):
            return [self.scale(frame, signed=signed, label="") for frame in frames]
        return [self.scale(np.concatenate(list(frames)), signed=signed)] * len(frames)


def quantities(task: Task) -> tuple[Quantity, ...]:
    """What a task is scored on, in its order."""
    found = []
    for name, columns in task.scored.items():
        first = task.fields[columns[0]]
        found.append(Quantity(name, first.unit, columns, first.reference))
    return tuple(found)


def support_of(task: Task, quantity: Quantity, mesh: Mesh) -> Array:
    """The nodes that carry a quantity, (N,) bool."""
    return task.fields[quantity.columns[0]].nodes(mesh)
