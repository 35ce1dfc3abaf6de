"""Potential flow of a uniform stream along x past a body, by source panels.

The body is alike on both sides of y = 0, above the ground z = 0 or in free space; there is no wake,
no separation and no circulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.spatial import KDTree

import gsnobench as gb
from gsnobench_plugins.solvers.meshing.surface_mesh import BoxLattice, rings
from gsnobench_plugins.solvers.methods.panel import Panels, make_panels, normal_matrix, source_field

STREAM = np.array([1.0, 0.0, 0.0])
TOLERANCE = 1e-5  # of the linear solver, relative; float32 products stall at about 1e-6
ITERATIONS = 60
RINGS = 2  # of neighbours through which a cubic gives the slope of the potential along the surface


@dataclass(frozen=True, eq=False)
class Flow:
    """The solved flow: source densities, and the potential at the vertices of the whole body."""

    panels: Panels
    density: gb.Array  # (M/2,) of the panels at y >= 0
    vertices: gb.Array  # (V, 3)
    potential: gb.Array  # (V,)
    neighbours: gb.Array  # (V, K) vertices around each vertex, padded with itself
    counts: gb.Array  # (V,) how many of them are real


def solve_flow(lattice: BoxLattice, half: gb.Array, *, ground: bool = True) -> Flow:
    """The flow of speed 1 past the body whose vertices with y >= 0 are `half`, (H, 3)."""
    panels = make_panels(half[lattice.half], ("y", "z") if ground else ("y",))
    matrix = normal_matrix(panels)

    def apply(density: gb.Array) -> gb.Array:
        return (matrix @ density.astype(np.float32)).astype(np.float64)

    operator = LinearOperator(matrix.shape, matvec=apply, dtype=np.float64)
    inflow = -panels.normals @ STREAM
    density, state = gmres(operator, inflow, rtol=TOLERANCE, restart=ITERATIONS, maxiter=1)
    if state != 0:
        raise gb.DataError(
            f"panels: no solution after {ITERATIONS} iterations; expected about 10; the body may "
            "cut itself"
        )
    potential = half @ STREAM + source_field(panels, density, half)[0]
    vertices = lattice.whole_vectors(half)
    table, counts = rings(lattice.triangles, len(vertices), RINGS)
    return Flow(panels, density, vertices, lattice.whole(potential), table, counts)


def volume_velocity(flow: Flow, points: gb.Array) -> gb.Array:
    """Velocity at points outside the body, (P, 3)."""
    return np.asarray(STREAM + source_field(flow.panels, flow.density, points)[1])


def surface_velocity(flow: Flow, points: gb.Array, normals: gb.Array) -> gb.Array:
    """Velocity along the body at points on it, (P, 3).

    It is the slope of a cubic through the potential at nearby vertices.
    """
    closest = KDTree(flow.vertices).query(points)[1]
    near = np.column_stack([flow.neighbours[closest], closest])  # (P, K+1)
    is_neighbour = np.arange(near.shape[1] - 1) < flow.counts[closest, None]
    is_real = np.column_stack([is_neighbour, np.ones(len(points), dtype=bool)])
    is_steep = np.abs(normals[:, :1]) < 0.7
    first = np.cross(normals, np.where(is_steep, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(normals, first)
    arms = flow.vertices[near] - points[:, None]  # (P, K+1, 3)
    size = np.sqrt(np.max(np.sum(arms**2, axis=2) * is_real, axis=1, keepdims=True))  # (P, 1)
    u, v = (np.einsum("pkd,pd->pk", arms, axis) / size for axis in (first, second))
    powers = [u**i * v**j for i in range(4) for j in range(4 - i)]
    terms = np.stack(powers, axis=2)  # (P, K+1, 10): 1, v, v^2, v^3, u, ...
    weights = is_real / (np.sum((arms / size[:, :, None]) ** 2, axis=2) + 0.02)
    moments = np.einsum("pki,pk,pkj->pij", terms, weights, terms)
    rise = flow.potential[near] - flow.potential[closest, None]
    loads = np.einsum("pki,pk,pk->pi", terms, weights, rise)
    slopes = np.linalg.solve(moments, loads[:, :, None])[:, :, 0] / size
    return np.asarray(slopes[:, 4:5] * first + slopes[:, 1:2] * second)


def pressure_coefficient(velocity: gb.Array) -> gb.Array:
    """1 - |v|^2 by Bernoulli, velocity in units of the stream's speed, (P,)."""
    return np.asarray(1.0 - np.sum(velocity**2, axis=1))


def force_coefficients(points: gb.Array, triangles: gb.Array, pressure: gb.Array) -> gb.Array:
    """Force of the pressure coefficient on a closed body over its frontal area, (3,).

    For verification; `pressure` is given at the vertices.
    """
    corners = points[triangles]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    frontal = np.abs(faces[:, 0]).sum() / 2
    return np.asarray(-(pressure[triangles].mean(axis=1) @ faces) / frontal)
