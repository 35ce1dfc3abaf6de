"""Data made in many processes: equal to those of one, resumed after a kill; errors in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_datasets import DISC, HEAT
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import generate, store
from gsnobench.datasets.ensure import data_path, ensure
from gsnobench.datasets.tasks import resolve

TESTS = Path(__file__).parents[1] / "support"


def content_hash(path: Path) -> str:
    with store.open_file(path) as opened:
        return opened.content_hash


@pytest.mark.parametrize("dataset", [HEAT, DISC], ids=lambda dataset: dataset.name)
def test_parallel_is_serial(tmp_path: Path, dataset: gb.Dataset) -> None:
    task = resolve(dataset, dataset.name, track="smoke")
    serial = ensure(dataset, task, home=tmp_path / "serial", jobs=1)
    parallel = ensure(dataset, task, home=tmp_path / "parallel", jobs=2)
    assert content_hash(parallel) == content_hash(serial)
    store.verify(parallel)


def test_chunks_do_not_change_the_data(tmp_path: Path) -> None:
    task = resolve(DISC, "disc", track="smoke")
    whole = ensure(replace(DISC, chunk=100), task, home=tmp_path / "whole", jobs=1)
    single = ensure(replace(DISC, chunk=1), task, home=tmp_path / "single", jobs=1)
    assert content_hash(whole) == content_hash(single)


def test_a_smaller_request_is_a_prefix_of_a_larger_one(tmp_path: Path) -> None:
    small, large = (resolve(HEAT, "heat", track="smoke", samples=count) for count in (3, 7))
    paths = [ensure(HEAT, task, home=tmp_path, jobs=1) for task in (small, large)]
    with store.open_file(paths[0]) as few, store.open_file(paths[1]) as many:
        np.testing.assert_array_equal(few.split("train").frames[:], many.split("train").frames[:3])
        assert few.task.split_hashes["test"] == many.task.split_hashes["test"]


def test_the_data_seed_changes_every_sample(tmp_path: Path) -> None:
    paths = [
        ensure(DISC, resolve(DISC, "disc", track="tiny", data_seed=seed), home=tmp_path, jobs=1)
        for seed in (0, 1)
    ]
    with store.open_file(paths[0]) as first, store.open_file(paths[1]) as other:
        assert all(
            first.task.split_hashes[split] != other.task.split_hashes[split]
            for split in first.task.sizes
        )


_PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.tasks import resolve
from toy_datasets import HEAT
task = resolve(HEAT, "heat", track="smoke")
print(ensure(HEAT, task, home=Path(sys.argv[2]), jobs=int(sys.argv[3])))
"""


def _start(home: Path, jobs: int, **environment: str) -> subprocess.Popen[str]:
    home.mkdir(exist_ok=True)
    (home / "program.py").write_text(_PROGRAM)
    command = [sys.executable, str(home / "program.py"), str(TESTS), str(home), str(jobs)]
    variables = {**os.environ, "TOY_LOG": str(home / "log"), **environment}
    return subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def _processes_with(text: str) -> list[int]:
    numbers = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text.encode() in (entry / "environ").read_bytes():
                numbers.append(int(entry.name))
        except OSError:
            continue
    return numbers


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, jobs: int) -> None:
    task, home = resolve(HEAT, "heat", track="smoke"), tmp_path / "home"
    parts = data_path(task, home).with_suffix(".parts")
    process = _start(home, jobs, TOY_SLEEP="0.4")
    _wait_for(lambda: len(list(parts.glob("[a-z]*.nc"))) >= 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    # no worker outlives its parent for long
    _wait_for(lambda: not _processes_with(f"TOY_LOG={home / 'log'}"))
    finished = {part.name: part.stat().st_mtime_ns for part in parts.glob("[a-z]*.nc")}
    assert 2 <= len(finished) < 6 and not data_path(task, home).exists()
    (home / "log").unlink()
    output, errors = _start(home, jobs).communicate()
    assert output.strip() == str(data_path(task, home)), errors
    repeated = {tuple(line.split()) for line in (home / "log").read_text().splitlines()}
    for name in finished:
        split, start, stop = name.removesuffix(".nc").split("-")
        assert not repeated & {(split, str(index)) for index in range(int(start), int(stop))}
    assert not parts.exists()
    assert content_hash(data_path(task, home)) == content_hash(
        ensure(HEAT, task, home=tmp_path / "whole", jobs=1)
    )


def test_two_processes_that_need_the_same_data_make_them_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    both = [_start(home, 1, TOY_SLEEP="0.02") for _ in range(2)]
    outputs = [process.communicate() for process in both]
    assert outputs[0][0] == outputs[1][0] != "", outputs
    assert len((home / "log").read_text().splitlines()) == 11


def test_workers_use_one_thread_for_blas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads = replace(
        DISC, generate=_threads, fixed_mesh=True, mesh=_square, corresponds=True, tags=()
    )
    task = resolve(threads, "disc", track="smoke")
    with store.open_file(ensure(threads, task, home=tmp_path, jobs=2)) as opened:
        assert set(opened.split("train").frames[:, 0, 0, 0].tolist()) == {1.0}


def _square(setup: int) -> gb.Mesh:
    return gb.Mesh(np.eye(3, 2))


def _threads(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    """A field that holds the number of threads of the process that made it."""
    for index in indices:
        noise = np.random.default_rng([index, *split.encode()]).normal()
        frames = np.array([float(os.environ["OMP_NUM_THREADS"]), index, noise])[None, :, None]
        yield gb.Sample(frames, np.zeros((3, 0)), np.zeros(0))


# ----------------------------------------------------------------------------------- broken plugins


def _broken(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    for sample, index in zip(DISC.generate(setup, seed, split, indices), indices, strict=True):
        if (split, index) == ("valid", 1):
            raise ZeroDivisionError("the solver\ndiverged")
        yield sample


def _infinite(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    for sample, index in zip(DISC.generate(setup, seed, split, indices), indices, strict=True):
        yield sample if index < 3 else replace(sample, frames=sample.frames + np.inf)


def _few(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    yield from DISC.generate(setup, seed, split, indices[:1])


def _flat(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    for sample in DISC.generate(setup, seed, split, indices):
        yield replace(sample, frames=sample.frames[0])


def _bare(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    for sample in DISC.generate(setup, seed, split, indices):
        yield replace(sample, mesh=None)


def _repeating(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    yield from DISC.generate(setup, seed, "train", indices)


def _dying(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    os._exit(9)
    yield


@pytest.mark.parametrize(
    ("dataset", "line"),
    [
        (
            replace(DISC, generate=_broken),
            "disc: making valid samples 0 to 1 failed (ZeroDivisionError: the solver diverged)",
        ),
        (replace(DISC, generate=_infinite), "disc: u of train sample 3 is not finite"),
        (replace(DISC, generate=_few), "gave 1 samples for 2 indices"),
        (replace(DISC, generate=_flat), "frames of shape"),
        (replace(DISC, generate=_bare), "a sample has no mesh"),
        (replace(DISC, generate=_repeating), "valid sample 0 is the same as train sample 0"),
        (replace(DISC, mesh=_square), "fixed_mesh is False"),
    ],
    ids=["raises", "infinite", "few", "flat", "bare", "repeating", "mesh"],
)
def test_what_a_plugin_does_wrong_is_one_line(
    tmp_path: Path, dataset: gb.Dataset, line: str
) -> None:
    task = resolve(dataset, "disc", track="smoke")
    with pytest.raises(gb.GsnobenchError) as error:
        ensure(dataset, task, home=tmp_path, jobs=1)
    one_line(error, line)
    assert not data_path(task, tmp_path).exists()


def test_a_failure_in_a_worker_is_the_same_line(tmp_path: Path) -> None:
    dataset = replace(DISC, generate=_broken)
    with pytest.raises(gb.PluginError) as error:
        ensure(dataset, resolve(dataset, "disc", track="smoke"), home=tmp_path, jobs=2)
    one_line(error, "making valid samples 0 to 1 failed (ZeroDivisionError: the solver diverged)")
    # the worker's own, for the author of the plugin
    assert "Traceback" in str(error.value.__cause__)


def test_a_dataset_that_a_worker_cannot_load_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "_portable", lambda dataset: b"cno_such_module\nDISC\n.")
    with pytest.raises(gb.PluginError) as error:
        ensure(DISC, resolve(DISC, "disc", track="smoke"), home=tmp_path, jobs=2)
    one_line(error, "a worker process cannot load its dataset", "no_such_module")


def test_what_a_plugin_prints_is_not_on_standard_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = replace(DISC, generate=_talking)
    ensure(dataset, resolve(dataset, "disc", track="tiny"), home=tmp_path, jobs=2)
    captured = capfd.readouterr()
    assert captured.out == "" and "solving" in captured.err


def _talking(setup: int, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    print("solving")
    yield from DISC.generate(setup, seed, split, indices)


def test_a_failing_progress_bar_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(
            HEAT, resolve(HEAT, "heat", track="smoke"), home=tmp_path, jobs=2, progress=interrupt
        )
    assert _processes_with(f"TOY_LOG={tmp_path / 'log'}") == []


def test_a_worker_that_dies_is_one_line(tmp_path: Path) -> None:
    dataset = replace(DISC, generate=_dying)
    with pytest.raises(gb.DataError) as error:
        ensure(dataset, resolve(dataset, "disc", track="smoke"), home=tmp_path, jobs=2)
    one_line(error, "a worker process died", "--jobs")


def test_a_dataset_that_cannot_travel_says_what_to_do(tmp_path: Path) -> None:
    dataset = replace(DISC, mesh=lambda setup: None)
    task = resolve(dataset, "disc", track="tiny")
    with pytest.raises(gb.PluginError) as error:
        ensure(dataset, task, home=tmp_path, jobs=2)
    one_line(error, "disc: cannot be sent", "--jobs 1")
    assert ensure(dataset, task, home=tmp_path, jobs=1).exists()


def test_an_installed_plugin_travels_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "listed", lambda kind: [DISC])
    assert generate._portable(replace(DISC, mesh=lambda setup: None)) == "disc"
    assert isinstance(generate._portable(DISC), bytes)
