"""Newton's method with kept factors; if it fails, continuation in the viscosity.

If that ends too, a march in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench_plugins.solvers.methods.direct import Factorise, Solve

TOLERANCE = 1e-10  # Euclidean norm of the weak residual
ON_THE_WAY = 1e-4  # the same for solutions that only start others
FAST_ENOUGH = 0.3  # factors are kept while the residual falls by this factor per step
MOST_STEPS = 40
FIRST_EASING = 4.0  # the viscosity is raised by this factor if the first attempt fails
# ratios of viscosities at which the search for an easier problem is given up
EASIEST, CLOSEST = 1e4, 1.02
FIRST_RATE = 2.0  # one over the first time step of a march
SLOWEST, FASTEST = 0.5, 2.0  # change of that rate from step to step
LONGEST_MARCH = 200


class System(Protocol):
    """Steady equations with their derivative, to which `rate` times the mass matrix is added."""

    def residual(self, state: gb.Array) -> gb.Array: ...
    def jacobian(self, state: gb.Array, rate: float = 0.0) -> sp.csc_array: ...


def newton(
    system: System, state: gb.Array, factorise: Factorise, tolerance: float = TOLERANCE
) -> gb.Array | None:
    """The solution near `state`, or None if a step with a fresh Jacobian does not help.

    A full step must lower the residual. So strict a rule keeps to the solution that the start
    belongs to; steps with kept factors that fail are repeated.
    """
    solve: Solve | None = None
    residual = system.residual(state)
    norm = float(np.linalg.norm(residual))
    for _ in range(MOST_STEPS):
        if norm <= tolerance:
            return state
        is_fresh = solve is None
        if solve is None:
            solve = factorise(system.jacobian(state))
        attempt = state - solve(residual)
        change = system.residual(attempt)
        reached = float(np.linalg.norm(change))
        if reached < norm:
            state, residual = attempt, change
        elif is_fresh:
            return None
        if not reached <= FAST_ENOUGH * norm:
            solve = None
        norm = min(norm, reached)
    return None


def march(system: System, state: gb.Array, factorise: Factorise) -> gb.Array | None:
    """The steady state that the flow from `state` comes to, or None if it comes to none.

    Steps are those of the linearised implicit Euler method. Steps grow as the residual falls
    (switched evolution relaxation), so that the last ones are Newton's. The tolerance is the strict
    one always: where a branch has just ended, the flow passes slowly by states of small residual.
    """
    rate = FIRST_RATE
    residual = system.residual(state)
    norm = float(np.linalg.norm(residual))
    for _ in range(LONGEST_MARCH):
        if norm <= TOLERANCE:
            return state
        state = state - factorise(system.jacobian(state, rate))(residual)
        residual, before = system.residual(state), norm
        norm = float(np.linalg.norm(residual))
        if not np.isfinite(norm):
            return None
        rate *= min(max(norm / before, SLOWEST), FASTEST)
    return None


def continued(
    system_at: Callable[[float], System],
    state: gb.Array,
    viscosity: float,
    factorise: Factorise,
    *,
    tolerance: float = TOLERANCE,
) -> gb.Array | None:
    """The solution at `viscosity`, by larger viscosities if Newton's method needs them, or None.

    If it fails, the viscosity halfway (in the logarithm) to the last solved one is tried first.
    A branch of solutions may end on the way (a bubble that opens at the outlet); the flow is then
    left to reach its steady state in time.
    """
    solved: float | None = None
    pending = [viscosity]
    while pending:
        now = pending[-1]
        enough = tolerance if now == viscosity else ON_THE_WAY
        solution = newton(system_at(now), state, factorise, enough)
        if solution is not None:
            state, solved = solution, pending.pop()
            continue
        easier = FIRST_EASING * now if solved is None else float(np.sqrt(now * solved))
        if easier > EASIEST * viscosity:
            return None
        if easier < CLOSEST * now:
            return march(system_at(viscosity), state, factorise)
        pending.append(easier)
    return state
