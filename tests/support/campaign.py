"""What the campaign shares: its size and seed, counts of outcomes, mutations.

`GSNOBENCH_CAMPAIGN_RECORD` names a file of one JSON line per test that has passed, with its counts:
a campaign that was interrupted goes on with the tests that are not in it, and prints all of them.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import random
import resource
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gsnobench.errors import GsnobenchError

SEED = int(os.environ.get("GSNOBENCH_CAMPAIGN_SEED", "0"))
SIZE = float(os.environ.get("GSNOBENCH_CAMPAIGN_SIZE", "1"))  # 1: the whole campaign
SHORT = 1 / 200  # in every `make test`
# first word of a subject -> what it is counted as in the last lines
KINDS = {"process kills": "process kills", "file kills": "kills at file operations"}
KINDS |= {"flips": "flips"}
KINDS |= dict.fromkeys(
    ("bytes", "documents", "values", "arrays", "declared sizes", "words"), "mutated inputs"
)
LONGEST_CPU_S, MOST_BYTES = 20.0, 2e9
RESET_PEAK = Path("/proc/self/clear_refs")
COUNTS: Counter[tuple[str, str]] = Counter()  # (subject, outcome) -> how often
_recorded: Counter[tuple[str, str]] = Counter()  # the part of them that is in the record

SIZES = [
    pytest.param(SHORT, id="short"),
    pytest.param(SIZE, id="whole", marks=[pytest.mark.slow, pytest.mark.timeout(0)]),
]
NESTED: list[Any] = []
for _ in range(200):
    NESTED = [NESTED]
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, -1e300, 1e-320),
    *("", "x", "é\n", "../..", "\x00", "a" * 5000, "nan", [], {}, [[]], {"": 0}, [1, "a", None]),
)


def how_many(size: float, whole: int) -> int:
    """The share of a count, at least one."""
    return max(1, round(size * whole))


def drawer(*words: object) -> random.Random:
    """Random numbers of one test under the seed of the campaign."""
    return random.Random(f"{SEED} {words}")


# ------------------------------------------------------------------------------------------ outcome


class Hangs(BaseException):
    """A call takes too long; no `except Exception` of a reader catches it."""


def outcome(subject: str, call: Callable[[], object], about: object) -> str:
    """Whether a call ends well or in one line; everything else fails the test.

    `about` says how to repeat it.
    """
    before = _forgotten_peak()
    try:
        with _bounded():
            call()
        ended = "accepted"
    except GsnobenchError as error:
        assert "\n" not in str(error).strip(), f"{subject}: more than one line: {error} ({about!r})"
        ended = "one line"
    except BaseException as error:
        COUNTS[subject, "TRACEBACK"] += 1
        raise AssertionError(f"{subject}: {type(error).__name__} {error} ({about!r})") from error
    taken = _peak() - before
    assert taken < MOST_BYTES, f"{subject}: {taken / 1e9:.2g} GB ({about!r})"
    COUNTS[subject, ended] += 1
    return ended


def _forgotten_peak() -> int:
    """The bytes that this process has now; its former peak counts no more.

    Memory that is free but kept would be used again unseen, so it is given back first.
    """
    if RESET_PEAK.exists():  # Linux; elsewhere only what goes beyond the former peak is seen
        with suppress(AttributeError):  # a C library that has no such function
            ctypes.CDLL(None).malloc_trim(0)
        RESET_PEAK.write_text("5")
    return _peak()


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def _bounded() -> Iterator[None]:
    """The block may take so much time of the processor."""

    def stop(number: int, frame: object) -> None:
        raise Hangs(f"more than {LONGEST_CPU_S:g} CPU-seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def lines() -> Iterator[str]:
    """One line per subject: how often what happened."""
    for subject in sorted({subject for subject, _ in COUNTS}):
        parts = sorted((name, count) for (own, name), count in COUNTS.items() if own == subject)
        total = sum(count for _, count in parts)
        yield f"{subject:<46} {total:>6}  " + ", ".join(f"{name} {count}" for name, count in parts)
    totals: Counter[tuple[str, str]] = Counter()
    for (subject, name), count in COUNTS.items():
        totals[KINDS.get(subject.partition(":")[0], "faults"), name] += count
    for kind in sorted({kind for kind, _ in totals}):
        parts = sorted((name, count) for (own, name), count in totals.items() if own == kind)
        yield f"all {kind}: " + ", ".join(f"{name} {count}" for name, count in parts)


# ------------------------------------------------------------------------------------------- record


def record_path() -> Path | None:
    """Where passed tests and their counts are kept; None if they are not."""
    name = os.environ.get("GSNOBENCH_CAMPAIGN_RECORD", "")
    return Path(name) if name else None


def passed_before() -> set[str]:
    """The tests that passed with this seed and size; what they counted is counted."""
    path = record_path()
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    entries = [json.loads(line) for line in lines]
    ours = [entry for entry in entries if [entry["seed"], entry["size"]] == [SEED, SIZE]]
    for entry in ours:
        for subject, ended, count in entry["counts"]:
            COUNTS[subject, ended] += count
    _recorded.update(COUNTS)
    return {entry["test"] for entry in ours}


def begin() -> None:
    """A test begins: what one before it counted and then failed is not its own."""
    _recorded.clear()
    _recorded.update(COUNTS)


def record(test: str, seconds: float) -> None:
    """Keep that a test has passed, with what it counted."""
    new = COUNTS - _recorded
    _recorded.update(new)
    counts = [[subject, ended, count] for (subject, ended), count in sorted(new.items())]
    entry = {"seed": SEED, "size": SIZE, "test": test, "seconds": round(seconds), "counts": counts}
    if (path := record_path()) is not None:
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


# ---------------------------------------------------------------------------------------- mutations


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content with one to three damages."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        content = _damaged(content, draw)
    return content


def _damaged(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return draw.randbytes(8)
    first = draw.randrange(len(content))
    last = min(len(content), first + draw.choice((1, 2, 8, 64, 512)))
    kind = draw.randrange(7)
    if kind == 0:
        return content[:first]
    if kind == 1:
        return content[:first] + bytes(last - first) + content[last:]
    if kind == 2:
        return content[:first] + draw.randbytes(last - first) + content[last:]
    if kind == 3:
        return content[:first] + content[last:]
    if kind == 4:
        return content[:first] + content[first:last] * 2 + content[last:]
    if kind == 5:
        words = (b"-1", b"1e999", b"99999999999999999999", b"{", b"]", b'"', b"\xff", b"NaN", b"\n")
        return content[:first] + draw.choice(words) + content[last:]
    return flipped(content, 8 * first + draw.randrange(8))


def flipped(content: bytes, bit: int) -> bytes:
    """The content with one bit flipped."""
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def mutated_json(text: str, draw: random.Random) -> str:
    """A document with one entry replaced by something strange, removed, doubled or added."""
    document = json.loads(text)
    owner, keys = document, []
    while isinstance(owner, (dict, list)) and owner:
        keys = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
        key = draw.choice(keys)
        inner = owner[key]
        if not isinstance(inner, (dict, list)) or not inner or draw.random() < 0.3:
            break
        owner = inner
    else:
        return json.dumps(draw.choice(STRANGE))
    kind = draw.randrange(5)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, dict):
        owner[draw.choice(("", "x", "schema", "__class__", "é"))] = draw.choice(STRANGE)
    elif kind == 2:
        owner[key] = NESTED
    else:
        owner[key] = draw.choice(STRANGE)
    return json.dumps(document)


# ------------------------------------------------------------------------------------------ imports

UNSAFE = ("__main__", "__mp_main__", "ray", "grpc")  # not themselves, or not after a fork


def modules_of(call: Callable[[], object]) -> list[str]:
    """The modules that a call imports, by calling it in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
        finally:
            os.write(writer, " ".join(sorted(sys.modules)).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        names = pipe.read().split()
    os.waitpid(child, 0)
    return names


def import_all(names: Iterable[str]) -> None:
    """Import modules here, so that children which are forked from now on have them."""
    for name in names:
        if name not in sys.modules and name.partition(".")[0] not in UNSAFE:
            with suppress(Exception):
                importlib.import_module(name)


# ------------------------------------------------------------------------------------------- places


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def half_written(paths: Iterable[Path]) -> list[Path]:
    """Those of the files that are not whole: under our names, and under those of libraries."""
    return [path for path in paths if path.suffix == ".part" or path.name.startswith(".tmp")]


@contextmanager
def nothing_written_outside(folder: Path) -> Iterator[None]:
    """Files are written, moved and removed below the folder alone; a part of it is entered.

    What Python opens is seen at once; libraries may open files unseen, in the working directory.
    """
    before, entered = Path.cwd(), folder / "entered"
    entered.mkdir()
    os.chdir(entered)
    if not _hooked:
        sys.addaudithook(_watch)  # for ever: it cannot be removed
        _hooked.append(True)
    _allowed.append(str(folder))
    _outside.clear()
    try:
        yield
        assert not _outside, f"written outside: {_outside}"
        assert not list(entered.iterdir()), "something was written to the working directory"
    finally:
        _allowed.clear()
        os.chdir(before)


_hooked: list[bool] = []
_allowed: list[str] = []  # the folder that is watched now, if any
_outside: list[str] = []
NO_FILES = (os.devnull, str(RESET_PEAK))  # writing to them leaves nothing behind
# event -> how many of its first arguments are paths
CHANGES = {"os.rename": 2, "os.link": 2, "os.symlink": 2, "os.remove": 1, "os.rmdir": 1}
CHANGES |= {"os.mkdir": 1, "os.truncate": 1, "os.chmod": 1, "os.utime": 1}


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _allowed:
        return
    paths: tuple[Any, ...] = arguments[: CHANGES.get(event, 0)]
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        paths = arguments[:1]
    for path in paths:
        if isinstance(path, int) or "__pycache__" in os.fsdecode(path):
            continue
        place = os.path.abspath(os.fsdecode(path))
        if place not in NO_FILES and not f"{place}{os.sep}".startswith(_allowed[0] + os.sep):
            _outside.append(f"{event} {place}")
