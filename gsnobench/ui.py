"""`gsnobench ui`: MLflow's own pages on 127.0.0.1, with links that open each experiment sorted by the headline error."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlencode

from gsnobench.address import Address
from gsnobench.errors import RunError

HEADLINE = "metrics.`test/headline/rel_l2`"
PATIENCE = 180.0  # seconds: a server takes about 15 to start, ten times that on a loaded machine


def serve(home: Path, port: int, ready: Callable[[str], None]) -> int:
    """Serve the store of a home until Ctrl-C; `ready` gets the address, then one line for each experiment."""
    address = Address.of(home)
    if address is None:
        raise RunError("ui: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it for SQLite")
    if address.is_served:
        ready(address.label)  # a server stands before the store already
        return 0
    _require_free(port)
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as journal, _interruptible(), _server(address, port, journal) as process:
        try:
            _await_health(process, url, journal)
            ready(url)
            for line in links(url):
                ready(line)
            process.wait()
        except KeyboardInterrupt:
            return 0
        raise RunError(f"ui: the MLflow server ended with code {process.returncode} ({_last_line(journal)}); start it again")


def links(url: str) -> list[str]:
    """One line for each of our experiments: its name and the address that shows it best run first."""
    body = json.dumps({"max_results": 1000, "filter": "name LIKE 'gsnobench/%'"}).encode()
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/experiments/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        experiments = json.load(answer).get("experiments", [])
    wanted = {"searchFilter": "attributes.status = 'FINISHED'", "orderByKey": HEADLINE, "orderByAsc": "true"}
    query = urlencode({**wanted, "compareRunsMode": "CHART"}, quote_via=quote)
    return [
        f"{one['name']}  {url}/#/experiments/{one['experiment_id']}/runs?{query}"
        for one in sorted(experiments, key=lambda one: str(one["name"]))
    ]


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise RunError(f"port {port}: cannot be used ({reason}); choose another one with --port") from None


@contextmanager
def _server(address: Address, port: int, journal: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The server process; it and all its workers are ended with the block."""
    options = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    settings = {
        "MLFLOW_BACKEND_STORE_URI": address.uri,  # may hold a password, so it is not an argument
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": address.artifacts.as_uri(),
        "MLFLOW_ARTIFACTS_DESTINATION": address.artifacts.as_uri(),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves a process of 266 MB
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", *options],
        env={**address.environment(), **settings},
        stdin=subprocess.DEVNULL,
        stdout=journal,
        stderr=journal,
        start_new_session=True,  # Ctrl-C reaches us alone, and we end the whole group
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _await_health(process: subprocess.Popen[bytes], url: str, journal: IO[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    state = "did not answer" if process.poll() is None else f"ended with code {process.returncode}"
    raise RunError(f"ui: the MLflow server {state} ({_last_line(journal)}); try `mlflow server` by hand to see more")


def _last_line(journal: IO[bytes]) -> str:
    journal.seek(0)
    lines = journal.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Being asked to end is like Ctrl-C: the server must not outlive us."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
