"""The judge of the campaign itself: each fault it looks for is one that it finds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import campaign
import pytest
from campaign import COUNTS, begin, nothing_written_outside, outcome, passed_before, record

from gsnobench.errors import DataError
from gsnobench.runs.machine import keep_freed_memory


@pytest.fixture(autouse=True)
def own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests count is not part of the campaign."""
    monkeypatch.setattr(campaign, "COUNTS", COUNTS.copy())
    monkeypatch.setattr(campaign, "_recorded", COUNTS.copy())


def fails(error: BaseException) -> Callable[[], None]:
    def read() -> None:
        raise error

    return read


def hangs() -> None:
    while True:
        try:
            sum(range(1000))
        except Exception:
            continue


def test_a_right_answer_and_one_line_are_well() -> None:
    assert outcome("a", lambda: 1, None) == "accepted"
    assert outcome("a", fails(DataError("a: is wrong; mend it")), None) == "one line"


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), RecursionError(), SystemExit(1)])
def test_any_other_exception_is_a_fault(error: BaseException) -> None:
    with pytest.raises(AssertionError, match=type(error).__name__):
        outcome("a", fails(error), None)


def test_two_lines_are_a_fault() -> None:
    with pytest.raises(AssertionError, match="more than one line"):
        outcome("a", fails(DataError("a\nb")), None)


def test_a_hang_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "LONGEST_CPU_S", 0.05)
    with pytest.raises(AssertionError, match="Hangs"):
        outcome("a", hangs, None)


@pytest.mark.skipif(not campaign.RESET_PEAK.exists(), reason="this system keeps a process's peak")
def test_much_memory_is_a_fault_that_of_earlier_work_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 1 << 28
    keep_freed_memory()  # as a training in this process does: free blocks would be used unseen
    blocks = [b"1" * (size // 16) for _ in range(32)]  # earlier work
    del blocks
    monkeypatch.setattr(campaign, "MOST_BYTES", size / 2)
    assert outcome("a", lambda: None, None) == "accepted"
    with pytest.raises(AssertionError, match="GB"):
        outcome("a", lambda: b"1" * size, None)


WAYS: dict[str, Callable[[Path], object]] = {
    "write": lambda folder: (folder / "x").write_text("x"),
    "low level": lambda folder: os.close(os.open(folder / "x", os.O_CREAT | os.O_WRONLY)),
    "mkdir": lambda folder: (folder / "x").mkdir(),
    "move": lambda folder: (folder / "old").rename(folder / "new"),
    "remove": lambda folder: (folder / "old").unlink(),
    "working directory": lambda folder: Path("x").touch(),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_changed_outside_is_a_fault(way: str, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "inside-not"
    inside.mkdir()
    outside.mkdir()
    (outside / "old").touch()
    with pytest.raises(AssertionError, match="written"), nothing_written_outside(inside):
        WAYS[way](outside)


def test_what_is_changed_inside_is_well(tmp_path: Path) -> None:
    with nothing_written_outside(tmp_path):
        (tmp_path / "x").write_text("x")
        (tmp_path / "x").unlink()


def test_a_campaign_goes_on_with_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSNOBENCH_CAMPAIGN_RECORD", str(tmp_path / "record.jsonl"))
    assert passed_before() == set()
    campaign.COUNTS["bytes: of a judge", "one line"] += 3
    record("first", 1.0)
    record("second", 1.0)
    campaign.COUNTS["bytes: of a judge", "one line"] += 5  # by a test that failed
    begin()
    record("third", 1.0)
    before = campaign.COUNTS["bytes: of a judge", "one line"]
    assert passed_before() == {"first", "second", "third"}
    assert campaign.COUNTS["bytes: of a judge", "one line"] == before + 3
    monkeypatch.setattr(campaign, "SEED", campaign.SEED + 1)
    assert passed_before() == set()
