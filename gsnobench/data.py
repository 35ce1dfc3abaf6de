"""The one shape of data: a sample is a trajectory of T frames of C fields on the N nodes of a mesh.

A steady problem is "no frame given, one to find" (t_in = 0, t_out = 1); a fixed geometry is "all
samples hold the same mesh". There is no further case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from gsnobench.errors import DataError, ParamError, did_you_mean

Array = np.ndarray[Any, Any]
Split = Literal["train", "valid", "test", "test_ood"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test", "test_ood")
Boundary = Literal["dirichlet", "neumann", "none"]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Points, optional cells, and boundary tags; equal content has an equal key."""

    points: Array  # (N, d) float64
    cells: Array | None = None  # (M, k) int64: triangles, tetrahedra
    # tag -> (N,) bool; a corner may carry two
    tags: Mapping[str, Array] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return int(self.points.shape[0])

    @property
    def dim(self) -> int:
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

    def tag_matrix(self, tags: Sequence[str]) -> Array:
        """Membership of each node in the given tags, (N, K) bool; a tag this mesh lacks is empty."""
        columns = [self.tags.get(tag, np.zeros(self.size, dtype=bool)) for tag in tags]
        return np.stack(columns, axis=1) if columns else np.zeros((self.size, 0), dtype=bool)


@dataclass(frozen=True)
class Field:
    """One physical quantity on the nodes (or, as a scalar, one number a sample)."""

    name: str
    unit: str = "1"
    # subtracted before scoring and before the model sees it: the 5.0 of swe's height
    reference: float = 0.0
    support: str = "all"  # "all", a tag, or "not TAG": where the field lives
    # tag -> condition; dirichlet means the value 0
    boundary: Mapping[str, Boundary] = field(default_factory=dict)
    vector: str | None = None  # fields of one group are also scored as a vector
    help: str = ""

    def nodes(self, mesh: Mesh) -> Array:
        """Where the field lives on a mesh, (N,) bool: everywhere, on a tag, or off it ("not TAG")."""
        if self.support == "all":
            return np.ones(mesh.size, dtype=bool)
        tag = self.support.removeprefix("not ")
        if tag not in mesh.tags:
            known = sorted(mesh.tags)
            raise DataError(
                f"{self.name}: its support {self.support!r} names a tag the mesh lacks; "
                f"known: {known}"
            )
        inside = np.asarray(mesh.tags[tag], dtype=bool)
        return ~inside if self.support.startswith("not ") else inside


@dataclass(frozen=True)
class Task:
    """What is asked: fields, inputs, window, mesh resolution and sizes; its id is
    `dataset[_variant][@t_in-t_out]`.
    """

    id: str
    dataset: str
    fields: tuple[Field, ...]
    dim: int
    static: tuple[Field, ...] = ()
    scalars: tuple[Field, ...] = ()
    tags: tuple[str, ...] = ()
    t_in: int = 0
    t_out: int = 1
    times: tuple[float, ...] = (0.0,)  # of every frame of a trajectory
    starts: tuple[int, ...] = (0,)  # first frames of the evaluated windows
    corresponds: bool = True  # node i means the same place in every sample
    fixed_mesh: bool = True  # all samples hold the same mesh
    resolution: int = 0  # nodes
    sizes: Mapping[str, int] = field(default_factory=dict)  # split -> samples
    version: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)  # data knobs, resolved
    data_seed: int = 0
    split_hashes: Mapping[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The id without the window: `swe` of `swe@5-46`."""
        return self.id.partition("@")[0]

    @property
    def in_channels(self) -> int:
        """Width of `Batch.features`: coordinates, window, static inputs, scalars."""
        return self.dim + self.t_in * len(self.fields) + len(self.static) + len(self.scalars)

    @property
    def out_channels(self) -> int:
        """Width of a flat prediction: t_out frames of all fields."""
        return self.t_out * len(self.fields)

    @property
    def vectors(self) -> dict[str, tuple[int, ...]]:
        """Vector groups: name -> positions of its components among the fields."""
        groups: dict[str, tuple[int, ...]] = {}
        for position, one in enumerate(self.fields):
            if one.vector is not None:
                groups[one.vector] = (*groups.get(one.vector, ()), position)
        return groups

    @property
    def scored(self) -> dict[str, tuple[int, ...]]:
        """What the headline averages over: each vector group and each field outside a group."""
        alone = {
            one.name: (position,) for position, one in enumerate(self.fields) if one.vector is None
        }
        return {**alone, **self.vectors}

    def asked_frames(self, windows: int | None = None) -> tuple[int, ...]:
        """Frames of a trajectory that are to be found: those of its first windows (else of all),
        one window after the other.
        """
        return tuple(
            start + self.t_in + step
            for start in self.starts[:windows]
            for step in range(self.t_out)
        )

    def dirichlet_tags(self) -> tuple[str, ...]:
        """Tags on which every field is known to be zero: there a Dirichlet basis is right."""
        return tuple(
            tag
            for tag in self.tags
            if all(one.boundary.get(tag) == "dirichlet" for one in self.fields)
        )

    def narrowed(self, t_in: int, t_out: int) -> Task:
        """The same task with a shorter horizon, as a one-step model sees it."""
        return replace(self, t_in=t_in, t_out=t_out)


class ArrayLike(Protocol):
    """What lazily read data must offer: a shape and numpy indexing along the sample axis."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, index: Any) -> Array: ...


@dataclass(frozen=True, eq=False)
class Samples:
    """Trajectories of one split; arrays may be lazy, ragged meshes are padded to the largest node
    count.
    """

    task: Task
    meshes: tuple[Mesh, ...]  # one, or one a sample
    frames: ArrayLike  # (S, T, N, C)
    static: ArrayLike  # (S, N, F)
    scalars: ArrayLike  # (S, P)

    def __len__(self) -> int:
        return int(self.frames.shape[0])

    def mesh(self, index: int) -> Mesh:
        """The mesh of one sample."""
        return self.meshes[0] if len(self.meshes) == 1 else self.meshes[index]

    def take(self, indices: Sequence[int] | slice | Array) -> Samples:
        """Some of the samples, read into memory."""
        where = np.arange(len(self))[indices] if isinstance(indices, slice) else np.asarray(indices)
        meshes = self.meshes if len(self.meshes) == 1 else tuple(self.meshes[i] for i in where)
        return replace(
            self,
            meshes=meshes,
            frames=self.frames[where],
            static=self.static[where],
            scalars=self.scalars[where],
        )


def split_named(text: str) -> Split:
    """A split by the name that a person typed."""
    for split in SPLITS:
        if split == text:
            return split
    raise ParamError(f"split: {text!r} is unknown; {did_you_mean(text, SPLITS)}")
