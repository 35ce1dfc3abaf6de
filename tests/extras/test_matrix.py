"""The smoke matrix on real engines, killed while it runs: every cell done once, whatever the executor."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.slow
MODELS, DATASETS, SEEDS = "gsno@plus,deeponet,transolver", "darcy,burgers2d,pipe", "0,1"
CELLS = 18
WORDS = ("--models", MODELS, "--datasets", DATASETS, "--seeds", SEEDS, "--track", "smoke")
QUIET = {"GSNOBENCH_TRACKING_URI": "none", "OMP_NUM_THREADS": "1", "GSNOBENCH_CHECKPOINT_S": "1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the data of the matrix, made once for all engines."""
    home = tmp_path_factory.mktemp("data")
    for name in DATASETS.split(","):
        gsnobench("data", "generate", name, "--track", "smoke", "--home", str(home))
    return home


@pytest.fixture
def home(data: Path, tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    (place / "data").symlink_to(data / "data")
    return place


def gsnobench(*words: str, expect: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gsnobench", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **QUIET, **variables}, timeout=900)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done


def start(home: Path, *words: str, **variables: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gsnobench", "bench", *WORDS, "--home", str(home), *words]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env={**os.environ, **QUIET, **variables}, start_new_session=True, **silent)


def states(home: Path) -> list[dict[str, Any]]:
    return list(json.loads(gsnobench("status", *WORDS, "--home", str(home), "--json").stdout)["cells"])


def answers(home: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in home.glob("runs/*/result.json")}


def kill_three_times(home: Path, *words: str, **variables: str) -> dict[str, bytes]:
    """Start the matrix and kill it -9 at three random moments; what was finished at the last of them."""
    draw = random.Random(0)
    for _ in range(3):
        seen = len(answers(home))
        process = start(home, *words, **variables)
        wait_until(lambda: len(answers(home)) > seen or process.poll() is not None, 300)
        time.sleep(draw.uniform(0, 4))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return answers(home)


def finish(home: Path, *words: str, **variables: str) -> None:
    """Restart until no cell is missing: jobs of a dead bench may still be running elsewhere."""
    for _ in range(5):
        gsnobench("bench", *WORDS, "--home", str(home), *words, **variables)
        wait_until(lambda: all(cell["state"] != "running" for cell in states(home)), 300, pause=2.0)
        if all(cell["state"] == "done" for cell in states(home)):
            return


def wait_until(condition: Any, seconds: float, pause: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(pause)


def lost_or_doubled(home: Path, before: dict[str, bytes]) -> list[str]:
    """What is wrong with a matrix that should be done: a cell not done, results beyond one a cell, an earlier answer changed."""
    wrong = [f"{cell['key']} is {cell['state']}" for cell in states(home) if cell["state"] != "done"]
    after = answers(home)
    counts = {"runs": len(after), "results": len(list(home.glob("results/**/*.json")))}
    wrong += [f"{count} {name}" for name, count in counts.items() if count != CELLS]
    return wrong + [f"{key} changed" for key, content in before.items() if after.get(key) != content]


def test_a_pool_killed_three_times_loses_and_repeats_nothing(home: Path) -> None:
    before = kill_three_times(home)
    finish(home)
    assert before and not lost_or_doubled(home, before)


def test_slurm_jobs_by_the_local_stand_in_killed_three_times(home: Path) -> None:
    words = ("--executor", "slurm", "--address", "local", "--jobs", "2")
    before = kill_three_times(home, *words)
    finish(home, *words)
    assert before and not lost_or_doubled(home, before)


# ------------------------------------------------------------------------------------------------------------------ ray


@contextmanager
def ray_cluster() -> Iterator[tuple[str, list[psutil.Process], dict[str, str]]]:
    """Two nodes of one CPU each on this machine, with a token of their own; the processes of the second node, to be killed."""
    folder = Path(tempfile.mkdtemp(prefix="ray"))  # short: the names of sockets have at most 107 characters
    token = folder / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    variables = {**QUIET, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    port = 6399
    ray = str(Path(sys.executable).parent / "ray")
    common = ["--num-cpus=1", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    places = [f"--temp-dir={folder / 'ray'}"]
    known = set(psutil.pids())
    run = {"env": {**os.environ, **variables}, "check": True, "capture_output": True, "timeout": 120}
    try:
        subprocess.run([ray, "start", "--head", f"--port={port}", "--include-dashboard=false", *common, *places], **run)
        head = set(psutil.pids())
        subprocess.run([ray, "start", f"--address=127.0.0.1:{port}", *common], **run)
        second = [psutil.Process(pid) for pid in set(psutil.pids()) - head if "raylet" in _name(pid)]
        yield f"127.0.0.1:{port}", second, variables
    finally:
        for pid in set(psutil.pids()) - known:
            if "ray" in _name(pid):
                psutil.Process(pid).kill()
        shutil.rmtree(folder, ignore_errors=True)


def _name(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def test_ray_with_a_node_killed_in_the_middle(home: Path) -> None:
    with ray_cluster() as (address, second, variables):
        words = ("--executor", "ray", "--address", address)
        process = start(home, *words, **variables)
        wait_until(lambda: len(answers(home)) >= 3, 600)
        before = answers(home)
        assert second
        for one in second:
            one.kill()
        process.wait(timeout=900)
        finish(home, *words, **variables)
        assert before and not lost_or_doubled(home, before)


def test_what_no_ray_node_has_is_refused_at_once(tmp_path: Path) -> None:
    words = ("bench", "--models", "mean", "--datasets", "darcy", "--track", "smoke", "--home", str(tmp_path), "--executor", "ray")
    for extra in (("--gpus", "64"), ("--threads", "4096", "--jobs", "1")):
        done = gsnobench(*words, *extra, expect=2)
        assert "no node has" in the_line(done)
    done = gsnobench(*words, "--address", "127.0.0.1:6398", expect=2)
    assert "no cluster at 127.0.0.1:6398" in the_line(done)


def the_line(ended: subprocess.CompletedProcess[str]) -> str:
    """Ours; Ray's own log, which goes to the same place, does not count."""
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("gsnobench: ")]
    return line
