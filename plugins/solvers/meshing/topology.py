"""What follows from the cells of a simplex mesh: edges, boundary, angles, nested refinement."""

from __future__ import annotations

from itertools import combinations

import numpy as np

import gsnobench as gb


def cells_of(mesh: gb.Mesh) -> gb.Array:
    """The cells of a mesh that must have some."""
    if mesh.cells is None:
        raise gb.DataError(
            "mesh: it has no cells; this needs triangles or tetrahedra; give the mesh its cells"
        )
    return mesh.cells


def cell_measures(points: gb.Array, cells: gb.Array) -> gb.Array:
    """Signed area of triangles or volume of tetrahedra, (M,)."""
    sides = points[cells[:, 1:]] - points[cells[:, :1]]  # (M, d, d)
    return np.asarray(np.linalg.det(sides) / (2.0 if cells.shape[1] == 3 else 6.0))


def mesh_edges(cells: gb.Array) -> gb.Array:
    """Every edge once, (E, 2) with ascending ends, in lexicographic order."""
    pairs = [cells[:, pair] for pair in combinations(range(cells.shape[1]), 2)]
    return np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)


def boundary_facets(cells: gb.Array) -> gb.Array:
    """Facets that belong to one cell only, (F, k-1), as the cell orders them: edges run with the
    domain on their left.
    """
    k = cells.shape[1]
    facets = np.concatenate([cells[:, [(i + j) % k for j in range(k - 1)]] for i in range(k)])
    _, position, count = np.unique(
        np.sort(facets, axis=1), axis=0, return_index=True, return_counts=True
    )
    return np.asarray(facets[np.sort(position[count == 1])])


def boundary_edges(mesh: gb.Mesh) -> gb.Array:
    """Directed boundary edges of a triangle mesh, (F, 2), the domain on their left."""
    return boundary_facets(cells_of(mesh))


def boundary_loops(mesh: gb.Mesh) -> list[gb.Array]:
    """Closed boundary loops as node indices, each starting at its lowest node; the outer one
    counter-clockwise.
    """
    following = {int(a): int(b) for a, b in boundary_edges(mesh)}
    loops = []
    while following:
        node = min(following)
        loop = []
        while node in following:
            loop.append(node)
            node = following.pop(node)
        loops.append(np.array(loop, dtype=np.int64))
    return loops


def corner_angles(points: gb.Array, triangles: gb.Array) -> gb.Array:
    """The three angles of every triangle in degrees, (M, 3), in the order of its nodes."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    angles = []
    for at, one, other in ((a, b, c), (b, c, a), (c, a, b)):
        u, v = one - at, other - at
        cross = np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        angles.append(np.degrees(np.arctan2(cross, np.sum(u * v, axis=1))))
    return np.stack(angles, axis=1)


def min_angle(mesh: gb.Mesh) -> float:
    """Smallest angle of a triangle mesh, in degrees."""
    return float(corner_angles(mesh.points, cells_of(mesh)).min())


def refine(mesh: gb.Mesh) -> tuple[gb.Mesh, gb.Array]:
    """Split every triangle into four; also the edges (E, 2) whose midpoints are the new nodes N,
    N+1, ...

    Old nodes keep their numbers. A midpoint carries a tag if its edge lies on the boundary and both
    ends carry the tag.
    """
    triangles = cells_of(mesh)
    if triangles.shape[1] != 3:
        raise gb.DataError(
            f"mesh: cells of {triangles.shape[1]} nodes cannot be refined; expected triangles; "
            "pass a 2D mesh"
        )
    edges = mesh_edges(triangles)
    number = edges[:, 0] * mesh.size + edges[:, 1]

    def midpoint(i: int, j: int) -> gb.Array:
        low, high = np.sort(triangles[:, [i, j]], axis=1).T
        return np.asarray(mesh.size + np.searchsorted(number, low * mesh.size + high))

    a, b, c = triangles.T
    ab, bc, ca = midpoint(0, 1), midpoint(1, 2), midpoint(2, 0)
    cells = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)
    points = np.concatenate([mesh.points, mesh.points[edges].mean(axis=1)])
    rim = np.sort(boundary_facets(triangles), axis=1)
    on_rim = np.isin(number, rim[:, 0] * mesh.size + rim[:, 1])
    tags = {
        tag: np.concatenate([held, on_rim & held[edges].all(axis=1)])
        for tag, held in mesh.tags.items()
    }
    return gb.Mesh(points, cells, tags), edges
