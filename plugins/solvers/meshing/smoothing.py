"""Moving the interior nodes of a mesh to where its triangles are well shaped."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

import gsnobench as gb
from gsnobench.meshes.simplices import cell_measures
from gsnobench_plugins.solvers.meshing.angles import corner_angles
from gsnobench_plugins.solvers.meshing.framing import Frame, is_conforming, triangulate


def smooth(frame: Frame, points: gb.Array, triangles: gb.Array) -> gb.Array:
    """One sweep of density-weighted optimal-Delaunay smoothing, towards nearby circumcentres."""
    fixed = len(frame.boundary)
    a, b, c = (points[triangles[:, i]] for i in range(3))
    centres = (a + b + c) / 3
    areas = np.maximum(cell_measures(points, triangles), 1e-300)
    lengths = frame.sizing(centres)
    u, v = b - a, c - a
    uu, vv = np.sum(u * u, axis=1), np.sum(v * v, axis=1)
    turned = np.stack([v[:, 1] * uu - u[:, 1] * vv, u[:, 0] * vv - v[:, 0] * uu], axis=1)
    around = turned / (4 * areas[:, None]) + a
    offset = around - centres
    reach = np.linalg.norm(offset, axis=1)
    share = np.minimum(1.0, 0.3 * np.sqrt(areas) / np.maximum(reach, 1e-300))
    targets = centres + offset * share[:, None]
    weight = areas / lengths**4
    total = np.bincount(triangles.ravel(), np.repeat(weight, 3), len(points))
    sums = [np.repeat(weight * targets[:, k], 3) for k in (0, 1)]
    moved = np.stack([np.bincount(triangles.ravel(), part, len(points)) for part in sums], axis=1)
    result = points.copy()
    result[fixed:] = moved[fixed:] / np.maximum(total[fixed:, None], 1e-300)
    lost = total[fixed:] <= 0
    result[fixed:][lost] = points[fixed:][lost]
    return result


def clear_segments(frame: Frame, points: gb.Array) -> gb.Array:
    """Push interior nodes out of the circles over boundary segments: Delaunay then keeps those."""
    fixed = len(frame.boundary)
    a, b = frame.boundary[frame.segments[:, 0]], frame.boundary[frame.segments[:, 1]]
    lengths = np.linalg.norm(b - a, axis=1)
    middles = 0.5 * (a + b)
    inward = np.stack([-(b - a)[:, 1], (b - a)[:, 0]], axis=1) / lengths[:, None]
    close = cKDTree(points[fixed:]).query_ball_point(middles, 0.56 * lengths)
    result = points.copy()
    for s, nodes in enumerate(close):
        for node in nodes:
            offset = result[fixed + node] - middles[s]
            along = offset - inward[s] * (offset @ inward[s])
            result[fixed + node] = middles[s] + 0.8 * along + 0.7 * lengths[s] * inward[s]
    return result


def polish(
    frame: Frame, points: gb.Array, *, target: float = 30.0, rounds: int = 30
) -> tuple[gb.Array, gb.Array]:
    """Move the interior nodes of the worst triangles to where their smallest angle is largest."""
    triangles = triangulate(frame, points)
    fixed = len(frame.boundary)
    for _ in range(rounds):
        angles = corner_angles(points, triangles).min(axis=1)
        bad = np.flatnonzero(angles < target)
        bad = bad[np.argsort(angles[bad], kind="stable")][:40]
        corners = dict.fromkeys(triangles[bad].ravel().tolist())
        movable = [int(node) for node in corners if node >= fixed]
        if not movable:
            break
        stars = _stars(triangles, len(points))
        moved = points.copy()
        changed = False
        for node in movable:
            better = _best_position(moved, triangles[stars[node]], node)
            changed |= better is not None
            if better is not None:
                moved[node] = better
        if not changed:
            break
        retriangulated = triangulate(frame, moved)
        if not is_conforming(frame, retriangulated, len(moved)):
            break
        points, triangles = moved, retriangulated
    return points, triangles


def _stars(triangles: gb.Array, count: int) -> list[gb.Array]:
    order = np.argsort(triangles.ravel(), kind="stable")
    return np.split(order // 3, np.cumsum(np.bincount(triangles.ravel(), minlength=count))[:-1])


_TURNS = np.arange(12) * np.pi / 6
_DIRECTIONS = np.stack([np.cos(_TURNS), np.sin(_TURNS)], axis=1)


def _best_position(points: gb.Array, star: gb.Array, node: int) -> gb.Array | None:
    """A position near a node that makes the smallest angle of its star larger, or None."""
    reach = np.sqrt(np.abs(cell_measures(points, star)).mean())
    steps = reach * np.array([0.02, 0.05, 0.12])
    tries = points[node] + (steps[:, None, None] * _DIRECTIONS).reshape(-1, 2)  # (36, 2)
    tries = np.concatenate([points[node][None], tries])
    corners = np.repeat(points[star][None], len(tries), axis=0)  # (37, m, 3, 2)
    corners[:, star == node] = tries[:, None]
    flat = corners.reshape(-1, 2)
    index = np.arange(len(flat)).reshape(-1, 3)
    angles = np.where(cell_measures(flat, index) > 0, corner_angles(flat, index).min(axis=1), -1.0)
    worst = angles.reshape(len(tries), -1).min(axis=1)
    winner = int(np.argmax(worst))
    return tries[winner] if worst[winner] > worst[0] + 0.05 else None
