"""Burgers' equation on two nested meshes, extrapolated to the published nodes.

The smooth end of a trajectory is computed in modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import gsnobench as gb
from gsnobench_plugins.solvers.equations.burgers import Flow, burgers_rhs, make_flow, top_speed
from gsnobench_plugins.solvers.equations.heat_modes import HeatModes, heat_modes, march_in_modes
from gsnobench_plugins.solvers.methods.integrate import rk4

MODES = 64
# The march ends and the modes take over at the first frame that they carry up to this share of its
# norm.
MISSED = 1e-3


@dataclass(frozen=True, eq=False)
class NestedFlow:
    """A published mesh, solved on its refinements r - 1 and r; without modes marched to the end."""

    meshes: tuple[gb.Mesh, gb.Mesh]  # coarse, fine
    flows: tuple[Flow, Flow]
    modes: tuple[HeatModes, HeatModes] | None
    published: int  # nodes

    @property
    def rates(self) -> gb.Array:
        """Eigenvalues of -Laplace extrapolated from both meshes, (K,)."""
        assert self.modes is not None
        coarse, fine = self.modes
        return np.asarray(fine.values + (fine.values - coarse.values) / 3.0)


def nest(
    mesh: gb.Mesh,
    refine: Callable[[gb.Mesh], gb.Mesh],
    *,
    refinements: int,
    with_modes: bool,
    cache: gb.Cache,
) -> NestedFlow:
    """Refine a published mesh and prepare both levels; the modes are kept in the cache."""
    levels = [mesh]
    for _ in range(refinements):
        levels.append(refine(levels[-1]))
    coarse, fine = levels[-2:]
    flows = make_flow(coarse), make_flow(fine)
    modes = (
        (_cached_modes(coarse, flows[0], cache), _cached_modes(fine, flows[1], cache))
        if with_modes
        else None
    )
    return NestedFlow((coarse, fine), flows, modes, mesh.size)


def _cached_modes(mesh: gb.Mesh, flow: Flow, cache: gb.Cache) -> HeatModes:
    def compute() -> dict[str, gb.Array]:
        modes = heat_modes(flow, MODES)
        return {"values": modes.values, "vectors": modes.vectors}

    arrays = cache.arrays("heat-modes-v1", {"mesh": mesh.key, "modes": MODES}, compute)
    return HeatModes(arrays["values"], arrays["vectors"])


def solve(
    nested: NestedFlow, initial: Sequence[gb.Array], times: Sequence[float], *, viscosity: float
) -> gb.Array:
    """Velocity at the published nodes at each time, (T, N, d).

    `states` are the node values (N_level, d) on the coarse and on the fine mesh. Both errors fall
    with the square of the edge length, so a third of the difference is added to the finer solution.
    """
    fine = march(
        nested.flows[1],
        initial[1],
        times,
        viscosity=viscosity,
        modes=nested.modes and nested.modes[1],
    )
    marched = len(fine)
    coarse = march(nested.flows[0], initial[0], times[:marched], viscosity=viscosity)
    if nested.modes is not None and marched < len(times):
        # both levels decay at the extrapolated rates, so that they never part
        rest, rates = times[marched - 1 :], viscosity * nested.rates
        coarse += march_in_modes(nested.flows[0], nested.modes[0], rates, coarse[-1], rest)
        fine += march_in_modes(nested.flows[1], nested.modes[1], rates, fine[-1], rest)
    frames = np.zeros((len(times), nested.published, nested.flows[0].dim))
    for frame, a, b in zip(frames, coarse, fine, strict=True):
        below, above = (
            to_nodes(flow, state)[: nested.published]
            for flow, state in zip(nested.flows, (a, b), strict=True)
        )
        frame[...] = above + (above - below) / 3.0
    return frames


def march(
    flow: Flow,
    initial: gb.Array,
    times: Sequence[float],
    *,
    viscosity: float,
    modes: HeatModes | None = None,
) -> list[gb.Array]:
    """States (n, d) at the times, up to and including the first that the modes carry.

    The step follows the present top speed.
    """
    rhs = burgers_rhs(flow, viscosity)
    states = [np.ascontiguousarray(initial[flow.free])]
    for begin, end in zip(times[:-1], times[1:], strict=True):
        if modes is not None and modes.missed(flow, states[-1]) <= MISSED:
            break
        *_, last = rk4(rhs, states[-1], (begin, end), flow.step(viscosity, top_speed(states[-1])))
        states.append(last.copy())
    return states


def to_nodes(flow: Flow, state: gb.Array) -> gb.Array:
    """Values at all nodes, zero on the boundary, (N, d)."""
    values = np.zeros((flow.nodes, state.shape[1]))
    values[flow.free] = state
    return values
