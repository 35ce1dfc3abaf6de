"""A tracking server with PostgreSQL behind it and a folder for artifacts, as docs/sweeps.md sets it
up: two hosts record there.

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
    words = [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
        "--artifacts-destination",
        str(artifacts),
    ]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", database, *words]
    silent = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    process = subprocess.Popen(
        command, env={**os.environ, **silent}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 240
        while True:
            assert process.poll() is None and time.monotonic() < deadline, (
                "the server did not start"
            )
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
    words = f"run --model gsno --dataset {file} --track smoke --seed {seed} --train.epochs {EPOCHS} --no-floors --home {home}"
    variables = {
        "GSNOBENCH_TRACKING_URI": url,
        "GSNOBENCH_TRACKING_WAIT": "120",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "gsnobench", *words.split()], env={**os.environ, **variables}
    )


def ask(url: str, path: str, **body: object) -> dict[str, list[dict[str, dict[str, object]]]]:
    request = urllib.request.Request(
        f"{url}/api/2.0/mlflow/{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def test_runs_of_two_homes_are_all_in_the_database_with_their_curves_and_artifacts(
    url: str, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "poisson.nc"
    write(
        file, steady(), provenance={"title": "Poisson on a square", "source": "P1 finite elements"}
    )
    hosts = [train(tmp_path / f"host{seed}", url, file, seed) for seed in range(2)]
    assert [host.wait(timeout=600) for host in hosts] == [0, 0]
    experiments = ask(url, "experiments/search", max_results=100, filter="name LIKE 'gsnobench/%'")[
        "experiments"
    ]
    assert len(experiments) == 1
    runs = ask(
        url, "runs/search", experiment_ids=[experiments[0]["experiment_id"]], max_results=100
    )["runs"]
    assert sorted(run["info"]["status"] for run in runs) == ["FINISHED", "FINISHED"]
    with psycopg.connect(database.replace("postgresql+psycopg", "postgresql")) as connection:
        curves = connection.execute(
            "SELECT run_uuid, count(*) FROM metrics WHERE key = 'fit/loss' GROUP BY run_uuid"
        ).fetchall()
    assert {count for _, count in curves} == {EPOCHS} and len(curves) == 2
    for run in runs:
        listed = f"{url}/api/2.0/mlflow/artifacts/list?run_id={run['info']['run_id']}"
        with urllib.request.urlopen(listed, timeout=30) as answer:
            names = {one["path"] for one in json.load(answer)["files"]}
        assert {"result.json", "spec.json", "figures"} <= names
