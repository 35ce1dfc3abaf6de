"""Explicit time integration that meets the wanted times exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gsnobench.data import Array

Rhs = Callable[[Array, Array], None]  # rhs(state, out): writes d state / dt into out


def ssp_rk3(rhs: Rhs, state: Array, times: Sequence[float], max_step: float) -> Iterator[Array]:
    """The state at each of the times, from the state at the first one, by the third-order strong-stability-preserving
    Runge-Kutta method (Shu and Osher 1988); each interval is cut into equal steps of at most `max_step`.

    The yielded array is the integrator's own: copy what is to be kept.
    """
    state = np.array(state, dtype=np.float64)
    stage, rate = np.empty_like(state), np.empty_like(state)
    yield state
    for begin, end in zip(times[:-1], times[1:], strict=True):
        steps = max(1, math.ceil((end - begin) / max_step - 1e-9))
        for _ in range(steps):
            _step(rhs, state, stage, rate, (end - begin) / steps)
        yield state


def _step(rhs: Rhs, state: Array, stage: Array, rate: Array, dt: float) -> None:
    """One step in place: u1 = u + dt f(u), u2 = 3/4 u + 1/4 (u1 + dt f(u1)), u <- 1/3 u + 2/3 (u2 + dt f(u2))."""
    rhs(state, rate)
    np.multiply(rate, dt, out=stage)
    stage += state
    for weight in (0.25, 2.0 / 3.0):
        rhs(stage, rate)
        rate *= dt
        stage += rate
        stage -= state
        stage *= weight
        stage += state
    state[...] = stage
