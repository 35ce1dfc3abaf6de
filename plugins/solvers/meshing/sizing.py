"""How long the edges of a mesh should be at each point, and the boundary nodes that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import gsnobench as gb
from gsnobench_plugins.solvers.shapes.geometry import arc_length, contains, find_corners, points_at

SizeFunction = Callable[[gb.Array], gb.Array]
GRADATION = 0.35  # growth of the edge length per unit of distance away from a small feature
TRIANGLE = np.sqrt(3.0) / 4.0  # area of an equilateral triangle with unit edges


@dataclass(frozen=True, eq=False)
class Sizing:
    """Edge length = scale * relative size, but no longer than small features nearby allow."""

    relative: SizeFunction
    scale: float
    sources: gb.Array  # (k, 2) positions of small features
    limits: gb.Array  # (k,) edge length there

    def __call__(self, points: gb.Array) -> gb.Array:
        """Edge length that the mesh should have at points (m, 2), (m,)."""
        length = self.scale * relative_size(self.relative, points)
        return np.minimum(length, self.feature_limit(points))

    def feature_limit(self, points: gb.Array, *, block: int = 8192) -> gb.Array:
        """The edge length that the features alone allow, (m,)."""
        allowed = np.full(len(points), np.inf)
        if len(self.sources):
            for first in range(0, len(points), block):
                away = np.linalg.norm(points[first : first + block, None] - self.sources, axis=2)
                allowed[first : first + block] = np.min(self.limits + GRADATION * away, axis=1)
        return allowed

    def with_features(self, points: gb.Array, limits: gb.Array) -> Sizing:
        """The same sizing with more features."""
        sources = np.concatenate([self.sources, points])
        return replace(self, sources=sources, limits=np.concatenate([self.limits, limits]))


def relative_size(size: SizeFunction, points: gb.Array) -> gb.Array:
    """Values of a user's size function, checked to be positive."""
    values = np.asarray(size(points), dtype=float)
    if values.shape != (len(points),) or not np.isfinite(values).all() or (values <= 0).any():
        raise gb.DataError(
            f"size: it returned shape {values.shape} with values that are not all positive; "
            f"expected ({len(points)},) positive lengths; correct the size function"
        )
    return values


def sample_domain(
    loops: Sequence[gb.Array], size: SizeFunction, nodes: int
) -> tuple[gb.Array, gb.Array]:
    """Midpoints (q, 2) and areas (q,) of a quadtree over the domain, finer for small `size`."""
    low, high = loops[0].min(axis=0), loops[0].max(axis=0)
    side = float((high - low).max()) / 24
    counts = np.maximum(np.ceil((high - low) / side).astype(int), 1)
    grid = np.meshgrid(*(np.arange(n) + 0.5 for n in counts), indexing="ij")
    centres = low + np.stack(grid, axis=-1).reshape(-1, 2) * side
    done, weights = [], []
    fraction = np.sqrt(np.prod(counts) * side**2 / nodes) / np.median(relative_size(size, centres))
    for depth in range(12):
        must_split = (2.0 * fraction * relative_size(size, centres) < side) | (depth < 2)
        done.append(centres[~must_split])
        weights.append(np.full(int((~must_split).sum()), side**2))
        offsets = 0.25 * side * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
        centres = (centres[must_split][:, None] + offsets).reshape(-1, 2)
        side /= 2
        if not len(centres):
            break
    points = np.concatenate([*done, centres])
    areas = np.concatenate([*weights, np.full(len(centres), side**2)])
    inside = contains(loops, points)
    return points[inside], areas[inside]


def place_on_loop(loop: gb.Array, sizing: Sizing) -> tuple[gb.Array, gb.Array]:
    """Boundary nodes of one loop, and which of them are corners.

    Between corners they are evenly spaced in units of the local edge length.
    """
    length = arc_length(loop)
    corners = find_corners(loop, sizing(loop))
    fine = np.unique(np.concatenate([length, np.linspace(0.0, length[-1], 2048)]))
    middle = 0.5 * (fine[1:] + fine[:-1])
    steps = np.diff(fine) / sizing(points_at(loop, length, middle))
    metric = np.concatenate([[0.0], np.cumsum(steps)])
    total = metric[-1]
    if not len(corners):
        count = max(round(total), 8)
        marks = total * np.arange(count) / count
        return points_at(loop, length, np.interp(marks, metric, fine)), np.zeros(count, dtype=bool)
    stops = np.interp(length[corners], fine, metric)
    marks_of_side, is_corner = [], []
    for start, stop in zip(stops, np.append(stops[1:], stops[0] + total), strict=True):
        count = max(round(stop - start), 1)
        marks_of_side.append(start + (stop - start) * np.arange(count) / count)
        is_corner.append(np.arange(count) == 0)
    marks = np.mod(np.concatenate(marks_of_side), total)
    nodes = points_at(loop, length, np.interp(marks, metric, fine))
    flags = np.concatenate(is_corner)
    nodes[flags] = loop[corners]
    if len(nodes) < 3:
        raise gb.DataError(
            f"outline: {len(nodes)} boundary nodes cannot close a loop; expected three or more; "
            "request more nodes"
        )
    return nodes, flags


def crowded_points(
    rim: Sequence[gb.Array], corners: Sequence[gb.Array]
) -> tuple[gb.Array, gb.Array]:
    """Points where boundary segments are too long, and the lengths they should have.

    Too long for what lies across the domain, or for a short side between corners.
    """
    starts = np.concatenate(rim)
    ends = np.concatenate([np.roll(loop, -1, axis=0) for loop in rim])
    loop_of = np.repeat(np.arange(len(rim)), [len(loop) for loop in rim])
    first = np.concatenate([[0], np.cumsum([len(loop) for loop in rim])])
    index = np.arange(len(starts))
    lengths = np.linalg.norm(ends - starts, axis=1)
    middles = 0.5 * (starts + ends)
    inward = np.stack([-(ends - starts)[:, 1], (ends - starts)[:, 0]], axis=1) / lengths[:, None]
    node_inward = inward + inward[_previous(first, index, loop_of)]
    across = starts[None] - middles[:, None]  # (s, n, 2)
    away = np.linalg.norm(across, axis=2)
    count = np.diff(first)[loop_of]
    hops = np.mod(index[None] - index[:, None], count[:, None])
    is_same_loop = loop_of[None] == loop_of[:, None]
    is_near_on_loop = is_same_loop & ((hops <= 2) | (hops >= count[:, None] - 1))
    is_facing = np.einsum("snd,sd->sn", across, inward) > 0.05 * away
    is_facing &= np.einsum("snd,nd->sn", across, node_inward) < 0
    away = np.where(is_facing & ~is_near_on_loop, away, np.inf).min(axis=1)
    is_crowded = away < 0.68 * lengths
    ends_at_corner = np.concatenate([flags & np.roll(flags, -1) for flags in corners])
    before, after = _previous(first, index, loop_of), _next(first, index, loop_of)
    neighbour = np.maximum(lengths[before], lengths[after])
    is_short = ends_at_corner & (lengths < 0.6 * neighbour)
    points = np.concatenate([middles[is_crowded], starts[is_short], ends[is_short]])
    short = lengths[is_short]
    return points, np.concatenate([away[is_crowded] / 0.85, short, short])


def _previous(first: gb.Array, index: gb.Array, loop_of: gb.Array) -> gb.Array:
    return np.where(index == first[loop_of], first[loop_of + 1] - 1, index - 1)


def _next(first: gb.Array, index: gb.Array, loop_of: gb.Array) -> gb.Array:
    return np.where(index == first[loop_of + 1] - 1, first[loop_of], index + 1)


def fit_sizing(
    loops: Sequence[gb.Array], size: SizeFunction, nodes: int
) -> tuple[Sizing, list[gb.Array]]:
    """The sizing whose mesh has about `nodes` nodes, and the boundary nodes of every loop."""
    points, areas = sample_domain(loops, size, nodes)
    if not len(points):
        raise gb.DataError(
            "outline: it encloses no area that a mesh could fill; expected a simple polygon; check "
            "the outline"
        )
    sizing = Sizing(size, 1.0, np.zeros((0, 2)), np.zeros(0))
    for _ in range(12):
        sizing = replace(sizing, scale=_fit_scale(loops, sizing, points, areas, nodes))
        placed = [place_on_loop(loop, sizing) for loop in loops]
        rim = [nodes_of for nodes_of, _ in placed]
        crowded, limits = crowded_points(rim, [flags for _, flags in placed])
        matters = limits < 0.99 * sizing(crowded) if len(crowded) else np.zeros(0, dtype=bool)
        if not matters.any():
            break
        sizing = sizing.with_features(crowded[matters], limits[matters])
    return sizing, rim


def _fit_scale(
    loops: Sequence[gb.Array], sizing: Sizing, points: gb.Array, areas: gb.Array, nodes: int
) -> float:
    """The scale at which the mesh has N nodes, by bisection.

    N = (T + Nb) / 2 + 1 - holes, with T and Nb from the integrals of 1/h^2 and 1/h.
    """
    relative, allowed = relative_size(sizing.relative, points), sizing.feature_limit(points)
    middles, steps = [], []
    for loop in loops:
        length = arc_length(loop)
        fine = np.linspace(0.0, length[-1], 1025)
        middles.append(points_at(loop, length, 0.5 * (fine[1:] + fine[:-1])))
        steps.append(np.diff(fine))
    rim, ds = np.concatenate(middles), np.concatenate(steps)
    rim_relative, rim_allowed = relative_size(sizing.relative, rim), sizing.feature_limit(rim)

    def count(scale: float) -> float:
        triangles = np.sum(areas / np.minimum(scale * relative, allowed) ** 2) / TRIANGLE
        along = np.sum(ds / np.minimum(scale * rim_relative, rim_allowed))
        return float(0.5 * (triangles + along)) + 2 - len(loops)

    reach = float(np.sqrt(areas.sum()) / np.median(relative))
    low, high = 1e-6 * reach, 1e6 * reach
    if count(high) > nodes:
        raise gb.DataError(
            f"mesh: {nodes} nodes cannot resolve the outline, whose features alone need about "
            f"{int(count(high)) + 1}; request more nodes or simplify the outline"
        )
    for _ in range(100):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if count(middle) > nodes else (low, middle)
    return float(np.sqrt(low * high))
