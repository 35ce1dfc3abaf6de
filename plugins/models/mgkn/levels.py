"""The hierarchy of MGKN: nested node sets, and the links inside a level and between two.

Coarse nodes are farthest points in the distance along mesh edges, counted in local edge lengths, so
that a graded mesh is thinned evenly and both sides of a notch are covered. With cells no link
leaves the domain: a segment that meets the boundary is no link. A cloud has no inside to test, so
its nodes are linked to their nearest ones; Delaunay cells would go through the bodies in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gamma, pi

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

import gsnobench as gb
from gsnobench.meshes import graphs, operators, topology
from gsnobench.meshes.simplices import nearest

CLOUD = 12  # nearest nodes that a node of a cloud is linked to
TRIED = 4  # times as many coarse nodes as needed are tested for visibility
REACH = 1.3  # mean edge lengths: the radius of a ball with as many nodes as a triangulated ring
GRAZING = 1e-9  # relative size below which a length or a determinant counts as zero
PAIRS = 1 << 21  # segments times facets tested at once: bounds the memory


class Domain:
    """The nodes of a mesh with their links, their local spacing, and what is inside."""

    def __init__(self, mesh: gb.Mesh) -> None:
        self.mesh, self.points, self.size = mesh, mesh.points, mesh.size
        self.is_cloud = mesh.cells is None
        if self.is_cloud:
            links = graphs.knn_edges(mesh.points, min(CLOUD, mesh.size - 1))
        else:
            links = topology.edges(mesh)
        self.links = links  # (E, 2)
        vectors = self.points[links[:, 0]] - self.points[links[:, 1]]
        self.lengths = np.linalg.norm(vectors, axis=1)  # (E,)
        degree = np.bincount(links.ravel(), minlength=self.size)
        total = np.bincount(links.ravel(), np.repeat(self.lengths, 2), self.size)
        # (N,) mean length of a node's links
        self.spacing = np.where(degree > 0, total / np.maximum(degree, 1), self.lengths.mean())

    @cached_property
    def paths(self) -> csr_array:
        """Links weighted by their length in local spacings, (N, N)."""
        i, j = self.links.T
        weights = self.lengths / np.sqrt(self.spacing[i] * self.spacing[j])
        ends = (np.concatenate([i, j]), np.concatenate([j, i]))
        return coo_array((np.tile(weights, 2), ends), shape=(self.size, self.size)).tocsr()

    @cached_property
    def wall(self) -> gb.Array:
        """Facets of the boundary, (F, d); none if the cells have no inside."""
        is_solid = self.mesh.cells is not None and self.mesh.cells.shape[1] == self.mesh.dim + 1
        if is_solid:
            return topology.boundary_facets(self.mesh)
        return np.zeros((0, self.mesh.dim), dtype=np.int64)

    @cached_property
    def volume(self) -> gb.Array:
        """Each node's share of the domain, (N,)."""
        return self.spacing**self.mesh.dim if self.is_cloud else operators.lumped_mass(self.mesh)

    def distances(self, node: int, limit: float) -> gb.Array:
        """From a node to all others, (N,): along the links, inf beyond `limit`.

        In a cloud straight, and without a limit.
        """
        if self.is_cloud:
            apart = np.sqrt(((self.points - self.points[node]) ** 2).sum(axis=1))
            return apart / np.sqrt(self.spacing * self.spacing[node])
        return np.asarray(dijkstra(self.paths, indices=node, limit=limit))

    def owners(self, chosen: gb.Array) -> gb.Array:
        """Index among `chosen` of the node nearest to each node, (N,); -1 if none is reachable."""
        if self.is_cloud:
            return np.asarray(KDTree(self.points[chosen]).query(self.points)[1])
        options = {"min_only": True, "return_predecessors": True}
        _, _, sources = dijkstra(self.paths, indices=chosen, **options)
        index = np.full(self.size + 1, -1)
        index[chosen] = np.arange(len(chosen))
        return index[np.where(sources >= 0, sources, self.size)]

    def sees(self, a: gb.Array, b: gb.Array) -> gb.Array:
        """Whether each segment from node a to node b stays inside, (P,); always in a cloud."""
        clear = np.ones(len(a), dtype=bool)
        if not len(self.wall):
            return clear
        corners = self.points[self.wall]  # (F, d, d)
        span = np.linalg.norm(self.points[a] - self.points[b], axis=1)
        longest = np.linalg.norm(corners - corners[:, :1], axis=2).max()
        middle = (self.points[a] + self.points[b]) / 2
        to_wall, _ = KDTree(self.points[np.unique(self.wall)]).query(middle)
        near = np.flatnonzero(to_wall <= span / 2 + longest)  # others cannot meet a facet
        step = max(1, PAIRS // len(corners))
        for first in range(0, len(near), step):
            some = near[first : first + step]
            clear[some] = ~crosses(self.points[a[some]], self.points[b[some]], corners)
        is_wall = np.zeros(self.size, dtype=bool)
        is_wall[self.wall] = True
        # chords may lie in a hole and cross nothing
        chords = np.flatnonzero(clear & is_wall[a] & is_wall[b] & (a != b))
        if chords.size:
            cells = self.points[topology.triangulation(self.mesh)]
            _, _, outside = nearest((self.points[a[chords]] + self.points[b[chords]]) / 2, cells)
            clear[chords] = outside <= 1e-6 * span[chords]
        return clear


def crosses(a: gb.Array, b: gb.Array, corners: gb.Array) -> gb.Array:
    """Whether the inside of each segment a b (P, d) meets one of the facets (F, d, d), (P,)."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    overlap = np.ones((len(a), len(corners)), dtype=bool)
    for axis in range(a.shape[1]):
        at = corners[:, :, axis]
        overlap &= (low[:, None, axis] <= at.max(axis=1)) & (high[:, None, axis] >= at.min(axis=1))
    segment, facet = np.nonzero(overlap)
    is_crossing = np.zeros(len(a), dtype=bool)
    if not segment.size:
        return is_crossing
    along, base = b[segment] - a[segment], corners[facet, 0]
    sides = corners[facet, 1:] - base[:, None]  # (Q, d-1, d)
    # a + t along = base + s sides
    matrix = np.concatenate([along[:, None], -sides], axis=1).transpose(0, 2, 1)
    scale = np.prod(np.linalg.norm(matrix, axis=1), axis=1)
    proper = np.abs(np.linalg.det(matrix)) > GRAZING * scale  # else parallel
    right = (base - a[segment])[proper][..., None]
    t_and_s = np.linalg.solve(matrix[proper], right)[..., 0]  # (Q, d)
    t, s = t_and_s[:, 0], t_and_s[:, 1:]
    slack = 1e-7
    meets = (t > slack) & (t < 1 - slack) & (s >= -slack).all(axis=1) & (s.sum(axis=1) <= 1 + slack)
    is_crossing[segment[proper][meets]] = True
    return is_crossing


# ------------------------------------------------------------------------------------------- levels


def farthest(domain: Domain, count: int) -> gb.Array:
    """Farthest points from the middle outwards, (count,): any first part covers the domain."""
    order = [int(np.argmin(((domain.points - domain.points.mean(axis=0)) ** 2).sum(axis=1)))]
    distance = domain.distances(order[0], np.inf)
    while len(order) < min(count, domain.size):
        far = int(np.argmax(distance))
        order.append(far)
        np.minimum(distance, domain.distances(far, float(distance[far])), out=distance)
    return np.array(order)


def nearest_nodes(domain: Domain, points: gb.Array) -> gb.Array:
    """The node nearest to each point, each node once, in the order of the points."""
    _, closest = KDTree(domain.points).query(points)
    _, first = np.unique(closest, return_index=True)
    return np.asarray(closest[np.sort(first)])


@dataclass(frozen=True, eq=False)
class Links:
    """Directed edges of one kind, sorted by target; indices into the two node sets."""

    source: gb.Array  # (E,)
    target: gb.Array  # (E,)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Nested node sets, finest first, and the links inside each and from each to the next."""

    levels: tuple[gb.Array, ...]  # (m_l,) nodes; the first holds all
    inside: tuple[Links, ...]
    down: tuple[Links, ...]

    @property
    def up(self) -> tuple[Links, ...]:
        """The links of `down` in the other direction."""
        return tuple(_sorted(links.target, links.source) for links in self.down)


@dataclass(frozen=True)
class Rule:
    """How a hierarchy is linked; radii are lengths, 0 for none."""

    parents: int  # coarse nodes next to every finer one
    neighbours: int = 0  # approximate number of nodes in a ball; 0: mesh edges, touching cells
    radii: tuple[float, ...] = ()  # of the balls, per level
    most: int = 0  # nodes that a ball may hold, if a mesh is graded


def hierarchy(
    domain: Domain,
    chosen: gb.Array,
    counts: tuple[int, ...],
    rule: Rule,
    ring: gb.Array | None = None,
) -> Hierarchy:
    """Levels that begin with `counts` of the chosen nodes.

    A node that sees none of them becomes coarse itself. `ring` (N,) is the radius of the
    neighbourhood of each finest node if the training mesh was another one, else None.
    """
    levels, down = [np.arange(domain.size)], []
    for count in counts:
        coarse = np.asarray(chosen[np.isin(chosen, levels[-1])][: min(count, len(levels[-1]))])
        while True:
            links, hidden = parents(domain, levels[-1], coarse, rule.parents)
            if not hidden.size:
                break
            coarse = np.append(coarse, hidden[0])
        levels.append(coarse)
        down.append(links)
    inside = [
        _inside(domain, nodes, level, rule, ring if level == 0 else None)
        for level, nodes in enumerate(levels)
    ]
    return Hierarchy(tuple(levels), tuple(inside), tuple(down))


def parents(domain: Domain, fine: gb.Array, coarse: gb.Array, count: int) -> tuple[Links, gb.Array]:
    """Links from fine nodes to their nearest visible coarse nodes, and fine nodes that see none."""
    tried = min(TRIED * count, len(coarse))
    tree = KDTree(domain.points[coarse])
    _, closest = tree.query(domain.points[fine], np.arange(1, tried + 1))  # (n, tried)
    seen = domain.sees(np.repeat(fine, tried), coarse[closest.ravel()]).reshape(closest.shape)
    is_parent = seen & (np.cumsum(seen, axis=1) <= count)
    rows, columns = np.nonzero(is_parent)
    return _sorted(rows, closest[rows, columns]), fine[~seen.any(axis=1)]


def _inside(
    domain: Domain, nodes: gb.Array, level: int, rule: Rule, ring: gb.Array | None
) -> Links:
    """Links among the nodes of a level, including one from every node to itself."""
    size, itself = len(nodes), np.arange(len(nodes))
    if domain.is_cloud:
        pairs = _around(domain, nodes, np.full(size, np.inf), (rule.neighbours or CLOUD) + 1)
    elif rule.neighbours:
        pairs = _around(domain, nodes, np.full(size, rule.radii[level]), rule.most)
    else:
        owner = domain.owners(nodes) if level else itself
        ends = owner[domain.links]
        ends = ends[(ends[:, 0] != ends[:, 1]) & (ends.min(axis=1) >= 0)]
        ends = np.unique(np.sort(ends, axis=1), axis=0)
        ends = ends[domain.sees(nodes[ends[:, 0]], nodes[ends[:, 1]])] if level else ends
        pairs = np.concatenate([ends, ends[:, ::-1]])
        if ring is not None:
            pairs = np.concatenate([pairs, _around(domain, nodes, ring, size)])
    pairs = np.unique(np.concatenate([pairs, np.stack([itself, itself], axis=1)]), axis=0)
    return _sorted(pairs[:, 1], pairs[:, 0])


def _around(domain: Domain, nodes: gb.Array, radius: gb.Array, most: int) -> gb.Array:
    """Pairs (target, source) of a level: the `most` nearest visible nodes in the target's ball."""
    points = domain.points[nodes]
    tree = KDTree(points)
    if np.isinf(radius).all():
        _, closest = tree.query(points, np.arange(1, min(most, len(nodes)) + 1))
        target = np.repeat(np.arange(len(nodes)), closest.shape[1])
        return np.stack([target, closest.ravel()], axis=1)
    balls = tree.query_ball_point(points, radius)
    target = np.repeat(np.arange(len(nodes)), [len(ball) for ball in balls])
    source = np.concatenate([np.asarray(ball, dtype=np.int64) for ball in balls])
    apart = ((points[target] - points[source]) ** 2).sum(axis=1)
    order = np.lexsort((source, apart, target))
    target, source = target[order], source[order]
    starts = np.searchsorted(target, np.arange(len(nodes)))
    near = np.arange(len(target)) - starts[target] < most
    target, source = target[near], source[near]
    seen = domain.sees(nodes[target], nodes[source])
    return np.stack([target[seen], source[seen]], axis=1)


def ball_radius(volume: float, nodes: int, neighbours: int, dim: int) -> float:
    """Radius of a ball that holds `neighbours` of evenly spread nodes."""
    unit = pi ** (dim / 2) / gamma(dim / 2 + 1)
    return float((neighbours * volume / (unit * nodes)) ** (1 / dim))


def _sorted(source: gb.Array, target: gb.Array) -> Links:
    order = np.lexsort((source, target))
    return Links(source[order], target[order])


def shares(links: Links, lengths: gb.Array, mass: gb.Array, gamma: float) -> gb.Array:
    """Weights exp(-gamma (d / farthest)^2) times the source's mass, with sum 1 per target, (E,)."""
    reach = np.zeros(links.target.max() + 1)
    np.maximum.at(reach, links.target, lengths)
    relative = lengths / np.where(reach > 0, reach, 1)[links.target]
    weight = np.exp(-gamma * relative**2) * mass[links.source]
    return weight / np.bincount(links.target, weight)[links.target]


def lists(links: Links, share: gb.Array, targets: int) -> tuple[gb.Array, gb.Array]:
    """Sources and weights of each target, both (targets, longest list); padded by weight 0."""
    degree = np.bincount(links.target, minlength=targets)
    column = np.arange(len(links.target)) - np.repeat(np.cumsum(degree) - degree, degree)
    shape = (targets, degree.max())
    source, weight = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    source[links.target, column], weight[links.target, column] = links.source, share
    return source, weight


# ---------------------------------------------------------------------------- derivatives of inputs


def smoothing(domain: Domain) -> csr_array:
    """The mean over a node and its neighbours, applied twice, (N, N)."""
    i, j = domain.links.T
    nodes = np.arange(domain.size)
    rows, columns = np.concatenate([i, j, nodes]), np.concatenate([j, i, nodes])
    shape = (domain.size, domain.size)
    ring = coo_array((np.ones(len(rows)), (rows, columns)), shape=shape).tocsr()
    mean = csr_array(ring.multiply(1 / np.asarray(ring.sum(axis=1)).reshape(-1, 1)))
    return csr_array(mean @ mean)


def slopes(domain: Domain) -> tuple[csr_array, ...]:
    """Gradient at each node by least squares over its links, one (N, N) matrix per dimension."""
    first, second = domain.links.T
    i, j = np.concatenate([first, second]), np.concatenate([second, first])
    offset = domain.points[j] - domain.points[i]  # (2E, d)
    weight = 1 / np.maximum((offset**2).sum(axis=1), 1e-300)
    moments = np.zeros((domain.size, domain.mesh.dim, domain.mesh.dim))
    np.add.at(moments, i, weight[:, None, None] * offset[:, :, None] * offset[:, None, :])
    inverse = np.linalg.pinv(moments, hermitian=True)
    factors = np.einsum("eab,eb->ea", inverse[i], weight[:, None] * offset)  # (2E, d)
    matrices, nodes = [], np.arange(domain.size)
    ends = (np.concatenate([i, nodes]), np.concatenate([j, nodes]))
    for factor in factors.T:
        diagonal = -np.bincount(i, factor, domain.size)
        entries = (np.concatenate([factor, diagonal]), ends)
        matrices.append(coo_array(entries, shape=(domain.size, domain.size)).tocsr())
    return tuple(matrices)
