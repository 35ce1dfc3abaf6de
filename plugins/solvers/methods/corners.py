"""Re-entrant corners of a Dirichlet problem: a local change keeps linear elements second order.

Near a corner of inner angle w > 180 degrees the solution is r^(pi/w) sin(pi t/w), and plain linear
elements are too stiff there: the error spreads over the whole domain and falls like h^(2 pi/w)
only. Energy-corrected elements (Egger, Ruede and Wohlmuth, SIAM J. Numer. Anal. 52, 2014) soften
the cells that touch the corner by a share that does not depend on h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

import gsnobench as gb
from gsnobench.meshes.operators import diffusion_matrix, node_volumes
from gsnobench.meshes.topology import boundary_edges, cells_of
from gsnobench_plugins.solvers.methods.fem import solve_dirichlet

# inner angles above this are corners, below it a curve cut into edges
SHARPEST_CURVE = np.radians(210.0)
PATCH = 1.0 / 3.0  # radius of the patch around a corner, as a share of the way to the next one
SOFTEST = 0.9


@dataclass(frozen=True, eq=False)
class Corner:
    """A boundary node, the direction of the edge that leaves it and the inner angle, radians.

    The domain is on the left of that edge.
    """

    node: int
    position: gb.Array  # (2,)
    direction: float
    angle: float

    def singular(self, points: gb.Array) -> gb.Array:
        """r^(pi/w) sin(pi t/w) at points (m, 2): harmonic, and zero on both sides of the corner."""
        away = points - self.position
        turned = np.arctan2(away[:, 1], away[:, 0]) - self.direction
        middle = 0.5 * self.angle
        shifted = turned - middle + np.pi  # the cut lies opposite the middle, in the solid
        turn = np.mod(shifted, 2 * np.pi) - np.pi + middle
        power = np.pi / self.angle
        return np.asarray(np.hypot(*away.T) ** power * np.sin(power * turn))


def reentrant_corners(mesh: gb.Mesh) -> list[Corner]:
    """The corners of a triangle mesh with inner angles well above 180 degrees, by node number."""
    edges = boundary_edges(mesh)
    after, before = edges[np.argsort(edges[:, 0])], edges[np.argsort(edges[:, 1])]
    nodes = after[:, 0]
    if not np.array_equal(nodes, before[:, 1]) or len(np.unique(nodes)) < len(nodes):
        raise gb.DataError(
            "mesh: its boundary is no set of simple loops; expected each boundary node on one "
            "loop; correct the mesh"
        )
    leaving, coming = (
        _directions(mesh.points[ends] - mesh.points[nodes]) for ends in (after[:, 1], before[:, 0])
    )
    angles = np.mod(coming - leaving, 2 * np.pi)
    return [
        Corner(int(nodes[i]), mesh.points[nodes[i]], float(leaving[i]), float(angles[i]))
        for i in np.flatnonzero(angles > SHARPEST_CURVE)
    ]


def _directions(steps: gb.Array) -> gb.Array:
    return np.asarray(np.arctan2(steps[:, 1], steps[:, 0]))


def corner_coefficient(mesh: gb.Mesh) -> gb.Array:
    """One coefficient per cell, (M,): 1, but less in the cells at a re-entrant corner.

    For the stiffness of a problem with values given on the whole boundary.
    """
    cells = cells_of(mesh)
    corners = reentrant_corners(mesh)
    coefficient = np.ones(len(cells))
    for corner in corners:
        others = [other.position for other in corners if other is not corner]
        distances = [np.linalg.norm(other - corner.position) for other in others]
        radius = PATCH * float(min(distances, default=np.ptp(mesh.points, axis=0).min()))
        coefficient[(cells == corner.node).any(axis=1)] -= _softening(mesh, corner, radius)
    return coefficient


def _softening(mesh: gb.Mesh, corner: Corner, radius: float) -> float:
    """The share at which the discrete solution has the right mean on a patch around the corner.

    The right mean is that of the singular function.
    """
    cells = cells_of(mesh)
    is_near = np.linalg.norm(mesh.points[cells].mean(axis=1) - corner.position, axis=1) < radius
    at_corner = (cells[is_near] == corner.node).any(axis=1)
    nodes, numbers = np.unique(cells[is_near], return_inverse=True)
    patch = gb.Mesh(mesh.points[nodes], numbers.reshape(-1, 3))
    is_rim = np.isin(np.arange(patch.size), boundary_edges(patch))
    if at_corner.all() or is_rim.all():
        raise gb.DataError(
            f"mesh: edges are too long for the corner at {corner.position.round(3).tolist()}; "
            "expected some cells between it and the next corner; request more nodes"
        )
    exact, weights = corner.singular(patch.points), node_volumes(patch)

    def excess(share: float) -> float:
        matrix = diffusion_matrix(patch, 1.0 - share * at_corner)
        solution = solve_dirichlet(matrix, np.zeros(patch.size), is_rim, exact)
        return float(np.sum(weights * (solution - exact)))

    return float(brentq(excess, 0.0, SOFTEST, xtol=1e-12))
