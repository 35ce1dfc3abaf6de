"""Nested red refinement: four triangles for one, eight tetrahedra for one (Bey 1995).

Old nodes keep their numbers; new nodes N, N+1, ... are the midpoints of the edges of `cell_edges`.
"""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges, cells_of, directed_facets

# even permutations of a cell's nodes that turn each pair of opposite edges into the pair (02, 13)
TURNS = np.array([[0, 3, 1, 2], [0, 1, 2, 3], [0, 2, 3, 1]])
PAIRS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
MIDPOINTS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))  # local numbers 4 to 9
AT_CORNERS = ((0, 4, 5, 6), (4, 1, 7, 8), (5, 7, 2, 9), (6, 8, 9, 3))
# the octahedron between the corners, cut along its diagonal 02-13
IN_OCTAHEDRON = ((4, 5, 6, 8), (4, 7, 5, 8), (5, 6, 8, 9), (5, 8, 7, 9))
CHILDREN = np.array([*AT_CORNERS, *IN_OCTAHEDRON])  # oriented as their parent


def refine(mesh: gb.Mesh) -> tuple[gb.Mesh, gb.Array]:
    """Split every triangle into four; also the edges (E, 2) whose midpoints are the new nodes.

    A midpoint carries a tag if its edge lies on the boundary and both ends carry the tag.
    """
    triangles = cells_of(mesh)
    if triangles.shape[1] != 3:
        raise gb.DataError(
            f"mesh: cells of {triangles.shape[1]} nodes cannot be refined; expected triangles; "
            "pass a 2D mesh"
        )
    edges = cell_edges(triangles)
    number = edges[:, 0] * mesh.size + edges[:, 1]

    def midpoint(i: int, j: int) -> gb.Array:
        low, high = np.sort(triangles[:, [i, j]], axis=1).T
        return np.asarray(mesh.size + np.searchsorted(number, low * mesh.size + high))

    a, b, c = triangles.T
    ab, bc, ca = midpoint(0, 1), midpoint(1, 2), midpoint(2, 0)
    cells = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)
    points = np.concatenate([mesh.points, mesh.points[edges].mean(axis=1)])
    return gb.Mesh(points, cells, midpoint_tags(mesh, edges)), edges


def refine_tetrahedra(mesh: gb.Mesh) -> gb.Mesh:
    """Split every tetrahedron into eight, its inner octahedron along the shortest diagonal.

    A midpoint carries a tag if its edge lies on the boundary and both ends carry the tag.
    """
    cells = cells_of(mesh)
    if cells.shape[1] != 4:
        raise gb.DataError(
            f"mesh: cells of {cells.shape[1]} nodes cannot be refined; expected tetrahedra; pass a "
            "3D mesh"
        )
    edges = cell_edges(cells)
    number = edges[:, 0] * mesh.size + edges[:, 1]
    cells = _turned(mesh.points, cells)
    local = np.concatenate([cells, np.empty((len(cells), 6), dtype=np.int64)], axis=1)  # (M, 10)
    for column, (i, j) in enumerate(MIDPOINTS, start=4):
        low, high = np.sort(cells[:, [i, j]], axis=1).T
        local[:, column] = mesh.size + np.searchsorted(number, low * mesh.size + high)
    points = np.concatenate([mesh.points, mesh.points[edges].mean(axis=1)])
    return gb.Mesh(points, local[:, CHILDREN].reshape(-1, 4), midpoint_tags(mesh, edges))


def midpoint_tags(mesh: gb.Mesh, edges: gb.Array) -> dict[str, gb.Array]:
    """Tags of the old nodes and of the midpoints of edges (E, 2), (N + E,) each."""
    rim = cell_edges(directed_facets(cells_of(mesh)))
    split, outer = (pairs[:, 0] * mesh.size + pairs[:, 1] for pairs in (edges, rim))
    on_rim = np.isin(split, outer)  # (E,)
    return {
        tag: np.concatenate([tagged, on_rim & tagged[edges].all(axis=1)])
        for tag, tagged in mesh.tags.items()
    }


def _turned(points: gb.Array, cells: gb.Array) -> gb.Array:
    """Cells with nodes turned so that the shortest diagonal joins the midpoints of 02 and 13."""
    corner = points[cells]  # (M, 4, 3)
    lengths = [
        np.sum((corner[:, a].mean(axis=1) - corner[:, b].mean(axis=1)) ** 2, axis=1)
        for a, b in PAIRS
    ]
    turn = TURNS[np.argmin(np.stack(lengths, axis=1), axis=1)]  # (M, 4)
    return np.take_along_axis(cells, turn, axis=1)
