"""Explicit time integration that meets given times exactly, and the longest stable step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numba import njit

import gsnobench as gb

Rhs = Callable[[gb.Array, gb.Array], None]  # rhs(state, out): writes d state / dt into out
Work = tuple[gb.Array, ...]
Step = Callable[[Rhs, gb.Array, Work, float], None]


def ssp_rk3(
    rhs: Rhs, state: gb.Array, times: Sequence[float], max_step: float
) -> Iterator[gb.Array]:
    """The state at each of the times, by the Runge-Kutta method of Shu and Osher (1988).

    It is of third order and preserves strong stability. The state at the first time is given; each
    interval is cut into equal steps of at most `max_step`. The yielded array is the integrator's
    own and changes with the next one: copy what is to be kept.
    """
    return _march(_ssp_rk3_step, rhs, state, times, max_step)


def rk4(rhs: Rhs, state: gb.Array, times: Sequence[float], max_step: float) -> Iterator[gb.Array]:
    """As `ssp_rk3`, by the classical Runge-Kutta method of fourth order.

    Stable for steps of up to 2.78 over the largest decay rate and 2.82 over the largest frequency.
    """
    return _march(_rk4_step, rhs, state, times, max_step)


def _march(
    step: Step, rhs: Rhs, state: gb.Array, times: Sequence[float], max_step: float
) -> Iterator[gb.Array]:
    # steps work on flat views, which other orders do not have
    state = np.array(state, dtype=np.float64, order="C")
    work = tuple(np.empty_like(state) for _ in range(3))
    yield state
    for begin, end in zip(times[:-1], times[1:], strict=True):
        steps = max(1, math.ceil((end - begin) / max_step - 1e-9))
        for _ in range(steps):
            step(rhs, state, work, (end - begin) / steps)
        yield state


def _rk4_step(rhs: Rhs, state: gb.Array, work: Work, dt: float) -> None:
    """One step in place: rates at the start, twice in the middle, at the end, as 1 : 2 : 2 : 1."""
    stage, rate, total = work
    rhs(state, rate)
    np.copyto(total, rate)
    for reach, weight in ((0.5, 2.0), (0.5, 2.0), (1.0, 1.0)):
        _add(stage.reshape(-1), state.reshape(-1), rate.reshape(-1), reach * dt)
        rhs(stage, rate)
        _add(total.reshape(-1), total.reshape(-1), rate.reshape(-1), weight)
    _add(state.reshape(-1), state.reshape(-1), total.reshape(-1), dt / 6.0)


@njit(cache=True, error_model="numpy")
def _add(out, start, rate, dt):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = start[i] + dt * rate[i]


def _ssp_rk3_step(rhs: Rhs, state: gb.Array, work: Work, dt: float) -> None:
    """One step in place: an Euler step, then twice a mean of the start and a further Euler step."""
    stage, rate, _ = work
    rhs(state, rate)
    _mix(stage.reshape(-1), state.reshape(-1), state.reshape(-1), rate.reshape(-1), 1.0, dt)
    rhs(stage, rate)
    _mix(stage.reshape(-1), state.reshape(-1), stage.reshape(-1), rate.reshape(-1), 0.25, dt)
    rhs(stage, rate)
    _mix(state.reshape(-1), state.reshape(-1), stage.reshape(-1), rate.reshape(-1), 2.0 / 3.0, dt)


@njit(cache=True, error_model="numpy")
def _mix(out, start, here, rate, weight, dt):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = start[i] + weight * (here[i] - start[i] + dt * rate[i])


def spectral_radius(
    rhs: Rhs, shape: tuple[int, ...], *, size: float = 1e-6, turns: int = 120
) -> float:
    """The rate of the fastest small disturbance of the zero state, 1/s.

    By power iteration from a fixed start. Steps are limited by the worst cell of a mesh, which no
    mean edge length tells; this asks the scheme itself. Oscillating modes make single growths swing
    about the result, hence a geometric mean over the later turns.
    """
    vector = np.random.default_rng(0).standard_normal(shape)
    rate = np.empty(shape)
    growth = []
    for _ in range(turns):
        vector *= size / _norm(vector)
        rhs(vector, rate)
        growth.append(math.log(_norm(rate) / size))
        vector, rate = rate, vector
    later = growth[turns // 2 :]
    return math.exp(sum(later) / len(later))


def _norm(vector: gb.Array) -> float:
    # no BLAS: the same bits whatever its number of threads
    return math.sqrt(float(np.sum(vector * vector)))
