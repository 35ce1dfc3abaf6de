"""Vertex values, and averages near a point, of fields given at quadrature points."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.operators import factorise
from gsnobench_plugins.solvers.methods.taylor_hood import QUADRATURE, TaylorHood, quadratic_shapes


def recover(space: TaylorHood, values: gb.Array) -> gb.Array:
    """The linear fields nearest in L2 to (M, Q, k), with the consistent mass matrix, (v, k)."""
    return np.asarray(factorise(space.linear_mass()).solve(space.linear_load(values)))


def mean_near(space: TaylorHood, values: gb.Array, centre: gb.Array, radius: float) -> float:
    """Mean of a field (M, Q) around a point, weighted by max(0, 1 - (distance / radius)^2)."""
    shapes = quadratic_shapes(QUADRATURE)
    points = np.einsum("qa,mai->mqi", shapes, space.nodes[space.cells], optimize=True)
    squared = np.sum((points - centre) ** 2, axis=2)
    weight = space.weights * np.maximum(0.0, 1.0 - squared / radius**2)
    if not weight.any():
        raise gb.DataError(
            f"stress: no cell lies within {radius:g} of {centre.tolist()}; refine the mesh there "
            "or widen the radius"
        )
    return float(np.sum(weight * values) / np.sum(weight))
