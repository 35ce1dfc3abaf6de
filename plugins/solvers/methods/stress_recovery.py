"""Values at the vertices, or averages near a point, of fields that a finite element solution gives
at quadrature points.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import splu

import gsnobench as gb
from gsnobench_plugins.solvers.methods.taylor_hood import QUADRATURE, TaylorHood, quadratic_shapes


def recover(space: TaylorHood, values: gb.Array) -> gb.Array:
    """The linear fields nearest in L2 to (M, Q, k), with the consistent mass matrix, (v, k)."""
    factors = splu(
        space.linear_mass(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return np.asarray(factors.solve(space.linear_load(values)))


def mean_near(space: TaylorHood, values: gb.Array, centre: gb.Array, radius: float) -> float:
    """Mean of a field (M, Q) around a point with the weight 1 - (distance / radius)^2, zero beyond
    the radius.
    """
    places = np.einsum(
        "qa,mai->mqi", quadratic_shapes(QUADRATURE), space.nodes[space.cells], optimize=True
    )
    weight = space.weights * np.maximum(
        0.0, 1.0 - np.sum((places - centre) ** 2, axis=2) / radius**2
    )
    if not weight.any():
        raise gb.DataError(
            f"stress: no cell lies within {radius:g} of {centre.tolist()}; refine the mesh there "
            "or widen the radius"
        )
    return float(np.sum(weight * values) / np.sum(weight))
