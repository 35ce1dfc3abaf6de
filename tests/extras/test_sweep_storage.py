"""Forty trials by two workers, one of them killed, on a journal, SQLite and a real PostgreSQL.

Needs the packages `pgserver` and `psycopg[binary]`, which `make test-extras` installs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pgserver
import psycopg
import pytest
from problems import steady

from gsnobench.datasets.store import write
from gsnobench.home import open_home
from gsnobench.runs.request import Request
from gsnobench.sweeps.search import make_search, open_trials
from gsnobench.sweeps.space import suggest

TRIALS = 40
PASSWORD = "right-horse"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "poisson.nc"
    write(
        path, steady(), provenance={"title": "Poisson on a square", "source": "P1 finite elements"}
    )
    return path


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fresh database that wants a password."""
    server = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE sweeper LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("CREATE DATABASE sweeps OWNER sweeper")
        row = connection.execute("SHOW unix_socket_directories").fetchone()
        assert row is not None
        hba = connection.execute("SHOW hba_file").fetchone()
        assert hba is not None
        rules = Path(hba[0])
        rules.write_text("local sweeps sweeper scram-sha-256\n" + rules.read_text())
        connection.execute("SELECT pg_reload_conf()")
    yield f"postgresql+psycopg://sweeper:{PASSWORD}@/sweeps?host={row[0]}"
    server.cleanup()


def command(file: Path, home: Path, storage: str, trials: int = TRIALS) -> list[str]:
    words = f"sweep --model gsno --preset paper --dataset {file} --track smoke --name forty"
    words += f" --over model.k_s=4..64,model.k_t=1..16 --trials {trials} --workers 2"
    words += f" --train.steps 3 --refit-top 2 --refit-seeds 0,1 --home {home} --json"
    stored = ["--storage", storage] if storage else []
    return [sys.executable, "-m", "gsnobench", *words.split(), *stored]


def environment(tracking: str = "none") -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "GSNOBENCH_TRACKING_URI": tracking}


def kill_one(home: Path, after: int, process: subprocess.Popen[str]) -> None:
    """SIGKILL to a worker that has just begun a trial."""
    while process.poll() is None:
        for path in home.glob("studies/forty/running/*.lock"):
            with suppress(FileNotFoundError, IndexError, ValueError):
                if int(path.stem) >= after:
                    os.kill(int(path.read_text().split()[1]), signal.SIGKILL)
                    return
        time.sleep(0.002)
    pytest.fail("the sweep ended before a worker could be killed")


def states(home: Path, storage: str) -> list[str]:
    import optuna

    from gsnobench.sweeps.trials import open_storage

    study = optuna.load_study(
        study_name="forty", storage=open_storage(storage, home / "studies" / "forty")
    )
    trials = study.get_trials()
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    by_key: dict[str, set[float]] = {}
    for trial in complete:
        assert {"model.k_s", "model.k_t"} == set(trial.params) and trial.value > 0
        by_key.setdefault(trial.user_attrs["key"], set()).add(trial.value)
    # a point that came twice was trained once
    assert all(len(values) == 1 for values in by_key.values())
    assert len(by_key) == len({tuple(sorted(trial.params.items())) for trial in complete})
    return [trial.state.name for trial in trials]


@pytest.mark.parametrize("kind", ["journal", "sqlite", "postgresql"])
def test_forty_trials_survive_a_killed_worker(
    kind: str, file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    storage = {"journal": "", "sqlite": f"sqlite:///{tmp_path}/study.db"}.get(kind)
    if storage is None:
        storage = request.getfixturevalue("postgres")
    process = subprocess.Popen(
        command(file, tmp_path, storage),
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    kill_one(tmp_path, 12, process)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    first = json.loads(out)
    assert first["trials"]["done"] == first["trials"]["answered"] == TRIALS
    ends = states(tmp_path, storage)
    assert (ends.count("COMPLETE"), ends.count("FAIL"), len(ends)) == (TRIALS, 1, TRIALS + 1)

    more = command(file, tmp_path, storage, TRIALS + 4)
    ended = subprocess.run(more, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    second = json.loads(ended.stdout)
    assert second["trials"]["done"] == TRIALS + 4
    assert second["best"]["valid"] <= first["best"]["valid"]


def test_a_dead_worker_of_another_host_is_missed_by_its_heartbeat_in_postgresql(
    file: Path, tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsnobench.sweeps.trials.HEARTBEAT_S", 1)
    monkeypatch.setattr("gsnobench.sweeps.trials.GRACE_S", 2)
    request = Request("gsno", str(file), track="smoke", preset="paper", knobs={"train.steps": "3"})
    search = make_search(request, ["model.k_s=4..64"], name="heart", trials=1)
    here, there = (open_trials(search, open_home(tmp_path / name), postgres) for name in ("a", "b"))
    opened = here.ask(1)
    assert opened is not None
    point = suggest(opened.trial, search.axes, search.plan({}))
    time.sleep(4)  # longer than the grace: a worker with a heartbeat is not taken for dead
    there._fail_dead_trials()
    assert [trial.state.name for trial in there.all()] == ["RUNNING"]
    opened.signs.close()  # no heartbeat, and its lock is in a home that the other does not see
    again = there.ask(1)
    assert again is not None
    assert suggest(again.trial, search.axes, search.plan({})) == point
    there.tell(again, [0.5], {})
    assert [trial.state.name for trial in here.all()] == ["FAIL", "COMPLETE"]


def test_the_whole_command_killed_goes_on_where_it_stopped(file: Path, tmp_path: Path) -> None:
    words = command(file, tmp_path, "", 10)
    process = subprocess.Popen(
        words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not [
        path for path in tmp_path.glob("studies/forty/running/*.lock") if int(path.stem) >= 4
    ]:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = len(list(tmp_path.glob("runs/*/trial.json")))
    ended = subprocess.run(words, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["trials"]["done"] == 10
    assert before >= 3


def test_a_wrong_password_and_a_silent_server_are_one_line(
    file: Path, tmp_path: Path, postgres: str
) -> None:
    for address in (
        postgres.replace(PASSWORD, "wrong-horse"),
        "postgresql+psycopg://sweeper:wrong-horse@127.0.0.1:9/sweeps",
    ):
        begun = time.monotonic()
        ended = subprocess.run(
            command(file, tmp_path, address), env=environment(), capture_output=True, text=True
        )
        assert ended.returncode == 2
        assert len(ended.stderr.splitlines()) == 1, ended.stderr
        assert "cannot be used" in ended.stderr
        assert "wrong-horse" not in ended.stderr
        assert time.monotonic() - begun < 60


def test_trials_are_nested_under_their_sweep_in_mlflow(file: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/tracked.db"
    subprocess.run(
        command(file, tmp_path, "", 5),
        env=environment(store),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(  # the mirror may still be at work: replay waits for it and brings the rest
        [sys.executable, "-m", "gsnobench", "doctor", "--replay", "--home", str(tmp_path)],
        env=environment(store),
        check=True,
    )
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("gsnobench/smoke/poisson")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    (parent,) = [run for run in runs if run.data.tags["kind"] == "sweep"]
    trials = [run for run in runs if run.data.tags["kind"] == "trial"]
    assert len(trials) == 5
    assert {run.data.tags["mlflow.parentRunId"] for run in runs if run is not parent} == {
        parent.info.run_id
    }
    assert parent.info.status == "FINISHED"
    assert len(client.get_metric_history(parent.info.run_id, "sweep/best")) == 5
    assert "best.model.k_s" in parent.data.tags
    names = {
        entry.path
        for folder in (None, "figures")
        for entry in client.list_artifacts(parent.info.run_id, folder)
    }
    assert {"result.json", "trials.csv", "figures/contour.png", "figures/importance.png"} <= names
    assert not any("test/headline/rel_l2" in run.data.metrics for run in trials)
