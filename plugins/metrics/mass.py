"""Conservation of mass: water that a prediction makes or loses in a lake.

A wave only moves water. The error of the lake's total volume is divided by the volume that is
displaced from the level at rest, not by all of the water: a wave is a hundredth of that.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import gsnobench as gb
from gsnobench.meshes.operators import lumped_mass

GSNOBENCH_API = 1
TINY = 1e-30  # keeps the error on a lake at rest finite
DEPTH = "height"  # the field whose integral is the volume of the water

node_areas = lru_cache(maxsize=4)(lumped_mass)  # exact for the integral of a linear interpolant


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where a depth of water is known on triangles."""
    names = [field.name for field in task.fields]
    return DEPTH in names and mesh.dim == 2 and mesh.cells is not None


def score(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
    """Mean over frames of |integral of p - u|, over the mean of integral |u - reference|."""
    channel = [field.name for field in task.fields].index(DEPTH)
    areas = node_areas(mesh)
    created = np.abs((p - u)[..., channel] @ areas)  # (T,)
    displaced = np.abs(u[..., channel]) @ areas  # (T,), values are already minus the reference
    return float(created.mean() / max(displaced.mean(), TINY))


@gb.hookimpl
def gsnobench_metric() -> gb.Metric:
    """The error of the water's volume as a metric."""
    help = "error of the lake's total volume, mean over frames, relative to the displaced volume"
    return gb.Metric("mass", gb.each_sample(score), help=help, applies=applies)
