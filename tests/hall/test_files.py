"""Files: written whole or not at all, locked by one process, computed once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from gsnobench.errors import DataError
from gsnobench.files import (
    Cache,
    Damaged,
    atomic,
    digest,
    ends_torn,
    is_locked,
    lock,
    lock_file,
    read_arrays,
    write_arrays,
    write_csv,
    write_text,
)

HOLDER = """
import sys, time
from pathlib import Path
from gsnobench.files import lock
with lock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


# -------------------------------------------------------------------------------------------- write


def test_equal_content_has_an_equal_digest() -> None:
    assert digest({"a": 1, "b": [2.5]}) == digest({"b": [2.5], "a": 1}) != digest({"a": 1})


def test_a_block_that_raises_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a" / "text"
    write_text(path, "before")
    with pytest.raises(ZeroDivisionError), atomic(path) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    assert [file.name for file in path.parent.iterdir()] == ["text"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_disk_that_refuses_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_text(tmp_path / "file" / "below", "text")
    with pytest.raises(DataError, match="cannot be locked"), lock(tmp_path / "file" / "below"):
        pass
    # as a library wraps it
    with (
        pytest.raises(DataError, match=r"No space left .*; free some space"),
        atomic(tmp_path / "x"),
    ):
        raise RuntimeError("safetensors: No space left on device (os error 28)")


def test_a_table_is_written_with_its_header(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "table.csv", ["knob", "error"], [["a,b", 0.5], ["c", ""]])
    assert path.read_text() == 'knob,error\n"a,b",0.5\nc,\n'


@pytest.mark.parametrize(
    ("content", "is_torn"), [(b"", False), (b"a\n", False), (b"a\nb", True), (b"b", True)]
)
def test_a_last_line_without_its_end_is_torn(tmp_path: Path, content: bytes, is_torn: bool) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert ends_torn(path) == is_torn


# --------------------------------------------------------------------------------------------- lock


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    assert not is_locked(path) and not path.exists()
    with lock(path) as first, lock(path, patience=0) as second:
        assert (first, second) == (True, False)
        assert is_locked(path)
    assert not is_locked(path)


def test_patience_ends(tmp_path: Path) -> None:
    with lock(tmp_path / "lock"):
        begun = time.monotonic()
        with lock(tmp_path / "lock", patience=0.2) as is_ours:
            assert not is_ours
        assert 0.2 <= time.monotonic() - begun < 10


def test_an_open_file_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("a") as file:
        assert lock_file(file) and is_locked(path)
    assert not is_locked(path)


def test_the_kernel_frees_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        assert is_locked(path)
        holder.send_signal(signal.SIGKILL)
        with lock(path) as is_ours:
            assert is_ours


# ------------------------------------------------------------------------------------------- arrays


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
