"""Where a point is relative to triangles: the nearest point on them, and winding numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

import gsnobench as gb
from gsnobench_plugins.solvers.methods.panel import BLOCK, Panels, solid_angle


def nearest_points(panels: Panels, targets: gb.Array) -> gb.Array:
    """The point of the panels, not of their images, nearest to each target, (P, 3)."""
    result = np.empty((len(targets), 3))
    radii = np.linalg.norm(panels.corners - panels.centres[:, None], axis=2).max(axis=1)
    targets = np.ascontiguousarray(targets)
    _nearest(result, targets, panels.corners, panels.centres, radii, panels.blocks)
    return result


def winding_number(corners: gb.Array, targets: gb.Array) -> gb.Array:
    """Solid angle of triangles (M, 3, 3) over 4 pi, (P,): 1 inside a closed surface, 0 outside.

    For verification. The surface must face outward.
    """
    result = np.empty(len(targets))
    _wind(result, np.ascontiguousarray(targets), np.ascontiguousarray(corners))
    return result


@njit(cache=True, error_model="numpy")
def _on_segment(a: Any, b: Any, x: float, y: float, z: float) -> Any:
    """Nearest point of the segment from a to b."""
    tx, ty, tz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    share = ((x - a[0]) * tx + (y - a[1]) * ty + (z - a[2]) * tz) / (tx * tx + ty * ty + tz * tz)
    share = min(max(share, 0.0), 1.0)
    return a[0] + share * tx, a[1] + share * ty, a[2] + share * tz


@njit(cache=True, error_model="numpy")
def _on_triangle(corners: Any, x: float, y: float, z: float) -> Any:
    """Nearest point of a triangle: the foot of the perpendicular if inside, else on an edge."""
    a, b, c = corners[0], corners[1], corners[2]
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    wx, wy, wz = x - a[0], y - a[1], z - a[2]
    uu, uv, vv = (
        ux * ux + uy * uy + uz * uz,
        ux * vx + uy * vy + uz * vz,
        vx * vx + vy * vy + vz * vz,
    )
    wu, wv = wx * ux + wy * uy + wz * uz, wx * vx + wy * vy + wz * vz
    whole = uu * vv - uv * uv
    s, t = (vv * wu - uv * wv) / whole, (uu * wv - uv * wu) / whole
    if s >= 0.0 and t >= 0.0 and s + t <= 1.0:
        return a[0] + s * ux + t * vx, a[1] + s * uy + t * vy, a[2] + s * uz + t * vz
    best = (a[0], a[1], a[2])
    least = math.inf
    for start, end in ((a, b), (b, c), (c, a)):
        point = _on_segment(start, end, x, y, z)
        squared = (point[0] - x) ** 2 + (point[1] - y) ** 2 + (point[2] - z) ** 2
        if squared < least:
            best, least = point, squared
    return best


@njit(cache=True, error_model="numpy")
def _search(result: Any, point: Any, members: Any, limit: float, arrays: Any) -> float:
    """Search the panels `members` (from, to) for a point nearer than `limit`; the new limit."""
    corners, centres, radii = arrays
    x, y, z = point
    for j in range(members[0], members[1]):
        gap = (x - centres[j, 0]) ** 2 + (y - centres[j, 1]) ** 2 + (z - centres[j, 2]) ** 2
        if gap > (limit + radii[j]) ** 2:
            continue
        px, py, pz = _on_triangle(corners[j], x, y, z)
        distance = math.sqrt((px - x) ** 2 + (py - y) ** 2 + (pz - z) ** 2)
        if distance < limit:
            limit = distance
            result[0], result[1], result[2] = px, py, pz
    return limit


@njit(cache=True, error_model="numpy")
def _nearest(
    result: Any, targets: Any, corners: Any, centres: Any, radii: Any, blocks: Any
) -> None:
    arrays = (corners, centres, radii)
    gaps = np.empty(len(blocks))  # to the ball around each block
    for i in range(len(targets)):
        point = targets[i]
        for b in range(len(blocks)):
            squared = (
                (point[0] - blocks[b, 0]) ** 2
                + (point[1] - blocks[b, 1]) ** 2
                + (point[2] - blocks[b, 2]) ** 2
            )
            gaps[b] = math.sqrt(squared) - blocks[b, 3]
        first = np.argmin(gaps)  # a good limit from the start spares most of the rest
        members = (first * BLOCK, min((first + 1) * BLOCK, len(corners)))
        limit = _search(result[i], point, members, math.inf, arrays)
        for b in range(len(blocks)):
            if gaps[b] < limit and b != first:
                members = (b * BLOCK, min((b + 1) * BLOCK, len(corners)))
                limit = _search(result[i], point, members, limit, arrays)


@njit(cache=True, error_model="numpy")
def _wind(result: Any, targets: Any, corners: Any) -> None:
    for i in range(len(targets)):
        x, y, z = targets[i]
        total = 0.0
        for j in range(len(corners)):
            a, b, c = corners[j, 0], corners[j, 1], corners[j, 2]
            ax, ay, az, bx, by, bz = a[0] - x, a[1] - y, a[2] - z, b[0] - x, b[1] - y, b[2] - z
            total += solid_angle(ax, ay, az, bx, by, bz, c[0] - x, c[1] - y, c[2] - z)[0]
        result[i] = -total / (4.0 * math.pi)
