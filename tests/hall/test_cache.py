"""What was computed before is read; a damaged entry is computed anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gsnobench.cache import Cache


def test_arrays_are_computed_once_per_recipe_and_parameters(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"modes": np.arange(6.0).reshape(2, 3).T}

    cache = Cache(tmp_path)
    for _ in range(2):
        arrays = cache.arrays("modes-v1", {"k": 3}, compute)
        np.testing.assert_array_equal(arrays["modes"], np.arange(6.0).reshape(2, 3).T)
    assert len(calls) == 1
    cache.arrays("modes-v1", {"k": 4}, compute)
    cache.arrays("modes-v2", {"k": 3}, compute)
    Cache().arrays("modes-v1", {"k": 3}, compute)  # without a folder: anew
    assert len(calls) == 4


def test_a_damaged_entry_is_computed_anew(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"modes": np.arange(3.0)}

    def entry() -> np.ndarray:
        return Cache(tmp_path).arrays("modes-v1", {}, compute)["modes"]

    entry()
    (path,) = tmp_path.rglob("*.safetensors")
    whole = path.read_bytes()
    for content in (b"damaged", b"", whole[:-3], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(content)
        np.testing.assert_array_equal(entry(), np.arange(3.0))
        assert path.read_bytes() == whole
    assert len(calls) == 5
