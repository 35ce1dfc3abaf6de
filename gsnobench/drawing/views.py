"""A mesh as paper shows it: triangles, a lit surface, a slice or dots, and the part in view."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy  # scipy.sparse.csgraph is loaded on first use

from gsnobench.data import Array, Mesh
from gsnobench.drawing import space

NOTHING = np.zeros((0, 2, 2))
SMALL_BODY = 0.2  # of the domain's size: the picture then shows the surroundings of the body
REACH = 1.5  # sizes of the body that are shown on each side of its middle
Box = tuple[float, float, float, float]  # x0, x1, y0, y1


@dataclass(frozen=True, eq=False)
class View:
    """What is drawn of a mesh, and the rectangle that shows it.

    A point of the view lies between two nodes, at a share of the way to the second; mostly both
    are the same node.
    """

    points: Array  # (n, 2)
    ends: Array  # (n, 2) indices of nodes in the mesh
    shares: Array  # (n,)
    triangles: Array | None  # (m, 3) into points; back to front if they are lit
    outline: Array  # (e, 2, 2) segments of the border
    box: Box
    light: Array | None = None  # (m,) brightness of triangles in space
    body: Array | None = None  # (k, 2) what a slice cuts through and no field fills
    whole: Box | None = None  # where the box shows a part only
    spacing: Array | None = None  # (n,) distance to the next point, of a cloud
    note: str = ""  # what a reader must know: where a slice is
    axes: tuple[int, int] = (0, 1)  # of the mesh, along which the view is drawn

    @property
    def aspect(self) -> float:
        x0, x1, y0, y1 = self.box
        return (x1 - x0) / (y1 - y0)

    @property
    def nodes(self) -> Array:
        """The nodes that the view shows."""
        return np.unique(self.ends)

    def shown(self, values: Array) -> Array:
        """Values of the mesh (N,) at the points of the view, (n,)."""
        first, second = values[self.ends[:, 0]], values[self.ends[:, 1]]
        is_node = self.ends[:, 0] == self.ends[:, 1]
        return np.where(is_node, first, (1 - self.shares) * first + self.shares * second)

    def around_middle(self, size: Array) -> View:
        """A part of this width and height, about the triangle that is nearest to the middle."""
        x0, x1, y0, y1 = self.box
        middles = self.points[self.triangles].mean(1)
        nearest = np.linalg.norm(middles - (0.5 * (x0 + x1), 0.5 * (y0 + y1)), axis=1).argmin()
        (x0, y0), (x1, y1) = middles[nearest] - 0.5 * size, middles[nearest] + 0.5 * size
        return replace(self, box=(float(x0), float(x1), float(y0), float(y1)), whole=self.box)

    def zoomed_out(self) -> View:
        """The whole of a view that shows a part."""
        return replace(self, box=self.whole or self.box, whole=None)


def view_of(mesh: Mesh, support: Array) -> View:
    """The supported part of a mesh.

    In the plane its triangles, in space the surface of a body or a slice through a volume.
    """
    nodes = np.flatnonzero(support)
    if mesh.dim < 3:
        return _plane(mesh, support, nodes)
    if mesh.cells is not None and mesh.cells.shape[1] == 4:
        cells = mesh.cells[support[mesh.cells].all(1)]
        if len(cells):
            return _slice(mesh, cells)
    if mesh.cells is not None and mesh.cells.shape[1] == 3:
        return _surface(mesh, mesh.cells[support[mesh.cells].all(1)])
    triangles = space.surface_of_cloud(mesh.points[nodes])
    if triangles is not None:
        return _surface(mesh, nodes[triangles])
    if len(nodes) > 8:
        return _slice(mesh, nodes[space.tetrahedra_of(mesh.points[nodes])])
    return _dots(space.seen(mesh.points[nodes])[0], nodes)


def outside_of(mesh: Mesh) -> View:
    """The geometry of a mesh as a person would see it: of a volume the surface, not a slice."""
    if mesh.dim == 3 and mesh.cells is not None and mesh.cells.shape[1] == 4:
        return _surface(mesh, space.surface_of_volume(mesh))
    body = _body_of(mesh) if mesh.dim == 3 else None
    if body is not None:
        return _surface(mesh, body)
    return view_of(mesh, np.ones(mesh.size, dtype=bool))


# ---------------------------------------------------------------------------------------- the plane


def _plane(mesh: Mesh, support: Array, nodes: Array) -> View:
    points = np.column_stack([mesh.points, np.zeros(mesh.size)])[nodes, :2]
    triangles = _triangles(mesh, support)
    if triangles is None:
        return _dots(points, nodes)
    edges = _border(triangles)
    box, whole = _part_in_view(points, edges)
    same = np.column_stack([nodes, nodes])
    return View(points, same, np.zeros(len(nodes)), triangles, points[edges], box, whole=whole)


def _dots(points: Array, nodes: Array) -> View:
    same, none = np.column_stack([nodes, nodes]), np.zeros(len(nodes))
    spacing = none
    if len(points) > 1:
        spacing = scipy.spatial.KDTree(points).query(points, 2)[0][:, 1]
    box = _where_most_are(points)
    return View(points, same, none, None, NOTHING, box, spacing=spacing)


def _triangles(mesh: Mesh, support: Array) -> Array | None:
    if mesh.cells is None or mesh.cells.shape[1] not in (3, 4):
        return None
    cells = mesh.cells
    if cells.shape[1] == 4:
        cells = np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])
    cells = cells[support[cells].all(1)]
    index = np.cumsum(support) - 1  # (N,) node -> index among the supported ones
    return index[cells] if len(cells) else None


def _border(triangles: Array) -> Array:
    """Edges that belong to one triangle only, (e, 2)."""
    sides = [triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]
    edges = np.sort(np.concatenate(sides), axis=1)
    unique, counts = np.unique(edges, axis=0, return_counts=True)
    return unique[counts == 1]


def _part_in_view(points: Array, edges: Array) -> tuple[Box, Box | None]:
    """The whole domain, or the surroundings of a small body in a wide one: a wing in the sky."""
    low, high = points.min(0), points.max(0)
    whole = _with_margin(low, high)
    size = len(points)
    graph = scipy.sparse.coo_array((np.ones(len(edges)), edges.T), shape=(size, size))
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    ends = np.unique(edges)
    inner = [
        node
        for label in np.unique(labels[ends])
        for node in [ends[labels[ends] == label]]
        if (np.ptp(points[node], axis=0) < SMALL_BODY * (high - low)).all()
    ]
    if not inner or len(inner) == len(np.unique(labels[ends])):
        return whole, None
    body = points[np.concatenate(inner)]
    middle, reach = 0.5 * (body.min(0) + body.max(0)), REACH * np.ptp(body, axis=0).max()
    if (2 * reach > 0.5 * (high - low)).any():
        return whole, None
    side = np.array([reach, 0.67 * reach])
    (x0, y0), (x1, y1) = middle - side, middle + side
    return (float(x0), float(x1), float(y0), float(y1)), whole


def _where_most_are(points: Array) -> Box:
    """The whole cloud, or the part where most points are."""
    low, high = points.min(0), points.max(0)
    inner_low, inner_high = np.quantile(points, 0.1, axis=0), np.quantile(points, 0.9, axis=0)
    if ((inner_high - inner_low) * 1.25 < (high - low) / 3).all():
        reach = 0.15 * (inner_high - inner_low)
        low, high = inner_low - reach, inner_high + reach
    return _with_margin(low, high)


def _with_margin(low: Array, high: Array) -> Box:
    margin = 0.02 * (high - low).max() + 1e-12
    (x0, y0), (x1, y1) = low - margin, high + margin
    return float(x0), float(x1), float(y0), float(y1)


# -------------------------------------------------------------------------------------------- space


def _surface(mesh: Mesh, triangles: Array) -> View:
    """Faces that look at the onlooker, lit from the side."""
    nodes, index = np.unique(triangles, return_inverse=True)
    points = mesh.points[nodes]
    faces, light = space.visible_faces(points, index.reshape(-1, 3))
    flat = space.seen(points)[0]
    used, position = np.unique(faces, return_inverse=True)
    same, none = np.column_stack([nodes[used], nodes[used]]), np.zeros(len(used))
    box = _with_margin(flat.min(0), flat.max(0))
    return View(flat[used], same, none, position.reshape(-1, 3), NOTHING, box, light=light)


def _slice(mesh: Mesh, cells: Array) -> View:
    """The cut across the middle; grey where a body is that carries no field."""
    points, surface = mesh.points, _body_of(mesh)
    middle = points[cells if surface is None else surface].reshape(-1, 3)
    level = float(0.5 * (middle.min(0) + middle.max(0))[space.ACROSS])
    ends, shares, triangles = space.slice_of(points, cells, level)
    kept = [axis for axis in range(3) if axis != space.ACROSS]
    cut = (1 - shares)[:, None] * points[ends[:, 0]] + shares[:, None] * points[ends[:, 1]]
    flat = cut[:, kept]
    box, body = _with_margin(flat.min(0), flat.max(0)), None
    if surface is not None:
        body = space.ring_of(points, surface, level)
        box = _around(body, box)
    note = f"slice at {'xyz'[space.ACROSS]} = {_round(level, np.ptp(points[:, space.ACROSS])):g}"
    outline = flat[_border(triangles)]
    plane = (kept[0], kept[1])
    return View(flat, ends, shares, triangles, outline, box, body=body, note=note, axes=plane)


def _around(body: Array, box: Box) -> Box:
    """As much to the left and right of a body as it is long, inside the box."""
    low, high = body[:, 0].min(), body[:, 0].max()
    x0, x1, y0, y1 = box
    reach = 0.6 * (high - low)
    return max(x0, float(low - reach)), min(x1, float(high + reach)), y0, y1


def _round(level: float, extent: float) -> float:
    """A level to two digits of the extent."""
    return round(level, 2 - int(np.floor(np.log10(extent)))) + 0.0


def _body_of(mesh: Mesh) -> Array | None:
    """Triangles of the body in a cloud: the first tag whose nodes lie on one."""
    for tagged in mesh.tags.values() if mesh.cells is None else ():
        nodes = np.flatnonzero(tagged)
        triangles = space.surface_of_cloud(mesh.points[nodes])
        if triangles is not None:
            return nodes[triangles]
    return None
