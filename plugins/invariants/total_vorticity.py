"""Total vorticity: no wall makes any (dw/dn = 0), so a steady force changes it at a steady rate."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.operators import lumped_mass

GSNOBENCH_API = 1
VORTICITY = "vorticity"


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where a vorticity without flux through the walls is known at several times."""
    return (
        [field.name for field in task.fields] == [VORTICITY]
        and set(task.fields[0].boundary.values()) == {"neumann"}
        and len(task.times) > 2
        and mesh.cells is not None
    )


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """Largest distance of the total from a straight line in time, over that of its size."""
    areas, frames = lumped_mass(mesh), sample.frames[..., 0]  # (T, N)
    total, times = frames @ areas, np.asarray(task.times)
    line = np.interp(times, times[[0, -1]], total[[0, -1]])
    return float(np.abs(total - line).max() / (np.abs(frames) @ areas).max())


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """The total vorticity; published nodes see it to about 0.1 %."""
    help = "distance of the total vorticity from a straight line in time, relative to its size"
    return gb.Invariant("total_vorticity", measure, limit=0.005, help=help, applies=applies)
