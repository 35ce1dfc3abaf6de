"""The split of every sample from `splits=`: shares, counts, names per sample, or index lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gsnobench.data import SPLITS, Array
from gsnobench.datasets.interchange.raw import as_array
from gsnobench.errors import DataError

SHARES = (0.6, 0.2, 0.2)
EXPECTED = (
    f"expected shares that add up to 1 or counts (train, valid, test), one of {', '.join(SPLITS)} "
    "per sample, or a mapping from them to sample numbers"
)


def split_codes(splits: Any, count: int, subject: str) -> Array:
    """The position in `data.SPLITS` of each of `count` samples, (S,) int64."""
    if isinstance(splits, Mapping):
        return _from_indices(splits, count, subject)
    is_list = hasattr(splits, "__iter__") and getattr(splits, "ndim", 1) == 1
    values = list(splits.tolist() if hasattr(splits, "tolist") else splits) if is_list else []
    if values and all(isinstance(value, str) for value in values):
        return _from_names(values, count, subject)
    if (
        hasattr(splits, "tolist")
        and len(values) == count
        and set(values) <= set(range(len(SPLITS)))
    ):
        return np.asarray(values, dtype=np.int64)  # an array of codes, as in a file
    if 2 <= len(values) <= len(SPLITS) and all(_is_number(value) for value in values):
        return _from_sizes(values, count, subject)
    raise DataError(f"{subject}: splits {_short(splits)} for {count} samples; {EXPECTED}")


def _from_names(names: list[str], count: int, subject: str) -> Array:
    unknown = sorted(set(names) - set(SPLITS))
    if unknown or len(names) != count:
        what = f"unknown names {unknown}" if unknown else f"{len(names)} names"
        raise DataError(f"{subject}: splits hold {what} for {count} samples; {EXPECTED}")
    return np.array([SPLITS.index(name) for name in names], dtype=np.int64)  # type: ignore[arg-type]


def _from_sizes(values: list[float], count: int, subject: str) -> Array:
    """Consecutive blocks: the first samples are for training, the next for validation, ..."""
    is_share = abs(sum(values) - 1) < 1e-9 and count != 1
    sizes = np.diff(np.rint(np.cumsum([0, *values]) * count)) if is_share else np.array(values)
    if sizes.sum() != count or (sizes < 0).any() or (sizes % 1 != 0).any():
        raise DataError(
            f"{subject}: splits {tuple(values)} do not add up to {count} samples; {EXPECTED}"
        )
    if not sizes[:3].all():
        raise DataError(
            f"{subject}: {count} samples leave a split of {tuple(values)} empty; a run needs "
            "train, valid and test; give counts such as splits=(20, 4, 6)"
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


def _from_indices(splits: Mapping[str, Any], count: int, subject: str) -> Array:
    codes = np.full(count, -1, dtype=np.int64)
    for name, chosen in splits.items():
        if name not in SPLITS:
            raise DataError(f"{subject}: splits name {name!r}; {EXPECTED}")
        try:
            rows = np.arange(count)[chosen if isinstance(chosen, slice) else as_array(chosen)]
        except (IndexError, DataError) as error:
            raise DataError(
                f"{subject}: splits give {name} {_short(chosen)}; expected numbers of samples, 0 "
                f"to {count - 1}"
            ) from error
        if (codes[rows] >= 0).any():
            raise DataError(f"{subject}: splits give a sample to {name} and to another split")
        codes[rows] = SPLITS.index(name)  # type: ignore[arg-type]
    if (codes < 0).any():
        missing = int(np.flatnonzero(codes < 0)[0])
        raise DataError(f"{subject}: splits leave out sample {missing}; {EXPECTED}")
    return codes


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
