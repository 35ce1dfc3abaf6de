"""A run end to end on small files: results, records, resuming; real processes are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import call_here
from problems import steady

import gsnobench as gb
from gsnobench.datasets.store import write
from gsnobench.home import open_home
from gsnobench.plugins import load_observers
from gsnobench.records import RunResult
from gsnobench.runs.machine import Machine, Report
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.run import run_plan

pytestmark = pytest.mark.usefixtures("untracked")
OPTIONS = ["run", "--model", "gsno", "--track", "smoke", "--no-floors"]
COMMAND = [sys.executable, "-m", "gsnobench", *OPTIONS, "--json"]
METRICS = {"rel_l2", "rel_l2_raw", "rel_l2_area", "rmse", "mae", "max", "boundary_boundary"}
COSTS = {
    "prepare_cold_s",
    "prepare_warm_s",
    "reference_step_s",
    "train_cpu_s",
    "train_s",
    "inference_s",
    "peak_mb",
    "parameters",
}


def gsno(dataset: Path, home: Path, **request: Any) -> RunResult:
    return gb.run("gsno", str(dataset), home=home, device="cpu", track="smoke", **request)


def test_a_run_is_scored_recorded_and_drawn(
    unsteady_file: Path, tmp_path: Path, drawn: None
) -> None:
    result = gsno(unsteady_file, tmp_path, knobs={"train.steps": "20"})
    folder = tmp_path / "runs" / result.spec.short
    assert result.status == "done"
    assert 0 < result.headline < 1
    assert set(result.scores) == {"valid", "test"}
    assert set(result.scores["test"]["height"]) >= METRICS
    assert len(result.samples["test"]["height"]["rel_l2"]) == 8
    assert len(result.frames["height"]["q50"]) == 7
    bands = {name: len(values) for name, values in result.bands["height"].items()}
    assert bands == {"truth": 8, "error": 8}
    assert set(result.costs) >= COSTS
    for name in ("spec.json", "task.json", "result.json", "curve.jsonl"):
        assert (folder / name).stat().st_size > 0
    for name in ("weights.safetensors", "reference.safetensors"):
        assert (folder / name).stat().st_size > 0
    picture = (folder / "figures" / "cases.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    (beside,) = (tmp_path / "results").rglob("*.png")
    assert beside.read_bytes() == picture and beside.with_suffix(".json").exists()
    assert (folder / "result.json").stat().st_size <= 25_000
    rows = tmp_path / "results" / "smoke" / "waves@2-7" / "gsno@plus"
    evidence = rows / f"{result.spec.short}.json"
    assert RunResult.load(evidence).headline == result.headline


def test_a_mesh_without_a_laplacian_costs_the_bands_and_not_the_run(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise gb.DataError("mesh: cells have 4 nodes")

    monkeypatch.setattr("gsnobench.runs.stages.band_table", refuse)
    warnings: list[str] = []
    plan = make_plan(Request(model="mean", dataset=str(steady_file), track="smoke"))
    machine = Machine(open_home(tmp_path), torch.device("cpu"), report=Report(warn=warnings.append))
    result = run_plan(plan, machine)
    assert result.status == "done" and result.bands == {}
    assert any("no errors by band" in line and "4 nodes" in line for line in warnings)


def test_the_headline_is_the_mean_of_the_recorded_samples(
    steady_file: Path, tmp_path: Path
) -> None:
    result = gsno(steady_file, tmp_path, knobs={"train.steps": "10"})
    assert np.mean(result.samples["test"]["head"]["rel_l2"]) == pytest.approx(
        result.headline, rel=1e-3
    )


def test_a_finished_run_is_shown_not_repeated(steady_file: Path, tmp_path: Path) -> None:
    first = gsno(steady_file, tmp_path, knobs={"train.steps": "5"})
    written = (tmp_path / "runs" / first.spec.short / "result.json").stat().st_mtime_ns
    again = gsno(steady_file, tmp_path, knobs={"train.steps": "5"})
    assert again == first
    assert (tmp_path / "runs" / first.spec.short / "result.json").stat().st_mtime_ns == written
    repeated = gsno(steady_file, tmp_path, knobs={"train.steps": "5"}, force=True)
    assert repeated.scores == first.scores
    assert repeated.curve == first.curve


def test_a_pair_that_a_model_declines_is_a_result_with_the_reason(
    steady_file: Path, tmp_path: Path
) -> None:
    declined = gb.run("persistence", str(steady_file), home=tmp_path, device="cpu", track="smoke")
    assert declined.status == "declined"
    assert declined.reason


def test_a_model_that_raises_is_a_failed_result_and_is_tried_again(
    steady_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(Request("gsno", str(steady_file), track="smoke", knobs={"train.steps": "5"}))

    def broken(task: object, params: object) -> object:
        raise ZeroDivisionError("one over nothing")

    machine = Machine(open_home(tmp_path), torch.device("cpu"))
    failed = run_plan(replace(plan, model=replace(plan.model, build=broken)), machine)
    line = broken.__code__.co_firstlineno + 1
    reason = f"ZeroDivisionError: one over nothing (test_run.py:{line})"
    assert (failed.status, failed.reason) == ("failed", reason)
    log = machine.home.run_folder(plan.spec.key).traceback.read_text()
    assert "one over nothing" in log and "in broken" in log
    assert run_plan(plan, machine).status == "done"


# ------------------------------------------------------------------------------------------ kill -9


def outcome(home: Path) -> tuple[Any, Any]:
    """Scores and curve of the one run in a home."""
    (path,) = home.glob("runs/*/result.json")
    body = json.loads(path.read_text())
    return body["scores"], [
        json.loads(line) for line in (path.parent / "curve.jsonl").read_text().splitlines()
    ]


def kill_when(command: list[str], home: Path, moment: float | str) -> bool:
    """Start the run and kill it -9 after some seconds, or when a file of a pattern appears.

    Returns False if it ended first.
    """
    environment = {**os.environ, "GSNOBENCH_HOME": str(home), "GSNOBENCH_CHECKPOINT_S": "0"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    begun = time.monotonic()
    while process.poll() is None:
        due = (
            next(home.glob(moment), None)
            if isinstance(moment, str)
            else time.monotonic() - begun > moment
        )
        if due:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.002)
    assert process.returncode == 0, process.stderr.read().decode()
    return False


def finish(command: list[str], home: Path, *extra: str) -> None:
    environment = {**os.environ, "GSNOBENCH_HOME": str(home), "GSNOBENCH_CHECKPOINT_S": "0"}
    subprocess.run([*command, *extra], env=environment, check=True, stdout=subprocess.DEVNULL)


def check_kills(file: Path, tmp_path: Path, moments: list[float | str]) -> None:
    command = [*COMMAND, "--dataset", str(file), "--train.steps", "60"]
    finish(command, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    for number, moment in enumerate(moments):
        home = tmp_path / f"cut{number}"
        if kill_when(command, home, moment) and list(home.glob("runs/*/spec.json")):
            finish(command, home, "--resume")
        else:
            finish(command, home)
        assert outcome(home) == expected, f"killed at {moment}"
        (result,) = home.glob("runs/*/result.json")
        assert (
            gb.load(result.parent, home=home, device="cpu").plan.spec == RunResult.load(result).spec
        )
        assert not (result.parent / "checkpoint.pt").exists()


def test_a_run_killed_in_preprocessing_and_in_a_checkpoint_write_ends_as_if_it_had_not_been(
    steady_file: Path, tmp_path: Path
) -> None:
    check_kills(steady_file, tmp_path, ["runs/*/spec.json", "runs/*/.checkpoint.pt.*.part"])


@pytest.mark.slow
def test_a_run_killed_at_eight_random_moments_ends_as_if_it_had_not_been(
    unsteady_file: Path, tmp_path: Path
) -> None:
    draw = random.Random(0)
    check_kills(unsteady_file, tmp_path, [draw.uniform(2.0, 14.0) for _ in range(8)])


class Listener:
    """An observer that dies before it hears of the first result."""

    def __init__(self) -> None:
        self.heard: list[float] = []
        self.is_dying = True

    @gb.hookimpl
    def gsnobench_run_finished(self, result: RunResult, folder: Path) -> None:
        if self.is_dying:
            raise KeyboardInterrupt
        self.heard.append(result.headline)


def test_a_result_that_no_observer_heard_of_is_told_by_the_next_process_once(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, (observers, _) = Listener(), load_observers()
    observers.register(listener)
    monkeypatch.setattr("gsnobench.runs.run.load_observers", lambda: (observers, []))
    knobs = {"train.steps": "2"}
    with pytest.raises(KeyboardInterrupt):
        gsno(steady_file, tmp_path, knobs=knobs)
    listener.is_dying = False
    results = [gsno(steady_file, tmp_path, knobs=knobs) for _ in range(3)]
    assert listener.heard == [results[0].headline]


def test_resuming_what_was_never_begun_is_refused(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*OPTIONS, "--json", "--dataset", str(steady_file), "--resume"]
    ended = call_here(capsys, *words, home=tmp_path)
    assert ended.returncode == 2
    assert "nothing to resume" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_full_disk_is_one_line_and_loses_nothing(steady_file: Path, tmp_path: Path) -> None:
    """A limit on the size of written files stands in for a full disk: writes fail the same way."""
    environment = {**os.environ, "GSNOBENCH_HOME": str(tmp_path)}
    script = "import resource,signal,sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
    script += "from gsnobench.cli import main; main()"
    arguments = [*OPTIONS, "--dataset", str(steady_file), "--train.steps", "5"]
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 2, ended.stderr
    errors = [line for line in ended.stderr.splitlines() if line.startswith("gsnobench: ")]
    assert len(errors) == 1
    assert "cannot be written" in errors[0]
    assert not [path for path in tmp_path.rglob("*.part")]
    assert not list(tmp_path.rglob("result.json"))


def test_a_user_file_with_a_nan_is_refused(tmp_path: Path) -> None:
    splits = steady()
    frames = np.array(splits["test"].frames)
    frames[3, 0, 5, 0] = np.nan
    with pytest.raises(gb.DataError) as caught:
        write(
            tmp_path / "bad.nc",
            {**splits, "test": replace(splits["test"], frames=frames)},
            provenance={},
        )
    assert "head" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_run_records_its_threads_and_a_resumed_one_keeps_them(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(open_home(tmp_path), torch.device("cpu"), threads=2)
    request = Request("gsno", str(steady_file), track="smoke", knobs={"train.steps": "6"})
    plan = make_plan(request)
    monkeypatch.setenv("GSNOBENCH_CHECKPOINT_S", "0")

    def stop(phase: str, epoch: int, scores: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, replace(machine, watch=stop))
    assert machine.home.run_folder(plan.spec.key).checkpoint.exists()
    result = run_plan(plan, replace(machine, threads=1))  # goes on with two
    assert result.environment["threads"] == 2


def test_changed_code_is_said_and_the_old_number_is_kept(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    machine = Machine(open_home(tmp_path), torch.device("cpu"), report=Report(warn=warnings.append))
    plan = make_plan(Request("mean", str(steady_file), track="smoke"))
    first = run_plan(plan, machine)
    assert run_plan(plan, machine) == first and warnings == []
    monkeypatch.setattr("gsnobench.runs.run.source_digest", lambda kind, name: "other")
    assert run_plan(plan, machine) == first
    assert ["mean: its code has changed" in warning for warning in warnings] == [True]
