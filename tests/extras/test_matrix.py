"""The smoke matrix on real engines, killed while it runs: every cell is done, and done once.

Each engine gets a small matrix of six cells here, and the whole one (3 models x 3 datasets x 2
seeds, 3 kills) with `-m slow`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from stranger_plugins import make_strangers

pytestmark = pytest.mark.timeout(2400)
QUIET = {
    "GSNOBENCH_TRACKING_URI": "none",
    "OMP_NUM_THREADS": "1",
    "GSNOBENCH_CHECKPOINT_S": "1",
    "STRANGE_SLEEP": "0.05",
}


@dataclass(frozen=True)
class Size:
    """A matrix to be run, and how often it is killed."""

    models: str
    datasets: str
    cells: int
    kills: int

    @property
    def words(self) -> tuple[str, ...]:
        words = f"--models {self.models} --datasets {self.datasets} --seeds 0,1 --track smoke"
        return tuple(words.split())


SMALL = Size("gsno@plus,deeponet,plain", "darcy", cells=6, kills=1)
WHOLE = Size("gsno@plus,deeponet,transolver", "darcy,burgers2d,pipe", cells=18, kills=3)


@dataclass(frozen=True)
class Bench:
    """The command line on one matrix and one home."""

    size: Size
    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "gsnobench", "bench", *self.size.words]
        return subprocess.Popen(
            [*command, "--home", str(self.home), *words],
            env={**os.environ, **self.variables, **variables},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def states(self) -> list[dict[str, Any]]:
        return self.call("status")

    def call(self, verb: str, *words: str) -> list[dict[str, Any]]:
        """The cells that a command prints."""
        fixed = (*self.size.words, "--home", str(self.home), "--json")
        done = gsnobench(verb, *fixed, *words, **self.variables)
        return list(json.loads(done.stdout)["cells"])

    def results(self) -> dict[str, bytes]:
        return {
            path.parent.name: path.read_bytes() for path in self.home.glob("runs/*/result.json")
        }

    def kill(self, *words: str) -> dict[str, bytes]:
        """Start the matrix and kill it at random moments; what was finished at the last of them."""
        draw = random.Random(0)
        for _ in range(self.size.kills):
            seen = len(self.results())
            process = self.start(*words)
            wait_until(
                lambda seen=seen, process=process: (
                    len(self.results()) > seen or process.poll() is not None
                ),
                300,
            )
            time.sleep(draw.uniform(0, 4 if self.size is WHOLE else 1))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return self.results()

    def finish(self, *words: str) -> None:
        """Restart until no cell is missing: jobs of a dead bench may still be running elsewhere."""
        for _ in range(5):
            if all(cell["state"] == "done" for cell in self.call("bench", *words)):
                return
            wait_until(
                lambda: all(cell["state"] != "running" for cell in self.states()), 300, pause=2.0
            )

    def faults(self, before: dict[str, bytes]) -> list[str]:
        """What is wrong with a matrix that should be done.

        A cell that is not done, more than one result per cell, a result that has changed.
        """
        wrong = [
            f"{cell['key']} is {cell['state']}" for cell in self.states() if cell["state"] != "done"
        ]
        after = self.results()
        counts = {"runs": len(after), "results": len(list(self.home.glob("results/**/*.json")))}
        wrong += [f"{count} {name}" for name, count in counts.items() if count != self.size.cells]
        return wrong + [
            f"{key} changed" for key, content in before.items() if after.get(key) != content
        ]


def gsnobench(*words: str, expect: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gsnobench", *words]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **QUIET, **variables},
        timeout=1800,
    )
    assert done.returncode == expect, (
        f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    )
    return done


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Size], Path]:
    """Makes the data of a matrix in a home for all engines, once."""
    home, known = tmp_path_factory.mktemp("data"), set[str]()

    def make(size: Size) -> Path:
        for name in set(size.datasets.split(",")) - known:
            gsnobench("data", "generate", name, "--track", "smoke", "--home", str(home))
            known.add(name)
        return home / "data"

    return make


@pytest.fixture(
    params=[
        pytest.param(SMALL, id="small"),
        pytest.param(WHOLE, id="whole", marks=pytest.mark.slow),
    ]
)
def bench(request: pytest.FixtureRequest, data: Callable[[Size], Path], tmp_path: Path) -> Bench:
    """A matrix with its data and without a result; the strangers' slow model is installed."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "data").symlink_to(data(request.param))
    return Bench(request.param, home, {**QUIET, **make_strangers(tmp_path / "strangers")})


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(pause)


def test_a_killed_pool_loses_and_repeats_nothing(bench: Bench) -> None:
    before = bench.kill()
    bench.finish()
    assert before and not bench.faults(before)


def test_killed_slurm_jobs_by_the_local_stand_in(bench: Bench) -> None:
    words = ("--executor", "slurm", "--address", "local", "--jobs", "2")
    before = bench.kill(*words)
    bench.finish(*words)
    assert before and not bench.faults(before)


# ---------------------------------------------------------------------------------------------- ray


@dataclass(frozen=True)
class Cluster:
    """Two Ray nodes of one CPU each on this machine."""

    address: str
    variables: dict[str, str]
    second: list[psutil.Process]  # of the second node

    def kill_a_node(self) -> None:
        assert self.second
        kill_all(self.second)


@contextmanager
def ray_cluster(variables: dict[str, str]) -> Iterator[Cluster]:
    """With a token of their own, by which their processes are known as well."""
    # short: the names of sockets have at most 107 characters
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    token = folder / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    variables = {**variables, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    address = f"127.0.0.1:{free_port()}"
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--num-cpus=1"]
    ray += ["--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    head = ["--head", f"--port={address.split(':')[1]}", "--include-dashboard=false"]
    head += [f"--temp-dir={folder / 'ray'}"]
    run: dict[str, Any] = {"check": True, "capture_output": True, "timeout": 300}
    run["env"] = {**os.environ, **variables}
    try:
        subprocess.run([*ray, *head], **run)
        first = ray_processes(token)
        subprocess.run([*ray, f"--address={address}"], **run)
        second = [process for process in ray_processes(token) if process not in first]
        yield Cluster(address, variables, second)
    finally:
        kill_all(ray_processes(token))
        shutil.rmtree(folder, ignore_errors=True)


def ray_processes(token: Path) -> list[psutil.Process]:
    """What belongs to the cluster of this token."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("RAY_AUTH_TOKEN_PATH") == str(token):
                processes.append(process)
    return processes


def kill_all(processes: list[psutil.Process]) -> None:
    """With their children, some of which write a title over what they were started with."""
    for process in processes:
        with suppress(psutil.Error):
            for member in (*process.children(recursive=True), process):
                member.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_ray_with_a_node_killed_in_the_middle(bench: Bench) -> None:
    with ray_cluster(bench.variables) as cluster:
        words = ("--executor", "ray", "--address", cluster.address)
        process = bench.start(*words, **cluster.variables)
        wait_until(lambda: len(bench.results()) >= bench.size.cells // 6, 600)
        before = bench.results()
        cluster.kill_a_node()
        assert process.wait(timeout=1800) == 0
        assert before and not bench.faults(before)


TINY = "bench --models mean,deeponet --datasets darcy --seeds 0 --track smoke --executor ray"


def test_a_ray_of_our_own_makes_missing_data_and_leaves_no_process(tmp_path: Path) -> None:
    done = gsnobench(*TINY.split(), "--home", str(tmp_path), "--json")
    assert [cell["state"] for cell in json.loads(done.stdout)["cells"]] == ["done", "done"]
    assert list(tmp_path.glob("data/**/*.nc"))
    token = tmp_path / "ray-token"
    assert token.stat().st_mode & 0o077 == 0
    wait_until(lambda: not ray_processes(token), 30)


def test_a_wrong_ray_token_is_one_line(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("f" * 64)
    token.chmod(0o600)
    with ray_cluster(QUIET) as cluster:
        words = (*TINY.split(), "--home", str(tmp_path), "--address", cluster.address)
        done = gsnobench(
            *words, expect=2, **{**cluster.variables, "RAY_AUTH_TOKEN_PATH": str(token)}
        )
    assert "refuses our token" in the_line(done)


@pytest.mark.parametrize("extra", [("--gpus", "64"), ("--memory", "1e9")])
def test_what_no_ray_node_has_is_refused_at_once(extra: tuple[str, str], tmp_path: Path) -> None:
    done = gsnobench(*TINY.split(), "--home", str(tmp_path), *extra, expect=2)
    assert "no node has" in the_line(done)


def the_line(ended: subprocess.CompletedProcess[str]) -> str:
    (line,) = ended.stderr.splitlines()
    return line
