"""Drag: error of the drag coefficient of the pressure on a body, in units of the coefficient."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench_plugins.metrics.body_force import applies, coefficient_errors

GSNOBENCH_API = 1


def score(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
    """Mean over frames of |coefficient of p - coefficient of u|."""
    drag, _ = coefficient_errors(p, u, mesh, task)
    return float(np.abs(drag).mean())


@gb.hookimpl
def gsnobench_metric() -> gb.Metric:
    """The error of the drag coefficient as a metric."""
    help = "error of the pressure drag coefficient (by dynamic pressure and chord or frontal area)"
    return gb.Metric("drag", gb.each_sample(score), help=help, applies=applies)
