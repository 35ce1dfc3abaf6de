r"""Compressible flow around a wing section that is set into motion at once, frame by frame.

Equation  d rho/dt + div(rho v) = 0,  d(rho v)/dt + div(rho v v) + grad p = 0,
          dE/dt + div((E + p) v) = 0, an ideal gas with gamma = 1.4; v.n = 0 on the foil,
          undisturbed air far away; a uniform stream at first, through the foil too.
TeX       \partial_t \rho + \nabla \cdot (\rho v) = 0
          \partial_t (\rho v) + \nabla \cdot (\rho v \otimes v) + \nabla p = 0
          \partial_t E + \nabla \cdot ((E + p) v) = 0
Domain    a disc of 50 chords around NACA 0012 of unit chord: 5233 nodes, 10216 triangles, 200 nodes
          on the foil, 50 far away.
Varies    Mach number and angle of attack; 11 frames, one every quarter of chord over speed of
          sound, so 10 pairs per trajectory. `airfoil_family`: a section, hence a mesh, for every
          trajectory, a stream that runs linearly from one velocity to another, a frame every
          chord over speed of sound.
Source    generated here: second-order node-centred finite volumes, HLLC flux, van Albada's limiter,
          SSP-RK3, on the published mesh.
Differs:  the public set (MeshGraphNets) has its own mesh of as many nodes in a disc of 20 chords,
          SI units and other frames; the paper prints no energy equation, which pressure needs; the
          background is subtracted before scoring.
Licence   Apache-2.0, as the code.
Start     `airfoil_family`: with one section in a constant stream the pairs are a linear map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges, cells_of
from gsnobench_plugins.solvers.equations.euler import (
    PRESSURE,
    Stream,
    conserved,
    evolve,
    primitives,
)
from gsnobench_plugins.solvers.meshing.foil_mesh import foil_mesh
from gsnobench_plugins.solvers.methods.finite_volume import DualMesh, compact_order, dual_mesh
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.shapes.naca import Section

GSNOBENCH_API = 1

FRAMES = 11
RESOLUTIONS = (600, 1800, 5233, 10466)
OOD_MACH = (1.07, 1.21)  # test_ood: range over the highest Mach number elsewhere, 0.75 to 0.85
FAMILY = {"camber": (0.0, 0.04), "position": (0.3, 0.5), "thickness": (0.09, 0.15)}
ORDER = [0, 3, 1, 2]  # of the published fields among density, velocity, pressure


class Params(gb.Params):
    """Knobs of the flow."""

    mach_low: float = gb.knob(
        default=0.3, low=0.1, high=0.9, help="lowest Mach number", search=False
    )
    mach_high: float = gb.knob(
        default=0.7, low=0.1, high=0.9, help="highest Mach number", search=False
    )
    angle: float = gb.knob(
        default=6.0,
        low=0.0,
        high=12.0,
        help="angles of attack are drawn from -angle to angle, degrees",
    )
    interval: float = gb.knob(
        default=0.25,
        low=0.01,
        high=5.0,
        help="time between frames, chord over speed of sound",
        search=False,
    )
    shapes: Literal["one", "family"] = gb.knob(
        default="one", help="one section for all, or a random one per trajectory"
    )
    motion: Literal["steady", "ramp"] = gb.knob(
        default="steady", help="the stream stays, or its velocity runs linearly to a second one"
    )
    naca: str = gb.knob(default="0012", help="four digits of the one section, such as 0012 or 2412")
    radius: float = gb.knob(
        default=50.0, low=5.0, high=500.0, help="radius of the disc of air, chords", search=False
    )


@dataclass(frozen=True, eq=False)
class Air:
    """A published mesh, and the same mesh in the solver's order."""

    mesh: gb.Mesh
    dual: DualMesh
    is_wall: gb.Array  # (W,) boundary edges of `dual` that lie on the foil
    published: gb.Array  # (N,) index of each published node in the solver's order


@dataclass(frozen=True, eq=False)
class Setup:
    """What all samples share; the family shares no mesh."""

    params: Params
    resolution: int
    air: Air | None


def setup(params: Params, resolution: int, cache: gb.Cache) -> Setup:
    """Mesh the air around the one section."""
    if params.mach_low > params.mach_high:
        raise gb.ParamError(
            f"data.mach_low: {params.mach_low} is above mach_high {params.mach_high}; swap them"
        )
    if params.shapes == "family":
        return Setup(params, resolution, None)
    section = Section.of(params.naca)

    def compute() -> dict[str, gb.Array]:
        mesh = foil_mesh(section, nodes=resolution, radius=params.radius)
        tags = {tag: tagged.astype(np.uint8) for tag, tagged in mesh.tags.items()}
        return {"points": mesh.points, "cells": cells_of(mesh), **tags}

    recipe = {"nodes": resolution, "radius": params.radius, "naca": params.naca}
    arrays = cache.arrays("airfoil-mesh-v1", recipe, compute)
    tags = {tag: arrays[tag].astype(bool) for tag in ("boundary", "foil", "far")}
    return Setup(params, resolution, air_of(gb.Mesh(arrays["points"], arrays["cells"], tags)))


def air_of(mesh: gb.Mesh) -> Air:
    """The finite volumes of a mesh around a foil."""
    cells = cells_of(mesh)
    order = compact_order(cell_edges(cells), mesh.size)
    index = np.empty_like(order)
    index[order] = np.arange(len(order))
    dual = dual_mesh(mesh.points[order], index[cells])
    return Air(mesh, dual, mesh.tags["foil"][order][dual.wall].all(axis=1), index)


def shared_mesh(setup: Setup) -> gb.Mesh | None:
    """The mesh of all samples; None for the family."""
    return None if setup.air is None else setup.air.mesh


def generate(
    setup: Setup, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    """One trajectory per index; stream and section depend on (seed, split, index) alone."""
    radius = setup.params.radius
    for index in indices:
        stream, section = draw(setup.params, seed, split, index)
        air = setup.air or air_of(foil_mesh(section, nodes=setup.resolution, radius=radius))
        frames = solve(air, stream, frame_times(setup.params.interval))  # (T, N, 4)
        if not np.isfinite(frames).all() or frames[..., :2].min() <= 0:
            raise gb.DataError(
                f"airfoil: {split} sample {index} lost its density or pressure; expected both "
                "above 0; lower data.angle"
            )
        own = None if setup.air is not None else air.mesh
        inputs = stream.acceleration if setup.params.motion == "ramp" else ()
        yield gb.Sample(frames, np.zeros((air.mesh.size, 0)), np.array(inputs), own)


def draw(params: Params, seed: int, split: gb.Split, index: int) -> tuple[Stream, Section]:
    """Stream and section of a sample, uniform in their ranges; test_ood has higher Mach numbers."""
    rng = sample_rng(seed, split, index)
    low, high = params.mach_low, params.mach_high
    if split == "test_ood":
        low, high = OOD_MACH[0] * high, OOD_MACH[1] * high

    def draw_stream() -> Stream:
        mach, degrees = rng.uniform(low, high), rng.uniform(-params.angle, params.angle)
        return Stream(float(mach), float(degrees))

    stream, section = draw_stream(), Section.of(params.naca)
    if params.shapes == "family":
        section = Section(**{name: float(rng.uniform(*limits)) for name, limits in FAMILY.items()})
    if params.motion == "ramp":
        change = draw_stream().primitive - stream.primitive
        rate = change[1:3] / frame_times(params.interval)[-1]
        stream = replace(stream, acceleration=(float(rate[0]), float(rate[1])))
    return stream, section


def solve(air: Air, stream: Stream, times: Sequence[float]) -> gb.Array:
    """Density, pressure and velocity at the published nodes and at each of the times, (T, N, 4)."""
    state = np.tile(conserved(stream.primitive), (air.mesh.size, 1))
    frames = [primitives(frame) for frame in evolve(air.dual, air.is_wall, stream, state, times)]
    return np.stack(frames)[:, air.published][..., ORDER]


def frame_times(interval: float) -> tuple[float, ...]:
    """Times of the frames, in chords over the speed of sound."""
    return tuple(round(interval * frame, 9) for frame in range(FRAMES))


def adjust(task: gb.Task, params: Params) -> gb.Task:
    """Times follow the interval, a family shares no mesh, and the rate of a ramp is an input.

    Velocities are scored as differences from the middle Mach number.
    """
    times, is_fixed = frame_times(params.interval), params.shapes == "one"
    task = replace(task, times=times, fields=_fields(params), scalars=_scalars(params))
    return replace(task, fixed_mesh=is_fixed, corresponds=is_fixed)


def _fields(params: Params) -> tuple[gb.Field, ...]:
    middle = round(0.5 * (params.mach_low + params.mach_high), 9)
    squared = "in units of the free stream's density times speed of sound squared"
    along = "along the chord, in speeds of sound of the free stream"
    across = "across the chord, in speeds of sound of the free stream"
    return (
        gb.Field("density", "1", reference=1.0, help="in units of the free stream's"),
        gb.Field("pressure", "1", reference=PRESSURE, help=squared),
        gb.Field("velocity_x", "1", reference=middle, vector="velocity", help=along),
        gb.Field("velocity_y", "1", vector="velocity", help=across),
    )


def _scalars(params: Params) -> tuple[gb.Field, ...]:
    """The rate of a ramp, which one frame does not show."""
    if params.motion == "steady":
        return ()
    unit = "in speeds of sound squared per chord"
    return (
        gb.Field("acceleration_x", "1", help=f"of the free stream along the chord, {unit}"),
        gb.Field("acceleration_y", "1", help=f"of the free stream across the chord, {unit}"),
    )


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The airfoil as a dataset."""
    return gb.Dataset(
        name="airfoil",
        title="Compressible flow around a wing section",
        fields=_fields(Params()),
        dim=2,
        tags=("boundary", "foil", "far"),
        times=frame_times(Params().interval),
        time_unit="1",
        adjust=adjust,
        t_in=1,
        starts=tuple(range(FRAMES - 1)),
        params=Params,
        variants={
            "family": {
                "shapes": "family",
                "motion": "ramp",
                "interval": 1.0,
                "mach_high": 0.8,
                "angle": 8.0,
            }
        },
        sizes={
            "smoke": gb.Sizes(train=8, valid=4, test=4, test_ood=2, resolution=600),
            "laptop": gb.Sizes(train=48, valid=12, test=16, test_ood=8, resolution=1800),
            "workstation": gb.Sizes(train=200, valid=20, test=40, test_ood=20, resolution=5233),
            "paper": gb.Sizes(train=1000, valid=100, test=100, test_ood=50, resolution=5233),
        },
        tiny=gb.Sizes(train=2, valid=1, test=1, test_ood=1, resolution=600),
        resolutions=RESOLUTIONS,
        family="varying",  # of the one section too: a strongly graded mesh, one step in time
        chunk=4,
        setup=setup,
        generate=generate,
        mesh=shared_mesh,
        solver="node-centred median-dual finite volumes, HLLC flux, van Albada limiter, SSP-RK3, "
        "slip wall, upwind far field",
        licence="Apache-2.0",
        cites="GSNO paper, appendix Euler equations over a 2D Airfoil; set-up after Pfaff et al. "
        "2021 (MeshGraphNets)",
    )
