r"""Burgers' equation in a pyramid: a smooth random velocity that does not fit the walls dies.

Equation  dv/dt + v.grad v = nu Laplace v, v = 0 on the whole boundary; each component of v(x, 0) is
          a sum of eight waves a sin(omega k.x + phi), the field scaled to a root mean square of
          `magnitude`.
TeX       \partial_t v + v \cdot \nabla v = \nu \Delta v
Domain    pyramid of height 1 on the unit square, tetrahedra.
Varies    the initial field; 51 frames over T = 1 of the velocity (u, v, w).
Source    generated here: linear elements on the published mesh and on its refinement (lively: on
          its first and second), extrapolated to the published nodes.
Differs:  number of waves, frequencies and magnitude are not printed: 8, uniform in [3, 9], 1. The
          mesh has the printed nodes, not the printed tetrahedra (1867 nodes have 9607; 7514 would
          need slivers); boundary nodes are 0 at t = 0.
Licence   Apache-2.0, as the code.
Start     `burgers3d_lively`: as printed (nu = 0.1) the field has lost about 94 % of its norm after
          15 of 50 frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.solvers.equations.nested_burgers import NestedFlow, nest, solve
from gsnobench_plugins.solvers.meshing.pyramid import depths, mesh_pyramid
from gsnobench_plugins.solvers.meshing.red_refinement import refine_tetrahedra
from gsnobench_plugins.solvers.methods.random_fields import sample_rng

GSNOBENCH_API = 1

RESOLUTIONS = (533, 1867, 4000)
TIMES = tuple(frame / 50 for frame in range(51))
WAVES = 8  # per component
PROBES = 24  # points along an edge of the cube; those in the pyramid measure how large a field is
FINER, STRONGER = 1.5, 1.5  # test_ood: factors on frequency and on magnitude


class Params(gb.Params):
    """Knobs of the flow."""

    viscosity: float = gb.knob(
        default=0.1, low=0.002, high=0.5, log=True, help="nu, as printed in the paper"
    )
    magnitude: float = gb.knob(
        default=1.0, low=0.01, high=10.0, help="root mean square of |v| at the start"
    )
    frequency: float = gb.knob(
        default=9.0,
        low=1.0,
        high=30.0,
        help="highest omega of the waves; the lowest is a third of it",
    )
    refinements: int = gb.knob(
        default=1,
        low=1,
        high=3,
        help="refinements of the finer of the two meshes of the solver",
        search=False,
    )


@dataclass(frozen=True, eq=False)
class Pyramid:
    """What all samples share."""

    params: Params
    mesh: gb.Mesh
    nested: NestedFlow
    probes: gb.Array  # (P, 3) even in the pyramid


def setup(params: Params, resolution: int, cache: gb.Cache) -> Pyramid:
    """Meshes, operators and modes."""
    mesh = _cached_mesh(resolution, cache)
    # the domain lies in the unit cube, so the slowest mode decays at least at the rate 3 pi^2 nu
    is_dying = params.viscosity * 3.0 * np.pi**2 * TIMES[-1] > 1.0 and params.refinements == 1
    levels = params.refinements
    nested = nest(mesh, refine_tetrahedra, refinements=levels, with_modes=is_dying, cache=cache)
    return Pyramid(params, mesh, nested, probe_points())


def probe_points() -> gb.Array:
    """Centres of the small cubes that lie in the pyramid, (P, 3)."""
    along = (np.arange(PROBES) + 0.5) / PROBES
    points = np.stack(np.meshgrid(along, along, along, indexing="ij"), axis=-1).reshape(-1, 3)
    return np.asarray(points[depths(points).min(axis=1) > 0.0])


def _cached_mesh(nodes: int, cache: gb.Cache) -> gb.Mesh:
    def compute() -> dict[str, gb.Array]:
        mesh = mesh_pyramid(nodes)
        return {"points": mesh.points, "cells": cells_of(mesh), "boundary": mesh.tags["boundary"]}

    arrays = cache.arrays("burgers3d-mesh-v1", {"nodes": nodes}, compute)
    return gb.Mesh(arrays["points"], arrays["cells"], {"boundary": arrays["boundary"].astype(bool)})


@dataclass(frozen=True, eq=False)
class Waves:
    """An initial field, known at every point."""

    vectors: gb.Array  # (3, M, 3) omega k of each component
    phases: gb.Array  # (3, M)
    amplitudes: gb.Array  # (3, M)

    def __call__(self, points: gb.Array) -> gb.Array:
        """Values at points (m, 3), (m, 3)."""
        angles = np.einsum("md,cwd->mcw", points, self.vectors) + self.phases
        return np.asarray(np.sum(self.amplitudes * np.sin(angles), axis=2))


def draw_field(pyramid: Pyramid, seed: int, split: gb.Split, index: int) -> Waves:
    """The initial field of one sample, whatever the resolution."""
    rng, params = sample_rng(seed, split, index), pyramid.params
    is_ood = split == "test_ood"
    highest = params.frequency * (FINER if is_ood else 1.0)
    directions = rng.standard_normal((3, WAVES, 3))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    frequencies = rng.uniform(highest / 3.0, highest, (3, WAVES, 1))
    phases = rng.uniform(0.0, 2.0 * np.pi, (3, WAVES))
    waves = Waves(frequencies * directions, phases, rng.standard_normal((3, WAVES)))
    size = np.sqrt(np.mean(np.sum(waves(pyramid.probes) ** 2, axis=1)))
    target = params.magnitude * (STRONGER if is_ood else 1.0)
    return Waves(waves.vectors, waves.phases, waves.amplitudes * (target / size))


def generate(
    pyramid: Pyramid, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    """One sample per index, each from its own random numbers."""
    for index in indices:
        waves = draw_field(pyramid, seed, split, index)
        initial = [waves(mesh.points) for mesh in pyramid.nested.meshes]
        viscosity = pyramid.params.viscosity
        frames = solve(pyramid.nested, initial, TIMES, viscosity=viscosity)  # (T, N, 3)
        yield gb.Sample(frames, np.zeros((pyramid.mesh.size, 0)), np.zeros(0))


def _velocity(name: str, axis: str) -> gb.Field:
    walls: dict[str, Literal["dirichlet"]] = {"boundary": "dirichlet"}
    return gb.Field(name, boundary=walls, vector="velocity", help=f"velocity along {axis}")


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The pyramid as a dataset."""
    full = gb.Sizes(train=600, valid=200, test=200, test_ood=100, resolution=1867)
    return gb.Dataset(
        name="burgers3d",
        title="Burgers' equation in a square pyramid",
        fields=tuple(_velocity(name, axis) for name, axis in (("u", "x"), ("v", "y"), ("w", "z"))),
        dim=3,
        tags=("boundary",),
        times=TIMES,
        t_in=5,
        params=Params,
        variants={"lively": {"viscosity": 0.0075, "magnitude": 0.75, "refinements": 2}},
        sizes={
            "smoke": gb.Sizes(train=16, valid=8, test=8, test_ood=4, resolution=533),
            "laptop": gb.Sizes(train=128, valid=32, test=64, test_ood=32, resolution=533),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, test_ood=2, resolution=533),
        resolutions=RESOLUTIONS,
        setup=setup,
        generate=generate,
        mesh=lambda pyramid: pyramid.mesh,
        solver="P1 finite elements in energy-consistent form, rk4, Richardson extrapolation from "
        "two nested meshes, modal tail",
        licence="Apache-2.0",
        cites="GSNO paper, appendix 3D unsteady Burgers' equation; waves, mesh and solver are this "
        "project's own",
    )
