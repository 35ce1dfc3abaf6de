"""Explicit time integration that meets the wanted times exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gsnobench.data import Array

Rhs = Callable[[Array, Array], None]  # rhs(state, out): writes d state / dt into out


def ssp_rk3(rhs: Rhs, state: Array, times: Sequence[float], max_step: float) -> Iterator[Array]:
    """The state at each of the times, starting from the state at the first, by the strong-stability-preserving
    Runge-Kutta method of third order in four stages (Spiteri and Ruuth 2002), whose steps are twice as long as those of
    the three-stage method; each interval is cut into equal steps of at most `max_step`.

    The yielded array is the integrator's own and changes with the next one: copy what is to be kept.
    """
    state = np.array(state, dtype=np.float64)
    stage, rate = np.empty_like(state), np.empty_like(state)
    yield state
    for begin, end in zip(times[:-1], times[1:], strict=True):
        steps = max(1, math.ceil((end - begin) / max_step - 1e-9))
        for _ in range(steps):
            _step(rhs, state, stage, rate, 0.5 * (end - begin) / steps)
        yield state


def _step(rhs: Rhs, state: Array, stage: Array, rate: Array, half: float) -> None:
    """One step in place: four Euler steps of half its length, the third followed by 2/3 of the way back to the start."""
    stage[...] = state
    for number in range(4):
        rhs(stage, rate)
        rate *= half
        stage += rate
        if number == 2:
            stage -= state
            stage /= 3.0
            stage += state
    state[...] = stage
