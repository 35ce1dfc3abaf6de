"""The MLflow observer: training goes on whatever the store, the disk or the server does."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from fake_run import SPEC, finish, train
from mlflow_store import client_of, forget_outer_store, history, runs_of, spooled

from gsnobench.cli.ui import serve
from gsnobench.errors import RunError
from gsnobench.files import lock
from gsnobench.records import RunResult
from gsnobench.tracking import observer
from gsnobench.tracking.address import Address
from gsnobench.tracking.mirror import lock_path, replay
from gsnobench.tracking.spool import spools

SUPPORT = Path(__file__).parents[1] / "support"
FULL_DISK = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fake_run import SPEC, train
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
train(Path(sys.argv[2]), SPEC, range(1, 200))
"""


@pytest.fixture(autouse=True)
def _no_outer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_outer_store(monkeypatch)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_two_runs_at_once_are_mirrored_with_curves_scores_knobs_and_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlruns").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(observer.WAIT_VARIABLE, "120")
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
        listed = [client.list_artifacts(run.info.run_id, below) for below in (None, "figures")]
        paths = {artifact.path for artifacts in listed for artifact in artifacts}
        assert paths == {"result.json", "figures", "figures/cases.png"}
    assert not any((tmp_path / "mlruns").iterdir()), "a stray ./mlruns changed the store"
    assert list((home / "mlartifacts").rglob("result.json"))


def test_an_unusable_home_is_a_warning_and_never_an_exception(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "runs" / "abc"
    with caplog.at_level(logging.WARNING):
        observer.gsnobench_run_started(SPEC, folder, {})
        observer.gsnobench_epoch_ended(SPEC, "fit", 1, {"loss": 1.0})
        observer.gsnobench_run_finished(RunResult(SPEC, "done"), folder)
    assert "this run is not tracked" in caplog.text


def test_a_full_disk_is_a_warning_and_training_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(SUPPORT), str(tmp_path)]
    environment = {**os.environ, "GSNOBENCH_TRACKING_URI": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tracking:") == 1 and "File too large" in done.stderr
    (path,) = spools(tmp_path)
    assert 0 < len(spooled(path)) < 3 * 199


def test_a_mirror_that_leaves_its_work_to_another_one_is_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The mirror of the start is still loading when the run ends, so a second one is started."""
    address = Address.of(tmp_path)
    assert address is not None
    spool = tmp_path / "spool" / "never-mirrored.jsonl"
    spool.parent.mkdir()
    spool.write_text("")
    monkeypatch.setenv(observer.WAIT_VARIABLE, "0.3")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        with caplog.at_level(logging.WARNING):
            with lock(lock_path(address)):
                observer._wait(address, ended, spool)
            assert caplog.text == ""
            observer._wait(address, ended, spool)
    assert "does not have all of this run" in caplog.text, "nobody is at work"


def test_tracking_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("GSNOBENCH_TRACKING_URI", "none")
    train(tmp_path, SPEC, range(1, 3))
    finish(tmp_path, SPEC)
    assert not (tmp_path / "spool").exists()
    with pytest.raises(RunError, match="turned off"):
        replay(tmp_path)


# ------------------------------------------------------------------------------------ a real server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """`gsnobench ui` in a process of its own."""

    def __init__(self, home: Path, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVING, str(home), str(port)],
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
        """At once, without any chance to clean up; what it started ends with it."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(started, timeout=30)
        assert started and not alive


SERVING = """
import sys
from pathlib import Path
from gsnobench.cli.ui import serve
sys.exit(serve(Path(sys.argv[1]), int(sys.argv[2]), lambda line: print(line, flush=True)))
"""
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
    ended = {"phase": "fit", "epoch": epoch, "scores": {"loss": 1 / epoch}}
    problems += notify(observers, "gsnobench_epoch_ended", spec=SPEC, **ended)
    times.append(time.perf_counter() - began)
    time.sleep(0.05)
began = time.perf_counter()
result = RunResult(SPEC, "done", scores={"test": {"headline": {"rel_l2": 0.5}}})
result.save(folder / "result.json")
problems += notify(observers, "gsnobench_run_finished", result=result, folder=folder)
end = time.perf_counter() - began
report = {"epochs": epoch, "times": sorted(times), "end": end, "problems": problems}
print(json.dumps({**report, "mlflow": "mlflow" in sys.modules}))
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
    environment = {**os.environ, "MLFLOW_TRACKING_URI": server.url, observer.WAIT_VARIABLE: "2"}
    command = [sys.executable, "-c", TRAINING, str(home), str(SUPPORT)]
    pipe = subprocess.PIPE
    training = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
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
    report = json.loads(output)
    assert report["problems"] == [] and not report["mlflow"]
    times = report["times"]
    assert times[len(times) // 2] < 0.005 and sum(times) < 0.02 * report["epochs"]
    assert report["end"] < 10
    assert "doctor --replay" in errors
    path = home / "spool" / f"{SPEC.short}.jsonl"
    (run,) = runs_of(store, SPEC)
    assert 0 < len(history(store, run)) < len(spooled(path)) == report["epochs"] + 1

    again = Server(store, port)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", again.url)
    replay(home)
    assert replay(home)["points"] == 0
    (run,) = runs_of(store, SPEC)
    assert run.info.status == "FINISHED"
    assert history(store, run) == spooled(path)
    assert again.process.stdout is not None
    assert again.process.stdout.readline().split()[:2] == ["charts", "gsnobench/smoke/darcy"]
    started = psutil.Process(again.process.pid).children(recursive=True)
    again.process.send_signal(signal.SIGHUP)  # the terminal is closed
    assert again.process.wait(timeout=30) == 0
    assert not psutil.wait_procs(started, timeout=30)[1]
