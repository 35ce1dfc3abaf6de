"""Taylor-Hood elements on triangles whose edges may be bent.

Displacements (or velocities) are quadratic, pressures linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges

# Dunavant's rule of degree 4: barycentric coordinates and weights of six points
_NEAR, _FAR = 0.091576213509770743, 0.44594849091596489
_ORBITS = [[1 - 2 * a, a, a] for a in (_NEAR, _FAR)]
QUADRATURE = np.array([orbit[i:] + orbit[:i] for orbit in _ORBITS for i in (0, 2, 1)])  # (Q, 3)
_SHARES = [0.10995174365532187, 0.22338158967801147]
WEIGHTS = np.repeat(_SHARES, 3) / 2.0  # (Q,) of the reference triangle, area 1/2
SIDES = ((0, 1), (1, 2), (2, 0))  # whose middles are the nodes 3, 4, 5 of a cell
SIMPSON = np.array([1.0, 4.0, 1.0]) / 6.0


def quadratic_shapes(shares: gb.Array) -> gb.Array:
    """The six quadratic shape functions at barycentric coordinates (q, 3), (q, 6)."""
    middles = [4.0 * shares[:, i] * shares[:, j] for i, j in SIDES]
    return np.concatenate([shares * (2.0 * shares - 1.0), np.stack(middles, axis=1)], axis=1)


def quadratic_slopes(shares: gb.Array) -> gb.Array:
    """Their derivatives along the two axes of the reference triangle, (q, 6, 2)."""
    slopes = np.array([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])  # of the barycentric coordinates
    corners = (4.0 * shares - 1.0)[:, :, None] * slopes
    middles = [4.0 * (shares[:, [i]] * slopes[j] + shares[:, [j]] * slopes[i]) for i, j in SIDES]
    return np.concatenate([corners, np.stack(middles, axis=1)], axis=1)


@dataclass(frozen=True, eq=False)
class TaylorHood:
    """The spaces on one mesh: n quadratic nodes (vertices first), v vertices, M cells, Q points.

    Q quadrature points per cell.
    """

    nodes: gb.Array  # (n, 2)
    cells: gb.Array  # (M, 6) vertices, then middles of the sides 01, 12, 20
    vertices: int
    edges: gb.Array  # (E, 2) vertices; node v + e is the middle of edge e
    gradients: gb.Array  # (M, Q, 6, 2) of the quadratic shape functions
    weights: gb.Array  # (M, Q) sum to the area

    @classmethod
    def of(
        cls, points: gb.Array, triangles: gb.Array, middles: gb.Array | None = None
    ) -> TaylorHood:
        """The spaces on a triangle mesh; `middles` (E, 2) bends edges, None keeps all straight.

        Middles are in the order of `cell_edges`.
        """
        edges, vertices = cell_edges(triangles), len(points)
        number = edges[:, 0] * vertices + edges[:, 1]
        sides = [np.sort(triangles[:, side], axis=1) for side in SIDES]
        codes = [side[:, 0] * vertices + side[:, 1] for side in sides]
        halves = [vertices + np.searchsorted(number, code) for code in codes]
        cells = np.concatenate([triangles, np.stack(halves, axis=1)], axis=1)
        nodes = np.concatenate([points, points[edges].mean(axis=1) if middles is None else middles])
        gradients, weights = _mapped(nodes[cells])
        return cls(nodes, cells, vertices, edges, gradients, weights)

    @property
    def dofs(self) -> int:
        """Unknowns: two components per node (interleaved), then the pressures."""
        return 2 * len(self.nodes) + self.vertices

    def gradient(self, values: gb.Array) -> gb.Array:
        """Gradient d u_i / d x_j of a vector field (n, 2) at quadrature points, (M, Q, 2, 2)."""
        return np.asarray(values[self.cells].transpose(0, 2, 1)[:, None] @ self.gradients)

    def linear(self, values: gb.Array) -> gb.Array:
        """A linear field (v,) at the quadrature points, (M, Q)."""
        return np.asarray(values[self.cells[:, :3]] @ QUADRATURE.T)

    def cell_dofs(self) -> gb.Array:
        """Unknowns of every cell, (M, 15): twelve components, three pressures."""
        both = (2 * self.cells[:, :, None] + np.arange(2)).reshape(len(self.cells), 12)
        return np.concatenate([both, 2 * len(self.nodes) + self.cells[:, :3]], axis=1)

    def edge_load(self, edges: gb.Array, traction: gb.Array) -> gb.Array:
        """Load (dofs,) of a constant traction (2,) on straight edges, given by their numbers."""
        ends = self.edges[edges]
        length = np.linalg.norm(self.nodes[ends[:, 1]] - self.nodes[ends[:, 0]], axis=1)
        at = np.stack([ends[:, 0], self.vertices + edges, ends[:, 1]], axis=1)  # (e, 3)
        share = np.bincount(at.ravel(), (length[:, None] * SIMPSON).ravel(), len(self.nodes))
        return np.concatenate([(share[:, None] * traction).ravel(), np.zeros(self.vertices)])

    def linear_mass(self) -> sp.csc_array:
        """Consistent mass matrix of the linear space, (v, v)."""
        local = np.einsum("mq,qi,qj->mij", self.weights, QUADRATURE, QUADRATURE)
        corners = self.cells[:, :3]
        rows, columns = np.repeat(corners, 3, axis=1).ravel(), np.tile(corners, (1, 3)).ravel()
        shape = (self.vertices, self.vertices)
        return sp.coo_array((local.ravel(), (rows, columns)), shape=shape).tocsc()

    def linear_load(self, values: gb.Array) -> gb.Array:
        """Integrals of fields (M, Q, k) against the linear shape functions, (v, k).

        The fields are given at the quadrature points.
        """
        local = np.einsum("mq,qi,mqk->mik", self.weights, QUADRATURE, values)
        local = local.reshape(-1, values.shape[2])
        corners = self.cells[:, :3].ravel()
        return np.stack([np.bincount(corners, column, self.vertices) for column in local.T], axis=1)


def _mapped(corners: gb.Array) -> tuple[gb.Array, gb.Array]:
    """Gradients of the shape functions and quadrature weights on cells with nodes (M, 6, 2)."""
    slopes = quadratic_slopes(QUADRATURE)  # (Q, 6, 2)
    jacobian = np.einsum("mai,qaj->mqij", corners, slopes, optimize=True)  # d x_i / d reference_j
    a, b, c, d = (jacobian[..., i, j] for i in (0, 1) for j in (0, 1))
    determinant = a * d - b * c
    if not (determinant > 0.0).all():
        raise gb.DataError(
            "mesh: a cell with bent edges is folded; expected positive areas; refine the mesh or "
            "straighten its edges"
        )
    adjugate = np.stack([np.stack([d, -b], axis=-1), np.stack([-c, a], axis=-1)], axis=-2)
    inverse = adjugate / determinant[..., None, None]
    return np.asarray(slopes @ inverse), determinant * WEIGHTS


def scatter(indices: gb.Array, local: gb.Array, size: int) -> sp.csc_array:
    """Sum of cell matrices (M, k, k) over `size` unknowns; a negative index is left out."""
    k = indices.shape[1]
    indices = indices.astype(np.int32)
    rows, columns = np.repeat(indices, k, axis=1).ravel(), np.tile(indices, (1, k)).ravel()
    kept = (rows >= 0) & (columns >= 0)
    entries = (local.ravel()[kept], (rows[kept], columns[kept]))
    return sp.coo_array(entries, shape=(size, size)).tocsc()
