"""What the campaign shares: its size and seed, counts of outcomes, mutations, killed children."""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gsnobench.errors import GsnobenchError

SEED = int(os.environ.get("GSNOBENCH_CAMPAIGN_SEED", "0"))
SIZE = float(os.environ.get("GSNOBENCH_CAMPAIGN_SIZE", "1"))  # 1: the whole campaign
SHORT = 1 / 200  # in every `make test`
LONGEST_CPU_S, MOST_BYTES = 20.0, 2e9
COUNTS: Counter[tuple[str, str]] = Counter()  # (subject, outcome) -> how often

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


def outcome(subject: str, call: Callable[[], object], about: object) -> str:
    """Whether a call ends well or in one line; everything else fails the test.

    `about` says how to repeat it.
    """
    began = time.process_time()
    try:
        call()
        ended = "accepted"
    except GsnobenchError as error:
        assert "\n" not in str(error).strip(), f"{subject}: more than one line: {error} ({about!r})"
        ended = "one line"
    except BaseException as error:
        COUNTS[subject, "TRACEBACK"] += 1
        raise AssertionError(f"{subject}: {type(error).__name__} {error} ({about!r})") from error
    assert time.process_time() - began < LONGEST_CPU_S, f"{subject}: hangs ({about!r})"
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert peak < MOST_BYTES, f"{subject}: {peak / 1e9:.2g} GB ({about!r})"
    COUNTS[subject, ended] += 1
    return ended


def lines() -> Iterator[str]:
    """One line per subject: how often what happened."""
    for subject in sorted({subject for subject, _ in COUNTS}):
        parts = sorted((name, count) for (own, name), count in COUNTS.items() if own == subject)
        total = sum(count for _, count in parts)
        yield f"{subject:<34} {total:>6}  " + ", ".join(f"{name} {count}" for name, count in parts)


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


# ------------------------------------------------------------------------------------------- places


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def nothing_written_outside(folder: Path) -> Iterator[None]:
    """The working directory is an empty folder, and stays empty."""
    before = Path.cwd()
    folder.mkdir()
    os.chdir(folder)
    try:
        yield
        assert not list(folder.iterdir()), "something was written to the working directory"
    finally:
        os.chdir(before)
