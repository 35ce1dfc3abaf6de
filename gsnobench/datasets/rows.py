"""Arrays whose rows are made when they are indexed, so that no set has to fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsnobench.data import Array


@dataclass(frozen=True, eq=False)
class Rows:
    """A float32 array (S, *tail) whose row i is `row(i)`; only the rows that are indexed exist."""

    count: int  # S
    tail: tuple[int, ...]
    row: Callable[[int], Array]  # i -> (*tail)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count, *self.tail)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(self.count))

    def __getitem__(self, index: Any) -> Array:
        first, *others = index if isinstance(index, tuple) else (index,)
        chosen = np.arange(self.count)[first]
        if np.ndim(chosen) == 0:
            block = np.asarray(self.row(int(chosen)), dtype=np.float32)
            return block[tuple(others)] if others else block
        block = np.empty((len(chosen), *self.tail), dtype=np.float32)
        for position, number in enumerate(chosen.tolist()):
            block[position] = self.row(number)
        return block[(slice(None), *others)] if others else block
