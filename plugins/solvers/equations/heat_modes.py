"""Burgers' equation in the slowest Dirichlet modes of -Laplace.

Decay is exact, so that a smooth field needs few steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import gsnobench as gb
from gsnobench.meshes.solver_modes import dirichlet_modes
from gsnobench_plugins.solvers.equations.burgers import Flow, burgers_rhs

SLOWEST_DECAYS = 5  # steps in the decay time of the slowest mode


@dataclass(frozen=True, eq=False)
class HeatModes:
    """The K slowest modes at the free nodes of a flow, orthonormal in its lumped mass."""

    values: gb.Array  # (K,) ascending
    vectors: gb.Array  # (n, K)

    def amplitudes(self, flow: Flow, state: gb.Array) -> gb.Array:
        """Coefficients of a field, (K, d)."""
        return np.asarray(self.vectors.T @ (flow.mass[:, None] * state))

    def missed(self, flow: Flow, state: gb.Array) -> float:
        """Share of the norm of a field that the modes do not carry."""
        total = float(np.sum(flow.mass[:, None] * state**2))
        carried = float(np.sum(self.amplitudes(flow, state) ** 2))
        return float(np.sqrt(max(total - carried, 0.0) / total))


def heat_modes(flow: Flow, count: int) -> HeatModes:
    """The `count` slowest modes of a flow."""
    return HeatModes(*dirichlet_modes(flow.stiffness(), flow.mass, count))


def march_in_modes(
    flow: Flow, modes: HeatModes, rates: gb.Array, state: gb.Array, times: Sequence[float]
) -> list[gb.Array]:
    """States (n, d) at all times but the first, from the state at the first.

    Mode k decays at rates[k]. Exponential Runge-Kutta steps of second order (Cox and Matthews 2002,
    ETD2RK): decay is exact, advection is projected onto the modes.
    """
    advect = burgers_rhs(flow, 0.0)
    change = np.empty_like(state)

    def advection(amplitudes: gb.Array) -> gb.Array:
        advect(modes.vectors @ amplitudes, change)
        return modes.amplitudes(flow, change)

    amplitudes, states = modes.amplitudes(flow, state), []
    for begin, end in zip(times[:-1], times[1:], strict=True):
        steps = max(1, math.ceil(SLOWEST_DECAYS * float(rates[0]) * (end - begin)))
        dt = (end - begin) / steps
        decay = -dt * rates[:, None]  # (K, 1)
        first, second = dt * np.expm1(decay) / decay, dt * (np.expm1(decay) - decay) / decay**2
        for _ in range(steps):
            at_start = advection(amplitudes)
            predicted = np.exp(decay) * amplitudes + first * at_start
            amplitudes = predicted + second * (advection(predicted) - at_start)
        states.append(modes.vectors @ amplitudes)
    return states
