"""Cells of a mesh, and what follows from their node numbers alone: edges, boundary facets, loops.

Where a mesh has no cells, the Delaunay cells of its points are used: they fill the convex hull,
holes and notches too.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.simplices import FLAT, fullness

SLIVER = (
    1e-3  # fullness of a Delaunay cell below which it locks the finite-element modes of a cloud
)


def triangulation(mesh: Mesh) -> Array:
    """The mesh's simplices, (M, v) int64; without cells the Delaunay ones that have a volume."""
    check_points(mesh.points)
    if mesh.cells is None:
        return _delaunay(mesh.points)
    cells = np.asarray(mesh.cells, dtype=np.int64)
    if cells.ndim != 2 or not 2 <= cells.shape[1] <= mesh.dim + 1:
        raise DataError(
            f"mesh: cells have shape {cells.shape}; expected simplices, (M, 2..{mesh.dim + 1}); "
            "split other cells"
        )
    if cells.size and not 0 <= cells.min() <= cells.max() < mesh.size:
        raise DataError(
            f"mesh: cells point to nodes {cells.min()}..{cells.max()}; expected 0..{mesh.size - 1}"
        )
    return cells


def cells_of(mesh: Mesh) -> Array:
    """The cells of a mesh that must have some."""
    if mesh.cells is None:
        raise DataError(
            "mesh: it has no cells; this needs triangles or tetrahedra; give the mesh its cells"
        )
    return mesh.cells


def edges(mesh: Mesh) -> Array:
    """Unique undirected edges of the cells, (E, 2) int64 with i < j, sorted."""
    return cell_edges(triangulation(mesh))


def cell_edges(cells: Array) -> Array:
    """Every edge of the given simplices once, (E, 2) with i < j, sorted."""
    ends = np.concatenate([cells[:, pair] for pair in combinations(range(cells.shape[1]), 2)])
    return unique_pairs(ends)


def unique_pairs(ends: Array) -> Array:
    """Every pair of node numbers once, (E, 2) with i < j, sorted."""
    size = int(ends.max(initial=0)) + 1
    low, high = np.sort(np.asarray(ends, dtype=np.int64), axis=1).T
    codes = np.unique(low * size + high)
    return np.stack([codes // size, codes % size], axis=1)


def boundary_facets(mesh: Mesh) -> Array:
    """Sides that belong to one cell only, (F, v - 1), sorted: edges in 2D, triangles in 3D."""
    cells = triangulation(mesh)
    sides = np.concatenate([np.delete(cells, skipped, axis=1) for skipped in range(cells.shape[1])])
    return sides[_single(sides)]


def directed_facets(cells: Array) -> Array:
    """Boundary facets as their cells order them, (F, v - 1): edges have the domain on their left.

    Beside `boundary_facets`, whose order of nodes and facets decides the last bits of distances.
    """
    k = cells.shape[1]
    sides = np.concatenate([cells[:, [(i + j) % k for j in range(k - 1)]] for i in range(k)])
    return sides[np.sort(_single(sides))]


def boundary_edges(mesh: Mesh) -> Array:
    """Directed boundary edges of a triangle mesh, (F, 2), with the domain on their left."""
    return directed_facets(cells_of(mesh))


def boundary_loops(mesh: Mesh) -> list[Array]:
    """Closed boundary loops of node numbers, each from its lowest; the outer counter-clockwise."""
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


def check_points(points: Array) -> None:
    """Raise unless the points are finite and no two of them coincide."""
    if points.ndim != 2 or not np.all(np.isfinite(points)):
        raise DataError(
            f"mesh: points of shape {points.shape} are not finite (N, d) numbers; correct the "
            "coordinates"
        )
    order = np.lexsort(points.T)
    same = np.flatnonzero(np.all(points[order[1:]] == points[order[:-1]], axis=1))
    if same.size:
        first, second = sorted((int(order[same[0]]), int(order[same[0] + 1])))
        raise DataError(
            f"mesh: nodes {first} and {second} are at one place ({same.size} such pairs); merge "
            "duplicate nodes"
        )


def _single(sides: Array) -> Array:
    """Indices of the sides that occur once in any order of their nodes, sorted by their nodes."""
    size = int(sides.max(initial=0)) + 1
    codes = np.ravel_multi_index(tuple(np.sort(sides, axis=1).T), (size,) * sides.shape[1])
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return first[counts == 1]


def _delaunay(points: Array) -> Array:
    try:
        cells = scipy.spatial.Delaunay(points).simplices.astype(np.int64)
    except (scipy.spatial.QhullError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"mesh: {points.shape} points have no Delaunay cells ({reason}); give cells, or more "
            "points"
        ) from error
    full = fullness(points[cells])
    good = full > SLIVER
    in_good_cell = np.bincount(cells[good].ravel(), minlength=len(points)) > 0  # (N,)
    return cells[good | (~in_good_cell[cells].all(axis=1) & (full > FLAT))]
