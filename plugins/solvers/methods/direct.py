"""Sparse direct solvers for the steps of Newton's method.

The unknowns are already in a good order of elimination.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

import gsnobench as gb

LinearSolver = Literal["superlu", "pardiso"]
Solve = Callable[[gb.Array], gb.Array]
Factorise = Callable[[sp.csc_array], Solve]
# relative to its column: diagonal pivots keep the order, zero ones are passed over
SMALLEST_PIVOT = 0.01


def factoriser(name: LinearSolver) -> Factorise:
    """A function from a matrix to the solver of its systems; nan if it is singular.

    Solutions are accurate to single precision at least.
    """
    if name == "superlu":
        return _superlu
    if find_spec("pypardiso") is None:
        raise gb.ParamError(
            "data.linear_solver: 'pardiso' needs the package pypardiso, which is not installed; "
            "pip install pypardiso, or use 'superlu'"
        )
    return _pardiso


def _superlu(matrix: sp.csc_array) -> Solve:
    # single precision is a third faster; residuals are in double, so Newton's steps correct it
    options = {"SymmetricMode": True}
    single = matrix.astype(np.float32)
    try:
        factors = splu(
            single, permc_spec="NATURAL", diag_pivot_thresh=SMALLEST_PIVOT, options=options
        )
    except RuntimeError:  # exactly singular
        return lambda right: np.full_like(right, np.nan)
    return lambda right: factors.solve(right.astype(np.float32)).astype(np.float64)  # type: ignore[no-any-return]


def _pardiso(matrix: sp.csc_array) -> Solve:
    from pypardiso import PyPardisoSolver

    rows = sp.csr_matrix(matrix)
    solver = PyPardisoSolver()
    solver.factorize(rows)
    return lambda right: solver.solve(rows, right)  # type: ignore[no-any-return]
