"""Child processes: messages, pinned threads, and no child that outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import toy_children
from toy_children import die, double, forked, fresh, send_threads, sleep, talk

from gsnobench.processes import Child, pinned, ready, start_fresh, stopped_at_end

Start = Callable[..., Child]
both = pytest.mark.parametrize("start", [forked, fresh])


@both
def test_messages_go_both_ways_until_the_child_is_stopped(start: Start) -> None:
    child = start(double, 4)
    assert child.receive() == 8
    for number in (1, 2):
        child.send(number)
    assert [child.receive(), child.receive()] == [2, 4]
    child.stop()
    assert not psutil.pid_exists(child.pid)


@both
def test_a_dead_child_has_no_message(start: Start) -> None:
    child = start(die)
    assert ready([child]) == [child]
    assert child.receive() is None
    child.send("to nobody")
    child.stop()


@both
def test_ctrl_c_is_for_the_parent(start: Start) -> None:
    child = start(sleep)
    assert child.receive() == "begun"
    os.kill(child.pid, signal.SIGINT)
    assert ready([child], 0.3) == []
    child.stop()


def test_what_a_child_prints_is_not_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    child = fresh(talk)
    assert child.receive() is None  # it has ended
    child.stop()
    captured = capfd.readouterr()
    assert captured.out == "" and "a solver talks" in captured.err


def test_a_fresh_child_has_the_threads_that_were_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for threads in (1, 2):
        child = start_fresh(send_threads, threads=threads)
        assert child.receive() == str(threads)
        child.stop()
    with pinned(3):
        assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_children_are_stopped_when_a_block_raises() -> None:
    children: list[Child] = []
    with pytest.raises(KeyboardInterrupt), stopped_at_end(children):
        children += [forked(sleep), fresh(sleep)]
        assert all(child.receive() == "begun" for child in children)
        raise KeyboardInterrupt
    assert not any(psutil.pid_exists(child.pid) for child in children)


PROGRAM = """
import sys, time
sys.path.insert(0, {folder!r})
from toy_children import {start}, sleep

def main():
    child = {start}(sleep)
    assert child.receive() == "begun"
    print(child.pid, flush=True)
    time.sleep(600)

{guard}main()
"""


@pytest.mark.parametrize(
    ("start", "guard"),
    [("forked", 'if __name__ == "__main__": '), ("fresh", "")],
    ids=["forked", "fresh, from a script without a guard"],
)
def test_a_child_dies_in_its_work_when_its_parent_is_killed(
    tmp_path: Path, start: str, guard: str
) -> None:
    script, folder = tmp_path / "script.py", str(Path(toy_children.__file__).parent)
    script.write_text(PROGRAM.format(folder=folder, start=start, guard=guard))
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        number = int(parent.stdout.readline())
        assert psutil.pid_exists(number)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(number):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.02)
