"""Triangle meshes of plane domains with an exact node count.

Boundary nodes lie by arc length, interior ones on hexagonal lattices that are then smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import gsnobench as gb
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import cell_edges
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.meshing.framing import (
    Frame,
    is_conforming,
    loop_tags,
    make_frame,
    sharpest_corner,
    triangulate,
)
from gsnobench_plugins.solvers.meshing.sizing import (
    TRIANGLE,
    SizeFunction,
    Sizing,
    fit_sizing,
    sample_domain,
)
from gsnobench_plugins.solvers.meshing.smoothing import clear_segments, polish, smooth
from gsnobench_plugins.solvers.shapes.geometry import (
    clean_loop,
    contains,
    crossing_segments,
    distance_to_segments,
    segments_of,
)

ATTEMPTS = 8


def mesh_polygon(
    outer: gb.Array,
    holes: Sequence[gb.Array] = (),
    *,
    nodes: int,
    size: SizeFunction | None = None,
    sweeps: int = 40,
    seed: int = 0,
    angle: float = 25.0,
) -> gb.Mesh:
    """A mesh of exactly `nodes` nodes whose angles are at least `angle` degrees.

    Boundary nodes come first, loop by loop. Corners of the loops are kept, other boundary nodes lie
    on the loops. `size` gives relative edge lengths; without it they are even, except that narrow
    places and short sides are resolved. Tags: boundary; with holes also outer and hole (hole_0,
    hole_1, ... if there are several). The same arguments give the same mesh; `seed` picks another
    one.
    """
    loops = _checked_loops(outer, holes)
    relative = size if size is not None else _even
    best = -1.0
    for attempt in range(ATTEMPTS):
        # another attempt means another boundary count and another lattice
        target = max(round(nodes * (1.0 + 0.02 * (-1) ** attempt * ((attempt + 1) // 2))), 4)
        sizing, rim = fit_sizing(loops, relative, target)
        frame = make_frame(rim, sizing)
        if len(frame.boundary) >= nodes:
            raise gb.DataError(
                f"mesh: the outline needs {len(frame.boundary)} of {nodes} nodes; expected some to "
                "be left for the inside; request more nodes"
            )
        mesh = _fill(frame, nodes, sweeps, np.random.default_rng([seed, attempt]))
        if mesh is not None:
            best = max(best, min_angle(mesh))
            if min_angle(mesh) >= min(angle, 0.98 * sharpest_corner(frame)):
                return mesh
    raise gb.DataError(
        f"mesh: no conforming mesh of {nodes} nodes with angles of {angle:g} degrees was found "
        f"(best {best:.1f}); request more nodes, smooth the outline or lower `angle`"
    )


def mesh_inside(
    rim: Sequence[gb.Array],
    *,
    nodes: int,
    size: SizeFunction,
    sweeps: int = 40,
    seed: int = 0,
    angle: float = 25.0,
) -> gb.Mesh:
    """A mesh as of `mesh_polygon`, but with exactly the given boundary nodes.

    They are given as the outer loop, then holes. `size` gives the edge lengths themselves, which
    the node count should about agree with.
    """
    loops = _checked_loops(rim[0], rim[1:])
    frame = make_frame(loops, Sizing(size, 1.0, np.zeros((0, 2)), np.zeros(0)))
    best = -1.0
    for attempt in range(ATTEMPTS):
        mesh = _fill(frame, nodes, sweeps, np.random.default_rng([seed, attempt]))
        if mesh is not None:
            best = max(best, min_angle(mesh))
            if best >= angle:
                return mesh
    raise gb.DataError(
        f"mesh: no conforming mesh of {nodes} nodes with angles of {angle:g} degrees was found "
        f"(best {best:.1f}) between {len(frame.boundary)} given boundary nodes; request another "
        "node count or lower `angle`"
    )


def _checked_loops(outer: gb.Array, holes: Sequence[gb.Array]) -> list[gb.Array]:
    """The outline counter-clockwise, then the holes clockwise; simple, separate, holes inside."""
    loops = [clean_loop(outer, label="outline")]
    loops += [clean_loop(hole, label=f"hole {i}", clockwise=True) for i, hole in enumerate(holes)]
    if crossing_segments(*segments_of(loops)):
        raise gb.DataError(
            "outline: loops cross themselves or each other; expected simple, separate loops; check "
            "the outline"
        )
    for i, hole in enumerate(loops[1:]):
        if not contains(loops[:1], hole[:1]).all():
            raise gb.DataError(
                f"hole {i}: it lies outside the outline; expected it inside; check its coordinates"
            )
    return loops


def _even(points: gb.Array) -> gb.Array:
    return np.ones(len(points))


def _fill(frame: Frame, nodes: int, sweeps: int, rng: np.random.Generator) -> gb.Mesh | None:
    """Interior nodes: lattice, exact count, smoothing with exchanges; None if not conforming."""
    inside = nodes - len(frame.boundary)
    points = np.concatenate([frame.boundary, _lattice(frame, rng)])
    points = _set_count(frame, points, inside)
    for sweep in range(sweeps):
        triangles = triangulate(frame, points)
        if sweep % 4 == 3 and sweep < 0.75 * sweeps:
            points = _exchange(frame, points, triangles)
            triangles = triangulate(frame, points)
        points = smooth(frame, points, triangles)
        points = clear_segments(frame, points)
    points, triangles = polish(frame, points)
    if len(points) != nodes or not is_conforming(frame, triangles, nodes):
        return None
    return gb.Mesh(points, triangles, loop_tags(frame, nodes))


# ---------------------------------------------------------------------------------- starting points


def _lattice(frame: Frame, rng: np.random.Generator) -> gb.Array:
    """Hexagonal lattices clipped to the inside, (m, 2), one per factor of two of the length."""
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
        is_free = distance_to_segments(points, starts, ends) > 0.55 * frame.sizing(points)
        kept.append(points[is_free])
    return np.concatenate(kept) if kept else np.zeros((0, 2))


def _hexagons(low: gb.Array, high: gb.Array, step: float, rng: np.random.Generator) -> gb.Array:
    low = low - rng.uniform(0.0, 1.0, 2) * step
    rows = np.arange(low[1], high[1], step * np.sqrt(3) / 2)
    columns = np.arange(low[0], high[0], step)
    x, y = np.meshgrid(columns, rows)
    x[1::2] += step / 2
    return np.stack([x.ravel(), y.ravel()], axis=1)


def _set_count(frame: Frame, points: gb.Array, inside: int) -> gb.Array:
    """Add nodes in the largest triangles or drop the most crowded until `inside` are interior."""
    fixed = len(frame.boundary)
    for _ in range(200):
        missing = inside - (len(points) - fixed)
        if missing == 0:
            return points
        triangles = triangulate(frame, points)
        if missing > 0:
            points = _insert(frame, points, triangles, missing)
        else:
            points = _drop(frame, points, triangles, -missing)
    return points


def _insert(frame: Frame, points: gb.Array, triangles: gb.Array, count: int) -> gb.Array:
    """Add nodes at the centres of the relatively largest triangles; no two share a node."""
    centres = points[triangles].mean(axis=1)
    areas = np.abs(cell_measures(points, triangles))
    order = np.argsort(-areas / frame.sizing(centres) ** 2, kind="stable")
    return np.concatenate([points, centres[_apart(order[: 8 * count + 8], triangles, count)]])


def _drop(frame: Frame, points: gb.Array, triangles: gb.Array, count: int) -> gb.Array:
    """Remove the interior nodes with the relatively smallest stars, no two of them neighbours."""
    fixed = len(frame.boundary)
    star = _star_sizes(frame, points, triangles)
    order = fixed + np.argsort(star[fixed:], kind="stable")[: 8 * count + 8]
    used = np.zeros(len(points), dtype=bool)
    neighbours = _neighbour_lists(cell_edges(triangles), len(points))
    dropped: list[int] = []
    for node in order:
        if len(dropped) < count and not used[node]:
            dropped.append(int(node))
            used[neighbours[node]] = True
    return np.delete(points, dropped, axis=0)


def _star_sizes(frame: Frame, points: gb.Array, triangles: gb.Array) -> gb.Array:
    """Area around each node over that of six ideal triangles; about 1 if it is well placed."""
    areas = np.abs(cell_measures(points, triangles))
    star = np.bincount(triangles.ravel(), np.repeat(areas, 3), len(points))
    return np.asarray(star / (6 * TRIANGLE * frame.sizing(points) ** 2))


def _neighbour_lists(edges: gb.Array, count: int) -> list[gb.Array]:
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return np.split(both[:, 1], np.cumsum(np.bincount(both[:, 0], minlength=count))[:-1])


def _apart(order: gb.Array, triangles: gb.Array, count: int) -> list[int]:
    """The first `count` triangles in this order that share no node with an earlier one."""
    used: set[int] = set()
    chosen: list[int] = []
    for t in order:
        corners = set(triangles[t].tolist())
        if len(chosen) < count and not corners & used:
            chosen.append(int(t))
            used |= corners
    return chosen


def _exchange(frame: Frame, points: gb.Array, triangles: gb.Array) -> gb.Array:
    """Move the most crowded interior nodes to where triangles are too large; the count stays."""
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
