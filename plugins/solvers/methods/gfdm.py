"""Generalised finite differences: derivatives at the nodes from weighted local quadratics.

No integrals and no cells: those of the mesh only define neighbours, so that a stencil never reaches
across a slit.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges, cells_of


def neighbour_stars(mesh: gb.Mesh, centres: gb.Array, count: int) -> gb.Array:
    """The `count` nearest nodes within two edges of each centre node, (n, count)."""
    a, b = cell_edges(cells_of(mesh)).T
    rows, columns, shape = np.append(a, b), np.append(b, a), (mesh.size, mesh.size)
    adjacent = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    reach = (adjacent @ adjacent + adjacent)[centres].tocoo()
    row, node = reach.coords
    kept = node != centres[row]
    row, node = row[kept], node[kept]
    away = np.linalg.norm(mesh.points[node] - mesh.points[centres[row]], axis=1)
    order = np.lexsort((node, away, row))
    sizes = np.bincount(row, minlength=len(centres))
    if sizes.min() < count:
        raise gb.DataError(
            f"gfdm: a node has only {sizes.min()} nodes within two edges; expected {count}; use a "
            "finer mesh"
        )
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.asarray(node[order][first[:, None] + np.arange(count)])


def laplacian_weights(
    mesh: gb.Mesh, centres: gb.Array, *, neighbours: int = 10
) -> tuple[gb.Array, gb.Array]:
    """Stars and weights, (n, k) each, with Laplace u(x_i) = sum_j w_ij (u_j - u_i).

    Exact for quadratics.
    """
    stars = neighbour_stars(mesh, centres, neighbours)
    offsets = mesh.points[stars] - mesh.points[centres][:, None]  # (n, k, 2)
    away = np.linalg.norm(offsets, axis=2)
    radius = away[:, -1:]
    x, y = np.moveaxis(offsets / radius[..., None], 2, 0)
    taylor = np.stack([x, y, x * x / 2, x * y, y * y / 2], axis=2)  # (n, k, 5)
    nearness = (radius / away) ** 3
    weighted = np.linalg.pinv(nearness[..., None] * taylor) * nearness[:, None, :]  # (n, 5, k)
    return stars, (weighted[:, 2] + weighted[:, 4]) / radius**2


def solve_diffusion(
    mesh: gb.Mesh, coefficient: gb.Array, is_fixed: gb.Array, source: gb.Array | float = 1.0
) -> gb.Array:
    """-div(a grad u) = source with u = 0 on fixed nodes, (N,); all is given at the nodes.

    Uses div(a grad u) = (Laplace(a u) + a Laplace u - u Laplace a) / 2, so that a itself is never
    differentiated.
    """
    free = np.flatnonzero(~is_fixed)
    stars, weights = laplacian_weights(mesh, free)
    weights = weights * 0.5 * (coefficient[free][:, None] + coefficient[stars])
    number = np.full(mesh.size, -1)
    number[free] = np.arange(len(free))
    rows = np.broadcast_to(np.arange(len(free))[:, None], stars.shape)
    kept = number[stars] >= 0
    shape = (len(free), len(free))
    coupling = sp.coo_array((-weights[kept], (rows[kept], number[stars][kept])), shape=shape)
    matrix = (coupling + sp.diags_array(weights.sum(axis=1))).tocsc()
    solution = np.zeros(mesh.size)
    solution[free] = splu(matrix).solve(np.broadcast_to(source, mesh.size)[free])
    return solution
