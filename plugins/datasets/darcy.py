r"""Darcy flow in a notched triangle: the head of a random permeability under a uniform source.

Equation  -div(a grad u) = 1, u = 0 on the whole boundary;
          a = psi(g), g ~ N(0, (-Laplace + tau^2)^-alpha), Neumann.
TeX       -\nabla \cdot (a \nabla u) = 1
Domain    equilateral triangle of side 1, slit 0.02 wide and 0.4 deep from the middle of its base.
Varies    the permeability a (static input); one frame of one field, the head u.
Source    generated here: linear finite elements on the published mesh refined twice, restricted to
          its nodes.
Differs:  threshold redraws fields that leave less than 2 % of the domain to one of the two
          permeabilities (about a quarter): as printed, one sample in five would be uniform, hence
          the same as others, in training and in test.
Licence   Apache-2.0, as the code.
Start     `darcy` (psi = exp, smooth and nearly linear), then `darcy_threshold` (12 | 3, which
          separates models).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.operators import basis_gradients, node_volumes
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.methods import gfdm
from gsnobench_plugins.solvers.methods.multigrid import NestedDiffusion
from gsnobench_plugins.solvers.methods.random_fields import (
    Eigenbasis,
    cached_eigenbasis,
    sample_rng,
)

GSNOBENCH_API = 1

HEIGHT = float(np.sqrt(3.0) / 2.0)
OUTLINE = np.array([[0, 0], [0.49, 0], [0.49, 0.4], [0.51, 0.4], [0.51, 0], [1, 0], [0.5, HEIGHT]])
RESOLUTIONS = (298, 600, 1184, 1800, 2600, 3421)
REFERENCE_REFINEMENTS = 2  # of the 298-node mesh: 4231 nodes carry the fields of all resolutions
MODES = 256  # hold 99.97 % of the variance at tau = 3, alpha = 2
ROUGHER = 2.0  # test_ood: tau times this, at the same variance, so the correlation length is halved
HIGH, LOW = 12.0, 3.0
SMALLEST_PART = 0.02  # threshold: both permeabilities fill at least this share of the domain


class Params(gb.Params):
    """Knobs of the permeability and of the solver."""

    psi: Literal["exp", "threshold", "standardised"] = gb.knob(
        default="exp",
        help="permeability from the Gaussian field g: exp(g), 12 where g >= 0 else 3, or exp(g / "
        "std g)",
    )
    tau: float = gb.knob(
        default=3.0, low=1.0, high=12.0, help="inverse length scale of g", search=False
    )
    alpha: float = gb.knob(default=2.0, low=1.25, high=4.0, help="smoothness of g", search=False)
    solver: Literal["fem", "gfdm"] = gb.knob(
        default="fem", help="finite elements, or finite differences as a cross-check"
    )
    refinements: int = gb.knob(
        default=2, low=0, high=3, help="how often the mesh is refined for the solve", search=False
    )


@dataclass(frozen=True, eq=False)
class Setup:
    """What all samples share."""

    params: Params
    mesh: gb.Mesh
    nested: NestedDiffusion
    basis: Eigenbasis
    spectra: Mapping[gb.Split, gb.Array]  # standard deviations of the coefficients of g, (K,)
    shares: gb.Array  # of the domain per node of the reference mesh, summing to 1
    deviation: float  # pointwise standard deviation of g, averaged over the domain
    at_nodes: sp.csr_array  # reference mesh -> nodes of the finest mesh
    at_quarters: sp.csr_array  # reference mesh -> centres of the four quarters of every finest cell

    @cached_property
    def hats(self) -> tuple[gb.Array, gb.Array]:
        """Gradients of the hat functions and areas of the finest cells, (M, 3, 2) and (M,)."""
        finest = self.nested.finest
        return basis_gradients(finest.points, cells_of(finest))


def setup(params: Params, resolution: int, cache: gb.Cache) -> Setup:
    """Meshes, patterns, eigenbasis and evaluation operators."""
    mesh = _cached_mesh(resolution, cache)
    nested = NestedDiffusion.of(mesh, refinements=params.refinements)
    reference = _cached_mesh(RESOLUTIONS[0], cache)
    for _ in range(REFERENCE_REFINEMENTS):
        reference, _edges = refine(reference)
    basis = cached_eigenbasis(reference, MODES, cache)
    usual = basis.spectrum(params.tau, params.alpha)
    rough = basis.spectrum(ROUGHER * params.tau, params.alpha)
    variance = basis.mean_variance(usual)
    areas = node_volumes(reference)
    rough = rough * np.sqrt(variance / basis.mean_variance(rough))
    return Setup(
        params=params,
        mesh=mesh,
        nested=nested,
        basis=basis,
        spectra={"train": usual, "valid": usual, "test": usual, "test_ood": rough},
        shares=areas / areas.sum(),
        deviation=float(np.sqrt(variance)),
        at_nodes=evaluation_matrix(reference, nested.finest.points),
        at_quarters=evaluation_matrix(reference, quarter_centres(nested.finest)),
    )


def _cached_mesh(nodes: int, cache: gb.Cache) -> gb.Mesh:
    def compute() -> dict[str, gb.Array]:
        mesh = mesh_polygon(OUTLINE, nodes=nodes)
        return {"points": mesh.points, "cells": cells_of(mesh), "boundary": mesh.tags["boundary"]}

    arrays = cache.arrays("darcy-mesh-v1", {"nodes": nodes}, compute)
    return gb.Mesh(arrays["points"], arrays["cells"], {"boundary": arrays["boundary"].astype(bool)})


def quarter_centres(mesh: gb.Mesh) -> gb.Array:
    """Centres of the four triangles that a refinement would make of every cell, (4 M, 2)."""
    shares = np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4], [2, 2, 2]]) / 6.0
    return np.asarray(np.einsum("qk,mkd->mqd", shares, mesh.points[cells_of(mesh)])).reshape(-1, 2)


def draw_field(setup: Setup, seed: int, split: gb.Split, index: int) -> gb.Array:
    """The Gaussian field of one sample on the reference mesh, whatever the resolution."""
    rng = sample_rng(seed, split, index)
    while True:
        field = setup.basis.draw(rng, setup.spectra[split])
        high = float(setup.shares @ (field >= 0.0))
        if setup.params.psi != "threshold" or SMALLEST_PART <= high <= 1.0 - SMALLEST_PART:
            return field


def permeability(setup: Setup, field: gb.Array) -> gb.Array:
    """a = psi(g)."""
    if setup.params.psi == "threshold":
        return np.where(field >= 0.0, HIGH, LOW)
    return np.exp(field if setup.params.psi == "exp" else field / setup.deviation)


def head(setup: Setup, field: gb.Array) -> gb.Array:
    """The head at the published nodes for a Gaussian field on the reference mesh, (N,)."""
    if setup.params.solver == "gfdm":
        finest = setup.nested.finest
        at_nodes = permeability(setup, setup.at_nodes @ field)
        heads = gfdm.solve_diffusion(finest, at_nodes, finest.tags["boundary"])
        return heads[: setup.mesh.size]
    quarters = permeability(setup, setup.at_quarters @ field).reshape(-1, 4)
    # the harmonic mean is better where the permeability jumps inside a cell
    return setup.nested.solve(4.0 / np.sum(1.0 / quarters, axis=1))[: setup.mesh.size]


def generate(
    setup: Setup, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    """One sample per index, each from its own random numbers."""
    for index in indices:
        field = draw_field(setup, seed, split, index)
        static = permeability(setup, setup.at_nodes[: setup.mesh.size] @ field)
        yield gb.Sample(head(setup, field)[None, :, None], static[:, None], np.zeros(0))


# ------------------------------------------------------------------------------------------ inverse


def decode(setup: Setup) -> gb.Decoder:
    """Coefficients of g in units of their standard deviations -> permeability at the nodes."""
    import torch  # here: a process that makes data does without

    modes = setup.at_nodes[: setup.mesh.size] @ setup.basis.vectors
    links = {
        "exp": torch.exp,
        "standardised": lambda g: torch.exp(g / setup.deviation),
        "threshold": lambda g: torch.where(g >= 0.0, HIGH, LOW),
    }
    psi = setup.params.psi
    return gb.Decoder(modes * setup.spectra["train"], links[psi], is_smooth=psi != "threshold")


def solve(setup: Setup, coefficients: gb.Array) -> gb.Array:
    """The frames of given coefficients, (1, N, 1)."""
    field = setup.basis.vectors @ (setup.spectra["train"] * coefficients)
    return head(setup, field)[None, :, None]


def adjoint(
    setup: Setup, coefficients: gb.Array
) -> tuple[gb.Array, Callable[[gb.Array], gb.Array]]:
    """The frames again, and the gradient (K,) of their sum with given weights (1, N, 1).

    The operator is its own adjoint: p solves it for the weights, and the cell c of the head u adds
    -|c| grad p . grad u to the derivative by its permeability.
    """
    if setup.params.solver != "fem":
        raise gb.ParamError("data.solver: only the finite elements (fem) have an adjoint")
    if setup.params.psi == "threshold":
        raise gb.ParamError("data.psi: a permeability that jumps has no derivative")
    spectrum, modes = setup.spectra["train"], setup.basis.vectors
    field = modes @ (spectrum * coefficients)
    quarters = permeability(setup, setup.at_quarters @ field).reshape(-1, 4)
    by_cell = 4.0 / np.sum(1.0 / quarters, axis=1)
    finest, size = setup.nested.finest, setup.mesh.size
    heads = setup.nested.solve(by_cell)
    cells, (gradients, areas) = cells_of(finest), setup.hats
    slopes = np.einsum("mid,mi->md", gradients, heads[cells])
    # of the harmonic mean by the field in each quarter, whose permeability is an exponential
    chain = by_cell[:, None] ** 2 / (4.0 * quarters)
    if setup.params.psi == "standardised":
        chain = chain / setup.deviation

    def pull(weights: gb.Array) -> gb.Array:
        load = np.zeros(finest.size)
        load[:size] = weights[0, :, 0]
        other = setup.nested.solve(by_cell, load)
        by_permeability = -areas * np.einsum("mid,mi,md->m", gradients, other[cells], slopes)
        by_field = setup.at_quarters.T @ (by_permeability[:, None] * chain).ravel()
        return np.asarray(spectrum * (modes.T @ by_field))

    return heads[None, :size, None], pull


def finer(params: Params) -> Params:
    """The solver on the mesh refined once more."""
    return params.make({**params.to_dict(), "refinements": params.refinements + 1}, label="data")


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The triangle as a dataset."""
    field = gb.Field("head", "m", boundary={"boundary": "dirichlet"}, help="hydraulic head u")
    full = gb.Sizes(train=600, valid=200, test=200, test_ood=100, resolution=1184)
    return gb.Dataset(
        name="darcy",
        title="Darcy flow in a notched triangle",
        fields=(field,),
        static=(gb.Field("permeability", unit="m s-1", help="a = psi(g)"),),
        dim=2,
        tags=("boundary",),
        params=Params,
        variants={"threshold": {"psi": "threshold"}},
        sizes={
            "smoke": gb.Sizes(train=16, valid=8, test=8, test_ood=4, resolution=298),
            "laptop": gb.Sizes(train=128, valid=32, test=64, test_ood=32, resolution=600),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, resolution=298),
        resolutions=RESOLUTIONS,
        chunk=32,
        setup=setup,
        generate=generate,
        mesh=lambda setup: setup.mesh,
        inverse=gb.Inverse(MODES, decode, solve, finer, adjoint),
        solver="P1 finite elements on the mesh refined twice (multigrid-preconditioned CG), "
        "restricted to its nodes",
        licence="Apache-2.0",
        cites="GSNO paper, appendix 2D Darcy Flow; field law (-Laplace + 9)^-2 with Neumann "
        "conditions as printed there",
        revision=1,
    )
