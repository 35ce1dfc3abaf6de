"""`gsnobench doctor` reports what is there, repairs what it may, and never touches results."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import call_here
from fake_run import SPEC, finish, folder_of, train
from mlflow_store import history, no_mirror, runs_of, spooled

from gsnobench.cli import doctor
from gsnobench.files import UNKNOWN_S, lock
from gsnobench.home import RunFolder
from gsnobench.tracking import mirror
from gsnobench.tracking.address import Address
from gsnobench.tracking.observer import WAIT_VARIABLE


def age(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    before = time.time() - 2 * UNKNOWN_S
    os.utime(path, (before, before))
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GSNOBENCH_TRACKING_URI", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_fresh_home_has_no_problems_and_the_report_is_json(home: Path) -> None:
    facts = json.loads(json.dumps(doctor.report(home)))
    assert facts["problems"] == []
    assert facts["plugins"]["observer mlflow"].startswith("gsnobench ")
    assert facts["tracking"]["state"] == "answers" and not (home / "mlflow.db").exists()


def test_a_store_that_does_not_answer_is_a_problem_and_not_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    facts = doctor.report(home)
    assert "does not answer" in facts["tracking"]["state"]
    assert any(line.startswith("tracking:") for line in facts["problems"])


def test_cut_runs_and_unmirrored_spools_are_found_and_replayed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    done, cut = SPEC, replace(SPEC, seed=1)
    address = Address.of(home)
    assert address is not None
    # as if a mirror were at work and slow
    with lock(home / "spool" / f".mirror-{address.id}.lock"):
        train(home, done, range(1, 3))
        finish(home, done)
    (folder_of(home, cut) / "spec.json").write_text("{}")
    (folder_of(home, done) / "spec.json").write_text("{}")
    facts = doctor.report(home)
    assert facts["unmirrored"] == [f"{done.short}.jsonl"]
    assert facts["interrupted"] == [cut.short]
    with lock(home / "runs" / f".{cut.short}.lock"):
        assert doctor.report(home)["interrupted"] == [], "a run that is going on is not interrupted"
    assert mirror.replay(home)["points"] == 2 * 3 + 4
    assert doctor.report(home)["unmirrored"] == []
    removed = doctor.remove_left_over(home)["removed"]
    assert f"spool/{done.short}.jsonl" in removed
    assert (folder_of(home, done) / "result.json").exists()
    assert (folder_of(home, cut) / "spec.json").exists()


def test_clean_removes_only_what_nobody_works_on(home: Path) -> None:
    stale = [age(home / "data" / ".swe.nc.abc.part"), age(home / "cache" / "modes" / "x.lock")]
    age(home / "runs" / "t" / "trial.json")
    # what a sweep left of a trial that lost
    stale.append(age(home / "runs" / "t" / "checkpoint.pt"))
    fresh = home / "data" / ".darcy.nc.def.part"
    fresh.touch()
    kept = [
        fresh,
        age(home / "results" / "smoke" / "a.json"),
        age(home / "data" / "swe.nc"),
        age(home / "runs" / "k" / "w.part.txt"),
        age(home / "runs" / "c" / "checkpoint.pt"),
        home / "runs" / "t" / "trial.json",
    ]
    with lock(age(home / "runs" / ".k.lock")):
        reported = doctor.report(home)["left_over"]
        removed = doctor.remove_left_over(home)["removed"]
        assert removed == reported == sorted(str(path.relative_to(home)) for path in stale)
        assert (home / "runs" / ".k.lock").exists()
    assert all(path.exists() for path in kept)


def test_the_command_prints_the_report_and_cleans(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = age(home / "data" / ".swe.nc.abc.part")
    words = ["doctor", "--json", "--home", str(home)]
    first = call_here(capsys, *words)
    assert first.returncode == 1, "a problem shows in the exit code"
    reported = json.loads(first.stdout)
    assert any("`gsnobench doctor --clean` removes them" in line for line in reported["problems"])
    cleaned = json.loads(call_here(capsys, *words, "--clean").stdout)
    assert cleaned["removed"] == reported["left_over"]
    assert not stale.exists()
    assert call_here(capsys, *words).returncode == 0


def test_a_killed_end_a_damaged_line_and_a_damaged_result_are_problems(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_mirror(home, monkeypatch):
        train(home, SPEC, range(1, 3))
        finish(home, SPEC)
    folder = RunFolder(folder_of(home, SPEC))
    folder.spec.write_text("{}")
    spool = home / "spool" / f"{SPEC.short}.jsonl"
    lines = spool.read_text().splitlines()
    # as if the process had been killed between its result and the last line of the spool
    spool.write_text("\n".join([*lines[:-1], '{"event": "epoch"}', ""]))
    folder.untold.touch()
    facts = doctor.report(home)
    assert facts["untold"] == [SPEC.short] and facts["damaged_lines"] == {spool.name: 1}
    assert sum(line.startswith("spool:") for line in facts["problems"]) == 3  # and not mirrored
    mirror.replay(home)
    (run,) = runs_of(home, SPEC)
    assert run.info.status == "FINISHED" and run.data.metrics["test/headline/rel_l2"] == 0.125
    mirror.replay(home)
    assert len(runs_of(home, SPEC)) == 1 and history(home, run) == spooled(spool)
    assert doctor.report(home)["untold"] == []
    folder.result.write_text("{")
    assert doctor.report(home)["damaged_results"] == [SPEC.short]
