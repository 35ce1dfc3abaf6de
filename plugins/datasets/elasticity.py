r"""Hyper-elasticity: stress in a rubber cell with a random void, clamped below and pulled above.

Equation  div P = 0, det F = 1, W = C1 (I1 - 3) + C2 (I2 - 3) (Rivlin-Saunders), plane strain;
          u = 0 on the bottom, P n = (0, traction) on the top, P n = 0 on the sides and on the void.
TeX       \nabla \cdot P = 0
          \det F = 1
          W = C_1 (I_1 - 3) + C_2 (I_2 - 3)
Domain    unit square with one smooth void around its centre, open; another mesh for every sample.
Varies    the radius of the void: 0.2 + 0.2 / (1 + exp(g)), g ~ N(0, 4^2 (-d^2/dangle^2 + 3^2)^-1),
          Fourier modes 0 to 5. One frame of one field, the von Mises stress; inputs are the
          coordinates (variant `radii`: 42 radii of the void too).
Source    generated here: Newton's method on Taylor-Hood elements with bent edges, on the published
          mesh refined once, and again at the void and at the clamped corners; consistent recovery
          of the stress.
Differs:  an open void (the 1908 triangles that are printed would fill it); the stress at the two
          clamped corners, infinite in truth, is a mean over their surroundings
          (`corner_radius = 0`: what the elements give).
Licence   Apache-2.0, as the code.
Start     `elasticity` (linear to 0.1 %), then `elasticity_stretched` (strains of 10 % and more).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

import gsnobench as gb
from gsnobench_plugins.solvers.equations.hyperelasticity import (
    Deformation,
    RivlinSaunders,
    deform,
    von_mises,
)
from gsnobench_plugins.solvers.equations.unit_cell import (
    CLAMPED_CORNERS,
    bent_space,
    mesh_cell,
    refine_cell,
)
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.methods.stress_recovery import mean_near, recover
from gsnobench_plugins.solvers.methods.taylor_hood import TaylorHood
from gsnobench_plugins.solvers.shapes.voids import Void, VoidLaw

GSNOBENCH_API = 1

RADII = 42  # as in the public set: the last direction is the first again
OOD_GROWTH = 0.05  # test_ood: least and largest radius are both larger by this


class Params(gb.Params):
    """Knobs of the material, the void and the solver."""

    c1: float = gb.knob(
        default=1.863e5, low=1.0, high=1e9, help="first modulus of the solid, Pa", search=False
    )
    c2: float = gb.knob(
        default=9.79e3, low=0.0, high=1e9, help="second modulus of the solid, Pa", search=False
    )
    traction: float = gb.knob(
        default=100.0,
        low=1e-3,
        high=1e9,
        help="pull on the top, Pa; at most 0.3 (c1 + c2)",
        search=False,
    )
    void_low: float = gb.knob(
        default=0.2, low=0.05, high=0.4, help="no void is narrower than this radius", search=False
    )
    void_high: float = gb.knob(
        default=0.4, low=0.06, high=0.42, help="no void is wider than this radius", search=False
    )
    void_deviation: float = gb.knob(
        default=4.0,
        low=0.0,
        high=8.0,
        help="amplitude of the field g behind the radius",
        search=False,
    )
    void_tau: float = gb.knob(
        default=3.0, low=0.5, high=12.0, help="inverse length scale of g, 1/rad", search=False
    )
    void_modes: int = gb.knob(
        default=5, low=0, high=8, help="highest Fourier mode of g", search=False
    )
    inputs: Literal["points", "radii"] = gb.knob(
        default="points", help="given beside the mesh: nothing, or radii of the void"
    )
    refinements: int = gb.knob(
        default=1, low=0, high=3, help="how often the mesh is refined for the solve", search=False
    )
    rims: int = gb.knob(
        default=1, low=0, high=3, help="further refinements of the cells at the void", search=False
    )
    gradings: int = gb.knob(
        default=3,
        low=0,
        high=8,
        help="further refinements of the cells at the clamped corners",
        search=False,
    )
    corner_radius: float = gb.knob(
        default=0.02,
        low=0.0,
        high=0.1,
        help="radius of the mean that replaces the stress at the clamped corners",
        search=False,
    )


@dataclass(frozen=True, eq=False)
class Cell:
    """What all samples share."""

    params: Params
    nodes: int
    material: RivlinSaunders
    laws: Mapping[gb.Split, VoidLaw]


def setup(params: Params, resolution: int, cache: gb.Cache) -> Cell:
    """Material and laws of the voids; every sample makes its own mesh."""
    if params.void_low >= params.void_high:
        raise gb.ParamError(
            f"data.void_low: {params.void_low} is not below data.void_high, {params.void_high}; "
            "expected a smaller radius"
        )
    if params.traction > 0.3 * (params.c1 + params.c2):
        raise gb.ParamError(
            f"data.traction: {params.traction:g} is too much for moduli of {params.c1:g} and "
            f"{params.c2:g}; expected at most 0.3 of their sum"
        )
    law = VoidLaw(
        low=params.void_low,
        high=params.void_high,
        deviation=params.void_deviation,
        tau=params.void_tau,
        modes=params.void_modes,
    )
    wider = replace(law, low=law.low + OOD_GROWTH, high=law.high + OOD_GROWTH)
    laws: dict[gb.Split, VoidLaw] = {"train": law, "valid": law, "test": law, "test_ood": wider}
    return Cell(params, resolution, RivlinSaunders(params.c1, params.c2), laws)


def no_shared_mesh(cell: Cell) -> None:
    """Every sample carries its own mesh."""


def draw_void(cell: Cell, seed: int, split: gb.Split, index: int) -> Void:
    """The void of one sample, whatever the resolution."""
    return cell.laws[split].draw(sample_rng(seed, split, index))


def solving_space(cell: Cell, mesh: gb.Mesh, void: Void) -> TaylorHood:
    """The elements on the refined mesh of a sample; its first vertices are the published nodes."""
    times, rims, gradings = cell.params.refinements, cell.params.rims, cell.params.gradings
    return bent_space(refine_cell(mesh, void, times=times, rims=rims, gradings=gradings), void)


def pulled(cell: Cell, space: TaylorHood) -> Deformation:
    """Equilibrium of a cell that is clamped at y = 0 and pulled at y = 1."""
    top = np.flatnonzero((space.nodes[space.edges, 1] == 1.0).all(axis=1))
    load = space.edge_load(top, np.array([0.0, cell.params.traction]))
    is_fixed = np.zeros(space.dofs, dtype=bool)
    is_fixed[: 2 * len(space.nodes)] = np.repeat(space.nodes[:, 1] == 0.0, 2)
    return deform(space, cell.material, load, is_fixed)


def stress(cell: Cell, mesh: gb.Mesh, void: Void) -> gb.Array:
    """Von Mises stress at the nodes of a published mesh, (N,)."""
    params = cell.params
    space = solving_space(cell, mesh, void)
    deviator = cell.material.deviator(pulled(cell, space).stretch(space))
    values = von_mises(recover(space, deviator))[: mesh.size]
    for corner in CLAMPED_CORNERS[: 2 if params.corner_radius > 0.0 else 0]:
        at = np.all(mesh.points == corner, axis=1)
        values[at] = mean_near(space, von_mises(deviator), corner, params.corner_radius)
    return values


def radii(void: Void) -> gb.Array:
    """Radius of a void in equally spaced directions, the first again at the end, (42,)."""
    return void.radius(np.linspace(0.0, 2.0 * np.pi, RADII))


def generate(cell: Cell, seed: int, split: gb.Split, indices: Sequence[int]) -> Iterator[gb.Sample]:
    """One sample per index, each with its own void and mesh."""
    for index in indices:
        void = draw_void(cell, seed, split, index)
        mesh = mesh_cell(void, cell.nodes)
        scalars = radii(void) if cell.params.inputs == "radii" else np.zeros(0)
        frames = stress(cell, mesh, void)[None, :, None]  # (1, N, 1)
        yield gb.Sample(frames, np.zeros((mesh.size, 0)), scalars, mesh)


def adjust(task: gb.Task, params: Params) -> gb.Task:
    """With `inputs = radii` the void is described by numbers too."""
    count = RADII if params.inputs == "radii" else 0
    scalars = tuple(gb.Field(f"radius_{k}", help="of the void") for k in range(count))
    return replace(task, scalars=scalars)


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The cell as a dataset."""
    full = gb.Sizes(train=1000, valid=200, test=200, test_ood=100, resolution=972)
    stress_help = "von Mises stress (Cauchy), at the places of the unloaded cell"
    return gb.Dataset(
        name="elasticity",
        title="Hyper-elastic cell with a random void",
        fields=(gb.Field("stress", unit="Pa", help=stress_help),),
        dim=2,
        tags=("bottom", "top", "sides", "void"),
        params=Params,
        variants={"radii": {"inputs": "radii"}, "stretched": {"traction": 3e4}},
        adjust=adjust,
        sizes={
            "smoke": gb.Sizes(train=16, valid=8, test=8, test_ood=4, resolution=160),
            "laptop": gb.Sizes(train=256, valid=32, test=64, test_ood=32, resolution=450),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, test_ood=2, resolution=120),
        resolutions=(120, 160, 450, 972, 1944),
        corresponds=False,
        fixed_mesh=False,
        setup=setup,
        generate=generate,
        mesh=no_shared_mesh,
        solver="Taylor-Hood P2-P1 elements with bent edges on the mesh refined once, Newton's "
        "method, consistent stress recovery",
        licence="Apache-2.0",
        cites="GSNO paper, appendix Hyper-Elasticity Equation; void law and moduli after Li et al. "
        "2023, Geo-FNO",
        revision=1,
    )
