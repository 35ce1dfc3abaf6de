"""Potential flow of a uniform stream along x past a body that is alike on both sides of y = 0,
above the ground z = 0 or in free space: source panels, without wake, separation or circulation."""

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
    """The solved flow: source densities, and the potential of stream and sources at the vertices of
    the whole body.
    """

    panels: Panels
    density: gb.Array  # (M/2,) of the panels at y >= 0
    vertices: gb.Array  # (V, 3)
    potential: gb.Array  # (V,)
    neighbours: gb.Array  # (V, K) vertices around each vertex, padded with itself
    held: gb.Array  # (V,) how many of them are real


def solve_flow(lattice: BoxLattice, half: gb.Array, *, ground: bool = True) -> Flow:
    """The flow past the body whose vertices with y >= 0 are `half`, (H, 3), in units of the
    stream's speed.
    """
    panels = make_panels(half[lattice.half], ("y", "z") if ground else ("y",))
    matrix = normal_matrix(panels)

    def apply(density: gb.Array) -> gb.Array:
        return (matrix @ density.astype(np.float32)).astype(np.float64)

    operator = LinearOperator(matrix.shape, matvec=apply, dtype=np.float64)
    density, state = gmres(
        operator, -panels.normals @ STREAM, rtol=TOLERANCE, restart=ITERATIONS, maxiter=1
    )
    if state != 0:
        raise gb.DataError(
            f"panels: no solution after {ITERATIONS} iterations; expected about 10; the body may "
            "cut itself"
        )
    potential = half @ STREAM + source_field(panels, density, half)[0]
    table, held = rings(lattice.triangles, len(half) + len(lattice.mirrored), RINGS)
    return Flow(panels, density, lattice.whole_vectors(half), lattice.whole(potential), table, held)


def volume_velocity(flow: Flow, points: gb.Array) -> gb.Array:
    """Velocity at places outside the body, (P, 3)."""
    return np.asarray(STREAM + source_field(flow.panels, flow.density, points)[1])


def surface_velocity(flow: Flow, points: gb.Array, normals: gb.Array) -> gb.Array:
    """Velocity along the body at places on it, (P, 3): the slope of a cubic through the potential
    at nearby vertices.
    """
    closest = KDTree(flow.vertices).query(points)[1]
    near = np.column_stack([flow.neighbours[closest], closest])  # (P, K+1)
    is_real = np.column_stack(
        [np.arange(near.shape[1] - 1) < flow.held[closest, None], np.ones(len(points), dtype=bool)]
    )
    first = np.cross(
        normals, np.where(np.abs(normals[:, :1]) < 0.7, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    )
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(normals, first)
    arms = flow.vertices[near] - points[:, None]  # (P, K+1, 3)
    size = np.sqrt(np.max(np.sum(arms**2, axis=2) * is_real, axis=1, keepdims=True))  # (P, 1)
    u, v = (np.einsum("pkd,pd->pk", arms, axis) / size for axis in (first, second))
    # (P, K+1, 10): 1, v, v^2, v^3, u, ...
    terms = np.stack([u**i * v**j for i in range(4) for j in range(4 - i)], axis=2)
    weights = is_real / (np.sum((arms / size[:, :, None]) ** 2, axis=2) + 0.02)
    moments = np.einsum("pki,pk,pkj->pij", terms, weights, terms)
    loads = np.einsum(
        "pki,pk,pk->pi", terms, weights, flow.potential[near] - flow.potential[closest, None]
    )
    slopes = np.linalg.solve(moments, loads[:, :, None])[:, :, 0] / size
    return np.asarray(slopes[:, 4:5] * first + slopes[:, 1:2] * second)


def pressure_coefficient(velocity: gb.Array) -> gb.Array:
    """1 - |v|^2 by Bernoulli, velocity in units of the stream's speed, (P,)."""
    return np.asarray(1.0 - np.sum(velocity**2, axis=1))


def force_coefficients(points: gb.Array, triangles: gb.Array, pressure: gb.Array) -> gb.Array:
    """Force of the pressure coefficient at the vertices on a closed body over its frontal area,
    (3,).
    """
    corners = points[triangles]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    frontal = np.abs(faces[:, 0]).sum() / 2
    return np.asarray(-(pressure[triangles].mean(axis=1) @ faces) / frontal)
