"""Positivity: densities, depths, equivalent stresses and a gas's pressure are never negative."""

from __future__ import annotations

import gsnobench as gb

GSNOBENCH_API = 1
POSITIVE = ("density", "height", "stress")


def quantities(task: gb.Task) -> list[int]:
    """Positions of the fields that cannot be negative."""
    names = [field.name for field in task.fields]
    gas = ("pressure",) if "density" in names else ()  # without a density it is a difference
    return [names.index(name) for name in (*POSITIVE, *gas) if name in names]


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where there is such a field."""
    return bool(quantities(task))


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """The most negative value of a field, over its largest one; 0 if there is none below 0."""
    values = sample.frames[..., quantities(task)]  # (T, N, c)
    low, high = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    return float(max((-low / abs(high).clip(min=1e-30)).max(), 0.0))


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """No value below 0."""
    help = "most negative value of a quantity that is positive, relative to its largest"
    return gb.Invariant("positivity", measure, limit=0.0, help=help, applies=applies)
