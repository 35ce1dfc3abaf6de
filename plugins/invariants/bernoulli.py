"""Bernoulli's law: on a body in potential flow, p = rho/2 (U^2 - |v|^2)."""

from __future__ import annotations

import numpy as np

import gsnobench as gb

GSNOBENCH_API = 1
SURFACE = "surface"
KNOBS = {"density", "speed"}  # of the air


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where pressure and velocity are known on a body, and density and speed of the stream."""
    names = [field.name for field in task.fields]
    is_known = "pressure" in names and "velocity" in task.vectors and set(task.data) >= KNOBS
    return is_known and SURFACE in mesh.tags


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """Largest difference on the body, over the dynamic pressure of the stream."""
    on_body = np.asarray(mesh.tags[SURFACE], dtype=bool)
    channel = [field.name for field in task.fields].index("pressure")
    pressure = sample.frames[:, on_body, channel]  # (T, n)
    velocity = sample.frames[:, on_body][..., list(task.vectors["velocity"])]  # (T, n, 3)
    half, speed = 0.5 * float(task.data["density"]), float(task.data["speed"])
    law = half * (speed**2 - np.sum(velocity**2, axis=-1))
    return float(np.abs(pressure - law).max() / (half * speed**2))


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """The law, which the stored pressure follows to its last digits."""
    help = "difference from Bernoulli's law on the body, relative to the dynamic pressure"
    return gb.Invariant("bernoulli", measure, limit=1e-5, help=help, applies=applies)
