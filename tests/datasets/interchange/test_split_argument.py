"""Every spelling of the splits means one code per sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets.interchange.split_argument import SHARES, split_codes

CODES = [0, 0, 0, 0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "splits",
    [
        SHARES,
        (6, 2, 2),
        [6, 2, 2, 0],
        ["train"] * 6 + ["valid"] * 2 + ["test"] * 2,
        np.array(CODES),
        np.array(["train", "valid", "test"])[CODES],
        {"train": range(6), "valid": [6, 7], "test": slice(8, None)},
        {"test": np.arange(10) > 7, "valid": [7, 6], "train": slice(6)},
    ],
)
def test_every_spelling_gives_the_same_codes(splits: Any) -> None:
    assert split_codes(splits, 10, "x").tolist() == CODES


def test_counts_are_no_codes() -> None:
    assert split_codes((1, 1, 1), 3, "x").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("splits", "line"),
    [
        ((6, 2, 3), "do not add up to 10 samples"),
        ((0.5, 0.2, 0.2), "do not add up"),
        ((10, 0, 0), "leave a split of (10, 0, 0) empty"),
        (["train"] * 9, "9 names for 10 samples"),
        (["training"] * 10, "unknown names ['training']"),
        ({"train": range(9), "test": [8, 9]}, "a sample to test and to another split"),
        ({"train": range(9)}, "leave out sample 9"),
        ({"train": [10]}, "give train [10]; expected numbers of samples, 0 to 9"),
        ({"train": [0.5]}, "give train [0.5]; expected numbers of samples"),
        (5, "splits 5 for 10 samples"),
        ({"training": [1]}, "splits name 'training'"),
        (np.arange(10), "expected shares"),
    ],
)
def test_a_mistake_is_one_line(splits: Any, line: str) -> None:
    with pytest.raises(gb.DataError) as error:
        split_codes(splits, 10, "x")
    one_line(error, "x: ", line)
