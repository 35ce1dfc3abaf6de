"""Error of the slopes: relative error in the H1 seminorm, the square root of integral |grad u|^2.

A prediction can be close in L2 and still be rough; gradients show it. They are those of the linear
interpolant on the cells, so each cell counts with its area or volume.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

import gsnobench as gb
from gsnobench.meshes.operators import stiffness

GSNOBENCH_API = 1
TINY = 1e-30  # keeps the relative error of a field without slopes finite

stiffness_of = lru_cache(maxsize=4)(stiffness)  # a mesh has several windows, one after the other


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where there are cells, and all fields have values at all of their corners."""
    return mesh.cells is not None and all(field.support == "all" for field in task.fields)


def score(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
    """Mean over scored fields of |p - u|_H1 / |u|_H1, all frames and components together."""
    matrix = stiffness_of(mesh)
    error, norm = energy(p - u, matrix), energy(u, matrix)  # (C,)
    ratios = [
        np.sqrt(error[list(group)].sum() / max(norm[list(group)].sum(), TINY))
        for group in task.scored.values()
    ]
    return float(np.mean(ratios))


def energy(values: gb.Array, matrix: csr_array) -> gb.Array:
    """Integral of |grad v|^2 over the domain, summed over frames: (T, n, C) -> (C,)."""
    frames, nodes, fields = values.shape
    columns = values.transpose(1, 0, 2).reshape(nodes, -1)  # (n, T*C)
    squares = np.sum(columns * (matrix @ columns), axis=0)  # (T*C,), rounding may make them < 0
    return np.maximum(squares, 0.0).reshape(frames, fields).sum(axis=0)


@gb.hookimpl
def gsnobench_metric() -> gb.Metric:
    """The relative H1 error as a metric."""
    help = "relative error of the gradients: H1 seminorm by area, all frames, mean of scored fields"
    return gb.Metric("rel_h1", gb.each_sample(score), help=help, applies=applies)
