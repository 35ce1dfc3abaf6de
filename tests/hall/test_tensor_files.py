"""Arrays are read as they were written, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from gsnobench.tensor_files import Damaged, read_arrays, write_arrays

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3).T,
    "b": np.array([1 + 2j], dtype=np.complex64),
    "c": np.zeros((0, 2), dtype=np.float32),
    "d": np.array(True),
}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x", ARRAYS)
    read = read_arrays(tmp_path / "x", needs_checksum=True)
    assert read.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        assert read[name].dtype == value.dtype and read[name].shape == value.shape
        np.testing.assert_array_equal(read[name], value)
        assert read[name].flags.writeable


def test_no_flipped_bit_becomes_another_number(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    silent = 0
    for position in range(len(whole)):
        bit = 1 << position % 8
        path.write_bytes(whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
        try:
            read = read_arrays(path)
        except Damaged:
            continue
        silent += any(not np.array_equal(read.get(name), ARRAYS[name]) for name in ARRAYS)
    assert silent == 0


def test_a_file_without_a_checksum_is_read_unless_one_is_needed(tmp_path: Path) -> None:
    save_file({"a": np.ones(2)}, tmp_path / "old")
    np.testing.assert_array_equal(read_arrays(tmp_path / "old")["a"], np.ones(2))
    with pytest.raises(Damaged, match="checksum"):
        read_arrays(tmp_path / "old", needs_checksum=True)
