r"""Plane Navier-Stokes flow in an ellipse with a triangular hole, from a random vorticity.

Equation  dw/dt + u . grad w = nu Laplace w + f,  -Laplace psi = w,  u = (psi_y, -psi_x),
          psi = 0 and dw/dn = 0 on both loops,  f = 0.1 (sin 2 pi (x + y) + cos 2 pi (x - y)),
          w(0) ~ N(0, (-Laplace + 49)^-2.5) with Neumann conditions, rescaled.
TeX       \partial_t w + u \cdot \nabla w = \nu \Delta w + f
          -\Delta \psi = w
          u = (\partial_y \psi, -\partial_x \psi)
Domain    ellipse with half axes 0.5 and 0.35 about (0.5, 0.5); the hole is an equilateral triangle
          of circumradius 0.14.
Varies    the initial vorticity; 51 frames over 10 s of one field, the vorticity w.
Source    generated here: conservative linear finite elements on a subdivided mesh, RK4, restricted
          to the published nodes.
Differs:  the initial vorticity has standard deviation 1 (`nse_printed`: as printed, 0.018, where
          the force alone makes the flow); the walls let the fluid slip, since psi = 0 and no slip
          and dw/dn = 0 together are one condition too many; psi is 0 on the hole too, where it
          would be a number that changes in time; the domain's measures are not printed.
Licence   Apache-2.0, as the code.
Start     the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.topology import boundary_edges, cell_edges, cells_of
from gsnobench_plugins.solvers.equations.vorticity import (
    VorticityFlow,
    vorticity_flow,
    vorticity_scheme,
)
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.subdivide import subdivide
from gsnobench_plugins.solvers.methods.finite_volume import compact_order
from gsnobench_plugins.solvers.methods.random_fields import (
    Eigenbasis,
    cached_eigenbasis,
    sample_rng,
)

GSNOBENCH_API = 1

CENTRE, HALF_AXES, CIRCUMRADIUS = np.array([0.5, 0.5]), np.array([0.5, 0.35]), 0.14
RESOLUTIONS = (450, 972, 1244, 1903)
FRAMES = 51
REFERENCE_PIECES = 3  # of each edge of the 450-node mesh: 3786 nodes carry all random fields
MODES = 192  # hold 99.92 % of the variance at tau = 7, alpha = 2.5, and 99.2 % of that of test_ood
TAU, ALPHA = 7.0, 2.5
ROUGHER = 2.0  # test_ood: tau times this, at the same variance, so the correlation length is halved


class Params(gb.Params):
    """Knobs of the fluid and of the solver."""

    nu: float = gb.knob(
        default=1e-3,
        low=1e-4,
        high=1e-2,
        help="viscosity, from a caption of the paper",
        search=False,
    )
    vorticity_std: float = gb.knob(
        default=1.0,
        low=0.0,
        high=5.0,
        help="standard deviation of the initial vorticity; 0: the printed law",
        search=False,
    )
    forcing: float = gb.knob(
        default=0.1,
        low=0.0,
        high=1.0,
        help="strength of the steady force, as printed",
        search=False,
    )
    duration: float = gb.knob(
        default=10.0, low=0.1, high=100.0, help="time of the last frame, s", search=False
    )
    pieces: int = gb.knob(
        default=2,
        low=1,
        high=16,
        help="parts of each published edge in the solver's mesh",
        search=False,
    )


@dataclass(frozen=True, eq=False)
class Setup:
    """What all samples share: the published mesh, and the flow on the refined mesh.

    The nodes of the refined mesh are in the solver's order.
    """

    params: Params
    mesh: gb.Mesh  # published
    points: gb.Array  # (F, 2) of the refined mesh
    published: gb.Array  # (N,) index of each published node in the refined mesh
    flow: VorticityFlow
    basis: Eigenbasis
    spectra: Mapping[gb.Split, gb.Array]  # (K,) standard deviations of the coefficients of w(0)
    at_points: sp.csr_array  # reference mesh -> nodes of the refined mesh


def setup(params: Params, resolution: int, cache: gb.Cache) -> Setup:
    """Meshes, eigenbasis and the factorised equations."""
    mesh = _cached_mesh(resolution, cache)
    fine, published = _ordered(refined(mesh, params.pieces), mesh.size)
    reference = refined(_cached_mesh(RESOLUTIONS[0], cache), REFERENCE_PIECES)
    basis = cached_eigenbasis(reference, MODES, cache)
    return Setup(
        params=params,
        mesh=mesh,
        points=fine.points,
        published=published,
        flow=vorticity_flow(vorticity_scheme(fine), params.nu, force(fine.points, params.forcing)),
        basis=basis,
        spectra=_spectra(basis, params.vorticity_std),
        at_points=evaluation_matrix(basis.mesh, fine.points),
    )


def published_mesh(setup: Setup) -> gb.Mesh:
    """The mesh that all samples share."""
    return setup.mesh


def force(points: gb.Array, strength: float) -> gb.Array:
    """f of the paper at points (m, 2), (m,)."""
    x, y = points.T
    return np.asarray(strength * (np.sin(2 * np.pi * (x + y)) + np.cos(2 * np.pi * (x - y))))


def _spectra(basis: Eigenbasis, deviation: float) -> dict[gb.Split, gb.Array]:
    printed, rough = basis.spectrum(TAU, ALPHA), basis.spectrum(ROUGHER * TAU, ALPHA)
    target = deviation or float(np.sqrt(basis.mean_variance(printed)))
    usual, rough = (
        spectrum * target / np.sqrt(basis.mean_variance(spectrum)) for spectrum in (printed, rough)
    )
    return {"train": usual, "valid": usual, "test": usual, "test_ood": rough}


# ------------------------------------------------------------------------------------------- meshes


def outline() -> tuple[gb.Array, gb.Array]:
    """The ellipse as a polygon of 720 sides, and the hole."""
    turns = 2 * np.pi * np.arange(720) / 720
    corners = np.pi / 2 + 2 * np.pi * np.arange(3) / 3  # one of them on top
    ellipse = CENTRE + HALF_AXES * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return ellipse, CENTRE + CIRCUMRADIUS * np.stack([np.cos(corners), np.sin(corners)], axis=1)


def _cached_mesh(nodes: int, cache: gb.Cache) -> gb.Mesh:
    def compute() -> dict[str, gb.Array]:
        ellipse, hole = outline()
        mesh = mesh_polygon(ellipse, [hole], nodes=nodes)
        return {
            "points": _on_ellipse(mesh.points, mesh.tags["outer"]),
            "cells": cells_of(mesh),
            "rim": mesh.tags["boundary"],
        }

    arrays = cache.arrays("nse-mesh-v1", {"nodes": nodes}, compute)
    return gb.Mesh(arrays["points"], arrays["cells"], {"boundary": arrays["rim"].astype(bool)})


def _on_ellipse(points: gb.Array, is_outer: gb.Array) -> gb.Array:
    """The points, those of the outer loop moved onto the ellipse along the ray from its centre."""
    away = (points[is_outer] - CENTRE) / HALF_AXES
    moved = points.copy()
    moved[is_outer] = CENTRE + HALF_AXES * away / np.linalg.norm(away, axis=1, keepdims=True)
    return moved


def refined(mesh: gb.Mesh, pieces: int) -> gb.Mesh:
    """The mesh with every edge cut into `pieces`; new outer nodes lie on the ellipse.

    So all meshes fill one domain.
    """
    points, cells = subdivide(mesh.points, cells_of(mesh), pieces)
    number = np.arange(len(points))
    is_rim = np.isin(number, boundary_edges(gb.Mesh(points, cells)))
    away = np.linalg.norm((points - CENTRE) / HALF_AXES, axis=1)  # the hole ends at 0.4
    is_outer = is_rim & (number >= mesh.size) & (away > 0.7)
    return gb.Mesh(_on_ellipse(points, is_outer), cells, {"boundary": is_rim})


def _ordered(mesh: gb.Mesh, published: int) -> tuple[gb.Mesh, gb.Array]:
    """The mesh with neighbours close in memory, and the new numbers of its first nodes."""
    order = compact_order(cell_edges(cells_of(mesh)), mesh.size)
    index = np.empty_like(order)
    index[order] = np.arange(len(order))
    tags = {tag: tagged[order] for tag, tagged in mesh.tags.items()}
    return gb.Mesh(mesh.points[order], index[cells_of(mesh)], tags), index[:published]


# ------------------------------------------------------------------------------------------ samples


def draw_field(setup: Setup, seed: int, split: gb.Split, index: int) -> gb.Array:
    """The initial vorticity of one sample on the reference mesh, whatever the resolution."""
    return setup.basis.draw(sample_rng(seed, split, index), setup.spectra[split])


def generate(
    setup: Setup, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    """One sample per index, each from its own random numbers."""
    times = frame_times(setup.params.duration)
    for index in indices:
        initial = setup.at_points @ draw_field(setup, seed, split, index)
        states = setup.flow.march(initial, times)
        frames = np.stack([state[setup.published] for state in states])  # (T, N)
        yield gb.Sample(frames[:, :, None], np.zeros((setup.mesh.size, 0)), np.zeros(0))


def frame_times(duration: float) -> tuple[float, ...]:
    """Times of the frames, s."""
    return tuple(round(duration * frame / (FRAMES - 1), 9) for frame in range(FRAMES))


def adjust(task: gb.Task, params: Params) -> gb.Task:
    """Frames end at the given duration."""
    return replace(task, times=frame_times(params.duration))


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The stirred ellipse as a dataset."""
    full = gb.Sizes(train=600, valid=200, test=200, test_ood=100, resolution=1244)
    vorticity = gb.Field("vorticity", "s-1", boundary={"boundary": "neumann"}, help="vorticity w")
    return gb.Dataset(
        name="nse",
        title="Navier-Stokes flow in an ellipse with a triangular hole",
        fields=(vorticity,),
        dim=2,
        tags=("boundary",),
        times=frame_times(Params().duration),
        adjust=adjust,
        t_in=5,
        params=Params,
        variants={"printed": {"vorticity_std": 0.0}},
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
        mesh=published_mesh,
        solver="conservative P1 vorticity and stream function, energy-corrected at the corners of "
        "the hole, RK4",
        licence="Apache-2.0",
        cites="GSNO paper, appendix 2D Navier-Stokes Equation; domain measures and solver are this "
        "project's own",
    )
