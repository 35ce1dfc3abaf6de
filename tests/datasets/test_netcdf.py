"""Arrays that are read when they are indexed: as numpy would, in any process and thread."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from toy_samples import fixed, one_line

import gsnobench as gb
from gsnobench.data import Samples
from gsnobench.datasets import store


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, 4),
        slice(None, None, 2),
        [3, 0, 3],
        np.array([4, 1]),
        np.array([True, False, True, False, True]),
        [],
    ],
    ids=str,
)
def test_lazy_arrays_are_indexed_like_numpy_arrays(path: Path, index: object) -> None:
    with store.open_file(path) as opened:
        lazy, real = opened.split("train").frames, fixed()["train"].frames
        by_numpy = np.array(index, int) if isinstance(index, list) else index
        np.testing.assert_array_equal(lazy[index], real[by_numpy])


def test_lazy_arrays_take_further_indices(path: Path) -> None:
    with store.open_file(path) as opened:
        lazy, real = opened.split("train").frames, fixed()["train"].frames
        np.testing.assert_array_equal(lazy[1:3, 1, :, 0], real[1:3, 1, :, 0])
        np.testing.assert_array_equal(lazy[2, :, 3:5], real[2, :, 3:5])
        np.testing.assert_array_equal(np.asarray(lazy), real)
        assert (lazy.shape, lazy.ndim, lazy.dtype, len(lazy)) == (real.shape, 4, np.float32, 5)


def test_splits_may_be_interleaved_in_a_users_file(own: Path) -> None:
    with netCDF4.Dataset(own, "a") as file:
        file["split"][:] = [0, 2, 0, 2, 0, 0, 1, 2, 0, 1]
        raw = file["field_h"][:]
    with store.open_file(own) as opened:
        np.testing.assert_array_equal(opened.split("train").frames[:, ..., 0], raw[[0, 2, 4, 5, 8]])
        np.testing.assert_array_equal(opened.split("test").frames[[2, 0], ..., 0], raw[[7, 1]])


def _totals(samples: Samples) -> list[float]:
    return [float(samples.frames[index].sum(dtype=np.float64)) for index in (4, 0, 2, 1, 3)]


def _put_totals(samples: Samples, queue: multiprocessing.SimpleQueue) -> None:
    queue.put(_totals(samples))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_open_samples_work_in_other_processes(path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    with store.open_file(path) as opened:
        samples, queue = opened.split("train"), context.SimpleQueue()
        expected = _totals(samples)
        processes = [context.Process(target=_put_totals, args=(samples, queue)) for _ in range(2)]
        for process in processes:
            process.start()
        totals = [queue.get() for _ in processes]
        for process in processes:
            process.join()
        assert totals == [expected, expected]
        in_parent = samples.frames[:]  # its handle is unharmed
        np.testing.assert_array_equal(in_parent, fixed()["train"].frames)


def test_threads_may_read_at_once(path: Path) -> None:
    real, wrong = fixed()["train"].frames, []
    with store.open_file(path) as opened:
        samples = opened.split("train")

        def read() -> None:
            for index in np.random.default_rng(0).integers(0, 5, size=40):
                if not np.array_equal(samples.frames[index], real[index]):
                    wrong.append(index)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_closed_file_says_so(path: Path) -> None:
    with store.open_file(path) as opened:
        samples = opened.split("train")
    with pytest.raises(gb.DataError) as error:
        samples.frames[0]
    one_line(error, "closed")
    with pytest.raises(gb.DataError):
        pickle.loads(pickle.dumps(samples)).frames[0]
