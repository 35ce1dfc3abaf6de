"""Whole commands killed at random moments: the same command then ends as if nothing had been."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from campaign import COUNTS, SIZE, drawer, how_many
from fake_results import made_evidence
from problems import steady

from gsnobench.datasets.store import open_file
from gsnobench.datasets.task_json import task_to_json
from gsnobench.files import digest, left_over
from gsnobench.records import RunResult

WHOLE = 300  # kills of all commands together
SMOKE = ["--track", "smoke", "--device", "cpu"]


@dataclass(frozen=True)
class Place:
    """The folders of one round."""

    home: Path
    data: Path  # a file in order
    arrays: Path
    task: Path
    evidence: Path

    @property
    def out(self) -> Path:
        return self.home / "out"


@dataclass(frozen=True)
class Verb:
    """A command, and what it leaves."""

    words: Callable[[Place], list[str]]
    outcome: Callable[[Place], str]
    is_tracked: bool = False


def scores(place: Place) -> str:
    """All results of a home by key, without what one machine alone knows."""
    found = sorted(place.home.glob("results/**/*.json"))
    results = [RunResult.load(path) for path in found]
    keys = [result.spec.key for result in results]
    assert len(keys) == len(set(keys)), "a result is doubled"
    return digest([[each.spec.key, each.status, each.scores, each.samples] for each in results])


def data_files(place: Place) -> str:
    hashes = []
    for path in sorted(place.home.rglob("*.nc")):
        with open_file(path) as opened:
            hashes.append([path.name, opened.content_hash])
    assert hashes
    return digest(hashes)


def texts(place: Place) -> str:
    files = [path for path in sorted(place.out.rglob("*")) if path.suffix in (".md", ".csv")]
    assert files
    return digest([[path.name, path.read_text()] for path in files])


def run_words(model: str) -> Callable[[Place], list[str]]:
    return lambda place: [
        *("run", "--model", model, "--dataset", str(place.data), "--no-floors", *SMOKE),
        *(["--train.steps", "6"] if model != "mean" else []),
    ]


VERBS = {
    "run": Verb(run_words("gsno"), scores),
    "run, tracked": Verb(run_words("mean"), scores, is_tracked=True),
    "data generate": Verb(
        lambda place: ["data", "generate", "darcy", "--track", "smoke", "--jobs", "1"], data_files
    ),
    "data import": Verb(
        lambda place: [
            *("data", "import", str(place.out / "mine.nc"), "--from", str(place.arrays)),
            *("--task", str(place.task)),
        ],
        data_files,
    ),
    "bench": Verb(
        lambda place: [
            *("bench", "--models", "mean,modal", "--datasets", str(place.data), "--jobs", "1"),
            *SMOKE,
        ],
        scores,
    ),
    "leaderboard build": Verb(
        lambda place: [
            *("leaderboard", "build", "--results", str(place.evidence), "--out", str(place.out)),
        ],
        texts,
    ),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, steady_file: Path) -> Place:
    folder = tmp_path_factory.mktemp("given")
    parts = steady()
    mesh = parts["train"].mesh(0)
    arrays = {
        "frames": np.concatenate([np.asarray(part.frames) for part in parts.values()]),
        "static": np.concatenate([np.asarray(part.static) for part in parts.values()]),
        "points": mesh.points,
        "cells": mesh.cells,
        "tag_boundary": mesh.tags["boundary"],
        "split": np.repeat(range(len(parts)), [len(part) for part in parts.values()]),
    }
    np.savez(folder / "a.npz", **arrays)
    (folder / "task.json").write_text(task_to_json(parts["train"].task))
    made_evidence(folder / "evidence")
    return Place(folder, steady_file, folder / "a.npz", folder / "task.json", folder / "evidence")


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", VERBS)
def test_a_killed_command_is_completed_by_the_same_command(
    name: str, given: Place, tmp_path: Path
) -> None:
    verb, draw = VERBS[name], drawer("process kills", name)
    whole = at(given, tmp_path / "whole")
    began = time.monotonic()
    finish(verb, whole)
    longest, expected = time.monotonic() - began, verb.outcome(whole)
    for number in range(how_many(SIZE, WHOLE // len(VERBS))):
        place = at(given, tmp_path / f"cut{number}")
        kills = sum(
            kill_at(verb, place, moment(draw, longest)) for _ in range(draw.choice((1, 1, 2)))
        )
        finish(verb, place)
        assert verb.outcome(place) == expected, f"{name}: round {number}"
        fresh = [path for path in left_over(place.home) if path.suffix == ".part"]
        assert not fresh, f"{name}: left {fresh}"
        COUNTS[f"process kills: {name}", "rounds with the same result"] += 1
        COUNTS[f"process kills: {name}", "kills"] += kills
        shutil.rmtree(place.home)


def at(given: Place, home: Path) -> Place:
    home.mkdir()
    return Place(home, given.data, given.arrays, given.task, given.evidence)


def moment(draw: random.Random, longest: float) -> float:
    return draw.uniform(0.05, 1.0) * longest


def started(verb: Verb, place: Place) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "GSNOBENCH_HOME": str(place.home), "GSNOBENCH_CHECKPOINT_S": "0"}
    environment.pop("GSNOBENCH_TRACKING_URI", None)
    if not verb.is_tracked:
        environment["GSNOBENCH_TRACKING_URI"] = "none"
    command = [sys.executable, "-m", "gsnobench", *verb.words(place)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe)


def kill_at(verb: Verb, place: Place, seconds: float) -> bool:
    """Kill the command alone; what it started must end by itself. False if it was faster."""
    process = started(verb, place)
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        children = psutil.Process(process.pid).children(recursive=True)
        # the mirror outlives its run on purpose
        children = [child for child in children if not is_mirror(child)]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        alive = psutil.wait_procs(children, timeout=30)[1]
        assert not alive, f"orphans: {alive}"
        return True


def is_mirror(process: psutil.Process) -> bool:
    try:
        return "gsnobench.tracking.mirror" in process.cmdline()
    except psutil.Error:
        return False


def finish(verb: Verb, place: Place) -> None:
    process = started(verb, place)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_same_run_in_two_processes_is_one_run(given: Place, tmp_path: Path) -> None:
    verb = VERBS["run"]
    finish(verb, whole := at(given, tmp_path / "whole"))
    for number in range(how_many(SIZE, 20)):
        place = at(given, tmp_path / f"twins{number}")
        pair = [started(verb, place) for _ in range(2)]
        ended = [(process.communicate()[1], process.returncode) for process in pair]
        assert [code for _, code in ended] == [0, 0], ended
        assert scores(place) == scores(whole)
        COUNTS["twin processes", "one result"] += 1


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_full_disk_is_one_line_and_the_rerun_completes(given: Place, tmp_path: Path) -> None:
    draw, verb = drawer("full disk"), VERBS["run"]
    finish(verb, whole := at(given, tmp_path / "whole"))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        for _ in range(how_many(SIZE, 20)):
            place = at(given, disk / "home")
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(draw.randrange(7_200_000, 8_300_000)))
            process = started(verb, place)
            _, errors = process.communicate()
            lines = [line for line in errors.decode().splitlines() if "gsnobench: " in line]
            assert process.returncode in (0, 2) and "Traceback" not in errors.decode(), errors
            assert process.returncode == 0 or len(lines) == 1, errors
            ballast.unlink()
            finish(verb, place)
            assert scores(place) == scores(whole)
            COUNTS["full disk", "one line" if process.returncode else "enough"] += 1
            shutil.rmtree(place.home)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
