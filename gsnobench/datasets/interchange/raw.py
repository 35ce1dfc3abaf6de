"""Data of others before they are checked: meshes, and arrays by name with one entry per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, did_you_mean
from gsnobench.reading import guarded


@dataclass(frozen=True, eq=False)
class Raw:
    """What a source holds; `values[name][i]` is the array of sample i, read when it is indexed."""

    subject: str  # how a message names the source
    meshes: tuple[Mesh, ...]  # one for all samples, or one per sample
    values: Mapping[str, Any]  # name -> array (S, ...), or a sequence of S arrays
    units: Mapping[str, str] = field(default_factory=dict)  # name -> unit, where the source says it
    times: tuple[float, ...] | None = None  # of all frames
    splits: Any = None  # the split of each sample, where the source says it
    length_unit: str = "1"
    time_unit: str = "s"

    def __post_init__(self) -> None:
        for name, array in self.values.items():
            if not hasattr(array, "__len__") or getattr(array, "ndim", 1) == 0:
                raise DataError(
                    f"{self.subject}: {name} is a {type(array).__name__} without samples; expected "
                    "an array or a list with one entry per sample"
                )
        lengths = {name: len(array) for name, array in self.values.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise DataError(
                f"{self.subject}: entries hold different numbers of samples ({listed}); expected "
                "the same number; the first axis is the sample"
            )
        if len(self.meshes) not in (1, len(self)):
            raise DataError(
                f"{self.subject}: {len(self.meshes)} meshes for {len(self)} samples; expected one "
                "for all or one per sample"
            )

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def mesh(self, index: int) -> Mesh:
        """The mesh of a sample."""
        return self.meshes[0] if len(self.meshes) == 1 else self.meshes[index]

    def value(self, name: str, index: int) -> Array:
        """The array of one sample."""
        return as_array(self.values[name][index])

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a name that the source lacks, and an entry that nobody named."""
        for name in names:
            if name not in self.values:
                raise DataError(
                    f"{self.subject}: holds no {name!r}; {did_you_mean(name, self.values)}"
                )
        unnamed = [name for name in self.values if name not in names]
        if unnamed:
            raise DataError(
                f"{self.subject}: {unnamed[0]!r} is neither in fields nor in inputs; name it there "
                "or leave it out"
            )


def as_array(value: Any) -> Array:
    """A number, a list, a numpy array, a labelled array or a torch tensor (of any device).

    A masked entry becomes NaN: what lies below a mask is no data, and no file takes NaN.
    """
    with guarded("values", expected="dense real numbers in a type that numpy has"):
        detached = value.detach().cpu() if hasattr(value, "detach") else value
        if np.ma.is_masked(detached):
            detached = detached.astype(np.float64).filled(np.nan)
        array = np.asarray(detached)
    if array.dtype.kind not in "fiub":
        raise DataError(f"values: entries are of type {array.dtype}; expected real numbers")
    return array
