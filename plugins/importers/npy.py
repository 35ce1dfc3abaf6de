"""NumPy files of others: plain arrays of an expected shape, never unpickled, read lazily."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gsnobench as gb


def find(folder: Path, name: str) -> Path:
    """The file of this name in a folder or below it."""
    matches = sorted(path for path in folder.rglob(name) if path.is_file())
    if not matches:
        raise gb.DataError(f"{folder}: holds no {name}, in no subfolder; name the right folder")
    if len(matches) > 1:
        raise gb.DataError(
            f"{folder}: holds {name} {len(matches)} times ({matches[0]}, {matches[1]}); name the "
            "folder of one of them"
        )
    return matches[0]


def load(path: Path, shape: tuple[int | None, ...]) -> gb.Array:
    """The array of a file, mapped into memory; `None` in the shape is any number."""
    array = gb.read_npy(path)
    fits = array.ndim == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype.kind not in "fiub":
        expected = ", ".join("any" if length is None else str(length) for length in shape)
        raise gb.DataError(
            f"{path}: holds {array.dtype} of the shape {array.shape}; expected numbers of the "
            f"shape ({expected})"
        )
    return array


def check_finite(path: Path, sample: int, array: gb.Array) -> None:
    """Refuse coordinates that are not finite: no mesh could be made of them."""
    if not np.isfinite(array).all():
        raise gb.DataError(
            f"{path}: sample {sample} holds a number that is not finite; mend or drop this sample"
        )
