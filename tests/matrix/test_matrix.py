"""The matrix in real processes: cells run once; states, limits, estimates, comparison; kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stranger_plugins import forget_workers, make_strangers

from gsnobench.cli.app import main
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Limits
from gsnobench.home import Home, open_home
from gsnobench.matrix.executors import executor
from gsnobench.matrix.matrix import Choice, cell_of, make_data, matrix, run_cells
from gsnobench.plugins import load
from gsnobench.records import RunResult
from gsnobench.registry import read_registry
from gsnobench.runs.machine import Report


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The strangers' package in this process and, by the environment, in all that it starts."""
    variables = make_strangers(tmp_path_factory.mktemp("strangers"))
    variables["STRANGE_GRAVE"] = str(tmp_path_factory.mktemp("grave") / "grave")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        for folder in variables["PYTHONPATH"].split(os.pathsep):
            patch.syspath_prepend(folder)
        forget_workers()
        yield variables
    forget_workers()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, strangers: dict[str, str]) -> Path:
    """A home with the data of all tests, made once."""
    home = tmp_path_factory.mktemp("data")
    for task in ("heat", "heat_rough"):
        dataset = load("dataset", "heat")
        ensure(dataset, resolve(dataset, task, track="smoke"), home=home, jobs=1)
    return home


class Bench:
    """The command line on a home of its own, in this process."""

    def __init__(self, home: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys
        home.mkdir()
        (home / "data").symlink_to(data / "data")

    def command(self, verb: str, *words: str) -> list[str]:
        fixed = f"-m gsnobench {verb} --track smoke --home {self.home}"
        return [sys.executable, *fixed.split(), *words]

    def call(self, verb: str, *words: str, expect: int = 0) -> pytest.CaptureResult[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", self.command(verb, *words)[2:])
            with pytest.raises(SystemExit) as stop:
                main()
        printed = self.capsys.readouterr()
        assert int(stop.value.code or 0) == expect, printed.err[-2000:]
        return printed

    def cells(self, verb: str, *words: str, expect: int = 0) -> list[dict[str, Any]]:
        return list(json.loads(self.call(verb, *words, "--json", expect=expect).out)["cells"])


@pytest.fixture
def bench(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path / "home", data, capsys)


MATRIX = ("--models", "plain,mean", "--datasets", "heat,heat_rough", "--seeds", "0,1")


def test_every_cell_runs_once_and_a_closed_form_has_one_seed(bench: Bench) -> None:
    before = bench.cells("status", *MATRIX)
    assert len(before) == 2 * 2 + 2 and {cell["state"] for cell in before} == {"missing"}
    cells = bench.cells("bench", *MATRIX)
    assert {cell["state"] for cell in cells} == {"done"}
    assert all(0 < cell["rel_l2"] < 10 for cell in cells)
    written = _times(bench.home)
    assert len(written) == len(cells)
    assert bench.cells("bench", *MATRIX) == cells
    assert _times(bench.home) == written


def _times(home: Path) -> dict[Path, int]:
    """When each result was written."""
    return {path: path.stat().st_mtime_ns for path in home.glob("runs/*/result.json")}


def test_a_pool_and_a_single_process_have_the_same_results(
    bench: Bench, tmp_path: Path, data: Path
) -> None:
    pool = bench.cells("bench", *MATRIX)
    other = Bench(tmp_path / "alone", data, bench.capsys)
    assert pool == other.cells("bench", *MATRIX, "--executor", "local")


def test_failures_stay_with_their_reason_and_the_rest_goes_on(bench: Bench) -> None:
    words = ("--models", "broken,plain", "--datasets", "heat", "--seeds", "0")
    cells = {cell["row"]: cell for cell in bench.cells("bench", *words, expect=3)}
    assert cells["plain@default"]["state"] == "done"
    assert cells["broken@default"]["state"] == "failed"
    assert "ZeroDivisionError: by design" in cells["broken@default"]["reason"]
    again = {cell["row"]: cell["state"] for cell in bench.cells("bench", *words)}
    assert again == {"plain@default": "done", "broken@default": "failed"}
    assert bench.cells("bench", *words, "--only", "failed", expect=3)
    shown = bench.call("status", *words).out
    assert "broken@default on heat@2-5: failed, ZeroDivisionError: by design" in shown
    assert "--only failed" in shown


def test_a_cell_over_its_memory_limit_fails_alone(bench: Bench) -> None:
    words = ("--models", "hungry,plain", "--datasets", "heat", "--seeds", "0", "--memory", "1500")
    cells = {cell["row"]: cell for cell in bench.cells("bench", *words, expect=3)}
    assert cells["plain@default"]["state"] == "done"
    assert cells["hungry@default"]["state"] == "failed"
    assert cells["hungry@default"]["reason"].startswith("memory: ")


def test_a_cell_over_its_time_limit_fails(bench: Bench) -> None:
    words = ("--models", "sleepy", "--datasets", "heat", "--seeds", "0", "--seconds", "4")
    (cell,) = bench.cells("bench", *words, expect=3)
    assert (cell["state"], cell["reason"]) == ("failed", "time: over the limit of 4 s")


def test_a_process_that_dies_is_replaced(bench: Bench, strangers: dict[str, str]) -> None:
    (cell,) = bench.cells("bench", "--models", "mortal", "--datasets", "heat", "--seeds", "0")
    assert cell["state"] == "done" and Path(strangers["STRANGE_GRAVE"]).exists()


def test_refusals_are_evidence(bench: Bench) -> None:
    (cell,) = bench.cells("bench", "--models", "persistence", "--datasets", "disc", "--seeds", "0")
    assert cell["state"] == "declined" and cell["reason"]
    (path,) = bench.home.glob("results/smoke/disc/persistence@default/*.json")
    assert RunResult.load(path).status == "declined"


def test_a_copy_that_a_kill_left_out_is_written_again(bench: Bench) -> None:
    words = ("--models", "mean", "--datasets", "heat", "--seeds", "0", "--executor", "local")
    bench.cells("bench", *words)
    copies = [*bench.home.glob("results/**/*.json"), *bench.home.glob("runs/*/result.json")]
    assert len(copies) == 2
    content = copies[0].read_bytes()
    for path in copies:
        path.unlink()
        (cell,) = bench.cells("bench", *words)
        assert cell["state"] == "done" and path.read_bytes() == content


def test_a_changed_revision_makes_a_cell_stale_and_it_is_run_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--models", "plain", "--datasets", "heat", "--seeds", "0")
    bench.cells("bench", *words, "--executor", "local")
    monkeypatch.setenv("STRANGE_REVISION", "2")
    (cell,) = bench.cells("status", *words)
    assert (cell["state"], cell["reason"]) == ("stale", "revision changed")
    (cell,) = bench.cells("bench", *words, "--executor", "local")
    assert cell["state"] == "done"


def test_a_dry_run_estimates_from_earlier_cells_and_runs_nothing(bench: Bench) -> None:
    words = ("--models", "plain", "--datasets", "heat", "--seeds")
    (first,) = bench.cells("bench", *words, "0", "--dry-run")
    assert first["memory_mb"] is None and not list(bench.home.glob("runs/*/result.json"))
    bench.cells("bench", *words, "0")
    (second,) = bench.cells("bench", *words, "0,1", "--dry-run")
    assert second["seed"] == 1 and 0 < second["cpu_s"] < 60 and 50 < second["memory_mb"] < 5000


def test_a_damaged_result_stops_no_other_cell_and_is_mended_on_request(bench: Bench) -> None:
    words = ("--models", "plain", "--datasets", "heat", "--seeds", "0,1")
    whole = bench.cells("bench", *words)
    path = next(bench.home.glob("runs/*/result.json"))
    path.write_text(path.read_text()[:-200])
    states = {cell["state"]: cell["reason"] for cell in bench.cells("status", *words)}
    assert states.keys() == {"done", "failed"} and "--force repeats the run" in states["failed"]
    assert bench.cells("bench", *words, "--only", "failed") == whole


def test_evidence_of_two_folders_is_compared(bench: Bench, tmp_path: Path, data: Path) -> None:
    bench.cells("bench", "--models", "plain", "--datasets", "heat", "--seeds", "0,1")
    other = Bench(tmp_path / "other", data, bench.capsys)
    other.cells("bench", "--models", "plain", "--datasets", "heat", "--seeds", "0")
    results = str(other.home / "results")
    different = json.loads(bench.call("status", "--diff-against", results, "--json").out)
    assert [(cell["seed"], cell["there"]) for cell in different] == [(1, None)]
    ended = bench.call("status", "--diff-against", str(tmp_path / "nowhere"), expect=2)
    assert "no such folder" in ended.err


def test_committed_evidence_counts_as_done_and_is_not_copied(
    bench: Bench, tmp_path: Path, data: Path
) -> None:
    words = ("--models", "plain", "--datasets", "heat", "--seeds")
    (known,) = bench.cells("bench", *words, "0")
    elsewhere = Bench(tmp_path / "elsewhere", data, bench.capsys)
    committed = ("--results", str(bench.home / "results"))
    assert elsewhere.cells("status", *words, "0", *committed) == [known]
    cells = elsewhere.cells("bench", *words, "0,1", *committed)
    assert [cell["state"] for cell in cells] == ["done", "done"] and cells[0] == known
    assert len(_times(elsewhere.home)) == 1  # seed 1 alone


def test_data_seeds_are_columns_and_files_of_their_own(bench: Bench) -> None:
    words = ("--models", "mean", "--datasets", "heat", "--seeds", "0", "--data-seeds", "0,1")
    cells = bench.cells("bench", *words)
    assert [cell["data_seed"] for cell in cells] == [0, 1]
    assert cells[0]["rel_l2"] != cells[1]["rel_l2"]
    assert "heat@2-5 (data seed 1)" in bench.call("status", *words).out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--results", "nowhere"), "no such folder"),
        (("--data-seeds", "1,x"), "whole number"),
        (("--models", "gnso"), "gsno"),
        (("--datasets", "heet"), "heat"),
        (("--models", "plain@papr"), "no preset"),
        (("--seeds", "0,x"), "whole number"),
        (("--only", "done"), "cannot be run"),
        (("--executor", "rai"), "ray"),
        (("--executor", "pol"), "'pool'"),
        (("--executor", "local", "--memory", "100"), "pool"),
        (("--datasets", "mine.nc"), "no such file"),
    ],
)
def test_mistakes_are_one_line_before_anything_runs(
    bench: Bench, words: tuple[str, ...], line: str
) -> None:
    base = ("--models", "plain", "--datasets", "heat", "--seeds", "0")
    done = bench.call("bench", *base, *words, expect=2)
    assert line in done.err and len(done.err.strip().splitlines()) == 1
    assert not list(bench.home.glob("runs/*/result.json"))


@pytest.mark.parametrize(
    ("reply", "line"),
    [(b"HTTP/1.0 400 Bad Request\r\n", "another service listens there"), (b"", "timed out")],
)
def test_an_address_without_a_ray_cluster_is_refused_within_seconds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, reply: bytes, line: str
) -> None:
    monkeypatch.setattr("gsnobench_plugins.executors.ray.KNOCK_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as service:
        threading.Thread(target=_reply, args=(service, reply), daemon=True).start()
        address = f"127.0.0.1:{service.getsockname()[1]}"
        words = f"--models mean --datasets heat --seeds 0 --executor ray --address {address}"
        begun = time.monotonic()
        done = bench.call("bench", *words.split(), expect=2)
    assert f"no cluster at {address} ({line})" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert time.monotonic() - begun < 30


def _reply(service: socket.socket, reply: bytes) -> None:
    """A service that sends one reply to its first client, and keeps the connection."""
    connection, _ = service.accept()
    with connection:
        connection.sendall(reply)
        connection.recv(1000)
        time.sleep(5)


def test_a_killed_matrix_leaves_no_process_and_goes_on(bench: Bench) -> None:
    words = ("--models", "plain", "--datasets", "heat,heat_rough", "--seeds", "0,1", "--json")
    slow = {**os.environ, "STRANGE_SLEEP": "0.05"}
    process = subprocess.Popen(
        bench.command("bench", *words),
        env=slow,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait_for(lambda: list(bench.home.glob("runs/*/result.json")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_for(lambda: not _processes_of(bench.home))
    before = {path: path.read_bytes() for path in bench.home.glob("runs/*/result.json")}
    assert {cell["state"] for cell in bench.cells("bench", *words[:-1])} == {"done"}
    assert len(list(bench.home.glob("runs/*/result.json"))) == 4
    assert all(path.read_bytes() == content for path, content in before.items())


def test_ctrl_c_ends_cleanly(bench: Bench) -> None:
    words = ("--models", "plain", "--datasets", "heat", "--seeds", "0,1")
    slow = {**os.environ, "STRANGE_SLEEP": "0.5"}
    command = bench.command("bench", *words)
    process = subprocess.Popen(
        command, env=slow, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_ctrl_c
    )
    _wait_for(lambda: list(bench.home.glob("runs/*/spec.json")))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in errors and "Traceback" not in errors
    _wait_for(lambda: not _processes_of(bench.home))
    assert {cell["state"] for cell in bench.cells("status", *words)} == {"missing"}


def _heed_ctrl_c() -> None:
    """A process in the background of a shell inherits that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _wait_for(condition: Any, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def _processes_of(home: Path) -> list[int]:
    """Processes that have a file of this home open."""
    numbers = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            files = [os.readlink(link) for link in folder.iterdir()]
        except OSError:
            continue
        if any(name.startswith(str(home)) for name in files):
            numbers.append(int(folder.parent.name))
    return numbers


def test_windows_are_moved_where_a_task_has_one_to_move(tmp_path: Path) -> None:
    tasks = ("darcy", "swe", "airfoil", "nse@10-41")
    choice = Choice(models=("mean",), datasets=tasks, seeds=(0,), track="smoke", t_in=(1, 5))
    plans = matrix(choice, Home(tmp_path))
    names = sorted(plan.spec.task for plan in plans)
    assert names == ["airfoil@1-1", "darcy", "nse@10-41", "swe@1-50", "swe@5-46"]


def test_without_tasks_the_matrix_is_about_the_board_tasks(tmp_path: Path) -> None:
    choice = Choice(models=("persistence",), seeds=(0,), track="smoke")
    plans = matrix(choice, Home(tmp_path))
    tasks = [plan.task.base for plan in plans]
    assert tasks == list(read_registry().board_tasks)


def test_a_configuration_of_ours_is_shown_beside_that_of_the_paper(tmp_path: Path) -> None:
    def rows(track: str) -> list[str]:
        choice = Choice(models=("gsno", "deeponet", "mean"), datasets=("darcy",), track=track)
        return list(dict.fromkeys(plan.spec.row for plan in matrix(choice, Home(tmp_path))))

    assert rows("smoke") == ["gsno@plus", "gsno@compact", "deeponet@compact", "mean@default"]
    assert rows("paper") == ["gsno@paper", "deeponet@paper", "mean@default"]


def test_data_are_made_once_per_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        "gsnobench.runs.machine.ensure", lambda dataset, task, **_: made.append(task.id)
    )
    tasks = ("swe@1-50", "swe@5-46", "darcy")  # both windows read the same file
    choice = Choice(("mean", "persistence"), tasks, (0,), "smoke", data_seeds=(0, 1))
    home = open_home(tmp_path)
    make_data([cell_of(plan, home) for plan in matrix(choice, home)], home, Report())
    assert len(made) == 4 and made.count("darcy") == 2


def test_cells_on_a_file_find_it_whatever_runs_them(steady_file: Path, tmp_path: Path) -> None:
    home, choice = open_home(tmp_path), Choice(("mean",), (str(steady_file),), (0,), "smoke")
    cells = [cell_of(plan, home) for plan in matrix(choice, home)]
    (ended,) = run_cells(cells, executor("local"), Limits(home=tmp_path, jobs=1), home)
    assert ended.state == "done", ended.reason
