"""The pressure force on a body in a stream, as drag and lift coefficients.

A coefficient is a force over the dynamic pressure of the stream, rho/2 U^2, and a size of the body:
its chord in the plane, its frontal area in space. Errors are differences of coefficients. They are
not divided by the coefficient itself, since that may be zero: a body in potential flow has no drag.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import gsnobench as gb
from gsnobench.meshes.surfaces import boundary_areas, star_surface, surface_areas, triangle_areas

FOIL, FAR, SURFACE = "foil", "far", "surface"  # tags: a body in a mesh, its far field; in a cloud


@dataclass(frozen=True, eq=False)
class Body:
    """What turns pressures at the nodes into a force on the body."""

    areas: gb.Array  # (N, d) hat functions times the normal into the body, integrated; 0 elsewhere
    size: float  # chord or frontal area


@dataclass(frozen=True, eq=False)
class Stream:
    """The undisturbed flow at every frame."""

    direction: gb.Array  # (T, d) unit vectors
    pressure: gb.Array  # (T,) dynamic pressure


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where the pressure on a closed body is known, and the stream that it is in."""
    names = {field.name for field in task.fields}
    if "pressure" not in names or "velocity" not in task.vectors:
        return False
    if {FOIL, FAR} <= set(mesh.tags):
        return "density" in names and mesh.dim == 2 and mesh.cells is not None
    return SURFACE in mesh.tags and mesh.dim == 3 and "density" in task.data


def coefficient_errors(
    p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task
) -> tuple[gb.Array, gb.Array]:
    """Error of the drag and of the lift coefficient in every frame, (T,) both, with their signs.

    Lift is the part of the force across the stream that points along the last axis.
    """
    body, stream = body_of(mesh), stream_of(u, mesh, task)
    channel = [field.name for field in task.fields].index("pressure")
    error = (p - u)[..., channel] @ body.areas  # (T, d)
    error /= (stream.pressure * body.size)[:, None]
    upward = np.eye(mesh.dim)[-1] - stream.direction[:, -1:] * stream.direction  # (T, d)
    upward /= np.linalg.norm(upward, axis=1, keepdims=True)
    return np.sum(error * stream.direction, axis=1), np.sum(error * upward, axis=1)


@lru_cache(maxsize=4)
def body_of(mesh: gb.Mesh) -> Body:
    """The foil of a mesh of triangles, or the body whose surface points a cloud contains."""
    if FOIL in mesh.tags:
        on_body = np.asarray(mesh.tags[FOIL], dtype=bool)
        chord = float(np.ptp(mesh.points[on_body, 0]))
        return Body(boundary_areas(mesh) * on_body[:, None], chord)
    nodes = np.flatnonzero(mesh.tags[SURFACE])
    points = mesh.points[nodes]
    triangles = star_surface(points)
    areas = np.zeros_like(mesh.points)
    areas[nodes] = -surface_areas(points, triangles)
    frontal = 0.5 * np.abs(triangle_areas(points, triangles)[:, 0]).sum()
    return Body(areas, float(frontal))


def stream_of(u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> Stream:
    """The true flow far away; without such nodes the stream that velocities are relative to."""
    references = np.array([field.reference for field in task.fields])
    group = list(task.vectors["velocity"])
    if FAR in mesh.tags:
        far = (u + references)[:, np.asarray(mesh.tags[FAR], dtype=bool)].mean(axis=1)  # (T, C)
        density = far[:, [field.name for field in task.fields].index("density")]
    else:
        far = np.tile(references, (len(u), 1))
        density = np.full(len(u), float(task.data["density"]))
    velocity = far[:, group]  # (T, d)
    speed = np.linalg.norm(velocity, axis=1)
    return Stream(velocity / speed[:, None], 0.5 * density * speed**2)
