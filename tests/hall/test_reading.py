"""Files of others: read whole, or refused in one line before anything is allocated."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gsnobench.errors import DataError
from gsnobench.reading import (
    free_memory,
    guarded,
    parse_json,
    read_bytes,
    read_npy,
    read_npz,
    read_toml,
    require_memory,
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[NaN]", "NaN is no number of JSON"),
        ("[1e999]", "too large for a number"),
        ("[" + "9" * 40 + "]", "a whole number of 40 characters"),
        ("[" * 60 + "]" * 60, "nested more than 50 deep"),
        ("[" * 100_000, "nested more than 50 deep"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_json_that_cannot_be_used_is_one_line(text: str | bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint) as caught:
        parse_json(text, label="it", expected="a table")
    assert "\n" not in str(caught.value) and "a table" in str(caught.value)


def test_json_keeps_its_numbers() -> None:
    digits = "0123456789" * 4  # a text of digits is no number
    assert parse_json(f'[1e300, -5, "{digits}", 123456789012345678]', label="", expected="") == [
        *(1e300, -5, digits, 123456789012345678)
    ]


def test_devices_folders_and_names_that_no_file_has_are_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, Path("a\0b"), Path("x" * 300)):
        with pytest.raises(DataError, match="expected a text"):
            read_bytes(path, expected="a text")


def test_toml_that_is_damaged_or_endless_is_one_line(tmp_path: Path) -> None:
    for number, text in enumerate((b"a = ", b"\xff", b"a = " + b"[" * 5000)):
        path = tmp_path / f"{number}.toml"
        path.write_bytes(text)
        with pytest.raises(DataError, match=r"\.toml: "):
            read_toml(path, remedy="restore it")


def test_an_archive_that_declares_more_than_it_holds_is_refused_before_reading(
    tmp_path: Path,
) -> None:
    np.save(tmp_path / "a.npy", np.arange(10.0))
    content = (tmp_path / "a.npy").read_bytes()
    declared = content.replace(b"(10,)", b"(10000000000,)", 1)[: len(content)]
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("a.npy", declared)
    with pytest.raises(DataError, match="cannot be read"):
        read_npz(tmp_path / "b.npz")
    (tmp_path / "c.npy").write_bytes(declared)
    with pytest.raises(DataError, match="cannot be read"):
        read_npy(tmp_path / "c.npy")


def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated() -> None:
    assert free_memory() > 1e6
    require_memory("it", 1000)
    with pytest.raises(DataError, match="GB are free"):
        require_memory("it", 2**60)


def test_whatever_a_library_raises_is_one_line() -> None:
    for error in (KeyError("a\nb"), RuntimeError("x"), MemoryError(), ZeroDivisionError()):
        with (
            pytest.raises(DataError, match="expected a file") as caught,
            guarded("it", expected="a file"),
        ):
            raise error
        assert "\n" not in str(caught.value)
    with pytest.raises(KeyboardInterrupt), guarded("it", expected="a file"):
        raise KeyboardInterrupt
