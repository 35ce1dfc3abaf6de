"""Mesh -> edges, Laplacians, P1 finite-element operators, distances and interpolation; pure
functions of the mesh.

Where a mesh has no cells, the Delaunay cells of its points are used: they fill the convex hull,
holes and notches too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import SuperLU, splu
from scipy.spatial import Delaunay, KDTree, QhullError

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.meshes.simplices import fullness, hat_gradients, nearest, volumes

FLAT = 1e-12  # fullness below which a cell has no volume
# the same for Delaunay cells of points: slivers lock the finite-element modes of a cloud in space
SLIVER = 1e-3


# ------------------------------------------------------------------------------------------- graphs


def edges(mesh: Mesh) -> Array:
    """Unique undirected edges of the cells, (E, 2) int64 with i < j, sorted."""
    return _sides(triangulation(mesh), mesh.size)


def knn_edges(points: Array, k: int) -> Array:
    """Unique undirected edges from each point to its k nearest others, (E, 2) int64 with i < j."""
    _check_points(points)
    if not 1 <= k < len(points):
        raise ParamError(
            f"knn_edges: {k} neighbours of {len(points)} points; expected 1..{len(points) - 1}; "
            "lower k"
        )
    _, closest = KDTree(points).query(points, k + 1)  # (N, k+1), the point itself comes first
    starts = np.repeat(np.arange(len(points)), k)
    return _unique_pairs(np.stack([starts, closest[:, 1:].ravel()], axis=1), len(points))


def triangulation(mesh: Mesh) -> Array:
    """The mesh's simplices, (M, vertices) int64; without cells the Delaunay ones, less those of no
    volume.
    """
    _check_points(mesh.points)
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


def gaussian_laplacian(mesh: Mesh, sigma: float = 0.0, edges: Array | None = None) -> csr_array:
    """I - D^-1/2 A D^-1/2 with A_ij = exp(-|x_i - x_j|^2 / sigma^2) on the edges; sigma = 0 takes
    the mean edge length.
    """
    if sigma < 0:
        raise ParamError(
            f"gaussian_laplacian: sigma is {sigma!r}; expected a length, or 0 for the mean edge "
            "length"
        )
    pairs = _sides(triangulation(mesh), mesh.size) if edges is None else edges
    if len(pairs) == 0:
        raise DataError(
            f"gaussian_laplacian: {mesh.size} nodes and no edge; expected some; give the mesh cells"
        )
    i, j = pairs[:, 0], pairs[:, 1]
    squared = np.sum((mesh.points[i] - mesh.points[j]) ** 2, axis=1)  # (E,)
    scale = sigma if sigma > 0 else float(np.sqrt(squared).mean())
    weights = np.exp(-squared / scale**2)
    degree = np.bincount(i, weights, mesh.size) + np.bincount(j, weights, mesh.size)
    has_edge = np.bincount(pairs.ravel(), minlength=mesh.size) > 0
    if np.any(degree[has_edge] == 0):
        raise DataError(
            f"gaussian_laplacian: all weights of a node vanish at sigma {scale:g}; expected about "
            "an edge length"
        )
    root = np.sqrt(np.where(has_edge, degree, 1.0))
    offdiagonal = -weights / (root[i] * root[j])
    nodes = np.arange(mesh.size)  # an isolated node is a component of its own: its diagonal is 0
    rows, columns = np.concatenate([i, j, nodes]), np.concatenate([j, i, nodes])
    entries = np.concatenate([offdiagonal, offdiagonal, has_edge.astype(float)])
    return _sparse(entries, rows, columns, mesh.size)


# ------------------------------------------------------------------------------- P1 finite elements


@dataclass(frozen=True, eq=False)
class Elements:
    """P1 simplices: nodes, volumes and the constant gradients of their hat functions; also surfaces
    in space.
    """

    cells: Array  # (M, v)
    volumes: Array  # (M,)
    slopes: Array  # (M, v, d)


def elements(mesh: Mesh) -> Elements:
    """The finite elements of a mesh; a flat cell or a node in no cell is an error."""
    cells = triangulation(mesh)
    corners = mesh.points[cells]
    flat = np.flatnonzero(fullness(corners) <= FLAT)
    if flat.size:
        raise DataError(
            f"mesh: cell {flat[0]} (one of {flat.size}) has no volume; expected proper simplices; "
            "remove them"
        )
    orphans = np.flatnonzero(np.bincount(cells.ravel(), minlength=mesh.size) == 0)
    if orphans.size:
        raise DataError(
            f"mesh: node {orphans[0]} (one of {orphans.size}) is in no cell; expected none; drop "
            "such nodes"
        )
    return Elements(cells, volumes(corners), hat_gradients(corners))


def stiffness(mesh: Mesh) -> csr_array:
    """K_ij = integral of grad phi_i . grad phi_j (for triangles the cotangent Laplacian), (N, N)."""
    return stiffness_and_mass(mesh)[0]


def lumped_mass(mesh: Mesh) -> Array:
    """Row sums of the P1 mass matrix: each node's share of the volume, (N,)."""
    return stiffness_and_mass(mesh)[1]


def stiffness_and_mass(mesh: Mesh) -> tuple[csr_array, Array]:
    """`stiffness` and `lumped_mass` for the price of one."""
    parts = elements(mesh)
    # (M, v, v)
    local = parts.volumes[:, None, None] * (parts.slopes @ parts.slopes.transpose(0, 2, 1))
    return _assemble(parts.cells, local, mesh.size), _share(parts) / parts.cells.shape[1]


def gradient(mesh: Mesh) -> tuple[csr_array, ...]:
    """Nodal gradient, one (N, N) matrix a dimension: the volume-weighted mean of the gradients of a
    node's cells.
    """
    parts = elements(mesh)
    # (M, v): of the cell in the mean at its node
    weights = parts.volumes[:, None] / _share(parts)[parts.cells]
    return tuple(
        _assemble(parts.cells, weights[:, :, None] * parts.slopes[:, None, :, axis], mesh.size)
        for axis in range(mesh.dim)
    )


def smoother(mesh: Mesh, t: float) -> Callable[[Array], Array]:
    """x -> (M + tK)^-1 M x, one implicit step of the heat equation (Neumann); factorised once, for
    many x of (N, ...).
    """
    if t < 0:
        raise ParamError(f"smoother: t is {t!r}; expected a time >= 0 (length squared)")
    matrix, mass = stiffness_and_mass(mesh)
    solver = factorise(csr_array(diags_array(mass) + t * matrix))

    def apply(values: Array) -> Array:
        columns = np.asarray(values, dtype=float).reshape(mesh.size, -1)
        return solver.solve(mass[:, None] * columns).reshape(values.shape)

    return apply


def smooth(mesh: Mesh, t: float, values: Array) -> Array:
    """Values smoothed over the length sqrt(t); take `smoother` for several calls on one mesh."""
    return smoother(mesh, t)(values)


def factorise(matrix: csr_array) -> SuperLU:
    """Sparse LU of a symmetric positive definite matrix, in an order that keeps the factors thin."""
    columns = matrix.T  # of a symmetric CSR matrix: the same in the column form that SuperLU takes
    return splu(
        columns, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


# -------------------------------------------------------------------------- distance, interpolation


def boundary_facets(mesh: Mesh) -> Array:
    """Sides that belong to one cell only, (F, vertices - 1): edges in 2D, triangles in 3D."""
    cells = triangulation(mesh)
    vertices = cells.shape[1]
    sides = np.concatenate([np.delete(cells, skipped, axis=1) for skipped in range(vertices)])
    codes = np.ravel_multi_index(tuple(np.sort(sides, axis=1).T), (mesh.size,) * (vertices - 1))
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return sides[first[counts == 1]]


def boundary_distance(mesh: Mesh, tag: str) -> Array:
    """Distance of every node to the tagged boundary, (N,): to its facets, or to its nodes where the
    mesh has no cells.
    """
    if tag not in mesh.tags or not np.any(mesh.tags[tag]):
        raise DataError(
            f"boundary_distance: no node has the tag {tag!r}; {did_you_mean(tag, mesh.tags)}"
        )
    tagged = np.asarray(mesh.tags[tag], dtype=bool)
    distance, _ = KDTree(mesh.points[tagged]).query(mesh.points)
    if mesh.cells is None:
        return distance
    facets = boundary_facets(mesh)
    facets = facets[tagged[facets].all(axis=1) & (fullness(mesh.points[facets]) > FLAT)]
    if facets.size:
        _, _, to_facet = nearest(mesh.points, mesh.points[facets])
        distance = np.minimum(distance, to_facet)
    return distance


def interpolation(source: Mesh, points: Array) -> csr_array:
    """P1 interpolation from the nodes of a mesh to points, (P, N); a point outside takes the
    nearest place of the mesh.
    """
    cells = triangulation(source)
    # a flat cell has no place that its neighbours lack
    cells = cells[fullness(source.points[cells]) > FLAT]
    index, weights, _ = nearest(points, source.points[cells])
    rows = np.repeat(np.arange(len(points)), cells.shape[1])
    matrix = coo_array(
        (weights.ravel(), (rows, cells[index].ravel())), shape=(len(points), source.size)
    ).tocsr()
    matrix.eliminate_zeros()
    return matrix


# ------------------------------------------------------------------------------------------ details


def _check_points(points: Array) -> None:
    if points.ndim != 2 or not np.all(np.isfinite(points)):
        raise DataError(
            f"mesh: points of shape {points.shape} are not finite (N, d) numbers; mend the "
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


def _delaunay(points: Array) -> Array:
    try:
        cells = Delaunay(points).simplices.astype(np.int64)
    except (QhullError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"mesh: {points.shape} points have no Delaunay cells ({reason}); give cells, or more "
            "points"
        ) from error
    full = fullness(points[cells])
    good = full > SLIVER
    # nodes that only slivers reach
    bare = np.bincount(cells[good].ravel(), minlength=len(points)) == 0
    return cells[good | (bare[cells].any(axis=1) & (full > FLAT))]


def _share(parts: Elements) -> Array:
    vertices = parts.cells.shape[1]
    # (N,) volume of each node's cells
    return np.bincount(parts.cells.ravel(), np.repeat(parts.volumes, vertices))


def _assemble(cells: Array, local: Array, size: int) -> csr_array:
    vertices = cells.shape[1]
    return _sparse(
        local.ravel(),
        np.repeat(cells, vertices, axis=1).ravel(),
        np.tile(cells, vertices).ravel(),
        size,
    )


def _sparse(entries: Array, rows: Array, columns: Array, size: int) -> csr_array:
    indices = (rows.astype(np.int32), columns.astype(np.int32))  # SuperLU takes 32-bit indices
    return coo_array((entries, indices), shape=(size, size)).tocsr()


def _sides(cells: Array, size: int) -> Array:
    ends = np.concatenate([cells[:, pair] for pair in combinations(range(cells.shape[1]), 2)])
    return _unique_pairs(ends, size)


def _unique_pairs(ends: Array, size: int) -> Array:
    codes = np.sort(np.minimum(ends[:, 0], ends[:, 1]) * size + np.maximum(ends[:, 0], ends[:, 1]))
    codes = codes[np.append(True, codes[1:] != codes[:-1])]
    return np.stack([codes // size, codes % size], axis=1)
