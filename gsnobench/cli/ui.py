"""`gsnobench ui`: MLflow's own pages on 127.0.0.1, with the leaderboards in them."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

import typer

from gsnobench.cli.options import HomeOption
from gsnobench.errors import RunError
from gsnobench.home import Home, open_home
from gsnobench.processes import start_guarded
from gsnobench.tracking.address import Address

if TYPE_CHECKING:  # statistics take seconds to import, and the server starts meanwhile
    from gsnobench.boards.publish import StoredBoard

    Publisher = Callable[[Callable[[StoredBoard], None]], None]

app = typer.Typer()

HEADLINE = "metrics.`test/headline/rel_l2`"
OVERVIEW, OVERVIEW_KIND = "gsnobench/overview", "overview"  # experiment, and word of its line
# without it, a first visit shows MLflow's pages for language models
LAYOUT = "workflowType=machine_learning"
PATIENCE = 180.0  # seconds: a server takes about 15 to start, ten times that on a loaded machine

log = logging.getLogger("gsnobench.cli.ui")


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 5000,
    opens_browser: Annotated[
        bool, typer.Option("--open", help="Also open the overview in a browser.")
    ] = False,
    shows_links: Annotated[
        bool, typer.Option("--links", help="Print the address of every board and chart too.")
    ] = False,
    home: HomeOption = None,
) -> int:
    """Serve the leaderboards and your runs as pages of MLflow."""
    from gsnobench.boards.evidence import evidence_folders

    folders = open_home(home)
    evidence = evidence_folders(folders)

    def ready(line: str) -> None:
        print(line, flush=True)

    choices = {"opens_browser": opens_browser, "shows_links": shows_links}
    return serve(folders.root, port, ready, evidence=evidence, **choices)


def serve(
    home: Path,
    port: int,
    ready: Callable[[str], None],
    *,
    evidence: Sequence[Path] = (),
    opens_browser: bool = False,
    shows_links: bool = True,
) -> int:
    """Serve the store of a home until Ctrl-C; `ready` gets the address, then one line per page.

    The boards of the evidence are brought up to date in the home's own store; a shared store is
    left to `leaderboard publish`.
    """
    address = Address.of(home)
    if address is None:
        raise RunError(
            "ui: tracking is turned off; set GSNOBENCH_TRACKING_URI to the store, or unset it for "
            "SQLite"
        )
    if address.is_served:
        ready(address.label)  # the store already has a server
        return 0
    _require_free(port)
    _prepare(address)
    url = f"http://127.0.0.1:{port}"
    with (
        tempfile.TemporaryFile() as journal,
        _interruptible() as requests,
        _server(address, port, journal) as process,
    ):
        try:
            # read while the server starts
            publish = _publisher(evidence if address.is_default else [], address)
            _await_health(process, url, journal)
            ready(url)
            _announce(url, ready, publish, opens_browser=opens_browser, shows_links=shows_links)
            process.wait()
        except KeyboardInterrupt:
            return 0
        except Exception:
            if requests:  # compiled code can make an error of its own out of an interrupt
                return 0
            raise
        raise RunError(
            f"ui: the MLflow server ended with code {process.returncode} ({_last_line(journal)}); "
            "start it again"
        )


def _prepare(address: Address) -> None:
    """A whole database, and a mirror for what dead processes did not bring to it."""
    from gsnobench.tracking.mirror import make_store
    from gsnobench.tracking.observer import ensure_mirror
    from gsnobench.tracking.spool import is_mirrored, spools

    make_store(address)
    if any(not is_mirrored(path) for path in spools(address.home)):
        ensure_mirror(address)


def _publisher(evidence: Sequence[Path], address: Address) -> Publisher:
    """A function that writes the boards of the evidence; to read them takes seconds."""
    if not evidence:
        return lambda report: None
    from gsnobench.boards.build import read_tracks
    from gsnobench.boards.publish import publish
    from gsnobench.boards.site.surroundings import Surroundings
    from gsnobench.cli.boards import installation

    tracks, problems = read_tracks(evidence, installation(Home(address.home)))
    for problem in problems:
        log.warning("skipped %s", problem)

    def write(report: Callable[[StoredBoard], None]) -> None:
        try:
            publish(tracks, address, report, Surroundings.of(evidence))
        except RunError as error:  # the runs can be browsed without the boards
            log.warning("%s", error)

    return write


def _announce(
    url: str,
    ready: Callable[[str], None],
    publish: Publisher,
    *,
    opens_browser: bool,
    shows_links: bool,
) -> None:
    """The overview as soon as it is written, all pages if wanted; the browser opens the first."""
    import webbrowser

    printed: list[str] = []

    def announce(line: str) -> None:
        if line in printed:
            return
        printed.append(line)
        ready(line)
        if opens_browser and len(printed) == 1:
            webbrowser.open(line.split()[-1])

    def announce_board(shown: StoredBoard) -> None:
        line = _board_line(url, shown.experiment, shown.experiment_id, shown.run_id)
        if shows_links or line.startswith(OVERVIEW_KIND):
            announce(line)

    publish(announce_board)
    lines = links(url)
    first = [line for line in lines if line.startswith(OVERVIEW_KIND)]
    for line in lines if shows_links or not first else first:
        announce(line)
    if first and not shows_links:
        ready(f"{len(lines) - len(first)} further pages: gsnobench ui --links prints them")
    if opens_browser and not printed:
        webbrowser.open(url)


def links(url: str) -> list[str]:
    """The pages of our experiments: overview, leaderboards, charts with the best run first."""
    names = {
        str(experiment["experiment_id"]): str(experiment["name"])
        for experiment in sorted(_experiments(url), key=lambda experiment: str(experiment["name"]))
    }
    boards = _board_runs(url, list(names)) if names else {}
    overviews = [experiment for experiment in boards if names[experiment] == OVERVIEW]
    order = [*overviews, *(experiment for experiment in boards if experiment not in overviews)]
    board_lines = [
        _board_line(url, names[experiment], experiment, boards[experiment]) for experiment in order
    ]
    chart_lines = [
        f"charts       {name}  {url}/{_charts(experiment, experiment in boards)}"
        for experiment, name in names.items()
        if experiment not in overviews
    ]
    return board_lines + chart_lines


def _experiments(url: str) -> list[dict[str, Any]]:
    query = {"max_results": 1000, "filter": "name LIKE 'gsnobench/%'"}
    return list(_search(url, "experiments", query).get("experiments", []))


def _board_runs(url: str, experiments: Sequence[str]) -> dict[str, str]:
    """Experiment -> the run that holds its leaderboard, in the order of the experiments."""
    runs: list[dict[str, Any]] = []
    for kind in ("leaderboard", "overview"):
        chosen = f"tags.`gsnobench.kind` = '{kind}'"
        query = {"experiment_ids": experiments, "max_results": 1000, "filter": chosen}
        runs += [run["info"] for run in _search(url, "runs", query).get("runs", [])]
    boards = {str(run["experiment_id"]): str(run["run_id"]) for run in runs}
    return {experiment: boards[experiment] for experiment in experiments if experiment in boards}


def _board_line(url: str, name: str, experiment: str, run: str) -> str:
    is_overview = name == OVERVIEW
    kind, file = (OVERVIEW_KIND, "overview") if is_overview else ("leaderboard", "leaderboard")
    page = f"#/experiments/{experiment}/runs/{run}/artifacts/{file}.html?{LAYOUT}"
    return f"{kind:11}  {name}  {url}/{page}"


def _charts(experiment: str, has_board: bool) -> str:
    """MLflow's chart page: the rows of the board where there is one, else all finished runs."""
    chosen = "tags.`gsnobench.kind` = 'summary'" if has_board else "attributes.status = 'FINISHED'"
    query = {
        "searchFilter": chosen,
        "orderByKey": HEADLINE,
        "orderByAsc": "true",
        "compareRunsMode": "CHART",
    }
    return f"#/experiments/{experiment}/runs?{urlencode(query, quote_via=quote)}&{LAYOUT}"


def _search(url: str, kind: str, query: Mapping[str, Any]) -> dict[str, Any]:
    """One search of MLflow's interface."""
    import urllib.request

    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{url}/api/2.0/mlflow/{kind}/search", json.dumps(query).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return dict(json.load(response))


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
    process = start_guarded(
        [sys.executable, "-m", "mlflow", "server", *options],
        env={**address.environment(), **settings},
        output=journal,
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
    import urllib.request

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
def _interruptible() -> Iterator[list[int]]:
    """A request to end, or the end of the terminal, acts like Ctrl-C; the requests so far."""
    requests: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        requests.append(number)
        raise KeyboardInterrupt

    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {kind: signal.signal(kind, interrupt) for kind in kinds}
    try:
        yield requests
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
