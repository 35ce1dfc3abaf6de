"""Nested red refinement of tetrahedra: eight for one, old nodes keep their numbers (Bey 1995)."""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench_plugins.solvers.meshing.topology import boundary_facets, cells_of, mesh_edges

# even permutations of a cell's nodes that bring each of the three pairs of opposite edges to the
# place of (02, 13)
TURNS = np.array([[0, 3, 1, 2], [0, 1, 2, 3], [0, 2, 3, 1]])
PAIRS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
MIDPOINTS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))  # local numbers 4 to 9
# four corners, then the octahedron between them cut along its diagonal 02-13; orientation as the
# parent's
CHILDREN = np.array(
    [
        [0, 4, 5, 6],
        [4, 1, 7, 8],
        [5, 7, 2, 9],
        [6, 8, 9, 3],
        [4, 5, 6, 8],
        [4, 7, 5, 8],
        [5, 6, 8, 9],
        [5, 8, 7, 9],
    ]
)


def refine_tetrahedra(mesh: gb.Mesh) -> gb.Mesh:
    """Split every tetrahedron into eight, its inner octahedron along the shortest diagonal.

    New nodes N, N+1, ... are the midpoints of `mesh_edges`; one carries a tag if its edge lies on
    the boundary and both ends carry the tag.
    """
    cells = cells_of(mesh)
    if cells.shape[1] != 4:
        raise gb.DataError(
            f"mesh: cells of {cells.shape[1]} nodes cannot be refined; expected tetrahedra; pass a "
            "3D mesh"
        )
    edges = mesh_edges(cells)
    number = edges[:, 0] * mesh.size + edges[:, 1]
    cells = _turned(mesh.points, cells)
    local = np.concatenate([cells, np.empty((len(cells), 6), dtype=np.int64)], axis=1)  # (M, 10)
    for place, (i, j) in enumerate(MIDPOINTS, start=4):
        low, high = np.sort(cells[:, [i, j]], axis=1).T
        local[:, place] = mesh.size + np.searchsorted(number, low * mesh.size + high)
    on_rim = np.isin(number, _rim_edges(cells, mesh.size))
    tags = {
        tag: np.concatenate([held, on_rim & held[edges].all(axis=1)])
        for tag, held in mesh.tags.items()
    }
    points = np.concatenate([mesh.points, mesh.points[edges].mean(axis=1)])
    return gb.Mesh(points, local[:, CHILDREN].reshape(-1, 4), tags)


def _turned(points: gb.Array, cells: gb.Array) -> gb.Array:
    """The cells with their nodes turned so that the shortest diagonal joins the midpoints of edges
    02 and 13.
    """
    corner = points[cells]  # (M, 4, 3)
    lengths = [
        np.sum((corner[:, a].mean(axis=1) - corner[:, b].mean(axis=1)) ** 2, axis=1)
        for a, b in PAIRS
    ]
    turn = TURNS[np.argmin(np.stack(lengths, axis=1), axis=1)]  # (M, 4)
    return np.take_along_axis(cells, turn, axis=1)


def _rim_edges(cells: gb.Array, size: int) -> gb.Array:
    """Numbers of the edges that lie on the boundary."""
    facets = boundary_facets(cells)
    low, high = np.sort(
        np.concatenate([facets[:, [0, 1]], facets[:, [1, 2]], facets[:, [2, 0]]]), axis=1
    ).T
    return np.unique(low * size + high)
