"""`gsnobench ui`: MLflow's own pages on 127.0.0.1, with the leaderboards in them and links that
open the right page.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from gsnobench.errors import RunError
from gsnobench.tracking.address import Address

if TYPE_CHECKING:  # statistics take seconds to import, and the server starts meanwhile
    from gsnobench.boards.publish import StoredBoard

    Publisher = Callable[[Callable[[StoredBoard], None]], None]

HEADLINE = "metrics.`test/headline/rel_l2`"
# else a first visit meets MLflow's pages for language models
LAYOUT = "workflowType=machine_learning"
PATIENCE = 180.0  # seconds: a server takes about 15 to start, ten times that on a loaded machine

log = logging.getLogger("gsnobench.cli.ui")


def serve(
    home: Path,
    port: int,
    ready: Callable[[str], None],
    *,
    evidence: Sequence[Path] = (),
    opens_browser: bool = False,
) -> int:
    """Serve the store of a home until Ctrl-C; `ready` gets the address, then a line for each page
    worth opening.

    The boards of the evidence are brought up to date in the home's own store; what others share is
    left to `leaderboard publish`.
    """
    address = Address.of(home)
    if address is None:
        raise RunError(
            "ui: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it for "
            "SQLite"
        )
    if address.is_served:
        ready(address.label)  # a server stands before the store already
        return 0
    _require_free(port)
    url = f"http://127.0.0.1:{port}"
    with (
        tempfile.TemporaryFile() as journal,
        _interruptible(),
        _server(address, port, journal) as process,
    ):
        try:
            # read while the server starts, written when it has made the tables: two processes must
            # not both do that
            publish = _publisher(evidence if address.is_default else [], address)
            _await_health(process, url, journal)
            ready(url)
            _announce(url, ready, publish, opens_browser=opens_browser)
            process.wait()
        except KeyboardInterrupt:
            return 0
        raise RunError(
            f"ui: the MLflow server ended with code {process.returncode} ({_last_line(journal)}); "
            "start it again"
        )


def _publisher(evidence: Sequence[Path], address: Address) -> Publisher:
    """The boards of the evidence, ready to be written: reading them and importing MLflow take
    seconds.
    """
    if not evidence:
        return lambda report: None
    from gsnobench.boards.build import read_tracks
    from gsnobench.boards.publish import publish

    tracks, problems = read_tracks(evidence)
    for problem in problems:
        log.warning("skipped %s", problem)

    def write(report: Callable[[StoredBoard], None]) -> None:
        try:
            publish(tracks, address, report)
        except RunError as error:  # the runs can be browsed without the boards
            log.warning("%s", error)

    return write


def _announce(
    url: str, ready: Callable[[str], None], publish: Publisher, *, opens_browser: bool
) -> None:
    """A line for each page, those of new boards as soon as they are there; the browser gets the
    first page.
    """
    said: list[str] = []

    def say(line: str) -> None:
        if line in said:
            return
        said.append(line)
        ready(line)
        if opens_browser and len(said) == 1:
            webbrowser.open(line.split()[-1])

    publish(
        lambda shown: say(_board_line(url, shown.experiment, shown.experiment_id, shown.run_id))
    )
    for line in links(url):
        say(line)
    if opens_browser and not said:
        webbrowser.open(url)


def links(url: str) -> list[str]:
    """The pages of our experiments: leaderboards first, then charts with the best run first."""
    found = _ask(
        url, "experiments", {"max_results": 1000, "filter": "name LIKE 'gsnobench/%'"}
    ).get("experiments", [])
    names = {
        str(one["experiment_id"]): str(one["name"])
        for one in sorted(found, key=lambda one: str(one["name"]))
    }
    wanted = {
        "experiment_ids": list(names),
        "max_results": 1000,
        "filter": "tags.`gsnobench.kind` = 'leaderboard'",
    }
    runs = [one["info"] for one in _ask(url, "runs", wanted).get("runs", [])] if names else []
    boards = {str(one["experiment_id"]): str(one["run_id"]) for one in runs}
    pages = [
        _board_line(url, name, place, boards[place])
        for place, name in names.items()
        if place in boards
    ]
    return [
        *pages,
        *(
            f"charts       {name}  {url}/{_charts(place, place in boards)}"
            for place, name in names.items()
        ),
    ]


def _board_line(url: str, name: str, place: str, run: str) -> str:
    return f"leaderboard  {name}  {url}/#/experiments/{place}/runs/{run}/artifacts/leaderboard.html?{LAYOUT}"


def _charts(place: str, has_board: bool) -> str:
    """MLflow's chart page: the rows of the board where there is one, else all finished runs."""
    chosen = "tags.`gsnobench.kind` = 'summary'" if has_board else "attributes.status = 'FINISHED'"
    wanted = {
        "searchFilter": chosen,
        "orderByKey": HEADLINE,
        "orderByAsc": "true",
        "compareRunsMode": "CHART",
    }
    return f"#/experiments/{place}/runs?{urlencode(wanted, quote_via=quote)}&{LAYOUT}"


def _ask(url: str, kind: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """One search of MLflow's interface."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{url}/api/2.0/mlflow/{kind}/search", json.dumps(wanted).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise RunError(
                f"port {port}: cannot be used ({reason}); choose another one with --port"
            ) from None


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
    raise RunError(
        f"ui: the MLflow server {state} ({_last_line(journal)}); try `mlflow server` by hand to "
        "see more"
    )


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
