r"""Burgers' equation in a flower: a random velocity that does not fit the walls steepens and dies.

Equation  du/dt + u.grad u = nu Laplace u, u = 0 on the whole boundary; both components of u(x, 0)
          are drawn from N(0, 625 (-Laplace + 25)^-2), Neumann.
TeX       \partial_t u + u \cdot \nabla u = \nu \Delta u
Domain    six-petal flower r = 0.4 + 0.1 cos 6 theta in the unit square, round hole of radius 0.12
          in its middle.
Varies    the initial field; 51 frames over T = 1 of the velocity (u, v).
Source    generated here: linear elements on the published mesh and on its refinement (lively: on
          its first and second), extrapolated to the published nodes.
Differs:  the paper's outline and meshes are not published; finite elements and Runge-Kutta steps
          from the measured spectral radius instead of GFDM and an adaptive step; fields keep 128
          modes (99.7 % of the variance).
Licence   Apache-2.0, as the code.
Start     `burgers2d_lively`: as printed (nu = 0.2) the field has lost 98 % of its norm after 5 of
          50 frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.solvers.equations.nested_burgers import NestedFlow, nest, solve
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.methods.random_fields import (
    Eigenbasis,
    cached_eigenbasis,
    sample_rng,
)

GSNOBENCH_API = 1

RESOLUTIONS = (450, 800, 1168, 2300)
PETALS, RADIUS, DEPTH, HOLE = 6, 0.4, 0.1, 0.12
TIMES = tuple(frame / 50 for frame in range(51))
REFERENCE_REFINEMENTS = 2  # of the 450-node mesh: 6504 nodes carry the fields of all resolutions
MODES = 128
ROUGHER, STRONGER = 2.0, 1.25  # test_ood: factors on tau and on the standard deviation


class Params(gb.Params):
    """Knobs of the flow."""

    viscosity: float = gb.knob(
        default=0.2, low=0.001, high=0.3, log=True, help="nu, as printed in the paper"
    )
    amplitude: float = gb.knob(
        default=1.0, low=0.01, high=2.0, help="factor on the printed law of the initial field"
    )
    tau: float = gb.knob(
        default=5.0,
        low=1.0,
        high=20.0,
        help="inverse length scale of the initial field",
        search=False,
    )
    alpha: float = gb.knob(
        default=2.0, low=1.25, high=4.0, help="smoothness of the initial field", search=False
    )
    refinements: int = gb.knob(
        default=1,
        low=1,
        high=3,
        help="refinements of the finer of the two meshes of the solver",
        search=False,
    )


@dataclass(frozen=True, eq=False)
class Flower:
    """What all samples share."""

    params: Params
    mesh: gb.Mesh
    nested: NestedFlow
    basis: Eigenbasis
    spectra: Mapping[gb.Split, gb.Array]  # (K,) standard deviations of a component's coefficients
    evaluations: tuple[sp.csr_array, ...]  # reference mesh -> nodes of the coarse and fine mesh


def setup(params: Params, resolution: int, cache: gb.Cache) -> Flower:
    """Meshes, operators, modes and random fields."""
    mesh = _cached_mesh(resolution, cache)
    # the domain lies in the unit square, so the slowest mode decays at least at the rate 2 pi^2 nu
    is_dying = params.viscosity * 2.0 * np.pi**2 * TIMES[-1] > 1.0 and params.refinements == 1
    levels = params.refinements
    nested = nest(mesh, _refined, refinements=levels, with_modes=is_dying, cache=cache)
    reference = _cached_mesh(RESOLUTIONS[0], cache)
    for _ in range(REFERENCE_REFINEMENTS):
        reference, _edges = refine(reference)
    basis = cached_eigenbasis(reference, MODES, cache)
    usual = params.amplitude * params.tau**params.alpha * basis.spectrum(params.tau, params.alpha)
    rough = basis.spectrum(ROUGHER * params.tau, params.alpha)
    rough = STRONGER * rough * np.sqrt(basis.mean_variance(usual) / basis.mean_variance(rough))
    return Flower(
        params=params,
        mesh=mesh,
        nested=nested,
        basis=basis,
        spectra={"train": usual, "valid": usual, "test": usual, "test_ood": rough},
        evaluations=tuple(evaluation_matrix(reference, level.points) for level in nested.meshes),
    )


def _refined(mesh: gb.Mesh) -> gb.Mesh:
    return refine(mesh)[0]


def outline() -> tuple[gb.Array, gb.Array]:
    """The rim of the flower and of its hole, finely drawn."""
    angle = np.arange(720) * (2.0 * np.pi / 720)
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    petals = RADIUS + DEPTH * np.cos(PETALS * angle)
    return 0.5 + petals[:, None] * rays, 0.5 + HOLE * rays[::6]


def _cached_mesh(nodes: int, cache: gb.Cache) -> gb.Mesh:
    def compute() -> dict[str, gb.Array]:
        rim, hole = outline()
        mesh = mesh_polygon(rim, [hole], nodes=nodes)
        return {"points": mesh.points, "cells": cells_of(mesh), "boundary": mesh.tags["boundary"]}

    arrays = cache.arrays("burgers2d-mesh-v1", {"nodes": nodes}, compute)
    return gb.Mesh(arrays["points"], arrays["cells"], {"boundary": arrays["boundary"].astype(bool)})


def draw_field(flower: Flower, seed: int, split: gb.Split, index: int) -> gb.Array:
    """The initial field of one sample on the reference mesh, whatever the resolution, (R, 2)."""
    rng = sample_rng(seed, split, index)
    return np.stack([flower.basis.draw(rng, flower.spectra[split]) for _ in range(2)], axis=1)


def generate(
    flower: Flower, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    """One sample per index, each from its own random numbers."""
    for index in indices:
        field = draw_field(flower, seed, split, index)
        initial = [at_nodes @ field for at_nodes in flower.evaluations]
        viscosity = flower.params.viscosity
        frames = solve(flower.nested, initial, TIMES, viscosity=viscosity)  # (T, N, 2)
        yield gb.Sample(frames, np.zeros((flower.mesh.size, 0)), np.zeros(0))


def _velocity(name: str, axis: str) -> gb.Field:
    walls: dict[str, Literal["dirichlet"]] = {"boundary": "dirichlet"}
    return gb.Field(name, boundary=walls, vector="velocity", help=f"velocity along {axis}")


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The flower as a dataset."""
    full = gb.Sizes(train=600, valid=200, test=200, test_ood=100, resolution=1168)
    return gb.Dataset(
        name="burgers2d",
        title="Burgers' equation in a flower",
        fields=tuple(_velocity(name, axis) for name, axis in (("u", "x"), ("v", "y"))),
        dim=2,
        tags=("boundary",),
        times=TIMES,
        t_in=5,
        params=Params,
        variants={"lively": {"viscosity": 0.004, "amplitude": 0.2, "refinements": 2}},
        sizes={
            "smoke": gb.Sizes(train=16, valid=8, test=8, test_ood=4, resolution=450),
            "laptop": gb.Sizes(train=128, valid=32, test=64, test_ood=32, resolution=450),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, test_ood=2, resolution=450),
        resolutions=RESOLUTIONS,
        setup=setup,
        generate=generate,
        mesh=lambda flower: flower.mesh,
        solver="P1 finite elements in energy-consistent form, rk4, Richardson extrapolation from "
        "two nested meshes, modal tail",
        licence="Apache-2.0",
        cites="GSNO paper, appendix 2D unsteady Burgers' Equation; outline and solver are this "
        "project's own",
    )
