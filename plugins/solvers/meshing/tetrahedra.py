"""Dihedral angles of tetrahedra, and moves of interior nodes until no sliver is left."""

from __future__ import annotations

from itertools import combinations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import cells_of

STEPS = (0.02, 0.06, 0.15)  # of the size of a star, tried for each move
PATIENCE = 4
WORST_FIRST = 60  # cells whose nodes are moved in one round


def dihedral_angles(points: gb.Array, cells: gb.Array) -> gb.Array:
    """The six angles between faces of every tetrahedron, degrees, (M, 6); flat: 0 and 180."""
    corner = points[cells]  # (M, 4, 3)
    angles = []
    for i, j in combinations(range(4), 2):
        k, l = (other for other in range(4) if other not in (i, j))
        edge = corner[:, j] - corner[:, i]
        left, right = (np.cross(edge, corner[:, other] - corner[:, i]) for other in (k, l))
        sine = np.linalg.norm(np.cross(left, right), axis=1)
        angles.append(np.arctan2(sine, np.sum(left * right, axis=1)))
    return np.degrees(np.stack(angles, axis=1))


def min_dihedral(mesh: gb.Mesh) -> float:
    """Smallest dihedral angle of a tetrahedral mesh, in degrees; for verification."""
    return float(dihedral_angles(mesh.points, cells_of(mesh)).min())


def lift_slivers(
    points: gb.Array, cells: gb.Array, *, fixed: int, target: float, rounds: int = 60
) -> gb.Array:
    """Move free nodes of the worst cells to where the smallest angle around them is largest.

    Free are the nodes from number `fixed` on. The cells stay; a move is made only if it betters the
    worst cell around its node, so no cell is ever turned over. It ends when the worst cell of all
    has not become better for `PATIENCE` rounds.
    """
    points = points.copy()
    stars = _stars(cells, len(points))
    smallest = []
    for _ in range(rounds):
        angles = dihedral_angles(points, cells).min(axis=1)
        smallest.append(angles.min())
        if len(smallest) > PATIENCE and smallest[-1] < smallest[-1 - PATIENCE] + 0.2:
            break
        bad = np.flatnonzero(angles < target)
        bad = bad[np.argsort(angles[bad], kind="stable")][:WORST_FIRST]
        nodes = [node for node in dict.fromkeys(cells[bad].ravel().tolist()) if node >= fixed]
        moved = False
        for node in nodes:
            better = _best_position(points, cells[stars[node]], node)
            if better is not None:
                points[node] = better
                moved = True
        if not moved:
            break
    return points


def _stars(cells: gb.Array, count: int) -> list[gb.Array]:
    """The cells around each node."""
    order = np.argsort(cells.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(cells.ravel(), minlength=count))
    return np.split(order // cells.shape[1], ends[:-1])


def _directions() -> gb.Array:
    """From the centre of a cube to its corners, edges and faces, unit length, (26, 3)."""
    steps = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    steps = steps[np.any(steps != 0.0, axis=1)]
    return steps / np.linalg.norm(steps, axis=1, keepdims=True)


def _best_position(points: gb.Array, star: gb.Array, node: int) -> gb.Array | None:
    """A position near a node that makes the smallest angle of its star larger, or None."""
    reach = np.cbrt(np.abs(cell_measures(points, star)).mean()) * np.array(STEPS)
    tries = points[node] + (reach[:, None, None] * _directions()).reshape(-1, 3)
    tries = np.concatenate([points[node][None], tries])  # (79, 3)
    corners = np.repeat(points[star][None], len(tries), axis=0)  # (79, m, 4, 3)
    corners[:, star == node] = tries[:, None]
    flat = corners.reshape(-1, 3)
    index = np.arange(len(flat)).reshape(-1, 4)
    angles = dihedral_angles(flat, index).min(axis=1)
    angles = np.where(cell_measures(flat, index) > 0, angles, -1.0)
    worst = angles.reshape(len(tries), -1).min(axis=1)
    winner = int(np.argmax(worst))
    return tries[winner] if worst[winner] > worst[0] + 0.02 else None
