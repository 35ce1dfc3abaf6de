"""What `gsnobench data verify` finds in a file: hashes, splits, units, walls and invariants.

Hashes, splits and finite values are about every number; walls and invariants about a few samples of
each split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsnobench.data import Array, Mesh, Samples, Split, Task, split_named
from gsnobench.datasets import store
from gsnobench.datasets.store import Opened, open_file
from gsnobench.declare import Invariant, Sample

PER_SPLIT = 4  # samples of each split on which walls and invariants are measured
ROUNDING = 1e-6  # of a value at a wall that should be 0, relative to the largest inside
# a product of names with exponents, as in UDUNITS: "kg m-3", "m/s", "1", "degrees_north"
UNIT = re.compile(r"1|[A-Za-zµ%°_]+(\^?-?\d+)?([ .*/][A-Za-zµ%°_]+(\^?-?\d+)?)*")


@dataclass(frozen=True)
class Verdict:
    """One check of a file: whether it passed, and what was seen."""

    check: str
    passed: bool
    detail: str


def verify_file(path: Path, invariants: Sequence[Invariant]) -> list[Verdict]:
    """All verdicts on a file; a file that cannot be read or is torn is a DataError."""
    store.verify(path)  # reads everything: finite, no sample in two splits, hashes
    with open_file(path) as opened:
        sizes = ", ".join(f"{split} {size}" for split, size in opened.task.sizes.items())
        return [
            Verdict("hashes", True, f"content {opened.content_hash[:12]}, and of every split"),
            Verdict("values", True, "every number is finite"),
            Verdict("splits", True, f"no sample is in two of {sizes}"),
            _units(opened),
            _times(opened.task),
            *_measured(opened, invariants),
        ]


def _units(opened: Opened) -> Verdict:
    """Units that can be read, the same in the task and at the variables."""
    variables, task, wrong = opened.handle.file.variables, opened.task, []
    kinds = (("field", task.fields), ("static", task.static), ("scalar", task.scalars))
    for kind, fields in kinds:
        for field in fields:
            stated = getattr(variables[f"{kind}_{field.name}"], "units", field.unit)
            if stated != field.unit:
                wrong.append(f"{field.name} in {stated!r}, by its task {field.unit!r}")
            elif not UNIT.fullmatch(field.unit):
                wrong.append(f"{field.name} in {field.unit!r}, which is no unit such as 'm s-1'")
    stated = [f"{field.name} {field.unit}" for _, fields in kinds for field in fields]
    shown = stated[:6] + ([f"and {len(stated) - 6} more"] if len(stated) > 6 else [])
    return Verdict("units", not wrong, "; ".join(wrong) or ", ".join(shown))


def _times(task: Task) -> Verdict:
    times = np.asarray(task.times)
    if len(times) == 1:
        return Verdict("times", True, "steady")
    is_rising = bool((np.diff(times) > 0).all())
    span = f"{len(times)} frames from {times[0]:g} to {times[-1]:g}"
    return Verdict("times", is_rising, span if is_rising else f"{span}, which do not only rise")


@dataclass(frozen=True)
class _Seen:
    """One sample without padding, and where it is."""

    split: Split
    index: int
    sample: Sample
    mesh: Mesh


def _measured(opened: Opened, invariants: Sequence[Invariant]) -> Iterator[Verdict]:
    """Walls, and all invariants that apply."""
    task, seen = opened.task, list(_some(opened))
    if any("dirichlet" in field.boundary.values() for field in task.fields):
        yield _worst("walls", seen, [_at_walls(task, one) for one in seen], ROUNDING)
    for invariant in invariants:
        if invariant.applies(task, seen[0].mesh):
            values = [float(invariant.measure(one.sample, one.mesh, task)) for one in seen]
            yield _worst(invariant.name, seen, values, invariant.limit, invariant.help)


def _some(opened: Opened) -> Iterator[_Seen]:
    """A few samples of every split, evenly spread."""
    for name in opened.task.sizes:
        split = split_named(name)
        samples = opened.split(split)
        count = min(PER_SPLIT, len(samples))
        for index in np.linspace(0, len(samples) - 1, count).round().astype(int).tolist():
            yield _Seen(split, index, _sample(samples, index), samples.mesh(index))


def _sample(samples: Samples, index: int) -> Sample:
    nodes = samples.mesh(index).size

    def exact(values: Array) -> Array:
        return np.asarray(values, dtype=np.float64)

    return Sample(
        frames=exact(samples.frames[index])[:, :nodes],
        static=exact(samples.static[index])[:nodes],
        scalars=exact(samples.scalars[index]),
        mesh=samples.mesh(index),
    )


def _at_walls(task: Task, seen: _Seen) -> float:
    """The largest value where a field is 0 by declaration, over its largest value anywhere."""
    worst = 0.0
    for channel, field in enumerate(task.fields):
        values = np.abs(seen.sample.frames[..., channel])  # (T, N)
        for tag, condition in field.boundary.items():
            if condition == "dirichlet" and tag in seen.mesh.tags:
                at_wall = values[:, np.asarray(seen.mesh.tags[tag], dtype=bool)]
                worst = max(worst, float(at_wall.max(initial=0.0) / max(values.max(), 1e-30)))
    return worst


def _worst(
    check: str, seen: Sequence[_Seen], values: Sequence[float], limit: float, help: str = ""
) -> Verdict:
    """The worst of some samples; a value that is not a number is worse than all."""
    position = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
    value, at = values[position], seen[position]
    what = help or "largest value where a field is 0, relative to its largest anywhere"
    detail = f"{value:.2g} in {at.split} {at.index}, limit {limit:g}: {what}"
    return Verdict(check, bool(value <= limit), detail)
