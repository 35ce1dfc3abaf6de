"""Files: written whole or not at all, locked by one process, computed once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gsnobench.errors import DataError
from gsnobench.files import (
    atomic,
    digest,
    ends_torn,
    is_locked,
    lock,
    lock_file,
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
