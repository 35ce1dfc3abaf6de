"""Water volume: a wave only moves the water of a lake, so its volume stays."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.operators import lumped_mass

GSNOBENCH_API = 1
DEPTH = "height"


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where the depth of water is known on triangles at several times."""
    names = [field.name for field in task.fields]
    return DEPTH in names and len(task.times) > 1 and mesh.dim == 2 and mesh.cells is not None


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """Largest change of the volume, over the volume displaced at the start."""
    channel = [field.name for field in task.fields].index(DEPTH)
    raised = sample.frames[..., channel] - task.fields[channel].reference  # (T, N)
    areas = lumped_mass(mesh)
    volume, displaced = raised @ areas, np.abs(raised[0]) @ areas
    return float(np.abs(volume - volume[0]).max() / displaced)


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """The volume of the water; published nodes see a bump of three edges to about 2 %."""
    help = "change of the water's volume, relative to the volume displaced at the start"
    return gb.Invariant("water_volume", measure, limit=0.05, help=help, applies=applies)
