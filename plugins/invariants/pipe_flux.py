"""Pipe flux: the same volume passes every cross-section of a pipe."""

from __future__ import annotations

import numpy as np

import gsnobench as gb

GSNOBENCH_API = 1
ALONG = "velocity_x"


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """In a plane pipe from an inlet to an outlet whose nodes stand on vertical lines."""
    if mesh.dim != 2 or not {"inlet", "outlet"} <= set(mesh.tags):
        return False
    _, counts = np.unique(mesh.points[:, 0], return_counts=True)
    return ALONG in [field.name for field in task.fields] and bool((counts == counts[0]).all())


def measure(sample: gb.Sample, mesh: gb.Mesh, task: gb.Task) -> float:
    """Largest difference of the flux from that at the inlet, relative to it."""
    channel = [field.name for field in task.fields].index(ALONG)
    x, y = mesh.points.T
    across = len(x) // len(np.unique(x))
    order = np.lexsort((y, x)).reshape(-1, across)  # (sections, nodes of each), upward
    velocity = sample.frames[:, order, channel]  # (T, sections, nodes)
    flux = np.trapezoid(velocity, y[order], axis=-1)  # (T, sections)
    return float(np.abs(flux / flux[:, :1] - 1.0).max())


@gb.hookimpl
def gsnobench_invariant() -> gb.Invariant:
    """The flux; the trapezoidal rule on 33 nodes sees it to about 1 %."""
    help = "difference of the flux through a cross-section from that at the inlet, relative"
    return gb.Invariant("pipe_flux", measure, limit=0.03, help=help, applies=applies)
