"""The MLflow observer against the real MLflow: SQLite, a real server, a real kill."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from fake_run import SPEC, finish, train
from mlflow import MlflowClient
from mlflow.entities import Run

from gsnobench.cli.ui import serve
from gsnobench.errors import RunError
from gsnobench.files import lock
from gsnobench.records import RunResult, RunSpec
from gsnobench.tracking import observer as tracking
from gsnobench.tracking.address import Address
from gsnobench.tracking.spool import read, spools


@pytest.fixture(autouse=True)
def _no_outer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GSNOBENCH_TRACKING_URI", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@contextmanager
def no_mirror(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if another process mirrored this home and were slow: the hooks then only write."""
    monkeypatch.setenv(tracking.WAIT_VARIABLE, "0")
    address = Address.of(home)
    assert address is not None
    with lock(address.home / "spool" / f".mirror-{address.id}.lock", patience=30) as is_ours:
        assert is_ours
        yield


def client_of(home: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{home / 'mlflow.db'}")


def runs_of(home: Path, spec: RunSpec) -> list[Run]:
    client = client_of(home)
    experiment = client.get_experiment_by_name(f"gsnobench/{spec.track}/{spec.task}")
    return (
        []
        if experiment is None
        else list(
            client.search_runs([experiment.experiment_id], f"tags.`gsnobench.key` = '{spec.key}'")
        )
    )


def history(home: Path, run: Run) -> list[tuple[str, int, float]]:
    client = client_of(home)
    points = [
        one for name in run.data.metrics for one in client.get_metric_history(run.info.run_id, name)
    ]
    return sorted((one.key, one.step, one.value) for one in points)


def spooled(path: Path) -> list[tuple[str, int, float]]:
    spool = read(path)
    assert spool is not None
    return sorted((one.name, one.step, one.value) for one in spool.points.values())


# ------------------------------------------------------------------------------------------- SQLite


def test_two_runs_at_once_are_mirrored_with_curves_scores_knobs_and_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlruns").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(tracking.WAIT_VARIABLE, "120")
    specs = [SPEC, replace(SPEC, seed=1)]
    for spec in specs:
        train(home, spec, range(1, 6))
    for spec in specs:
        finish(home, spec, environment={"python": "3.11", "cpu": {"cores": 2}})
    for spec in specs:
        (run,) = runs_of(home, spec)
        assert run.info.status == "FINISHED"
        assert run.info.run_name == f"gsno@plus seed {spec.seed}"
        assert history(home, run) == spooled(home / "spool" / f"{spec.short}.jsonl")
        assert run.data.metrics["test/headline/rel_l2"] == 0.125
        assert run.data.metrics["cost/train_s"] == 2.0
        assert run.data.params["model.k_s"] == "8" and run.data.params["data.psi"] == "exp"
        assert run.data.tags["model"] == "gsno" and run.data.tags["env.cpu.cores"] == "2"
        assert run.data.tags["gsnobench.status"] == "done"
        client = client_of(home)
        paths = {
            one.path
            for place in ("", "figures")
            for one in client.list_artifacts(run.info.run_id, place or None)
        }
        assert paths == {"result.json", "figures", "figures/cases.png"}
    assert not any((tmp_path / "mlruns").iterdir()), "a stray ./mlruns changed the store"
    assert list((home / "mlartifacts").rglob("result.json"))


def test_replay_brings_what_is_missing_and_the_second_one_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=2)
    with no_mirror(home, monkeypatch):
        train(home, spec, range(1, 4))
    tracking.replay(home)
    (run,) = runs_of(home, spec)
    assert run.info.status == "RUNNING" and len(history(home, run)) == 9
    with no_mirror(home, monkeypatch):
        for epoch in range(4, 1200):
            tracking.gsnobench_epoch_ended(spec, "fit", epoch, {"loss": 1.0 / epoch})
        finish(home, spec)
    assert tracking.replay(home)["points"] == 1196 + 4
    assert tracking.replay(home)["points"] == 0
    (run,) = runs_of(home, spec)
    assert run.info.status == "FINISHED"
    assert history(home, run) == spooled(home / "spool" / f"{spec.short}.jsonl")


def test_a_killed_and_resumed_run_stays_one_mlflow_run_without_doubled_points(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=3)
    script = (
        f"import sys, os, signal; sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})\n"
        + (
            "from pathlib import Path; from dataclasses import replace; import fake_run as t\n"
            f"t.train(Path({str(home)!r}), replace(t.SPEC, seed=3), range(1, 6)); os.kill(os.getpid(), "
            "signal.SIGKILL)"
        )
    )
    with no_mirror(home, monkeypatch):
        assert (
            subprocess.run([sys.executable, "-c", script], check=False).returncode
            == -signal.SIGKILL
        )
    tracking.replay(home)
    (run,) = runs_of(home, spec)
    assert (run.info.status, run.data.tags["gsnobench.status"]) == ("KILLED", "interrupted")
    with no_mirror(home, monkeypatch):
        train(home, spec, range(4, 9))  # from a checkpoint two epochs back
        finish(home, spec)
    tracking.replay(home)
    (run,) = runs_of(home, spec)
    assert (run.info.status, run.data.tags["gsnobench.status"]) == ("FINISHED", "done")
    assert [step for name, step, _ in history(home, run) if name == "fit/loss"] == list(range(1, 9))


@pytest.mark.parametrize(
    ("status", "expected"), [("diverged", "FAILED"), ("failed", "FAILED"), ("pruned", "KILLED")]
)
def test_a_run_that_did_not_end_well_says_so_in_mlflow(
    home: Path, monkeypatch: pytest.MonkeyPatch, status: str, expected: str
) -> None:
    spec = replace(SPEC, seed=10, model=status)
    with no_mirror(home, monkeypatch):
        train(home, spec, range(1, 2))
        finish(
            home,
            spec,
            status=status,
            reason="the loss was nan",
            scores={"test": {"u": {"rel_l2": float("nan")}}},
        )
    tracking.replay(home)
    (run,) = runs_of(home, spec)
    assert run.info.status == expected
    assert (
        run.data.tags["gsnobench.status"] == status
        and run.data.tags["reason"] == "the loss was nan"
    )


def test_a_repeated_run_becomes_a_second_mlflow_run_and_the_first_is_not_lost(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=4)
    with no_mirror(home, monkeypatch):
        for _ in range(2):
            train(home, spec, range(1, 3))
            finish(home, spec)
    tracking.replay(home)
    assert [run.info.status for run in runs_of(home, spec)] == ["FINISHED", "FINISHED"]


def test_a_spool_of_another_store_is_named_and_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=5)
    monkeypatch.setenv("GSNOBENCH_TRACKING_URI", f"sqlite:///{home / 'other.db'}")
    with no_mirror(home, monkeypatch):
        train(home, spec, range(1, 3))
        finish(home, spec)
    monkeypatch.delenv("GSNOBENCH_TRACKING_URI")
    assert f"{spec.short}.jsonl" in tracking.replay(home)["elsewhere"]
    assert runs_of(home, spec) == []


# ------------------------------------------------------------------------------------------ trouble


def test_an_unusable_home_is_a_warning_and_never_an_exception(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "runs" / "abc"
    with caplog.at_level(logging.WARNING):
        tracking.gsnobench_run_started(SPEC, folder, {})
        tracking.gsnobench_epoch_ended(SPEC, "fit", 1, {"loss": 1.0})
        tracking.gsnobench_run_finished(RunResult(SPEC, "done"), folder)
    assert "this run is not tracked" in caplog.text


def test_a_full_disk_is_a_warning_and_training_goes_on(tmp_path: Path) -> None:
    script = (
        f"import sys, resource, signal; sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})\n"
        + (
            "from pathlib import Path; import fake_run as t\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
            f"t.train(Path({str(tmp_path)!r}), t.SPEC, range(1, 200)); print('mlflow' in "
            "sys.modules)"
        )
    )
    environment = {**os.environ, "GSNOBENCH_TRACKING_URI": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tracking:") == 1 and "File too large" in done.stderr
    (path,) = spools(tmp_path)
    assert 0 < len(spooled(path)) < 3 * 199


def test_tracking_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("GSNOBENCH_TRACKING_URI", "none")
    train(tmp_path, SPEC, range(1, 3))
    finish(tmp_path, SPEC)
    assert not (tmp_path / "spool").exists()
    with pytest.raises(RunError, match="turned off"):
        tracking.replay(tmp_path)


def test_a_dead_store_is_one_line_for_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with no_mirror(tmp_path, monkeypatch):
        train(tmp_path, SPEC, range(1, 3))
        finish(tmp_path, SPEC)
    started = time.monotonic()
    with pytest.raises(RunError, match="cannot take") as error:
        tracking.replay(tmp_path)
    assert "\n" not in str(error.value)
    assert time.monotonic() - started < 30


def test_an_address_is_shown_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@host:5432/runs")
    address = Address.of(tmp_path)
    assert address is not None
    assert address.label == "postgresql://host:5432/runs"
    assert "secret" not in address.id


# ------------------------------------------------------------------------------------ a real server


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """`gsnobench ui` in a process of its own."""

    def __init__(self, home: Path, port: int) -> None:
        script = "import sys; from pathlib import Path; from gsnobench.cli.ui import serve\n" + (
            f"sys.exit(serve(Path({str(home)!r}), {port}, lambda line: print(line, flush=True)))"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # ignored where the tests run in the background
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url == f"http://127.0.0.1:{port}"

    def kill(self) -> None:
        """Without any chance to say goodbye."""
        for one in [
            *psutil.Process(self.process.pid).children(recursive=True),
            psutil.Process(self.process.pid),
        ]:
            one.kill()
        self.process.wait()


TRAINING = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from fake_run import SPEC, folder_of
from gsnobench.plugins import load_observers, notify
from gsnobench.records import RunResult
home, flag = Path(sys.argv[1]), Path(sys.argv[1]) / "killed"
observers, problems = load_observers()
folder, times, epoch, left = folder_of(home, SPEC), [], 0, 40
problems += notify(observers, "gsnobench_run_started", spec=SPEC, folder=folder, tags={})
while left:
    epoch, left = epoch + 1, left - flag.exists()
    began = time.perf_counter()
    problems += notify(observers, "gsnobench_epoch_ended", spec=SPEC, phase="fit", epoch=epoch, scores={"loss": 1 / epoch})
    times.append(time.perf_counter() - began)
    time.sleep(0.05)
began = time.perf_counter()
result = RunResult(SPEC, "done", scores={"test": {"headline": {"rel_l2": 0.5}}})
result.save(folder / "result.json")
problems += notify(observers, "gsnobench_run_finished", result=result, folder=folder)
ended = time.perf_counter() - began
told = {"epochs": epoch, "times": sorted(times), "end": ended, "problems": problems, "mlflow": "mlflow" in sys.modules}
print(json.dumps(told))
"""


def test_a_killed_server_neither_stops_nor_slows_training_and_replay_completes_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, home, port = tmp_path / "server", tmp_path / "home", free_port()
    store.mkdir()
    home.mkdir()
    server = Server(store, port)
    with pytest.raises(RunError, match=f"port {port}"):
        serve(tmp_path, port, print)
    environment = {**os.environ, "MLFLOW_TRACKING_URI": server.url, tracking.WAIT_VARIABLE: "2"}
    command = [
        sys.executable,
        "-c",
        TRAINING,
        str(home),
        str(Path(__file__).parents[1] / "support"),
    ]
    training = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 60
    while not (runs := runs_of(store, SPEC)) or not history(store, runs[0]):
        assert time.monotonic() < deadline and training.poll() is None, (
            "nothing was mirrored while the run went on"
        )
        time.sleep(0.3)
    server.kill()
    (home / "killed").touch()
    output, errors = training.communicate(timeout=60)
    assert training.returncode == 0, errors
    told = json.loads(output)
    assert told["problems"] == [] and not told["mlflow"]
    assert (
        told["times"][len(told["times"]) // 2] < 0.005
        and sum(told["times"]) < 0.02 * told["epochs"]
    )
    assert told["end"] < 10
    assert "doctor --replay" in errors
    path = home / "spool" / f"{SPEC.short}.jsonl"
    (run,) = runs_of(store, SPEC)
    assert 0 < len(history(store, run)) < len(spooled(path)) == told["epochs"] + 1

    again = Server(store, port)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", again.url)
    tracking.replay(home)
    assert tracking.replay(home)["points"] == 0
    (run,) = runs_of(store, SPEC)
    assert run.info.status == "FINISHED"
    assert history(store, run) == spooled(path)
    assert again.process.stdout is not None
    assert again.process.stdout.readline().split()[:2] == ["charts", "gsnobench/smoke/darcy"]
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(timeout=30) == 0
