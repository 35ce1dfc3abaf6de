"""The file of a task: one per set of data, made once, with its origin in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_datasets import DISC, HEAT
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store
from gsnobench.datasets.ensure import data_path, ensure, estimate
from gsnobench.datasets.tasks import resolve


def test_data_are_made_once_and_hold_what_was_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    task = resolve(HEAT, "heat", track="smoke")
    steps: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        steps.append((done, total))

    path = ensure(HEAT, task, home=tmp_path, jobs=1, progress=progress)
    assert path == data_path(task, tmp_path) and path.parent == tmp_path / "data" / "heat" / "v3"
    assert steps == [(0, 11), (2, 11), (4, 11), (6, 11), (8, 11), (10, 11), (11, 11)]
    assert ensure(HEAT, task, home=tmp_path, jobs=1) == path
    assert len((tmp_path / "log").read_text().splitlines()) == 11
    assert set(path.parent.iterdir()) - {path.with_suffix(".lock")} == {path}
    store.verify(path)
    with store.open_file(path, task) as opened:
        assert opened.task == replace(task, split_hashes=opened.task.split_hashes)
        assert opened.task.tags == ("wall", "left")
        made = next(HEAT.generate(HEAT.setup(HEAT.params(), 49, gb.Cache()), 0, "valid", [1]))
        np.testing.assert_array_equal(opened.split("valid").frames[1], made.frames.astype("f4"))


def test_the_file_says_where_it_comes_from(tmp_path: Path) -> None:
    task = resolve(HEAT, "heat_fast@1-2", track="tiny", data_seed=5)
    with store.open_file(ensure(HEAT, task, home=tmp_path, jobs=1)) as opened:
        stated = opened.attributes
        assert stated["title"] == "Heat on a square"
        assert stated["source"].startswith("implicit Euler")
        assert (stated["licence"], stated["references"]) == ("CC-BY-4.0", "Fourier 1822")
        names = ("data_seed", "resolution", "dataset_revision")
        assert [stated[name] for name in names] == ["5", "25", "3"]
        assert "conductivity=4.0" in stated["history"]
        assert stated["data_knobs"] == '{"conductivity": 4.0, "smooth": true}'
        assert opened.task.id == "heat_fast@2-5"  # the default window, whichever came first


def test_windows_share_one_file_and_nothing_else_does(tmp_path: Path) -> None:
    base = resolve(HEAT, "heat", track="smoke")
    window = resolve(HEAT, "heat@1-3", track="smoke")
    assert data_path(window, tmp_path) == data_path(base, tmp_path)
    others = [
        resolve(HEAT, "heat_rough", track="smoke"),
        resolve(HEAT, "heat", track="smoke", knobs={"conductivity": 2}),
        resolve(HEAT, "heat", track="smoke", resolution=25),
        resolve(HEAT, "heat", track="smoke", samples=5),
        resolve(HEAT, "heat", track="smoke", data_seed=1),
        resolve(replace(HEAT, revision=4), "heat", track="smoke"),
    ]
    assert len({data_path(task, tmp_path) for task in (base, *others)}) == 7


def test_what_a_kill_left_of_the_file_is_removed(tmp_path: Path) -> None:
    task = resolve(DISC, "disc", track="tiny")
    path = data_path(task, tmp_path)
    path.parent.mkdir(parents=True)
    left_over = path.parent / f".{path.name}.abc.part"
    left_over.write_bytes(b"half a file")
    ensure(DISC, task, home=tmp_path, jobs=1)
    assert not left_over.exists()


def test_an_unusable_home_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(gb.DataError) as error:
        ensure(DISC, resolve(DISC, "disc", track="tiny"), home=tmp_path / "file", jobs=1)
    one_line(error, "--home")


def test_the_estimate_is_the_size_of_the_arrays(tmp_path: Path) -> None:
    task = resolve(HEAT, "heat", track="smoke")
    guess = estimate(HEAT, task)
    with store.open_file(ensure(HEAT, task, home=tmp_path, jobs=1)) as opened:
        variables = opened.handle.file.variables.values()
        actual = sum(int(np.prod(v.shape)) * v.dtype.itemsize for v in variables)
    assert guess.samples == 11 and guess.disk_bytes == pytest.approx(actual, rel=0.1)
    laptop = estimate(HEAT, resolve(HEAT, "heat", track="laptop"))
    assert laptop.memory_bytes > 4 * guess.memory_bytes
