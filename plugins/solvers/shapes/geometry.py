"""Plane geometry of closed loops: area, containment, arc length, corners, distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import gsnobench as gb


def signed_area(loop: gb.Array) -> float:
    """Area enclosed by a loop (n, 2); positive if it runs counter-clockwise."""
    x, y = loop[:, 0], loop[:, 1]
    return float(0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def clean_loop(loop: gb.Array, *, label: str, clockwise: bool = False) -> gb.Array:
    """A loop without repeated points, turned to the given orientation."""
    loop = np.asarray(loop, dtype=float)
    if loop.ndim != 2 or loop.shape[1] != 2 or not np.isfinite(loop).all():
        raise gb.DataError(
            f"{label}: shape {loop.shape} is not a loop; expected (n, 2) finite coordinates; check "
            "the outline"
        )
    scale = float(np.ptp(loop, axis=0).max())
    step = np.linalg.norm(loop - np.roll(loop, 1, axis=0), axis=1)
    loop = loop[step > 1e-9 * scale]
    if len(loop) < 3 or abs(signed_area(loop)) < 1e-9 * scale**2:
        raise gb.DataError(
            f"{label}: {len(loop)} distinct points enclose no area; expected a polygon; check the "
            "outline"
        )
    if (signed_area(loop) < 0) != clockwise:
        loop = loop[::-1]
    return np.ascontiguousarray(loop)


def contains(loops: Sequence[gb.Array], points: gb.Array) -> gb.Array:
    """Which points (m, 2) lie inside an odd number of loops: in the outline, outside its holes."""
    px, py = points[:, 0], points[:, 1]
    inside = np.zeros(len(points), dtype=bool)
    for loop in loops:
        for (ax, ay), (bx, by) in zip(loop, np.roll(loop, -1, axis=0), strict=True):
            if ay == by:
                continue
            crosses = (ay > py) != (by > py)
            crossing = np.flatnonzero(crosses)
            inside[crossing] ^= px[crossing] < ax + (py[crossing] - ay) * ((bx - ax) / (by - ay))
    return inside


def segments_of(loops: Sequence[gb.Array]) -> tuple[gb.Array, gb.Array]:
    """Start and end points of all segments of the loops, (s, 2) each."""
    return np.concatenate(loops), np.concatenate([np.roll(loop, -1, axis=0) for loop in loops])


def distance_to_segments(
    points: gb.Array, starts: gb.Array, ends: gb.Array, *, block: int = 4096
) -> gb.Array:
    """Distance of every point to the nearest segment, (m,)."""
    along = ends - starts  # (s, 2)
    squared = np.maximum(np.sum(along**2, axis=1), 1e-300)
    nearest = np.empty(len(points))
    for first in range(0, len(points), block):
        p = points[first : first + block, None, :]  # (b, 1, 2)
        t = np.clip(np.sum((p - starts) * along, axis=2) / squared, 0.0, 1.0)  # (b, s)
        nearest[first : first + block] = np.sqrt(
            np.min(np.sum((p - starts - t[..., None] * along) ** 2, axis=2), axis=1)
        )
    return nearest


def crossing_segments(starts: gb.Array, ends: gb.Array, *, block: int = 256) -> bool:
    """Whether two segments cross, or one ends inside another; sharing an end is not crossing."""

    def side(a: gb.Array, b: gb.Array, c: gb.Array) -> gb.Array:
        u, v = b - a, c - a
        return np.asarray(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])

    for first in range(0, len(starts), block):
        p, q = starts[first : first + block, None], ends[first : first + block, None]
        parted = (side(p, q, starts) * side(p, q, ends) <= 0) & (
            side(starts, ends, p) * side(starts, ends, q) < 0
        )
        if parted.any():
            return True
    return False


def arc_length(loop: gb.Array) -> gb.Array:
    """Arc length at each vertex and, last, the perimeter, (n+1,)."""
    steps = np.linalg.norm(np.roll(loop, -1, axis=0) - loop, axis=1)
    return np.concatenate([[0.0], np.cumsum(steps)])


def points_at(loop: gb.Array, length: gb.Array, s: gb.Array) -> gb.Array:
    """Points of a loop at arc lengths s modulo the perimeter, (m, 2); `length` is `arc_length`."""
    closed = np.vstack([loop, loop[:1]])
    s = np.mod(s, length[-1])
    return np.stack([np.interp(s, length, closed[:, axis]) for axis in (0, 1)], axis=1)


def turning(before: gb.Array, at: gb.Array, after: gb.Array) -> gb.Array:
    """Signed change of direction at each point, in degrees; positive turns left."""
    u, v = at - before, after - at
    cross = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    return np.asarray(np.degrees(np.arctan2(cross, np.sum(u * v, axis=1))))


def find_corners(loop: gb.Array, spacing: gb.Array) -> gb.Array:
    """Indices of the vertices that a mesh with local edge length `spacing` (n,) must keep.

    A corner is a sharp turn seen at a quarter of the edge length (so that a finely drawn curve has
    none), or any noticeable turn between two sides that are each at least an edge long (so that a
    coarse polygon keeps its vertices). Corners closer than most of an edge are thinned, unless a
    long side ends there: that one was drawn on purpose.
    """
    length = arc_length(loop)
    s, reach = length[:-1], 0.25 * spacing
    after = np.diff(length)
    before = np.roll(after, 1)
    seen = np.abs(
        turning(points_at(loop, length, s - reach), loop, points_at(loop, length, s + reach))
    )
    own = np.abs(turning(np.roll(loop, 1, axis=0), loop, np.roll(loop, -1, axis=0)))
    is_long = np.minimum(before, after) >= spacing
    score = np.where(is_long, own, np.where(own > 5.0, seen, 0.0))
    gap = np.where(np.maximum(before, after) >= spacing, 0.2, 0.7) * spacing
    candidates = np.flatnonzero((score > 30.0) | (is_long & (own > 8.0)))
    kept: list[int] = []
    for i in candidates[np.argsort(-score[candidates], kind="stable")]:
        away = np.abs(s[kept] - s[i])
        if (np.minimum(away, length[-1] - away) > gap[i]).all():
            kept.append(int(i))
    return np.array(sorted(kept), dtype=np.int64)


def simplify_loop(loop: gb.Array, tolerance: float) -> gb.Array:
    """The loop without vertices nearer than `tolerance` to the simplified one (Douglas-Peucker).

    For verification.
    """
    far = int(np.argmax(np.sum((loop - loop[0]) ** 2, axis=1)))
    closed = np.vstack([loop, loop[:1]])
    kept = {0, far}
    spans = [(0, far), (far, len(loop))]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        away = distance_to_segments(
            closed[first + 1 : last], closed[first : first + 1], closed[last : last + 1]
        )
        worst = int(np.argmax(away))
        if away[worst] > tolerance:
            middle = first + 1 + worst
            kept.add(middle)
            spans += [(first, middle), (middle, last)]
    return loop[sorted(kept)]
