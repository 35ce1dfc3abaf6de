"""Two hosts record on one tracking server with PostgreSQL, set up as in docs/sweeps.md.

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
from collections.abc import Iterator
from pathlib import Path

import pgserver
import psycopg
import pytest
from problems import steady

from gsnobench.datasets.store import write

EPOCHS = 12


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE mlflow")
        row = connection.execute("SHOW unix_socket_directories").fetchone()
        assert row is not None
    yield f"postgresql+psycopg://postgres@/mlflow?host={row[0]}"
    server.cleanup()


@pytest.fixture(scope="module")
def url(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real server, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    artifacts = tmp_path_factory.mktemp("artifacts")
    options = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    options += ["--backend-store-uri", database, "--artifacts-destination", str(artifacts)]
    command = [sys.executable, "-m", "mlflow", "server", *options]
    silent = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment, nowhere = {**os.environ, **silent}, subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere)
    try:
        deadline = time.monotonic() + 240
        while True:
            is_starting = process.poll() is None and time.monotonic() < deadline
            assert is_starting, "the server did not start"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def train(home: Path, url: str, file: Path, seed: int) -> subprocess.Popen[bytes]:
    words = f"run --model gsno --dataset {file} --track smoke --seed {seed} --no-floors"
    words += f" --train.epochs {EPOCHS} --home {home}"
    variables = {"GSNOBENCH_TRACKING_URI": url, "GSNOBENCH_TRACKING_WAIT": "120"}
    environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gsnobench", *words.split()]
    return subprocess.Popen(command, env=environment)


def post(url: str, path: str, **body: object) -> dict[str, list[dict[str, dict[str, object]]]]:
    """The JSON that the server returns to a request."""
    kind = {"Content-Type": "application/json"}
    content = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/{path}", content, kind)
    with urllib.request.urlopen(request, timeout=30) as response:
        return dict(json.load(response))


def test_runs_of_two_homes_are_all_in_the_database_with_their_curves_and_artifacts(
    url: str, database: str, tmp_path: Path, drawn: None
) -> None:
    file = tmp_path / "poisson.nc"
    provenance = {"title": "Poisson on a square", "source": "P1 finite elements"}
    write(file, steady(), provenance=provenance)
    hosts = [train(tmp_path / f"host{seed}", url, file, seed) for seed in range(2)]
    assert [host.wait(timeout=600) for host in hosts] == [0, 0]
    query = {"max_results": 100, "filter": "name LIKE 'gsnobench/%'"}
    (experiment,) = post(url, "experiments/search", **query)["experiments"]
    query = {"max_results": 100, "experiment_ids": [experiment["experiment_id"]]}
    runs = post(url, "runs/search", **query)["runs"]
    assert sorted(run["info"]["status"] for run in runs) == ["FINISHED", "FINISHED"]
    with psycopg.connect(database.replace("postgresql+psycopg", "postgresql")) as connection:
        curves = connection.execute(
            "SELECT run_uuid, count(*) FROM metrics WHERE key = 'fit/loss' GROUP BY run_uuid"
        ).fetchall()
    assert {count for _, count in curves} == {EPOCHS} and len(curves) == 2
    for run in runs:
        listed = f"{url}/api/2.0/mlflow/artifacts/list?run_id={run['info']['run_id']}"
        with urllib.request.urlopen(listed, timeout=30) as response:
            names = {file["path"] for file in json.load(response)["files"]}
        assert {"result.json", "spec.json", "figures"} <= names
