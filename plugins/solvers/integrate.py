"""Explicit time integration that meets the wanted times exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numba import njit

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


def spectral_radius(rhs: Rhs, shape: tuple[int, ...], *, size: float = 1e-6, turns: int = 300) -> float:
    """Largest growth of a small disturbance of the zero state under the linearised rhs, by power iteration from a fixed start.

    The steps of `ssp_rk3` are stable up to 5.15 over this number where the fastest mode is damped, not oscillating.
    """
    vector = np.random.default_rng(0).standard_normal(shape)
    rate = np.empty(shape)
    growth = []
    for _ in range(turns):
        vector *= size / np.linalg.norm(vector)
        rhs(vector, rate)
        growth.append(float(np.linalg.norm(rate)) / size)
        vector, rate = rate, vector
    return max(growth[turns // 2 :])


def _step(rhs: Rhs, state: Array, stage: Array, rate: Array, half: float) -> None:
    """One step in place: four Euler steps of half its length, the third followed by 2/3 of the way back to the start."""
    stage[...] = state
    for number in range(4):
        rhs(stage, rate)
        _advance(stage.reshape(-1), rate.reshape(-1), half)
        if number == 2:
            _return(stage.reshape(-1), state.reshape(-1))
    state[...] = stage


@njit(cache=True, error_model="numpy")
def _advance(stage, rate, half):  # type: ignore[no-untyped-def]
    for i in range(stage.shape[0]):
        stage[i] += half * rate[i]


@njit(cache=True, error_model="numpy")
def _return(stage, state):  # type: ignore[no-untyped-def]
    for i in range(stage.shape[0]):
        stage[i] = (stage[i] + 2.0 * state[i]) / 3.0
