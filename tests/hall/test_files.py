"""Files: written whole or not at all, locked by one process, computed once."""

from __future__ import annotations

import os
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
    is_abandoned,
    is_locked,
    left_over,
    lock,
    lock_file,
    part_of,
    read_arrays,
    remove_abandoned,
    remove_left_over,
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

COUNTER = """
import sys
from pathlib import Path
from gsnobench.files import lock
path, counter = map(Path, sys.argv[1:])
for _ in range(100):
    with lock(path):
        counter.write_text(str(int(counter.read_text()) + 1))
"""

TOKEN = """
import sys
from pathlib import Path
from gsnobench.files import private_token
print(private_token(Path(sys.argv[1])))
"""

WRITER = """
import sys, time
from pathlib import Path
from gsnobench.files import atomic
with atomic(Path(sys.argv[1])) as part:
    print(part, flush=True)
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


def test_files_follow_the_umask_and_private_ones_are_their_owners_alone(tmp_path: Path) -> None:
    modes = []
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            write_text(tmp_path / "text", "x")
            write_arrays(tmp_path / "arrays", {"x": np.zeros(3)})
            with atomic(tmp_path / "token", is_private=True) as part:
                part.write_text("x")
        finally:
            os.umask(before)
        files = [tmp_path / name for name in ("text", "arrays", "token")]
        modes.append([file.stat().st_mode & 0o777 for file in files])
    assert modes == [[0o644, 0o644, 0o600], [0o600, 0o600, 0o600], [0o664, 0o664, 0o600]]


def test_a_token_is_private_never_empty_and_the_same_for_all(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("")  # as a kill between making and writing left it
    path.chmod(0o644)
    command = [sys.executable, "-c", TOKEN, str(path)]
    made = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    tokens = {process.communicate()[0] for process in made}
    assert tokens == {path.read_text() + "\n"} and len(path.read_text()) == 64
    assert path.stat().st_mode & 0o777 == 0o600


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


def test_a_lock_that_is_removed_while_others_wait_still_has_one_holder(tmp_path: Path) -> None:
    path, counter = tmp_path / "lock", tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNTER, str(path), str(counter)]
    children = [subprocess.Popen(command) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert counter.read_text() == "300" and not path.exists()


# ---------------------------------------------------------------------------------------- left over


def killed_writer(path: Path) -> Path:
    """The half-written file of a process that was killed."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        part = Path(writer.stdout.readline().strip())
        assert part.exists() and not is_abandoned(part)
        writer.kill()
    return part


def test_what_a_killed_process_left_goes_with_the_next_write_of_the_file(tmp_path: Path) -> None:
    part = killed_writer(tmp_path / "a [1].nc")
    other = tmp_path / ".a [1].nc.elsewhere-1-00000000.part"  # of another machine, and young
    other.touch()
    assert part.exists() and is_abandoned(part) and not is_abandoned(other)
    write_text(tmp_path / "a [1].nc", "whole")
    assert not part.exists() and other.exists()


def test_what_a_killed_process_left_of_a_folder_goes_with_the_next_attempt(tmp_path: Path) -> None:
    part = killed_writer(tmp_path / "out")
    part.unlink()
    part.mkdir()
    (part / "half").touch()
    mine = part_of(tmp_path / "out")
    mine.mkdir()
    remove_abandoned(tmp_path / "out")
    assert not part.exists() and mine.exists()


def test_left_over_files_below_a_folder_are_found_and_removed(tmp_path: Path) -> None:
    part = killed_writer(tmp_path / "deep" / "file")
    idle, held = tmp_path / "idle.lock", tmp_path / "held.lock"
    long_ago = time.time() - 3600
    for path in (idle, held):
        path.touch()
        os.utime(path, (long_ago, long_ago))
    with lock(held), atomic(tmp_path / "mine") as mine:
        os.utime(held, (long_ago, long_ago))
        assert left_over(tmp_path) == sorted([part, idle])
        remove_left_over(tmp_path)
        assert held.exists() and mine.exists() and not part.exists() and not idle.exists()


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


def test_an_entry_in_the_place_of_another_one_is_computed_anew(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    right = cache.arrays("modes-v1", {"k": 3}, lambda: {"modes": np.arange(3.0)})["modes"]
    cache.arrays("distance-v1", {}, lambda: {"modes": np.zeros(3)})
    (path,) = (tmp_path / "modes-v1").glob("*.safetensors")
    (other,) = (tmp_path / "distance-v1").glob("*.safetensors")
    path.write_bytes(other.read_bytes())  # whole, but about something else
    again = cache.arrays("modes-v1", {"k": 3}, lambda: {"modes": np.arange(3.0)})["modes"]
    np.testing.assert_array_equal(again, right)
