"""Arrays that are computed once per recipe and parameters and then read from disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gsnobench.files import digest, lock
from gsnobench.tensor_files import Damaged, read_arrays, write_arrays

if TYPE_CHECKING:
    from gsnobench.data import Array


@dataclass(frozen=True)
class Cache:
    """Named arrays under a folder; without a folder everything is computed anew."""

    folder: Path | None = None

    def arrays(
        self, recipe: str, params: Mapping[str, object], compute: Callable[[], Mapping[str, Array]]
    ) -> dict[str, Array]:
        """The arrays that `compute` returns, from disk if they were computed before.

        `recipe` names the computation and its version ("modes-v1"); `params` must hold everything
        the result depends on. A damaged entry is computed anew.
        """
        if self.folder is None:
            return dict(compute())
        path = self.folder / recipe / f"{digest(dict(params))[:32]}.safetensors"
        if (arrays := _entry(path)) is not None:
            return arrays
        with lock(path.with_suffix(".lock")):
            if (arrays := _entry(path)) is not None:  # another process was faster
                return arrays
            computed = dict(compute())
            write_arrays(path, computed)
            return read_arrays(path)


def _entry(path: Path) -> dict[str, Array] | None:
    """What an entry holds; None if there is none, or not what was written."""
    if not path.exists():
        return None
    try:
        return read_arrays(path, needs_checksum=True)
    except Damaged:
        return None
