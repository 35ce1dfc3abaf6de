r"""Shallow water in a lake: a bump of water at a random point; waves run to the shore and back.

Equation  dh/dt + div(h v) = 0,  d(h v)/dt + div(h v v) + grad(g h^2 / 2) = 0,  v.n = 0 on the
          shore; at rest at first, h(x, 0) = base + amplitude exp(-|x - c|^2 / (2 sigma^2)).
TeX       \partial_t h + \nabla \cdot (h v) = 0
          \partial_t (h v) + \nabla \cdot (h v \otimes v) + \nabla (g h^2 / 2) = 0
Domain    a simplified outline of Lake Union, 200 x 300 units, or a polygon of the user's (GeoJSON).
Varies    the centre c, uniform in the lake; 51 frames over 30 s of one field, the height h.
Source    generated here: second-order node-centred finite volumes on a subdivided mesh, restricted
          to the published nodes.
Differs:  the paper's outline, scale and mesh are not published; it says 30 s and 30 minutes, 30 s
          is used; half of Rusanov's dissipation is kept (`dissipation = 1` is the textbook flux);
          SSP-RK3 instead of an adaptive method.
Licence   Apache-2.0, as the code; the outline is drawn by hand.
Start     the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges, cells_of
from gsnobench_plugins.solvers.equations.shallow_water import LONGEST_STEP, Water, shallow_water_rhs
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.subdivide import subdivide
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh, compact_order, dual_mesh
from gsnobench_plugins.solvers.methods.integrate import spectral_radius, ssp_rk3
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.shapes.geojson import read_outline
from gsnobench_plugins.solvers.shapes.geometry import contains
from gsnobench_plugins.solvers.shapes.lake_union import lake_union_outline

GSNOBENCH_API = 1

FRAMES = 51
EDGES_PER_SIGMA = 11.8  # of the computational mesh, at least
OOD_AMPLITUDE, OOD_SIGMA = 1.5, 0.75  # of the bump of test_ood, relative to the other splits


class Params(gb.Params):
    """Knobs of the lake."""

    gravity: float = gb.knob(
        default=8.81, low=0.1, high=30.0, help="acceleration of gravity, as printed in the paper"
    )
    base: float = gb.knob(default=5.0, low=0.5, high=100.0, help="depth of the still water, m")
    amplitude: float = gb.knob(
        default=1.0, low=1e-6, high=50.0, help="height of the bump, m; at most 0.4 of the depth"
    )
    sigma: float = gb.knob(
        default=20.0, low=1.0, high=1000.0, help="width of the bump, units of length"
    )
    duration: float = gb.knob(default=30.0, low=0.1, high=3600.0, help="time of the last frame, s")
    pieces: int = gb.knob(
        default=0,
        low=0,
        high=16,
        help="parts of each published edge in the solver's mesh; 0: by sigma",
    )
    dissipation: float = gb.knob(
        default=0.5, low=0.4, high=1.0, help="share of Rusanov's dissipation; 1: the textbook flux"
    )
    geojson: gb.InputFile = gb.knob(
        default="", help="file with the outline, one polygon; empty: the simplified Lake Union"
    )
    coordinates: Literal["degrees", "plane"] = gb.knob(
        default="degrees", help="what the numbers in the file are"
    )
    extent: float = gb.knob(
        default=300.0,
        low=1.0,
        high=1e5,
        help="longer side of the outline from a file, units of length",
    )


@dataclass(frozen=True, eq=False)
class Lake:
    """What all samples share: the published mesh, and the refined one in the solver's order."""

    params: Params
    loops: tuple[gb.Array, ...]  # outline and holes
    mesh: gb.Mesh  # published
    pieces: int  # parts of each published edge
    points: gb.Array  # (F, 2) of the refined mesh
    dual: DualMesh
    radius: float  # spectral radius of still water, 1/s
    published: gb.Array  # (N,) index of each published node in the refined mesh


def setup(params: Params, resolution: int, cache: gb.Cache) -> Lake:
    """Mesh the lake with `resolution` nodes and refine it for solving."""
    if params.amplitude > 0.4 * params.base:
        raise gb.ParamError(
            f"data.amplitude: {params.amplitude} is too high for a depth of {params.base}; "
            "expected <= 0.4 of it"
        )
    loops = _loops(params)
    recipe = _recipe(loops, resolution, params)
    arrays = cache.arrays("swe-lake-v1", recipe, lambda: _meshes(loops, resolution, params))
    names = [name for name in arrays if name.startswith("tag_")]
    tags = {name.removeprefix("tag_"): arrays[name].astype(bool) for name in names}
    return Lake(
        params=params,
        loops=loops,
        mesh=gb.Mesh(arrays["points"], arrays["cells"], tags),
        pieces=arrays["pieces"].item(),
        points=arrays["fine_points"],
        dual=DualMesh.from_arrays(arrays),
        radius=arrays["radius"].item(),
        published=arrays["published"],
    )


def published_mesh(lake: Lake) -> gb.Mesh:
    """The mesh that all samples share."""
    return lake.mesh


def _recipe(loops: tuple[gb.Array, ...], resolution: int, params: Params) -> dict[str, object]:
    knobs = ("gravity", "base", "dissipation", "sigma", "pieces")
    return {
        "loops": [loop.tolist() for loop in loops],
        "nodes": resolution,
        **{name: value for name, value in params.to_dict().items() if name in knobs},
    }


def _loops(params: Params) -> tuple[gb.Array, ...]:
    if params.geojson:
        return read_outline(params.geojson, coordinates=params.coordinates, extent=params.extent)
    return (lake_union_outline(),)


def _meshes(loops: tuple[gb.Array, ...], resolution: int, params: Params) -> dict[str, gb.Array]:
    mesh = mesh_polygon(loops[0], loops[1:], nodes=resolution)
    cells = cells_of(mesh)
    edges = cell_edges(cells)
    along = mesh.points[edges[:, 1]] - mesh.points[edges[:, 0]]
    length = float(np.linalg.norm(along, axis=1).mean())
    pieces = params.pieces or max(1, int(np.ceil(length * EDGES_PER_SIGMA / params.sigma)))
    fine_points, fine_cells = subdivide(mesh.points, cells, pieces)
    order = compact_order(cell_edges(fine_cells), len(fine_points))
    index = np.empty_like(order)
    index[order] = np.arange(len(order))
    dual = dual_mesh(fine_points[order], index[fine_cells])
    radius = spectral_radius(shallow_water_rhs(dual, _water(params)), (len(order), 3))
    return {
        "points": mesh.points,
        "cells": cells,
        **{f"tag_{name}": tagged.astype(np.uint8) for name, tagged in mesh.tags.items()},
        "pieces": np.array([pieces]),
        "fine_points": fine_points[order],
        "published": index[: mesh.size],
        "radius": np.array([radius]),
        **dual.to_arrays(),
    }


def _water(params: Params) -> Water:
    return Water(params.gravity, params.base, params.dissipation)


def generate(lake: Lake, seed: int, split: gb.Split, indices: Sequence[int]) -> Iterator[gb.Sample]:
    """One sample per index; the centre is a function of (seed, split, index) alone."""
    params = lake.params
    is_ood = split == "test_ood"
    amplitude = params.amplitude * (OOD_AMPLITUDE if is_ood else 1.0)
    sigma = params.sigma * (OOD_SIGMA if is_ood else 1.0)
    for index in indices:
        centre = draw_centre(lake.loops, sample_rng(seed, split, index))
        eta = solve(lake, centre, amplitude=amplitude, sigma=sigma)  # (T, F)
        if not np.isfinite(eta).all() or eta.min() <= -params.base:
            raise gb.DataError(
                f"swe: {split} sample {index} ran dry or unstable; expected 0 < h; lower "
                "data.amplitude"
            )
        height = params.base + eta[:, lake.published, None]  # (T, N, 1)
        yield gb.Sample(height, np.zeros((lake.mesh.size, 0)), np.zeros(0))


def draw_centre(loops: Sequence[gb.Array], draw: np.random.Generator) -> gb.Array:
    """A point uniform in the lake, (2,), by drawing in the bounding box until one is inside."""
    low, high = loops[0].min(axis=0), loops[0].max(axis=0)
    while True:
        centre = draw.uniform(low, high)
        if contains(loops, centre[None])[0]:
            return centre


def solve(lake: Lake, centre: gb.Array, *, amplitude: float, sigma: float) -> gb.Array:
    """Height above the still water at every frame on the refined mesh, (T, F)."""
    params = lake.params
    state = np.zeros((len(lake.points), 3))
    state[:, 0] = amplitude * np.exp(-np.sum((lake.points - centre) ** 2, axis=1) / (2 * sigma**2))
    rhs = shallow_water_rhs(lake.dual, _water(params))
    fastest = np.sqrt(1.0 + amplitude / params.base)  # under the crest, over that on still water
    step = LONGEST_STEP / (fastest * lake.radius)
    frames = ssp_rk3(rhs, state, frame_times(params.duration), step)
    return np.stack([frame[:, 0].copy() for frame in frames])


def frame_times(duration: float) -> tuple[float, ...]:
    """Times of the frames, s."""
    return tuple(round(duration * frame / (FRAMES - 1), 9) for frame in range(FRAMES))


def adjust(task: gb.Task, params: Params) -> gb.Task:
    """Frames end at the given duration, and the height above the given depth is scored."""
    height = replace(task.fields[0], reference=params.base)
    return replace(task, times=frame_times(params.duration), fields=(height,))


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The lake as a dataset."""
    full = gb.Sizes(train=600, valid=200, test=200, test_ood=100, resolution=1830)
    height = gb.Field(
        "height", "m", reference=5.0, boundary={"boundary": "neumann"}, help="depth of the water"
    )
    return gb.Dataset(
        name="swe",
        title="Shallow water in a lake",
        fields=(height,),
        dim=2,
        tags=("boundary",),
        length_unit="m",
        times=frame_times(Params().duration),
        adjust=adjust,
        t_in=5,
        params=Params,
        sizes={
            "smoke": gb.Sizes(train=16, valid=8, test=8, test_ood=4, resolution=450),
            "laptop": gb.Sizes(train=128, valid=32, test=64, test_ood=32, resolution=450),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, test_ood=2, resolution=450),
        resolutions=(450, 1000, 1830, 3663),
        setup=setup,
        generate=generate,
        mesh=published_mesh,
        solver="node-centred median-dual finite volumes, Rusanov's flux, unlimited second order, "
        "SSP-RK3, reflective walls",
        licence="Apache-2.0",
        cites="GSNO paper, appendix 2D Shallow Water Equations; outline and solver are this "
        "project's own",
    )
