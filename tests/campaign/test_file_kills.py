"""Kills at numbered file operations, in children that are forked after everything is imported."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from campaign import COUNTS, SIZES, drawer, half_written, how_many, import_all, modules_of
from problems import steady

import gsnobench as gb
from gsnobench.datasets.store import open_file, write
from gsnobench.files import FRESH_S, digest
from gsnobench.home import open_tidy_home
from gsnobench.records import RunResult
from gsnobench.registry import read_registry, remember_file

WHOLE = 700  # kills of all jobs together
CHANGING = frozenset(
    ["open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"]
)
Job = Callable[[Path, Path], str]  # data file, home -> what came out


def train(model: str, steps: str | None) -> Job:
    def job(file: Path, home: Path) -> str:
        open_tidy_home(home)
        knobs = {} if steps is None else {"train.steps": steps}
        made = gb.run(model, str(file), home=home, device="cpu", track="smoke", knobs=knobs)
        kept = [RunResult.load(path) for path in sorted(home.glob("results/**/*.json"))]
        stored = [RunResult.load(path) for path in sorted(home.glob("runs/*/result.json"))]
        assert len(kept) == len(stored) == 1, "a result is lost or doubled"
        scores = [[each.scores, each.samples, each.status] for each in (made, *kept, *stored)]
        assert scores[0] == scores[1] == scores[2]
        return digest(scores[0])

    return job


def import_arrays(file: Path, home: Path) -> str:
    path = home / "mine" / "data.nc"
    write(path, steady(), provenance={"title": "a", "source": "b"})
    with open_file(path) as opened:
        return opened.content_hash


def remember(file: Path, home: Path) -> str:
    opened = open_tidy_home(home)
    for number in range(5):
        remember_file(f"{number}", file, opened)
    return digest(sorted(read_registry(home=opened).files))


JOBS: dict[str, tuple[Job, float]] = {
    "run mean": (train("mean", None), 0.3),
    "run gsno, a checkpoint per step": (train("gsno", "4"), 0.3),
    "import": (import_arrays, 0.2),
    "remember a file": (remember, 0.2),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", JOBS)
def test_a_kill_at_any_file_operation_loses_nothing(
    name: str, size: float, steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSNOBENCH_TRACKING_URI", "none")
    monkeypatch.setenv("GSNOBENCH_CHECKPOINT_S", "0")
    job, share = JOBS[name]
    import_all(modules_of(lambda: job(steady_file, tmp_path / "imported")))
    draw = drawer("file kills", name)
    operations, expected = in_child(job, steady_file, tmp_path / "whole", kill_at=0)
    for _ in range(how_many(size, round(share * WHOLE))):
        number = draw.randrange(1, operations + 1)
        home = tmp_path / "cut"
        in_child(job, steady_file, home, kill_at=number)
        _, again = in_child(job, steady_file, home, kill_at=0)
        assert again == expected, f"{name}: killed at operation {number} of {operations}"
        left = half_written(home.rglob("*")) + locks_for_ever(home)
        assert not left, f"{name}: operation {number} left {left}"
        COUNTS[f"file kills: {name}", "same result"] += 1
        shutil.rmtree(home)


def locks_for_ever(home: Path) -> list[Path]:
    """Locks that stay when they are older than a minute: a younger one may be about to be held."""
    before = time.time() - 2 * FRESH_S
    for path in home.rglob("*.lock"):
        os.utime(path, (before, before))
    open_tidy_home(home)
    return list(home.rglob("*.lock"))


def in_child(job: Job, file: Path, home: Path, *, kill_at: int) -> tuple[int, str]:
    """Operations and outcome of a job in a forked child; empty if it was killed at one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work(job, file, home, kill_at, writer)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL and kill_at
        return kill_at, ""
    assert os.waitstatus_to_exitcode(status) == 0, report
    count, outcome = report.split()
    return int(count), outcome


def _work(job: Job, file: Path, home: Path, kill_at: int, writer: int) -> None:
    """The life of the child: never returns."""
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in CHANGING and str(home) in str(arguments[0]):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        torch.set_num_threads(1)
        sys.addaudithook(watch)
        outcome = job(file, home)
        os.write(writer, f"{count} {outcome}".encode())
        code = 0
    except BaseException as error:
        os.write(writer, repr(error).encode())
    finally:
        os._exit(code)
