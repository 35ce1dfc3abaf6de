"""Re-entrant corners of a Dirichlet problem: a local change of the stiffness that keeps linear
elements second order.

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
    """A boundary node with the direction of the edge that leaves it (domain on the left) and the
    inner angle, radians.
    """

    node: int
    place: gb.Array  # (2,)
    direction: float
    angle: float

    def singular(self, points: gb.Array) -> gb.Array:
        """r^(pi/w) sin(pi t/w) at points (m, 2): harmonic, and zero on both sides of the corner."""
        away = points - self.place
        turned = np.arctan2(away[:, 1], away[:, 0]) - self.direction
        middle = 0.5 * self.angle
        # the cut lies opposite the middle, in the solid
        turn = np.mod(turned - middle + np.pi, 2 * np.pi) - np.pi + middle
        power = np.pi / self.angle
        return np.asarray(np.hypot(*away.T) ** power * np.sin(power * turn))


def reentrant_corners(mesh: gb.Mesh) -> list[Corner]:
    """The corners of a triangle mesh whose inner angle is well above 180 degrees, in the order of
    their nodes.
    """
    edges = boundary_edges(mesh)
    after, before = edges[np.argsort(edges[:, 0])], edges[np.argsort(edges[:, 1])]
    nodes = after[:, 0]
    if not np.array_equal(nodes, before[:, 1]) or len(np.unique(nodes)) < len(nodes):
        raise gb.DataError(
            "mesh: its boundary is no set of simple loops; expected each boundary node on one "
            "loop; mend the mesh"
        )
    leaving, coming = (
        _directions(mesh.points[ends] - mesh.points[nodes]) for ends in (after[:, 1], before[:, 0])
    )
    angles = np.mod(coming - leaving, 2 * np.pi)
    found = np.flatnonzero(angles > SHARPEST_CURVE)
    return [
        Corner(int(nodes[i]), mesh.points[nodes[i]], float(leaving[i]), float(angles[i]))
        for i in found
    ]


def _directions(steps: gb.Array) -> gb.Array:
    return np.asarray(np.arctan2(steps[:, 1], steps[:, 0]))


def corner_coefficient(mesh: gb.Mesh) -> gb.Array:
    """One coefficient a cell, (M,), for the stiffness of a problem with values given on the whole
    boundary: 1, but less in the cells at a re-entrant corner."""
    cells = cells_of(mesh)
    corners = reentrant_corners(mesh)
    coefficient = np.ones(len(cells))
    for corner in corners:
        others = [
            np.linalg.norm(other.place - corner.place) for other in corners if other is not corner
        ]
        radius = PATCH * float(min(others, default=np.ptp(mesh.points, axis=0).min()))
        coefficient[(cells == corner.node).any(axis=1)] -= _softening(mesh, corner, radius)
    return coefficient


def _softening(mesh: gb.Mesh, corner: Corner, radius: float) -> float:
    """The share at which the discrete solution has the mean of the singular function on a patch
    around the corner.
    """
    cells = cells_of(mesh)
    is_near = np.linalg.norm(mesh.points[cells].mean(axis=1) - corner.place, axis=1) < radius
    at_corner = (cells[is_near] == corner.node).any(axis=1)
    nodes, numbers = np.unique(cells[is_near], return_inverse=True)
    patch = gb.Mesh(mesh.points[nodes], numbers.reshape(-1, 3))
    is_rim = np.isin(np.arange(patch.size), boundary_edges(patch))
    if at_corner.all() or is_rim.all():
        raise gb.DataError(
            f"mesh: edges are too long for the corner at {corner.place.round(3).tolist()}; "
            "expected some cells between it and "
            "the next corner; ask for more nodes"
        )
    exact, weights = corner.singular(patch.points), node_volumes(patch)

    def excess(share: float) -> float:
        found = solve_dirichlet(
            diffusion_matrix(patch, 1.0 - share * at_corner), np.zeros(patch.size), is_rim, exact
        )
        return float(np.sum(weights * (found - exact)))

    return float(brentq(excess, 0.0, SOFTEST, xtol=1e-12))
