"""The one shape of data: a sample is a trajectory of T frames of C fields on the N nodes of a mesh.

A steady problem has no frame given and one to predict (t_in = 0, t_out = 1). A problem on a fixed
geometry has samples that all hold the same mesh. There is no further case.

Read from top to bottom: a Mesh carries Fields, a Task says which of them are given and which are to
be predicted, and Samples are the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.shown import facts_html, with_unit

Array = np.ndarray[Any, Any]
Split = Literal["train", "valid", "test", "test_ood"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test", "test_ood")
Boundary = Literal["dirichlet", "neumann", "none"]
Family = Literal["steady", "unsteady", "varying"]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Points, cells if there are any, and named sets of nodes; equal content has an equal key."""

    points: Array  # (N, d) float64
    cells: Array | None = None  # (M, d+1) int64: triangles, tetrahedra
    tags: Mapping[str, Array] = field(default_factory=dict)  # name -> (N,) bool; they may overlap

    @property
    def size(self) -> int:
        """Number of nodes, N."""
        return int(self.points.shape[0])

    @property
    def dim(self) -> int:
        """Number of coordinates, d."""
        return int(self.points.shape[1])

    @cached_property
    def key(self) -> str:
        """Content hash of points, cells and tags."""
        digest = hashlib.sha256()
        digest.update(np.ascontiguousarray(self.points, dtype="<f8").tobytes())
        if self.cells is not None:
            digest.update(np.ascontiguousarray(self.cells, dtype="<i8").tobytes())
        for tag in sorted(self.tags):
            digest.update(tag.encode())
            digest.update(np.packbits(np.asarray(self.tags[tag], dtype=bool)).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        tags = f", tags {', '.join(self.tags)}" if self.tags else ""
        return f"<Mesh: {self.size} nodes in {self.dim}D, {self._cells}{tags}>"

    def _repr_html_(self) -> str:
        facts = {"nodes": self.size, "dimensions": self.dim, "cells": self._cells}
        counts = {f"tag {tag}": f"{int(np.sum(nodes))} nodes" for tag, nodes in self.tags.items()}
        return facts_html("Mesh", {**facts, **counts})

    @property
    def _cells(self) -> str:
        if self.cells is None:
            return "no cells"
        kind = {(2, 3): "triangles", (3, 4): "tetrahedra", (3, 3): "triangles"}
        return f"{len(self.cells)} {kind.get((self.dim, self.cells.shape[1]), 'cells')}"

    def tag_matrix(self, tags: Sequence[str]) -> Array:
        """Which node has which of the K tags, (N, K) bool; a tag the mesh lacks has no node."""
        columns = [self.tags.get(tag, np.zeros(self.size, dtype=bool)) for tag in tags]
        return np.stack(columns, axis=1) if columns else np.zeros((self.size, 0), dtype=bool)


@dataclass(frozen=True)
class Field:
    """One physical quantity: a value per node, or as a scalar input one number per sample."""

    name: str
    unit: str = "1"
    reference: float = 0.0  # subtracted before a model sees it and before scoring: a depth of 5 m
    support: str = "all"  # the nodes that carry it: "all", a tag, or "not TAG"
    boundary: Mapping[str, Boundary] = field(default_factory=dict)  # tag -> condition; dirichlet: 0
    vector: str | None = None  # fields that name the same vector are scored together
    help: str = ""

    def nodes(self, mesh: Mesh) -> Array:
        """The nodes of a mesh that carry the field, (N,) bool."""
        if self.support == "all":
            return np.ones(mesh.size, dtype=bool)
        tag = self.support.removeprefix("not ")
        if tag not in mesh.tags:
            raise DataError(
                f"{self.name}: its support {self.support!r} names a tag the mesh lacks; "
                f"known: {sorted(mesh.tags)}"
            )
        tagged = np.asarray(mesh.tags[tag], dtype=bool)
        return ~tagged if self.support.startswith("not ") else tagged


@dataclass(frozen=True)
class Task:
    """A question to a model: from which inputs which frames are to be predicted, on which meshes.

    Its id is `dataset[_variant][@t_in-t_out]`, such as `swe@5-46`.
    """

    id: str
    dataset: str
    fields: tuple[Field, ...]  # the C fields of every frame
    dim: int  # coordinates of a node, d
    static: tuple[Field, ...] = ()  # the F inputs per node that do not change in time
    scalars: tuple[Field, ...] = ()  # the P inputs per sample
    tags: tuple[str, ...] = ()  # the K tags that every mesh has
    t_in: int = 0  # frames given
    t_out: int = 1  # frames to predict
    times: tuple[float, ...] = (0.0,)  # of all frames of a trajectory
    starts: tuple[int, ...] = (0,)  # frames at which the scored windows begin
    corresponds: bool = True  # node i is the same material point in every sample
    fixed_mesh: bool = True  # all samples hold the same mesh
    resolution: int = 0  # number of nodes
    sizes: Mapping[str, int] = field(default_factory=dict)  # split -> number of samples
    version: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)  # knobs of the dataset
    data_seed: int = 0
    split_hashes: Mapping[str, str] = field(default_factory=dict)  # split -> content hash

    @property
    def base(self) -> str:
        """The id without the window: `swe` of `swe@5-46`."""
        return self.id.partition("@")[0]

    @property
    def family(self) -> Family:
        """Kind of the task, on which a preset's knobs may depend: by its meshes and its window."""
        if not self.fixed_mesh:
            return "varying"
        return "unsteady" if self.t_in else "steady"

    @property
    def in_channels(self) -> int:
        """Width of `Batch.features`: coordinates, given frames, static inputs, scalars."""
        return self.dim + self.t_in * len(self.fields) + len(self.static) + len(self.scalars)

    @property
    def out_channels(self) -> int:
        """Width of a flat prediction: t_out frames of all fields."""
        return self.t_out * len(self.fields)

    @property
    def vectors(self) -> dict[str, tuple[int, ...]]:
        """Vector -> positions of its components among the fields."""
        groups: dict[str, tuple[int, ...]] = {}
        for position, quantity in enumerate(self.fields):
            if quantity.vector is not None:
                groups[quantity.vector] = (*groups.get(quantity.vector, ()), position)
        return groups

    @property
    def scored(self) -> dict[str, tuple[int, ...]]:
        """What the headline score averages over: fields outside a vector, then whole vectors."""
        alone = {
            quantity.name: (position,)
            for position, quantity in enumerate(self.fields)
            if quantity.vector is None
        }
        return {**alone, **self.vectors}

    def predicted_frames(self, windows: int | None = None) -> tuple[int, ...]:
        """Frames to be predicted: of the first so many windows (None: of all), in their order."""
        return tuple(
            start + self.t_in + step
            for start in self.starts[:windows]
            for step in range(self.t_out)
        )

    def dirichlet_tags(self) -> tuple[str, ...]:
        """Tags on which every field is known to be zero: a basis may vanish there."""

        def is_zero(tag: str) -> bool:
            return all(quantity.boundary.get(tag) == "dirichlet" for quantity in self.fields)

        return tuple(tag for tag in self.tags if is_zero(tag))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{count} {split}" for split, count in self.sizes.items())
        return f"<Task {self.id}: {self._question}, {self.resolution} nodes, {sizes}>"

    def _repr_html_(self) -> str:
        facts = {
            "predicts": ", ".join(with_unit(field.name, field.unit) for field in self.fields),
            "from": self._question.partition(" from ")[2],
            "nodes": f"{self.resolution} in {self.dim}D, {self._geometry}",
            "tags": ", ".join(self.tags),
            "samples": ", ".join(f"{count} {split}" for split, count in self.sizes.items()),
        }
        return facts_html(f"Task {self.id}", facts)

    @property
    def _question(self) -> str:
        """What is predicted from what."""
        given = [f"{self.t_in} frames"] if self.t_in else []
        given += [field.name for field in (*self.static, *self.scalars)]
        frames = f"{self.t_out} frames of " if self.t_out > 1 else ""
        names = ", ".join(field.name for field in self.fields)
        return f"{frames}{names} from {', '.join(given) or 'the shape'}"

    @property
    def _geometry(self) -> str:
        return "one mesh for all samples" if self.fixed_mesh else "one mesh per sample"

    def narrowed(self, t_in: int, t_out: int) -> Task:
        """The same task with a shorter window, as a model sees it that is called several times."""
        return replace(self, t_in=t_in, t_out=t_out)


class ArrayLike(Protocol):
    """What lazily read data offer: a shape, and numpy indexing along the first axis."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, index: Any) -> Array: ...


@dataclass(frozen=True, eq=False)
class Samples:
    """The S trajectories of a split; arrays may be lazy, smaller meshes are padded to N nodes."""

    task: Task
    meshes: tuple[Mesh, ...]  # one for all samples, or one per sample
    frames: ArrayLike  # (S, T, N, C)
    static: ArrayLike  # (S, N, F)
    scalars: ArrayLike  # (S, P)

    def __len__(self) -> int:
        return int(self.frames.shape[0])

    def __repr__(self) -> str:
        shape = tuple(self.frames.shape)
        return f"<Samples of {self.task.id}: {len(self)}, frames (S, T, N, C) = {shape}>"

    def mesh(self, index: int) -> Mesh:
        """The mesh of a sample."""
        return self.meshes[0] if len(self.meshes) == 1 else self.meshes[index]

    def take(self, indices: Sequence[int] | slice | Array) -> Samples:
        """Some of the samples, read into memory."""
        is_slice = isinstance(indices, slice)
        chosen = np.arange(len(self))[indices] if is_slice else np.asarray(indices)
        is_shared = len(self.meshes) == 1
        return replace(
            self,
            meshes=self.meshes if is_shared else tuple(self.meshes[index] for index in chosen),
            frames=self.frames[chosen],
            static=self.static[chosen],
            scalars=self.scalars[chosen],
        )


def split_named(text: str) -> Split:
    """A split by the name that a person typed."""
    for split in SPLITS:
        if split == text:
            return split
    raise ParamError(f"split: {text!r} is unknown; {did_you_mean(text, SPLITS)}")
