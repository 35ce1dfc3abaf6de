"""Two hosts and a matrix under kills record on a tracking server as docs/sweeps.md sets it up.

Needs the packages `pgserver` and `psycopg[binary]`, which `make test-extras` installs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pgserver
import psycopg
import pytest
from kills import kill_tree, start_again
from problems import steady

from gsnobench.datasets.store import write
from gsnobench.records import RunResult
from gsnobench.tracking.spool import read, spools

EPOCHS = 12


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    server = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE mlflow")
    yield server
    server.cleanup()


@pytest.fixture(scope="module")
def database(postgres: Any) -> str:
    with psycopg.connect(postgres.get_uri()) as connection:
        row = connection.execute("SHOW unix_socket_directories").fetchone()
    assert row is not None
    return f"postgresql+psycopg://postgres@/mlflow?host={row[0]}"


@dataclass(eq=False)
class Server:
    """The real tracking server, on a port of its own; it can be killed and started again."""

    database: str
    artifacts: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        options += ["--backend-store-uri", self.database]
        options += ["--artifacts-destination", str(self.artifacts)]
        command = [sys.executable, "-m", "mlflow", "server", *options]
        silent = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        environment, nowhere = {**os.environ, **silent}, subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere)
        wait_until(lambda: self.process is not None and self._answers(), 400)

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "the server did not start"
        try:
            urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """With all its workers, at once."""
        if self.process is not None and self.process.poll() is None:
            kill_tree(self.process.pid)
            self.process.wait()


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.3)


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(database, tmp_path_factory.mktemp("artifacts"), port)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "poisson.nc"
    provenance = {"title": "Poisson on a square", "source": "P1 finite elements"}
    write(path, steady(), provenance=provenance)
    return path


def start(words: str, url: str, wait_s: int = 120) -> subprocess.Popen[str]:
    variables = {"GSNOBENCH_TRACKING_URI": url, "GSNOBENCH_TRACKING_WAIT": str(wait_s)}
    return subprocess.Popen(
        [sys.executable, "-m", "gsnobench", *words.split()],
        env={**os.environ, **variables, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def post(url: str, path: str, **body: object) -> dict[str, list[dict[str, dict[str, object]]]]:
    """The JSON that the server returns to a request."""
    kind = {"Content-Type": "application/json"}
    content = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/{path}", content, kind)
    with urllib.request.urlopen(request, timeout=30) as response:
        return dict(json.load(response))


def stored_runs(url: str, experiments: str) -> list[dict[str, Any]]:
    """All runs of the experiments with names like this one."""
    query = {"max_results": 100, "filter": f"name LIKE '{experiments}'"}
    (experiment,) = post(url, "experiments/search", **query)["experiments"]
    query = {"max_results": 100, "experiment_ids": [experiment["experiment_id"]]}
    return list(post(url, "runs/search", **query)["runs"])


def test_runs_of_two_homes_are_all_in_the_database_with_their_curves_and_artifacts(
    server: Server, database: str, file: Path, tmp_path: Path, drawn: None
) -> None:
    hosts = []
    for seed in range(2):
        words = f"run --model gsno --dataset {file} --track smoke --seed {seed} --no-floors"
        words += f" --train.epochs {EPOCHS} --home {tmp_path / f'host{seed}'}"
        hosts.append(start(words, server.url))
    assert [host.wait(timeout=600) for host in hosts] == [0, 0]
    runs = stored_runs(server.url, "gsnobench/smoke/%")
    assert sorted(run["info"]["status"] for run in runs) == ["FINISHED", "FINISHED"]
    with psycopg.connect(database.replace("postgresql+psycopg", "postgresql")) as connection:
        curves = connection.execute(
            "SELECT run_uuid, count(*) FROM metrics WHERE key = 'fit/loss' GROUP BY run_uuid"
        ).fetchall()
    assert {count for _, count in curves} == {EPOCHS} and len(curves) == 2
    for run in runs:
        listed = f"{server.url}/api/2.0/mlflow/artifacts/list?run_id={run['info']['run_id']}"
        with urllib.request.urlopen(listed, timeout=30) as response:
            names = {file["path"] for file in json.load(response)["files"]}
        assert {"result.json", "spec.json", "figures"} <= names


def test_a_matrix_is_complete_and_told_once_when_database_and_server_are_killed_under_it(
    server: Server, postgres: Any, database: str, file: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    words = f"--models gsno@paper,ridge --datasets {file} --seeds 0,1 --track smoke --home {home}"
    bench = start(f"bench {words} --jobs 1 --json", server.url, wait_s=2)

    def is_further(count: int) -> bool:
        return bench.poll() is not None or len(list(home.glob("runs/*/result.json"))) >= count

    wait_until(lambda: is_further(1), 400)
    kill_tree(postgres.get_pid())  # the server lives, and has nothing to answer
    wait_until(lambda: is_further(2), 400)
    assert bench.poll() is None, "the matrix ended before the server could be killed"
    server.kill()
    out, _ = bench.communicate(timeout=900)
    assert bench.returncode == 0
    cells = json.loads(out)["cells"]
    assert cells and all(cell["state"] == "done" for cell in cells)
    results = [RunResult.load(path) for path in home.glob("results/**/*.json")]
    assert sorted(result.spec.short for result in results) == sorted(cell["key"] for cell in cells)

    start_again(postgres)
    server.start()
    replay = f"doctor --replay --json --home {home}"
    told = [start(replay, server.url).communicate(timeout=400)[0] for _ in range(2)]
    assert json.loads(told[1])["points"] == 0

    keys = sorted(result.spec.key for result in results)
    with psycopg.connect(database.replace("postgresql+psycopg", "postgresql")) as connection:
        runs = connection.execute(
            "SELECT run_uuid, value, status FROM runs JOIN tags USING (run_uuid) "
            "WHERE key = 'gsnobench.key' AND value = ANY(%s)",
            [keys],
        ).fetchall()
        points = connection.execute(
            "SELECT count(*), count(DISTINCT (run_uuid, key, step)) FROM metrics "
            "WHERE run_uuid = ANY(%s)",
            [[run for run, *_ in runs]],
        ).fetchone()
    assert sorted(key for _, key, _ in runs) == keys, "a run is lost or doubled"
    assert {status for *_, status in runs} == {"FINISHED"}
    spooled = [read(path) for path in spools(home)]
    expected = sum(len(spool.points) for spool in spooled if spool is not None)
    assert points == (expected, expected)


def test_a_dead_database_is_one_problem_and_not_minutes_of_warnings(tmp_path: Path) -> None:
    address = "postgresql+psycopg://bob:s3cret@127.0.0.1:1/x"
    done = subprocess.run(
        [sys.executable, "-m", "gsnobench", "doctor", "--json", "--home", str(tmp_path)],
        env={**os.environ, "GSNOBENCH_TRACKING_URI": address},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr == ""
    (problem,) = json.loads(done.stdout)["problems"]
    assert "127.0.0.1" in problem and "s3cret" not in done.stdout
