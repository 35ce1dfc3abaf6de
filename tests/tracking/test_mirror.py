"""The mirror against the real MLflow: what is missing is sent once, and every end recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_run import SPEC, finish, train
from mlflow_store import forget_outer_store, history, no_mirror, runs_of, spooled

from gsnobench.errors import RunError
from gsnobench.tracking.mirror import replay
from gsnobench.tracking.observer import gsnobench_epoch_ended

SUPPORT = Path(__file__).parents[1] / "support"
KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fake_run import SPEC, train
train(Path(sys.argv[2]), replace(SPEC, seed=3), range(1, 6))
os.kill(os.getpid(), signal.SIGKILL)
"""

MAKING = """
import sys
from pathlib import Path
from gsnobench.tracking.address import Address
from gsnobench.tracking.mirror import make_store
make_store(Address.of(Path(sys.argv[1])))
"""


@pytest.fixture(autouse=True)
def _no_outer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_outer_store(monkeypatch)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def _being_made(folder: Path, written: int) -> set[Path]:
    """Databases that are not in place yet and have at least so many bytes."""
    parts = folder.glob(".mlflow.db.*.part")
    return {part for part in parts if part.stat().st_size >= written}


def test_a_kill_while_the_database_is_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_mirror(tmp_path, monkeypatch):
        train(tmp_path, SPEC, range(1, 3))
        finish(tmp_path, SPEC)
    parts: set[Path] = set()
    for written in (0, 200_000):  # bytes, of nearly a million: no table yet, some of them
        with subprocess.Popen([sys.executable, "-c", MAKING, str(tmp_path)]) as maker:
            while not (made := _being_made(tmp_path, written) - parts):
                assert maker.poll() is None
                time.sleep(0.002)
            maker.kill()
        parts = made  # the next maker sweeps them away
        assert all(part.exists() for part in made) and not (tmp_path / "mlflow.db").exists()
    assert replay(tmp_path)["points"] == 2 * 3 + 4
    (run,) = runs_of(tmp_path, SPEC)
    assert run.info.status == "FINISHED"
    assert not list(tmp_path.glob(".mlflow.db.*"))


def test_replay_brings_what_is_missing_and_the_second_one_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=2)
    with no_mirror(home, monkeypatch):
        train(home, spec, range(1, 4))
    replay(home)
    (run,) = runs_of(home, spec)
    assert run.info.status == "RUNNING" and len(history(home, run)) == 9
    with no_mirror(home, monkeypatch):
        for epoch in range(4, 1200):
            gsnobench_epoch_ended(spec, "fit", epoch, {"loss": 1.0 / epoch})
        finish(home, spec)
    assert replay(home)["points"] == 1196 + 4
    assert replay(home)["points"] == 0
    (run,) = runs_of(home, spec)
    assert run.info.status == "FINISHED"
    assert history(home, run) == spooled(home / "spool" / f"{spec.short}.jsonl")


def test_a_killed_and_resumed_run_stays_one_mlflow_run_without_doubled_points(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=3)
    command = [sys.executable, "-c", KILLED, str(SUPPORT), str(home)]
    with no_mirror(home, monkeypatch):
        ended = subprocess.run(command, check=False)
        assert ended.returncode == -signal.SIGKILL
    replay(home)
    (run,) = runs_of(home, spec)
    assert (run.info.status, run.data.tags["gsnobench.status"]) == ("KILLED", "interrupted")
    with no_mirror(home, monkeypatch):
        train(home, spec, range(4, 9))  # from a checkpoint two epochs back
        finish(home, spec)
    replay(home)
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
        scores = {"test": {"u": {"rel_l2": float("nan")}}}
        finish(home, spec, status=status, reason="the loss was nan", scores=scores)
    replay(home)
    (run,) = runs_of(home, spec)
    assert run.info.status == expected
    assert run.data.tags["gsnobench.status"] == status
    assert run.data.tags["reason"] == "the loss was nan"


def test_a_repeated_run_becomes_a_second_mlflow_run_and_the_first_is_not_lost(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, seed=4)
    with no_mirror(home, monkeypatch):
        for _ in range(2):
            train(home, spec, range(1, 3))
            finish(home, spec)
    replay(home)
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
    assert f"{spec.short}.jsonl" in replay(home)["elsewhere"]
    assert runs_of(home, spec) == []


def test_a_dead_store_is_one_line_for_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with no_mirror(tmp_path, monkeypatch):
        train(tmp_path, SPEC, range(1, 3))
        finish(tmp_path, SPEC)
    started = time.monotonic()
    with pytest.raises(RunError, match="cannot take") as error:
        replay(tmp_path)
    assert "\n" not in str(error.value)
    assert time.monotonic() - started < 30
