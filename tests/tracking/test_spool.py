"""The spool: what was appended is read back, whatever killed the writer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gsnobench.files import is_locked
from gsnobench.tracking.spool import (
    is_mirrored,
    mark_mirrored,
    open_writer,
    read,
    spools,
    unmirrored,
)


def begin(home: Path, run: str = "abc") -> Path:
    writer = open_writer(home, run)
    writer.append("started", id="one", store="default", run=run)
    for epoch in (1, 2):
        writer.append(
            "epoch",
            phase="fit",
            epoch=epoch,
            scores={"loss": 1.0 / epoch, "valid": np.float32(0.5)},
        )
    writer.close()
    return writer.path


def test_points_are_named_by_phase_and_step_by_epoch(tmp_path: Path) -> None:
    spool = read(begin(tmp_path))
    assert spool is not None
    assert {step: point.value for step, point in spool.points.items()} == {
        ("fit/loss", 1): 1.0,
        ("fit/valid", 1): 0.5,
        ("fit/loss", 2): 0.5,
        ("fit/valid", 2): 0.5,
    }


def test_a_line_torn_by_a_kill_is_left_out_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = begin(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"event": "epoch", "ph')
    writer = open_writer(tmp_path, "abc")
    writer.append("epoch", phase="fit", epoch=3, scores={"loss": 0.1})
    writer.close()
    spool = read(path)
    assert spool is not None
    assert sorted(step for name, step in spool.points if name == "fit/loss") == [1, 2, 3]


def test_numbers_that_are_not_finite_come_back(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "abc")
    writer.append("started", id="one", store="default", run="abc")
    writer.append(
        "epoch", phase="fit", epoch=1, scores={"loss": float("nan"), "valid": np.float32("inf")}
    )
    writer.close()
    spool = read(writer.path)
    assert spool is not None
    assert math.isnan(spool.points["fit/loss", 1].value)
    assert spool.points["fit/valid", 1].value == math.inf


def test_an_epoch_repeated_after_a_resume_counts_once(tmp_path: Path) -> None:
    begin(tmp_path)
    path = begin(tmp_path)
    spool = read(path)
    assert spool is not None
    assert len(spool.points) == 4


def test_a_spool_is_live_while_its_writer_is_open(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "abc")
    assert is_locked(writer.path)
    with pytest.raises(BlockingIOError):
        open_writer(tmp_path, "abc")
    writer.close()
    assert not is_locked(writer.path)


def test_growth_makes_a_mirrored_spool_unmirrored(tmp_path: Path) -> None:
    path = begin(tmp_path)
    spool = read(path)
    assert spool is not None and not is_mirrored(path)
    mark_mirrored(spool)
    assert is_mirrored(path)
    begin(tmp_path)
    assert not is_mirrored(path)


def test_a_finished_spool_makes_room_and_is_kept_unless_it_is_mirrored(tmp_path: Path) -> None:
    def finish() -> Path:
        begin(tmp_path)
        writer = open_writer(tmp_path, "abc")
        writer.append("finished", status="done", metrics={})
        writer.close()
        return writer.path

    mark = read(finish())
    assert mark is not None
    mark_mirrored(mark)
    finish()
    assert [path.name for path in spools(tmp_path)] == ["abc.jsonl"]
    finish()
    assert [path.name for path in spools(tmp_path)] == ["abc.jsonl", "abc.one.jsonl"]


def test_what_is_mirrored_is_not_read_again_unless_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(run: str) -> Path:
        writer = open_writer(tmp_path, run)
        writer.append("started", id=run, store="default")
        writer.close()
        return writer.path

    paths = [attempt(f"run{number}") for number in range(3)]
    for path in paths:
        spool = read(path)
        assert spool is not None
        mark_mirrored(spool)
    seen: dict[Path, tuple[int, int, int]] = {}
    assert unmirrored(tmp_path, seen) == [] and sorted(seen) == paths
    attempt("run1")
    assert unmirrored(tmp_path, seen) == [paths[1]]
    monkeypatch.setattr(
        "gsnobench.tracking.spool.is_mirrored", lambda path: pytest.fail(f"{path.name} was read")
    )
    paths[1].unlink()
    assert unmirrored(tmp_path, seen) == []


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "epoch", "time": 1, "phase": "fit", "epoch": 1}',
        '{"event": "epoch", "phase": "fit", "epoch": "x", "scores": {"loss": 1}}',
        '{"event": "epoch", "phase": "fit", "epoch": 1, "scores": {"loss": [1]}}',
        '{"event": "finished"}',
        '{"event": "started", "id": "two"}',
        '{"event": "started", "id": "two", "store": 7}',
        '{"event": "finished", "metrics": {"a": 1e999}, "time": 1e999}',
        "[" * 100_000,
        "[1, 2]",
        '"event"',
        "null",
    ],
)
def test_a_line_that_is_no_record_is_left_out(line: str, tmp_path: Path) -> None:
    path = begin(tmp_path)
    whole = read(path)
    path.write_bytes(line.encode() + b"\n" + path.read_bytes() + line.encode() + b"\n")
    spool = read(path)
    assert whole is not None and spool is not None
    assert (spool.id, spool.points, spool.finished) == (whole.id, whole.points, None)
