"""Angles of plane triangles, the measure of a mesh's quality."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cells_of


def corner_angles(points: gb.Array, triangles: gb.Array) -> gb.Array:
    """The three angles of every triangle in degrees, (M, 3), in the order of its nodes."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    angles = []
    for corner, after, before in ((a, b, c), (b, c, a), (c, a, b)):
        u, v = after - corner, before - corner
        cross = np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        angles.append(np.degrees(np.arctan2(cross, np.sum(u * v, axis=1))))
    return np.stack(angles, axis=1)


def min_angle(mesh: gb.Mesh) -> float:
    """Smallest angle of a triangle mesh, in degrees."""
    return float(corner_angles(mesh.points, cells_of(mesh)).min())
