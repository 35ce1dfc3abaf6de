"""Many measurements, each in a process of its own, in turn; what is done is kept in the home."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from gsnobench.files import digest, write_text
from gsnobench.processes import start_forked, stopped_at_end
from gsnobench.runs.costs import describe_environment
from gsnobench.runs.machine import choose_device
from gsnobench.studies.cost.probe import Probe, Reading, answer

if TYPE_CHECKING:
    from gsnobench.studies.base import Engine

PRELOADED = ("gsnobench.studies.cost.probe",)


def measured(
    probes: Mapping[str, Probe], rounds: int, engine: Engine
) -> dict[str, list[Reading | str]]:
    """Readings of every probe, one per round; a text says why there is none.

    Round by round, so that a machine that becomes slower or faster does it to all of them.
    """
    readings: dict[str, list[Reading | str]] = {name: [] for name in probes}
    for turn in range(rounds):
        for name, probe in probes.items():
            engine.report.stage(f"measuring {name}, {turn + 1} of {rounds}")
            readings[name].append(_kept(probe, turn, engine))
    return readings


def _kept(probe: Probe, turn: int, engine: Engine) -> Reading | str:
    """A reading that the home has already, else a new one."""
    hardware = describe_environment(choose_device(probe.device))["hardware"]
    identity = [type(probe).__name__, {**asdict(probe), "home": ""}, turn, hardware]
    path = engine.home.root / "studies" / "measurements" / f"{digest(identity)[:16]}.json"
    if not path.exists():
        body = _in_a_process(probe)
        if "reason" in body:
            return str(body["reason"])
        write_text(path, json.dumps(body) + "\n")
    return Reading(**json.loads(path.read_text(encoding="utf-8")))


def _in_a_process(probe: Probe) -> dict[str, Any]:
    child = start_forked(answer, probe, threads=1, preload=PRELOADED)
    with stopped_at_end([child]):
        body = child.receive()
    return {"reason": "its process died, perhaps out of memory"} if body is None else dict(body)


def failures(readings: Sequence[Reading | str]) -> list[str]:
    return [reading for reading in readings if isinstance(reading, str)]


def done(readings: Sequence[Reading | str]) -> list[Reading]:
    return [reading for reading in readings if isinstance(reading, Reading)]


def quartiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    low, middle, high = np.quantile(np.asarray(seconds, dtype=float), [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def pooled(readings: Sequence[Reading], name: str) -> list[float]:
    """The timed calls of all rounds."""
    return [value for reading in readings for value in reading.seconds[name]]
