"""Checksums and rounded statistics of a set of samples, computed block by block.

No file has to fit in memory.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gsnobench.data import Array
from gsnobench.errors import DataError

UNWRITTEN = 9.9e36  # NetCDF fills what was never written with 9.97e36


@dataclass
class Variable:
    """Running checksum, length and moments of one array that arrives in rows."""

    sha: Any = field(default_factory=hashlib.sha256)
    dtype: str = ""
    rows: int = 0
    tail: tuple[int, ...] = ()
    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, block: Array, is_real: Array | None) -> None:
        """More rows; `is_real` marks the entries that are not padding."""
        block = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))
        self.sha.update(block.tobytes())
        self.dtype, self.tail = block.dtype.str, block.shape[1:]
        self.rows += block.shape[0]
        values = block if is_real is None else block[is_real]
        self.count += values.size
        self.total += float(values.sum(dtype=np.float64))
        self.squares += float(np.square(values, dtype=np.float64).sum())

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation, to four digits of the larger one.

        A deviation at round-off level counts as 0.
        """
        mean = self.total / max(self.count, 1)
        deviation = math.sqrt(max(self.squares / max(self.count, 1) - mean * mean, 0.0))
        deviation = deviation if deviation > 1e-6 * abs(mean) else 0.0
        return _rounded(mean, max(abs(mean), deviation)), _rounded(deviation, deviation)


def _rounded(value: float, scale: float) -> float:
    return round(value, 3 - math.floor(math.log10(scale))) + 0.0 if scale > 0 else 0.0


class Checksums:
    """What identifies the samples of a file: a hash of all arrays, one per split, a fingerprint.

    Hashes are exact, the fingerprint is the same on every machine. What must not be in a file is
    refused: numbers that are not finite, and a sample that is in two splits.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._variables: dict[str, Variable] = {}
        self._splits: dict[str, Any] = {}
        self._owners: dict[bytes, tuple[str, int]] = {}
        self._frames: dict[int, tuple[str, int, int]] = {}  # hash -> split, sample, frame

    def add(
        self, name: str, block: Array, *, split: str, first: int, counts: Array | None = None
    ) -> None:
        """Rows of one variable: the samples of a split from number `first` on.

        `counts` (rows,) are the real nodes of each row, on the last axis.
        """
        if block.dtype.kind == "f":
            is_bad = ~(np.abs(block) < UNWRITTEN)
            if is_bad.any():
                row, *others = np.argwhere(is_bad)[0].tolist()
                raise DataError(
                    f"{self._subject}: {name} holds {float(block[(row, *others)])!r} in {split} "
                    f"sample {first + row}; only finite numbers can be trained on; mend or drop "
                    "this sample"
                )
        is_real = None if counts is None else _is_real(block, counts)
        self._variables.setdefault(name, Variable()).add(block, is_real)

    def add_shared(self, name: str, values: Array) -> None:
        """A variable that all samples have in common."""
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError(f"{self._subject}: {name} holds a number that is not finite; mend it")
        self._variables.setdefault(name, Variable()).add(values, None)

    def add_sample(self, split: str, index: int, parts: Sequence[Array], mesh_key: str) -> None:
        """One sample without its padding."""
        sha = hashlib.sha256(mesh_key.encode())
        for part in parts:
            sha.update(np.ascontiguousarray(part).tobytes())
        owner, position = self._owners.setdefault(sha.digest(), (split, index))
        if owner != split:
            raise DataError(
                f"{self._subject}: {split} sample {index} is the same as {owner} sample "
                f"{position}; splits must not overlap; remove it from one of them"
            )
        self._splits.setdefault(split, hashlib.sha256()).update(sha.digest())

    def add_frames(self, split: str, index: int, fields: Sequence[Array], mesh_key: str) -> None:
        """Refuse windows of one trajectory in two splits; fields are (T, n) each.

        These share a frame at different positions. A frame that many trajectories have at the same
        position (a common start) is no leak, and a constant one (still water) is nobody's own.
        """
        for frame in range(len(fields[0])):
            values = [field[frame] for field in fields]
            if all(value.min() == value.max() for value in values):
                continue
            own = hash((mesh_key, *(np.ascontiguousarray(value).tobytes() for value in values)))
            owner, sample, position = self._frames.setdefault(own, (split, index, frame))
            if owner != split and position != frame:
                raise DataError(
                    f"{self._subject}: frame {frame} of {split} sample {index} is frame {position} "
                    f"of {owner} sample {sample}: windows of one trajectory are in two splits; cut "
                    "it in time, `data import --split-by-time`"
                )

    @property
    def content_hash(self) -> str:
        """Over names, types, shapes and bytes of all arrays, in the order of their names."""
        lines = [
            f"{name} {variable.dtype} {(variable.rows, *variable.tail)} {variable.sha.hexdigest()}"
            for name, variable in self._variables.items()
        ]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()

    @property
    def split_hashes(self) -> Mapping[str, str]:
        """Over the samples of each split, in order."""
        return {split: sha.hexdigest() for split, sha in self._splits.items()}

    @property
    def fingerprint(self) -> str:
        """JSON of {variable: [mean, standard deviation]} for what the solver computed."""
        solved = ("field_", "static_", "scalar_")
        names = [name for name in sorted(self._variables) if name.startswith(solved)]
        return json.dumps({name: self._variables[name].moments() for name in names})


def _is_real(block: Array, counts: Array) -> Array:
    """Which entries of (rows, ..., N) are nodes and not padding, same shape."""
    is_node = np.arange(block.shape[-1]) < counts.reshape(-1, *(1,) * (block.ndim - 1))
    return np.broadcast_to(is_node, block.shape)
