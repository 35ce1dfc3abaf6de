"""Conservation of flux: what flows through the cross-sections of a pipe.

The same volume passes every cross-section. These are the vertical lines of nodes, from the inlet to
the outlet, so the velocity along x is all that the flux needs, however the pipe bends.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

import gsnobench as gb

GSNOBENCH_API = 1
TINY = 1e-30  # keeps the error of a fluid at rest finite
ALONG = "velocity_x"


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """In a plane pipe from an inlet to an outlet whose nodes stand on vertical lines."""
    if mesh.dim != 2 or not {"inlet", "outlet"} <= set(mesh.tags):
        return False
    _, counts = np.unique(mesh.points[:, 0], return_counts=True)
    return ALONG in [field.name for field in task.fields] and bool(counts.min() > 1)


@lru_cache(maxsize=4)
def sections(mesh: gb.Mesh) -> csr_array:
    """Trapezoidal rule along every vertical line of nodes, (sections, N)."""
    x, y = mesh.points.T
    lines, line = np.unique(x, return_inverse=True)
    order = np.lexsort((y, line))  # line by line, upward
    lower, upper = order[:-1], order[1:]
    is_same = line[lower] == line[upper]
    lower, upper = lower[is_same], upper[is_same]
    half = 0.5 * (y[upper] - y[lower])
    rows, columns = np.tile(line[lower], 2), np.concatenate([lower, upper])
    return csr_array((np.tile(half, 2), (rows, columns)), shape=(len(lines), mesh.size))


def score(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
    """Mean over sections and frames of |flux of p - flux of u|, over the mean of |flux of u|."""
    position = [field.name for field in task.fields].index(ALONG)
    across, reference = sections(mesh), task.fields[position].reference
    error = across @ (p - u)[..., position].T  # (sections, T)
    flux = across @ (u[..., position] + reference).T
    return float(np.abs(error).mean() / max(np.abs(flux).mean(), TINY))


@gb.hookimpl
def gsnobench_metric() -> gb.Metric:
    """The error of the flux as a metric."""
    help = "error of the flux through the cross-sections of a pipe, mean over them, relative"
    return gb.Metric("flux", gb.each_sample(score), help=help, applies=applies)
