r"""Potential flow past a car: air meets a body of random shape above the ground; no wake.

Equation  v = U e_x + grad phi,  Laplace phi = 0 outside,  v.n = 0 on the body,  v_z = 0 on the
          ground z = 0,  p = rho/2 (U^2 - |v|^2).
TeX       v = U e_x + \nabla \varphi
          \Delta \varphi = 0
          p = \frac{\rho}{2} (U^2 - |v|^2)
Domain    the air around a body of 16 random numbers, published as a cloud: vertices on the body,
          points in nested boxes.
Varies    the body (length, roof line, hood, slants, ride height, ...); steady, pressure on the
          surface, velocity in the air.
Source    generated here: constant source panels with images in the ground, half a body for the
          left-right symmetry.
Differs:  the paper uses time-averaged RANS solutions for ShapeNet cars; this is potential flow past
          procedural bodies, so it has no viscosity, no wake, no drag and no lift from circulation,
          and appears in no table with that set.
Licence   Apache-2.0, as the code.
Start     the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

import gsnobench as gb
from gsnobench_plugins.solvers.equations.potential_flow import (
    Flow,
    pressure_coefficient,
    solve_flow,
    surface_velocity,
    volume_velocity,
)
from gsnobench_plugins.solvers.meshing.point_cloud import cells_between, spread, take_allowed
from gsnobench_plugins.solvers.meshing.surface_mesh import BoxLattice, box_lattice
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.methods.surface_distance import nearest_points
from gsnobench_plugins.solvers.shapes.car_body import (
    CarShape,
    body_normals,
    body_points,
    draw_shape,
    level,
)

GSNOBENCH_API = 1

# points -> fineness of the published and of the solved body
RESOLUTIONS = {1000: (2, 4), 2000: (4, 6), 4000: (4, 12), 12000: (6, 12), 32186: (8, 12)}
CROWDING = 0.2  # how much closer than evenly the lattice lies at the edges of the box
CLEARANCE = 0.03  # m, least distance of a volume point from the body
CLEAR = 1.3  # level of the body's function beyond which no point can be nearer than that
BOXES = np.array(  # m, around the middle of the body: at its skin, in its neighbourhood, far out
    [
        [[-2.9, -1.35, 0.0], [2.9, 1.35, 2.0]],
        [[-4.0, -2.2, 0.0], [5.0, 2.2, 3.0]],
        [[-7.0, -4.0, 0.0], [9.0, 4.0, 5.0]],
    ]
)
# of ten points five are drawn near, three around, two far
TURNS = np.array([0, 1, 0, 2, 0, 1, 0, 1, 0, 2])


class Params(gb.Params):
    """Knobs of the car."""

    speed: float = gb.knob(default=20.0, low=0.1, high=100.0, help="of the stream far away, m/s")
    density: float = gb.knob(default=1.2, low=1e-3, high=1e4, help="of the air, kg/m^3")
    fineness: int = gb.knob(
        default=0,
        low=0,
        high=20,
        help="the body is solved with 112 fineness^2 panels; 0: by resolution",
    )
    cells: Literal["none", "tetrahedra"] = gb.knob(
        default="none",
        help="none: a cloud of points; tetrahedra: Delaunay's between them, without those inside "
        "the body",
    )


@dataclass(frozen=True, eq=False)
class Air:
    """What all samples share: the lattices on which bodies are published and solved."""

    params: Params
    published: BoxLattice
    solved: BoxLattice
    points: int  # surface and volume together


def setup(params: Params, resolution: int, cache: gb.Cache) -> Air:
    """Lattices for a cloud of `resolution` points."""
    published, solved = RESOLUTIONS[resolution]
    return Air(params, car_lattice(published), car_lattice(params.fineness or solved), resolution)


def car_lattice(fineness: int) -> BoxLattice:
    """The lattice of a body with 56 fineness^2 + 2 vertices and 112 fineness^2 triangles."""
    return box_lattice(6 * fineness, fineness, 2 * fineness)


def no_shared_mesh(air: Air) -> None:
    """Every sample has its own points."""


def generate(air: Air, seed: int, split: gb.Split, indices: Sequence[int]) -> Iterator[gb.Sample]:
    """One sample per index; body and points are functions of (seed, split, index) alone."""
    for index in indices:
        rng = sample_rng(seed, split, index)
        shape = draw_shape(rng, tall=split == "test_ood")
        yield make_sample(air, shape, shifts=rng.uniform(size=(len(BOXES), 3)))


def make_sample(air: Air, shape: CarShape, shifts: gb.Array) -> gb.Sample:
    """Flow past one body at its vertices and at points in the air.

    `shifts` (B, 3) are where the sequences of points in the boxes begin.
    """
    body = vertices(shape, air.published)  # (H, 3)
    outward = body_normals(shape, body)
    flow = solve_flow(air.solved, vertices(shape, air.solved))
    surface, normals = map(air.published.whole_vectors, (body, outward))  # (V, 3) each
    count = air.points - len(surface)
    cloud, distance, away = volume_points(shape, flow, shifts, count)
    points = np.concatenate([surface, cloud])  # (N, 3)
    is_surface = np.arange(air.points) < len(surface)
    cells = None
    if air.params.cells == "tetrahedra":
        cells = cells_between(points, is_surface, lambda centres: level(shape, centres) < 1)
    along = air.published.whole_vectors(surface_velocity(flow, body, outward))
    velocity = np.concatenate([along, volume_velocity(flow, cloud)])  # (N, 3) in units of the speed
    pressure = 0.5 * air.params.density * air.params.speed**2 * pressure_coefficient(velocity)
    frames = np.column_stack([pressure, air.params.speed * velocity])[None]  # (1, N, 4)
    distances = np.append(np.zeros(len(surface)), distance)
    static = np.column_stack([distances, np.concatenate([normals, away])])  # (N, 4)
    return gb.Sample(frames, static, np.zeros(0), gb.Mesh(points, cells, {"surface": is_surface}))


def vertices(shape: CarShape, lattice: BoxLattice) -> gb.Array:
    """Vertices of a body with y >= 0, (H, 3), closer together where the box is rounded."""
    even = lattice.positions
    return body_points(shape, even + CROWDING * np.sin(np.pi * even) / np.pi)


def volume_points(
    shape: CarShape, flow: Flow, shifts: gb.Array, count: int
) -> tuple[gb.Array, gb.Array, gb.Array]:
    """Points in the air (P, 3), distances from the body (P,) and unit vectors away from it."""

    def allowed(points: gb.Array) -> gb.Array:
        height = level(shape, points)
        clear, close = height > CLEAR, np.flatnonzero((height > 1) & (height <= CLEAR))
        clear[close] = body_distance(flow, points[close])[0] >= CLEARANCE
        return clear

    def sequence(start: int, stop: int) -> gb.Array:
        return spread(BOXES, TURNS, start, stop, shifts)

    points = take_allowed(sequence, allowed, count)
    return points, *body_distance(flow, points)


def body_distance(flow: Flow, points: gb.Array) -> tuple[gb.Array, gb.Array]:
    """Distance of points outside from the panels (P,), and unit vectors away from them (P, 3)."""
    side = np.where(points[:, 1:2] < 0, [[1.0, -1.0, 1.0]], [[1.0, 1.0, 1.0]])
    nearest = side * nearest_points(flow.panels, points * side)  # on the point's own side
    away = points - nearest
    distance = np.linalg.norm(away, axis=1)
    return distance, away / distance[:, None]


def adjust(task: gb.Task, params: Params) -> gb.Task:
    """The velocity is scored by what the body changes in the stream."""
    references = {"velocity_x": params.speed}
    fields = tuple(
        replace(field, reference=references.get(field.name, field.reference))
        for field in task.fields
    )
    return replace(task, fields=fields)


def fields() -> tuple[gb.Field, ...]:
    """Pressure on the body, velocity in the air."""
    against = "against the stream's, potential flow; Bernoulli's in the air"
    pressure = gb.Field("pressure", "Pa", support="surface", help=against)

    def velocity(axis: str, direction: str, reference: float = 0.0) -> gb.Field:
        return gb.Field(
            f"velocity_{axis}",
            "m s-1",
            reference=reference,
            support="not surface",
            vector="velocity",
            help=f"of the air, potential flow; on the body: along it; {direction}",
        )

    downstream = velocity("x", "downstream", reference=20.0)
    return pressure, downstream, velocity("y", "to the side"), velocity("z", "upward")


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The car as a dataset."""
    full = gb.Sizes(train=500, valid=56, test=111, test_ood=56, resolution=32186)
    distance = gb.Field("signed_distance", "m", help="from the body, 0 on it, positive in the air")
    away = "of the body, outward; in the air: from its nearest place"
    normals = [gb.Field(f"normal_{axis}", "1", vector="normal", help=away) for axis in "xyz"]
    return gb.Dataset(
        name="car",
        title="Potential flow past a car",
        fields=fields(),
        static=(distance, *normals),
        dim=3,
        tags=("surface",),
        length_unit="m",
        adjust=adjust,
        params=Params,
        sizes={
            "smoke": gb.Sizes(train=8, valid=4, test=4, test_ood=2, resolution=2000),
            "laptop": gb.Sizes(train=96, valid=16, test=32, test_ood=16, resolution=4000),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, test_ood=2, resolution=1000),
        resolutions=tuple(RESOLUTIONS),
        setup=setup,
        generate=generate,
        mesh=no_shared_mesh,
        corresponds=False,
        fixed_mesh=False,
        chunk=4,
        solver="potential flow by constant source panels on triangles, closed in flux, images in "
        "the ground and y = 0, GMRES",
        licence="Apache-2.0",
        cites="GSNO paper, appendix Shape-Net 3D Car (there RANS); bodies and solver are our own, "
        "after Hess and Smith 1967",
    )
