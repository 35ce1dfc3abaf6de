"""Rows are made when they are indexed, and index like numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gsnobench as gb

WHOLE = np.arange(24, dtype="f4").reshape(4, 3, 2)


@pytest.mark.parametrize(
    "index",
    [2, -1, slice(1, 3), [3, 0], np.array([1, 1]), (2, 1), (slice(None), 0, 1), ([0, 2], 1)],
)
def test_rows_index_like_an_array(index: Any) -> None:
    rows = gb.Rows(4, (3, 2), lambda number: WHOLE[number].astype(np.float64))
    assert rows.shape == WHOLE.shape and rows[index].dtype == np.float32
    np.testing.assert_array_equal(rows[index], WHOLE[index])


def test_only_what_is_indexed_is_made() -> None:
    made: list[int] = []

    def row(number: int) -> Any:
        made.append(number)
        return WHOLE[number]

    rows = gb.Rows(4, (3, 2), row)
    assert not made and len(rows) == 4
    rows[[3, 1]]
    assert made == [3, 1]
