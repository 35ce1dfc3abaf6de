"""Newton's method with kept factors; where it fails, continuation in the viscosity; where that
ends, a march in time.
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
FAST_ENOUGH = 0.3  # factors are kept while the residual falls by this factor a step
MOST_STEPS = 40
FIRST_EASING = 4.0  # the viscosity is raised by this factor where the first attempt fails
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
    """The solution near `state`, or None as soon as a full step with a fresh Jacobian does not
    lower the residual.

    So strict a rule keeps to the solution that the start belongs to; steps with kept factors that
    fail are taken anew.
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
    """The steady state that the flow from `state` comes to, by linearised implicit Euler steps;
    None if it comes to none.

    Steps grow as the residual falls (switched evolution relaxation), so that the last ones are
    Newton's. The tolerance is the strict one always: where a branch has just ended, the flow passes
    slowly by states of small residual.
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
    """The solution at `viscosity`, by way of larger ones where Newton's method needs them; None if
    that does not help.

    Where it fails, the viscosity halfway (in the logarithm) to the last solved one is tried first.
    A branch of solutions may end on the way (a bubble that opens at the outlet); the flow is then
    left to find its steady state in time.
    """
    solved: float | None = None
    pending = [viscosity]
    while pending:
        now = pending[-1]
        found = newton(
            system_at(now), state, factorise, tolerance if now == viscosity else ON_THE_WAY
        )
        if found is not None:
            state, solved = found, pending.pop()
            continue
        easier = FIRST_EASING * now if solved is None else float(np.sqrt(now * solved))
        if easier > EASIEST * viscosity:
            return None
        if easier < CLOSEST * now:
            return march(system_at(viscosity), state, factorise)
        pending.append(easier)
    return state
