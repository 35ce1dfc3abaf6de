"""Triangle meshes of plane domains with an exact node count: boundary by arc length, hexagonal interior, smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import Delaunay, cKDTree

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench_plugins.solvers.geometry import clean_loop, contains, distance_to_segments, segments_of
from gsnobench_plugins.solvers.sizing import TRIANGLE, Sizing, SizeFunction, fit_sizing, sample_domain
from gsnobench_plugins.solvers.topology import (
    boundary_edges,
    boundary_loops,
    cell_measures,
    corner_angles,
    mesh_edges,
    min_angle,
    refine,
)

__all__ = ["boundary_edges", "boundary_loops", "mesh_edges", "mesh_polygon", "min_angle", "refine"]

ATTEMPTS = 8


@dataclass(frozen=True, eq=False)
class Frame:
    """What stays fixed while the interior nodes move."""

    rim: tuple[Array, ...]  # boundary nodes of each loop
    boundary: Array  # (Nb, 2) the same, in one array
    segments: Array  # (Nb, 2) node pairs, the domain on their left
    sizing: Sizing


def mesh_polygon(
    outer: Array,
    holes: Sequence[Array] = (),
    *,
    nodes: int,
    size: SizeFunction | None = None,
    sweeps: int = 40,
    seed: int = 0,
    angle: float = 25.0,
) -> Mesh:
    """A mesh of exactly `nodes` nodes, boundary nodes first (loop by loop), whose angles are at least `angle` degrees.

    Corners of the loops are kept, other boundary nodes lie on the loops. `size` gives relative edge lengths; without it
    they are even, except that narrow places and short sides are resolved. Tags: boundary; with holes also outer and hole
    (hole_0, hole_1, ... if there are several). The same arguments give the same mesh; `seed` picks another one.
    """
    loops = [clean_loop(outer, label="outline")]
    loops += [clean_loop(hole, label=f"hole {i}", clockwise=True) for i, hole in enumerate(holes)]
    relative = size if size is not None else _even
    best: tuple[float, Mesh | None] = (-1.0, None)
    for attempt in range(ATTEMPTS):
        # another attempt means another boundary count and another lattice
        wanted = max(round(nodes * (1.0 + 0.02 * (-1) ** attempt * ((attempt + 1) // 2))), 4)
        sizing, rim = fit_sizing(loops, relative, wanted)
        frame = _frame(rim, sizing)
        if len(frame.boundary) > nodes:
            raise DataError(
                f"mesh: the outline takes {len(frame.boundary)} of {nodes} nodes; expected some to be left for the inside; "
                "ask for more nodes"
            )
        mesh = _fill(frame, nodes, sweeps, np.random.default_rng([seed, attempt]))
        quality = min_angle(mesh) if mesh is not None else -1.0
        if quality > best[0]:
            best = (quality, mesh)
        if best[1] is not None and best[0] >= min(angle, 0.98 * _sharpest_corner(frame)):
            return best[1]
    raise DataError(
        f"mesh: no conforming mesh of {nodes} nodes with angles of {angle:g} degrees was found (best {best[0]:.1f}); "
        "ask for more nodes, smooth the outline or lower `angle`"
    )


def _even(points: Array) -> Array:
    return np.ones(len(points))


def _frame(rim: Sequence[Array], sizing: Sizing) -> Frame:
    first, segments = 0, []
    for loop in rim:
        index = first + np.arange(len(loop))
        segments.append(np.stack([index, np.roll(index, -1)], axis=1))
        first += len(loop)
    return Frame(tuple(rim), np.concatenate(rim), np.concatenate(segments), sizing)


def _fill(frame: Frame, nodes: int, sweeps: int, rng: np.random.Generator) -> Mesh | None:
    """Interior nodes: lattice, exact count, smoothing with exchanges of badly placed nodes; None if not conforming."""
    inside = nodes - len(frame.boundary)
    points = np.concatenate([frame.boundary, _lattice(frame, rng)])
    points = _set_count(frame, points, inside)
    for sweep in range(sweeps):
        triangles = _triangulate(frame, points)
        if sweep % 4 == 3 and sweep < 0.75 * sweeps:
            points = _exchange(frame, points, triangles)
            triangles = _triangulate(frame, points)
        points = _smooth(frame, points, triangles)
        points = _clear_segments(frame, points)
    points, triangles = _polish(frame, points)
    if len(points) != nodes or not _is_conforming(frame, triangles, nodes):
        return None
    return Mesh(points, triangles, _tags(frame, nodes))


# ------------------------------------------------------------------------------------------------------ starting points


def _lattice(frame: Frame, rng: np.random.Generator) -> Array:
    """Hexagonal lattices, one for each factor of two of the edge length, clipped to the inside, (m, 2)."""
    at, _ = sample_domain(frame.rim, frame.sizing, len(frame.boundary) * 8)
    lengths = frame.sizing(at)
    longest = float(lengths.max())
    starts, ends = segments_of(frame.rim)
    kept = []
    for level in range(int(np.ceil(np.log2(longest / lengths.min()) + 0.5)) + 1):
        step = longest / 2.0**level
        near = at[(lengths > step / np.sqrt(2)) & (lengths <= step * np.sqrt(2))]
        if not len(near):
            continue
        points = _hexagons(near.min(axis=0) - step, near.max(axis=0) + step, step, rng)
        local = frame.sizing(points)
        points = points[(local > step / np.sqrt(2)) & (local <= step * np.sqrt(2))]
        points = points[contains(frame.rim, points)]
        kept.append(points[distance_to_segments(points, starts, ends) > 0.55 * frame.sizing(points)])
    return np.concatenate(kept) if kept else np.zeros((0, 2))


def _hexagons(low: Array, high: Array, step: float, rng: np.random.Generator) -> Array:
    low = low - rng.uniform(0.0, 1.0, 2) * step
    rows = np.arange(low[1], high[1], step * np.sqrt(3) / 2)
    columns = np.arange(low[0], high[0], step)
    x, y = np.meshgrid(columns, rows)
    x[1::2] += step / 2
    return np.stack([x.ravel(), y.ravel()], axis=1)


def _set_count(frame: Frame, points: Array, inside: int) -> Array:
    """Add nodes in the largest triangles or drop the most crowded ones until `inside` interior nodes are left."""
    fixed = len(frame.boundary)
    for _ in range(200):
        missing = inside - (len(points) - fixed)
        if missing == 0:
            return points
        triangles = _triangulate(frame, points)
        points = _insert(frame, points, triangles, missing) if missing > 0 else _drop(frame, points, triangles, -missing)
    return points


def _insert(frame: Frame, points: Array, triangles: Array, count: int) -> Array:
    """Nodes at the centres of the triangles largest for their place, no two of them sharing a node."""
    centres = points[triangles].mean(axis=1)
    order = np.argsort(-np.abs(cell_measures(points, triangles)) / frame.sizing(centres) ** 2, kind="stable")
    return np.concatenate([points, centres[_apart(order[: 8 * count + 8], triangles, count)]])


def _drop(frame: Frame, points: Array, triangles: Array, count: int) -> Array:
    """Remove the interior nodes with the smallest stars for their place, no two of them neighbours."""
    fixed = len(frame.boundary)
    star = _star_sizes(frame, points, triangles)
    order = fixed + np.argsort(star[fixed:], kind="stable")[: 8 * count + 8]
    used = np.zeros(len(points), dtype=bool)
    neighbours = _neighbour_lists(mesh_edges(triangles), len(points))
    dropped: list[int] = []
    for node in order:
        if len(dropped) < count and not used[node]:
            dropped.append(int(node))
            used[neighbours[node]] = True
    return np.delete(points, dropped, axis=0)


def _star_sizes(frame: Frame, points: Array, triangles: Array) -> Array:
    """Area around each node over that of six ideal triangles; about 1 for a well placed interior node."""
    areas = np.abs(cell_measures(points, triangles))
    star = np.bincount(triangles.ravel(), np.repeat(areas, 3), len(points))
    return star / (6 * TRIANGLE * frame.sizing(points) ** 2)


def _neighbour_lists(edges: Array, count: int) -> list[Array]:
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return np.split(both[:, 1], np.cumsum(np.bincount(both[:, 0], minlength=count))[:-1])


def _apart(order: Array, triangles: Array, count: int) -> list[int]:
    """The first `count` triangles in this order that share no node with an earlier one."""
    used: set[int] = set()
    chosen: list[int] = []
    for t in order:
        corners = set(triangles[t].tolist())
        if len(chosen) < count and not corners & used:
            chosen.append(int(t))
            used |= corners
    return chosen


# ------------------------------------------------------------------------------------------------------------ smoothing


def _triangulate(frame: Frame, points: Array) -> Array:
    """Delaunay triangles inside the domain, counter-clockwise, (M, 3)."""
    triangles = Delaunay(points).simplices.astype(np.int64)
    is_clockwise = cell_measures(points, triangles) < 0
    triangles[is_clockwise] = triangles[is_clockwise][:, ::-1]
    # once all boundary segments are edges, only triangles between boundary nodes can lie outside
    doubtful = np.flatnonzero((triangles < len(frame.boundary)).all(axis=1))
    inside = contains(frame.rim, points[triangles[doubtful]].mean(axis=1))
    inside &= corner_angles(points, triangles[doubtful]).min(axis=1) > 0.01  # nodes in line on a straight side
    return np.delete(triangles, doubtful[~inside], axis=0)


def _smooth(frame: Frame, points: Array, triangles: Array) -> Array:
    """One sweep of density-weighted optimal-Delaunay smoothing: nodes move towards nearby circumcentres."""
    fixed = len(frame.boundary)
    a, b, c = (points[triangles[:, i]] for i in range(3))
    centres = (a + b + c) / 3
    areas = np.maximum(cell_measures(points, triangles), 1e-300)
    lengths = frame.sizing(centres)
    u, v = b - a, c - a
    uu, vv = np.sum(u * u, axis=1), np.sum(v * v, axis=1)
    around = np.stack([v[:, 1] * uu - u[:, 1] * vv, u[:, 0] * vv - v[:, 0] * uu], axis=1) / (4 * areas[:, None]) + a
    offset = around - centres
    reach = np.linalg.norm(offset, axis=1)
    targets = centres + offset * np.minimum(1.0, 0.3 * np.sqrt(areas) / np.maximum(reach, 1e-300))[:, None]
    weight = areas / lengths**4
    total = np.bincount(triangles.ravel(), np.repeat(weight, 3), len(points))
    moved = np.stack([np.bincount(triangles.ravel(), np.repeat(weight * targets[:, k], 3), len(points)) for k in (0, 1)], axis=1)
    result = points.copy()
    result[fixed:] = moved[fixed:] / np.maximum(total[fixed:, None], 1e-300)
    lost = total[fixed:] <= 0
    result[fixed:][lost] = points[fixed:][lost]
    return result


def _exchange(frame: Frame, points: Array, triangles: Array) -> Array:
    """Take the most crowded interior nodes away and put as many where triangles are too large; the count stays."""
    fixed = len(frame.boundary)
    inside = len(points) - fixed
    star = _star_sizes(frame, points, triangles)[fixed:]
    centres = points[triangles].mean(axis=1)
    spread = np.abs(cell_measures(points, triangles)) / (TRIANGLE * frame.sizing(centres) ** 2)
    count = min(int((star < 0.62).sum()), int((spread > 1.6).sum()), max(inside // 20, 1))
    if count == 0:
        return points
    points = _insert(frame, points, triangles, count)
    return _set_count(frame, points, inside)


def _clear_segments(frame: Frame, points: Array) -> Array:
    """Push interior nodes out of the circles that have boundary segments as diameters, so that Delaunay keeps those."""
    fixed = len(frame.boundary)
    a, b = frame.boundary[frame.segments[:, 0]], frame.boundary[frame.segments[:, 1]]
    lengths = np.linalg.norm(b - a, axis=1)
    middles = 0.5 * (a + b)
    inward = np.stack([-(b - a)[:, 1], (b - a)[:, 0]], axis=1) / lengths[:, None]
    close = cKDTree(points[fixed:]).query_ball_point(middles, 0.56 * lengths)
    result = points.copy()
    for s, found in enumerate(close):
        for node in found:
            offset = result[fixed + node] - middles[s]
            along = offset - inward[s] * (offset @ inward[s])
            result[fixed + node] = middles[s] + 0.8 * along + 0.7 * lengths[s] * inward[s]
    return result


# -------------------------------------------------------------------------------------------------------------- quality


def _polish(frame: Frame, points: Array, *, target: float = 30.0, rounds: int = 30) -> tuple[Array, Array]:
    """Move the interior nodes of the worst triangles to where their smallest angle is largest."""
    triangles = _triangulate(frame, points)
    fixed = len(frame.boundary)
    for _ in range(rounds):
        angles = corner_angles(points, triangles).min(axis=1)
        bad = np.flatnonzero(angles < target)
        bad = bad[np.argsort(angles[bad], kind="stable")][:40]
        movable = [int(node) for node in dict.fromkeys(triangles[bad].ravel().tolist()) if node >= fixed]
        if not movable:
            break
        stars = _stars(triangles, len(points))
        moved = points.copy()
        changed = False
        for node in movable:
            better = _best_place(moved, triangles[stars[node]], node)
            changed |= better is not None
            if better is not None:
                moved[node] = better
        if not changed:
            break
        retriangulated = _triangulate(frame, moved)
        if not _is_conforming(frame, retriangulated, len(moved)):
            break
        points, triangles = moved, retriangulated
    return points, triangles


def _stars(triangles: Array, count: int) -> list[Array]:
    order = np.argsort(triangles.ravel(), kind="stable")
    return np.split(order // 3, np.cumsum(np.bincount(triangles.ravel(), minlength=count))[:-1])


_DIRECTIONS = np.stack([np.cos(np.arange(12) * np.pi / 6), np.sin(np.arange(12) * np.pi / 6)], axis=1)


def _best_place(points: Array, star: Array, node: int) -> Array | None:
    """The place near a node where the smallest angle of its star is largest, if that beats the present one."""
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


def _is_conforming(frame: Frame, triangles: Array, nodes: int) -> bool:
    """All boundary segments are edges of one triangle, there are no other rim edges, and every node is used."""
    rim = boundary_edges(Mesh(frame.boundary, triangles))
    wanted = np.sort(frame.segments[:, 0] * nodes + frame.segments[:, 1])
    return np.array_equal(np.sort(rim[:, 0] * nodes + rim[:, 1]), wanted) and len(np.unique(triangles)) == nodes


def _sharpest_corner(frame: Frame) -> float:
    """The smallest interior angle of the outline, which no mesh can beat, in degrees."""
    smallest = 180.0
    for loop in frame.rim:
        before, after = np.roll(loop, 1, axis=0) - loop, np.roll(loop, -1, axis=0) - loop
        cross = after[:, 0] * before[:, 1] - after[:, 1] * before[:, 0]
        inner = np.degrees(np.arctan2(cross, np.sum(before * after, axis=1)))
        smallest = min(smallest, float(np.where(inner < 0, 360.0, inner).min()))
    return smallest


def _tags(frame: Frame, nodes: int) -> dict[str, Array]:
    loop_of = np.full(nodes, -1)
    loop_of[: len(frame.boundary)] = np.repeat(np.arange(len(frame.rim)), [len(loop) for loop in frame.rim])
    tags = {"boundary": loop_of >= 0}
    if len(frame.rim) > 1:
        tags["outer"] = loop_of == 0
    if len(frame.rim) == 2:
        tags["hole"] = loop_of == 1
    if len(frame.rim) > 2:
        tags |= {f"hole_{i}": loop_of == i + 1 for i in range(len(frame.rim) - 1)}
    return tags
