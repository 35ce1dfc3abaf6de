"""Whole commands killed at random moments: the same command then ends as if nothing had been.

A command is a child that is forked after everything is imported, so that a kill costs no start of
an interpreter and hits its work.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from campaign import (
    COUNTS,
    SIZE,
    drawer,
    free_port,
    half_written,
    how_many,
    import_all,
    modules_of,
)
from command_line import run_folder
from fake_results import made_evidence
from kills import kill_tree, start_again
from problems import steady

from gsnobench.cli.app import main, make_app
from gsnobench.datasets.store import open_file
from gsnobench.datasets.task_json import task_to_json
from gsnobench.files import digest, left_over
from gsnobench.records import RunResult
from gsnobench.registry import registry_path
from gsnobench.sweeps.trials import open_storage
from gsnobench.tracking.address import DATABASE, Address
from gsnobench.tracking.mirror import make_store
from gsnobench.tracking.spool import is_mirrored, spools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]
SMOKE = ["--track", "smoke", "--device", "cpu"]
# what commands import in their functions
IMPORTED = tuple(
    f"gsnobench.{name}"
    for name in ("runs.stages", "runs.trained", "sweeps.conduct", "boards.build", "boards.publish")
)
DOWNLOADED = bytes(range(256)) * 40_000


@dataclass(frozen=True)
class Place:
    """The folders of one round."""

    home: Path
    data: Path  # a file in order
    arrays: Path
    task: Path
    evidence: Path
    run: Path  # a finished run of another home
    store: Path  # a database of MLflow without a run
    database: str = ""  # the address of a PostgreSQL server's database

    @property
    def out(self) -> Path:
        return self.home / "out"


@dataclass(frozen=True)
class Verb:
    """A command, what it leaves, and how often it is killed in the whole campaign."""

    kills: int
    words: Callable[[Place], list[str]]
    outcome: Callable[[Place], str]
    is_tracked: bool = False
    is_refused_when_done: bool = False  # it writes to a new folder alone
    variables: dict[str, str] = field(default_factory=dict)
    patience_s: float = 60.0  # until what a killed command has started has ended


# ----------------------------------------------------------------------------------- what is left


def scores(place: Place) -> str:
    """All results of a home by key, without what one machine alone knows."""
    found = sorted(place.home.glob("results/**/*.json"))
    results = [RunResult.load(path) for path in found]
    keys = [result.spec.key for result in results]
    assert keys and len(keys) == len(set(keys)), "a result is lost or doubled"
    return digest([[each.spec.key, each.status, each.scores, each.samples] for each in results])


def tracked_scores(place: Place) -> str:
    """The same, and the record of every run in the home's own store: once, with every value."""
    replay = Verb(0, lambda _: ["doctor", "--replay"], scores, is_tracked=True)
    until(lambda: not mirrors(place.home), 900)  # on a loaded machine a new store takes minutes
    finish(replay, place)
    assert all(map(is_mirrored, spools(place.home)))
    with sqlite3.connect(place.home / "mlflow.db") as store:
        runs = store.execute(
            "SELECT status, value FROM runs JOIN tags USING (run_uuid) WHERE key = 'gsnobench.key'"
        ).fetchall()
        values = store.execute(
            "SELECT key, step, value, count(*) FROM metrics WHERE key NOT LIKE '%cost/%' "
            "AND key NOT LIKE '%\\_s' ESCAPE '\\' GROUP BY run_uuid, key, step ORDER BY key, step"
        ).fetchall()
    assert runs and all(status == "FINISHED" for status, _ in runs), runs
    assert all(count == 1 for *_, count in values), "a metric is doubled"
    return digest([scores(place), sorted(runs), values])


def trials(place: Place) -> str:
    """The points of a sweep and their errors, each once, and the results of the winner."""
    import optuna

    storage = open_storage(place.database, place.home / "studies" / place.home.name)
    study = optuna.load_study(study_name=place.home.name, storage=storage)
    complete = [trial for trial in study.get_trials() if trial.state.name == "COMPLETE"]
    points = sorted([sorted(trial.params.items()), trial.values] for trial in complete)
    return digest([points, scores(place)])


def data_files(place: Place) -> str:
    hashes = []
    for path in sorted(place.home.rglob("*.nc")):
        with open_file(path) as opened:
            hashes.append([path.name, opened.content_hash])
    assert hashes
    return digest(hashes)


def written(*endings: str) -> Callable[[Place], str]:
    """What is in the files that a command was told to write."""

    def read(place: Place) -> str:
        files = [path for path in sorted(place.out.rglob("*")) if path.suffix in endings]
        assert files
        names = [path.relative_to(place.out).as_posix() for path in files]
        contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        return digest([names, contents])

    return read


def predictions(place: Place) -> str:
    with open_file(place.out / "predicted.nc") as opened:
        return opened.content_hash


def boards_in_store(place: Place) -> str:
    """Published boards: experiments, and how many runs of each kind and name they have."""
    with sqlite3.connect(place.home / "mlflow.db") as store:
        rows = store.execute(
            "SELECT experiments.name, runs.name, value FROM runs JOIN experiments USING "
            "(experiment_id) JOIN tags USING (run_uuid) WHERE key = 'gsnobench.kind' "
            "AND runs.lifecycle_stage = 'active'"  # MLflow keeps what was removed in its bin
        ).fetchall()
    assert rows and len(rows) == len(set(rows)), "a board is lost or doubled"
    return digest(sorted(map(list, rows)))


# ---------------------------------------------------------------------------------------- commands


def run_words(model: str, place: Place) -> list[str]:
    steps = [] if model == "mean" else ["--train.steps", "6"]
    given = ["--model", model, "--dataset", str(place.data), "--no-floors"]
    return ["run", *given, *SMOKE, *steps]


def generate_words(place: Place) -> list[str]:
    return ["data", "generate", "darcy", "--track", "smoke", "--jobs", "1"]


def import_words(place: Place) -> list[str]:
    given = ["--from", str(place.arrays), "--task", str(place.task)]
    return ["data", "import", str(place.out / "mine.nc"), *given]


def export_words(place: Place) -> list[str]:
    return ["data", "export", str(place.data), "--out", str(place.out / "a"), "--format", "npy"]


def predict_words(place: Place) -> list[str]:
    given = ["--inputs", str(place.data), "--out", str(place.out / "predicted.nc")]
    return ["predict", str(place.run), *given, "--device", "cpu"]


def bench_words(place: Place, *engine: str) -> list[str]:
    given = ["--models", "mean,ridge,modal", "--datasets", str(place.data), "--jobs", "1"]
    return ["bench", *given, *SMOKE, *engine]


def sweep_words(place: Place) -> list[str]:
    storage = ["--storage", place.database] if place.database else []
    given = ["--model", "gsno", "--preset", "paper", "--dataset", str(place.data)]
    search = ["--over", "model.k_s=4..16", "--trials", "3", "--train.steps", "2"]
    search += ["--name", place.home.name, "--refit-top", "1", "--refit-seeds", "0"]
    return ["sweep", *given, *search, "--track", "smoke", *storage]


def study_words(place: Place) -> list[str]:
    given = ["--dataset", str(place.data), "--models", "ridge,mean", "--samples", "4,8"]
    return ["study", "data", *given, "--track", "smoke", "--executor", "local"]


def build_words(place: Place) -> list[str]:
    return ["leaderboard", "build", "--results", str(place.evidence), "--out", str(place.out)]


def publish_words(place: Place) -> list[str]:
    return ["leaderboard", "publish", "--results", str(place.evidence)]


def download_words(place: Place) -> list[str]:
    return ["data", "download", "toy", "--to", str(place.out)]


def ray_words(place: Place) -> list[str]:
    return bench_words(place, "--executor", "ray")


SLURM = ("--executor", "slurm", "--address", "local")
VERBS = {
    "run": Verb(60, partial(run_words, "gsno"), scores),
    "run, tracked": Verb(15, partial(run_words, "mean"), tracked_scores, is_tracked=True),
    "data generate": Verb(30, generate_words, data_files),
    "data import": Verb(40, import_words, data_files),
    "data export": Verb(30, export_words, written(".npy", ".json"), is_refused_when_done=True),
    "data download": Verb(25, download_words, written(".bin")),
    "predict": Verb(30, predict_words, predictions),
    "bench": Verb(20, bench_words, scores),
    "bench on SLURM's stand-in": Verb(6, lambda place: bench_words(place, *SLURM), scores),
    # Ray's agents look whether their node lives once they have started, which takes a minute here
    "bench on Ray": Verb(4, ray_words, scores, patience_s=240.0),
    "sweep": Verb(15, sweep_words, trials),
    "sweep in PostgreSQL": Verb(6, sweep_words, trials),
    "study": Verb(20, study_words, scores),
    "leaderboard build": Verb(25, build_words, written(".md", ".csv")),
    "leaderboard publish": Verb(20, publish_words, boards_in_store, is_tracked=True),
}
UI_ROUNDS = 7
FRESH = 3  # every such round of a tracked command begins without a store, to make which takes long


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
    run = run_folder("mean", steady_file, folder / "other")
    make_app()
    import_all((*IMPORTED, "mlflow", "optuna"))
    store = Address(folder / "ready", f"sqlite:///{folder / 'ready' / DATABASE}", is_default=True)
    maker = multiprocessing.get_context("fork").Process(target=make_store, args=(store,))
    maker.start()
    maker.join()
    stored = store.home / DATABASE
    given = (folder / "a.npz", folder / "task.json", folder / "evidence", run, stored)
    return Place(folder, steady_file, *given)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pgserver = pytest.importorskip("pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    yield server
    server.cleanup()


@pytest.fixture
def database(postgres: Any) -> str:
    return str(postgres.get_uri().replace("postgresql://", "postgresql+psycopg://"))


@pytest.fixture
def public_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server of this machine has the public task `toy`, and needs its time to send it."""

    class Handler(SimpleHTTPRequestHandler):
        def copyfile(self, source: Any, outputfile: Any) -> None:
            while block := source.read(1 << 16):
                outputfile.write(block)
                time.sleep(0.01)

        def log_message(self, *words: object) -> None:
            """Nothing on stderr."""

    served = tmp_path / "served"
    served.mkdir()
    (served / "x.bin").write_bytes(DOWNLOADED)
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served)))
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http.server_port}/x.bin"
    entry = f'[public.toy]\nlicence = "CC0"\ntried = true\nfiles = [{{name="x.bin", url="{url}"}}]'
    own = tmp_path / "registry.toml"
    own.write_text(f"{registry_path().read_text()}\n{entry}\n")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("gsnobench.registry.registry_path", lambda: own)
    yield
    http.shutdown()
    http.server_close()


@pytest.mark.parametrize("name", VERBS)
def test_a_killed_command_is_completed_by_the_same_command(
    name: str, given: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    verb, draw, address = VERBS[name], drawer("process kills", name), ""
    if name == "data download":
        request.getfixturevalue("public_file")
    if name == "bench on Ray" and find_spec("ray") is None:
        pytest.skip("Ray is not installed")  # not imported here: it would read its token too soon
    if name == "sweep in PostgreSQL":
        address = request.getfixturevalue("database")
    import_all(modules_of(lambda: _command(verb, at(given, tmp_path / "imported", address))))
    whole = at(given, tmp_path / "whole", address)
    began = time.monotonic()
    finish(verb, whole)
    longest, expected = [time.monotonic() - began] * FRESH, verb.outcome(whole)
    if verb.is_tracked:
        ready, began = at(given, tmp_path / "ready", address, has_store=True), time.monotonic()
        finish(verb, ready)
        longest[1:] = [time.monotonic() - began] * (FRESH - 1)
        assert verb.outcome(ready) == expected
    wanted, killed = how_many(SIZE, verb.kills), 0
    for number in range(3 * wanted):
        if killed >= wanted:
            break
        has_store = verb.is_tracked and number % FRESH > 0
        place = at(given, tmp_path / f"cut{number}", address, has_store=has_store)
        kills = sum(
            kill_at(verb, place, draw.uniform(0.0, 1.0) * longest[number % FRESH])
            for _ in range(draw.choice((1, 2, 3)))
        )
        killed += kills
        if verb.is_tracked and draw.random() < 0.5:
            kill_mirror(place, draw.uniform(0.0, 8.0))
        finish(verb, place)
        assert verb.outcome(place) == expected, f"{name}: round {number}"
        left = half_written([*left_over(place.home), *place.home.rglob(".tmp*")])
        assert not left, f"{name}: left {left}"
        COUNTS[f"process kills: {name}", "rounds with the same result"] += 1
        COUNTS[f"process kills: {name}", "kills"] += kills
        shutil.rmtree(place.home)


def at(given: Place, home: Path, database: str = "", *, has_store: bool = False) -> Place:
    home.mkdir()
    if has_store:
        shutil.copy(given.store, home)
    return replace(given, home=home, database=database)


def started(verb: Verb, place: Place) -> BaseProcess:
    """A child that is the command; what it prints is in the file `printed` of its home."""
    process = multiprocessing.get_context("fork").Process(target=_command, args=(verb, place))
    process.start()
    return process


def _command(verb: Verb, place: Place) -> None:
    """The life of the child."""
    printed = os.open(place.home / "printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ |= {"GSNOBENCH_HOME": str(place.home), "GSNOBENCH_CHECKPOINT_S": "0"}
    os.environ["GSNOBENCH_TRACKING_URI"] = "" if verb.is_tracked else "none"
    os.environ |= verb.variables
    sys.argv = ["gsnobench", *verb.words(place)]
    main()


def kill_at(verb: Verb, place: Place, seconds: float) -> bool:
    """Kill the command alone; what it started must end by itself. False if it was faster."""
    process = started(verb, place)
    process.join(seconds)
    if process.exitcode is not None:
        return False
    children = psutil.Process(process.pid).children(recursive=True)
    # the mirror outlives its run on purpose
    children = [child for child in children if child not in mirrors(place.home)]
    process.kill()
    process.join()
    alive = psutil.wait_procs(children, timeout=verb.patience_s)[1]
    assert not alive, f"orphans: {alive}"
    return True


def mirrors(home: Path) -> list[psutil.Process]:
    """The processes that bring the records of a home to its store, also one that starts up."""
    words = ("gsnobench.tracking.mirror", str(home.resolve()))
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.cmdline()[-2:] == [*words]:
                found.append(process)
    return found


def kill_mirror(place: Place, seconds: float) -> None:
    """Kill the process that makes and fills the store, anywhere in its work."""
    time.sleep(seconds)
    for process in mirrors(place.home):
        process.kill()
        process.wait()
        COUNTS["process kills: mirror of the tracking", "kills"] += 1


def finish(verb: Verb, place: Place) -> None:
    """Run the command to its end."""
    process = started(verb, place)
    process.join()
    printed = (place.home / "printed").read_text()
    is_done = process.exitcode == 2 and "exists and is not an empty folder" in printed
    assert process.exitcode == 0 or (verb.is_refused_when_done and is_done), printed


# ----------------------------------------------------------------------------------------------- ui


def test_a_killed_ui_leaves_no_server_and_a_whole_store(given: Place, tmp_path: Path) -> None:
    draw = drawer("process kills", "ui")
    for number in range(how_many(SIZE, UI_ROUNDS)):
        has_store, port = number % FRESH > 0, free_port()
        place = at(given, tmp_path / f"ui{number}", has_store=has_store)
        verb = Verb(0, lambda _, port=port: ["ui", "--port", str(port)], scores, is_tracked=True)
        # the tables of a new store, the start of the server, the boards, and later
        for _ in range(2):
            assert kill_at(verb, place, draw.uniform(0.5, 20.0))
        process = started(verb, place)
        until(lambda port=port, process=process: process.exitcode is None and answers(port), 300)
        children = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, draw.choice((signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)))
        process.join()
        alive = psutil.wait_procs(children, timeout=60)[1]
        assert not alive and not answers(port), f"orphans: {alive}"
        COUNTS["process kills: ui", "kills"] += 3
        COUNTS["process kills: ui", "rounds with the same result"] += 1
        shutil.rmtree(place.home)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except OSError:
        return False


def until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)


# ------------------------------------------------------------------------------------------- faults


def test_a_sweep_goes_on_after_its_database_was_killed(
    given: Place, tmp_path: Path, postgres: Any, database: str
) -> None:
    draw, verb = drawer("database"), VERBS["sweep in PostgreSQL"]
    whole = at(given, tmp_path / "undisturbed", database)  # the name of its study as well
    began = time.monotonic()
    finish(verb, whole)
    longest, expected = time.monotonic() - began, verb.outcome(whole)
    for number in range(how_many(SIZE, 5)):
        place = at(given, tmp_path / f"dead{number}", database)
        process = started(verb, place)
        process.join(draw.uniform(0.2, 0.8) * longest)
        is_early = process.exitcode is None
        kill_tree(postgres.get_pid())
        process.join(300)
        printed = (place.home / "printed").read_text()
        assert process.exitcode in ((2,) if is_early else (0,)), printed
        assert "Traceback" not in printed, printed
        start_again(postgres)
        finish(verb, place)
        assert verb.outcome(place) == expected
        COUNTS["killed database in mid-sweep", "same result" if is_early else "too late"] += 1


def test_the_same_run_in_two_processes_is_one_run(given: Place, tmp_path: Path) -> None:
    verb = VERBS["run"]
    finish(verb, whole := at(given, tmp_path / "whole"))
    for number in range(how_many(SIZE, 20)):
        place = at(given, tmp_path / f"twins{number}")
        pair = [started(verb, place) for _ in range(2)]
        for process in pair:
            process.join()
        assert [process.exitcode for process in pair] == [0, 0]
        assert scores(place) == scores(whole)
        COUNTS["twin processes", "one result"] += 1


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
            ballast.write_bytes(bytes(draw.randrange(7_200_000, 8_200_000)))
            process = started(verb, place)
            process.join()
            printed = (place.home / "printed").read_text()
            lines = [line for line in printed.splitlines() if "gsnobench: " in line]
            assert process.exitcode in (0, 2) and "Traceback" not in printed, printed
            assert process.exitcode == 0 or len(lines) == 1, printed
            ballast.unlink()
            finish(verb, place)
            assert scores(place) == scores(whole)
            COUNTS["full disk", "one line" if process.exitcode else "enough"] += 1
            shutil.rmtree(place.home)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
