"""Tetrahedral meshes of the square pyramid with an exact node count and no slivers.

The boundary is even, the interior a body-centred lattice.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import Delaunay, cKDTree

import gsnobench as gb
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import directed_facets
from gsnobench_plugins.solvers.meshing.tetrahedra import dihedral_angles, lift_slivers

DIVISIONS = 1.04  # of an edge of the base, times the cube root of the node count
OUTWARD = np.array(
    [[0.0, 0.0, -1.0], [2.0, 0.0, 1.0], [-2.0, 0.0, 1.0], [0.0, 2.0, 1.0], [0.0, -2.0, 1.0]]
)
OUTWARD = OUTWARD / np.linalg.norm(OUTWARD, axis=1, keepdims=True)
# OUTWARD . x on each face: the base, then the four sides
REACH = np.array([0.0, 2.0, 0.0, 2.0, 0.0]) / np.sqrt([1.0, 5.0, 5.0, 5.0, 5.0])
ON_FACE = 1e-9


def mesh_pyramid(nodes: int, *, angle: float = 15.0, seed: int = 0, attempts: int = 8) -> gb.Mesh:
    """A mesh of exactly `nodes` nodes whose dihedral angles are at least `angle` degrees.

    Boundary nodes come first. The base is the unit square at z = 0, the apex (1/2, 1/2, 1). The
    same arguments give the same mesh.
    """
    divisions = max(2, round(DIVISIONS * np.cbrt(nodes)))
    rim = boundary_nodes(divisions)
    if len(rim) >= nodes:
        raise gb.DataError(
            f"mesh: the boundary needs {len(rim)} of {nodes} nodes; expected some inside; request "
            "more nodes"
        )
    best = 0.0
    for attempt in range(attempts):
        inside = _interior(rim, divisions, nodes - len(rim), np.random.default_rng([seed, attempt]))
        points, cells = _settle(np.concatenate([rim, inside]), len(rim), angle)
        smallest = float(dihedral_angles(points, cells).min())
        best = max(best, smallest)
        if smallest >= angle and is_conforming(points, cells, len(rim)):
            return gb.Mesh(points, cells, {"boundary": np.arange(nodes) < len(rim)})
    raise gb.DataError(
        f"mesh: no conforming pyramid of {nodes} nodes with dihedral angles of {angle:g} degrees "
        f"was found (best {best:.1f}); request more nodes or lower `angle`"
    )


def depths(points: gb.Array) -> gb.Array:
    """Distance of points to the base and to the four sides, (m, 5), positive inside."""
    return np.asarray(REACH - points @ OUTWARD.T)


def boundary_nodes(divisions: int) -> gb.Array:
    """Nodes on the faces, (3 divisions^2 + 2, 3).

    They are squares on the base and layers of shrinking squares up to the apex.
    """
    layers = []
    for layer in range(divisions + 1):
        left = divisions - layer
        i, j = np.indices((left + 1, left + 1)).reshape(2, -1)
        kept = (np.minimum(i, j) == 0) | (np.maximum(i, j) == left) | (layer == 0)
        low = 0.5 * layer
        layers.append(np.stack([low + i[kept], low + j[kept], np.full(kept.sum(), layer)], axis=1))
    return np.concatenate(layers) / divisions


def is_conforming(points: gb.Array, cells: gb.Array, fixed: int) -> bool:
    """Whether all cells are positive and fill the pyramid, and every node is used.

    The outer facets must lie on its faces.
    """
    volumes = cell_measures(points, cells)
    facets = directed_facets(cells)
    near = np.asarray(depths(points[facets].reshape(-1, 3)) < ON_FACE).reshape(len(facets), 3, 5)
    on_face = np.any(np.all(near, axis=1), axis=1)
    return bool(
        volumes.min() > 0.0
        and abs(volumes.sum() - 1.0 / 3.0) < 1e-12
        and on_face.all()
        and len(np.unique(cells)) == len(points)
        and len(np.unique(facets)) == fixed
    )


def _interior(rim: gb.Array, divisions: int, count: int, rng: np.random.Generator) -> gb.Array:
    """A body-centred cubic lattice inside of exactly `count` nodes, a little shaken, (count, 3)."""
    edge = 1.0 / divisions
    # the four boundary nodes under the apex lie on a circle: a node between them avoids a flat cell
    below_apex = np.array([[0.5, 0.5, 1.0 - edge]])
    wall = cKDTree(np.concatenate([rim, below_apex]))
    shift = rng.uniform(0.0, 1.0, 3)

    def lattice(step: float) -> gb.Array:
        along = np.arange(-1, int(1.0 / step) + 2) * step
        cubes = np.stack(np.meshgrid(along, along, along, indexing="ij"), axis=-1).reshape(-1, 3)
        points = np.concatenate([cubes, cubes + 0.5 * step]) + shift * step
        points = points[depths(points).min(axis=1) > 0.45 * edge]
        return points[wall.query(points)[0] > 0.6 * edge]

    low, high = 0.3 * edge, 4.0 * edge
    for _ in range(40):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if len(lattice(middle)) >= count - 1 else (low, middle)
    points = np.concatenate([below_apex, lattice(low)])
    while len(points) > count:
        crowd = cKDTree(np.concatenate([rim, points])).query(points[1:], k=2)[0][:, 1]
        points = np.delete(points, 1 + int(np.argmin(crowd)), axis=0)
    return np.asarray(points + rng.normal(0.0, 0.01 * edge, points.shape))


def _settle(points: gb.Array, fixed: int, angle: float) -> tuple[gb.Array, gb.Array]:
    """Alternate Delaunay cells and moves of the nodes of slivers.

    The last moves aim at a little more than `angle`.
    """
    for _ in range(6):
        cells = _inner_cells(points, fixed)
        if dihedral_angles(points, cells).min() >= angle + 0.5:
            break
        points = lift_slivers(points, cells, fixed=fixed, target=angle + 1.0, rounds=8)
    return lift_slivers(points, cells, fixed=fixed, target=angle + 3.0), cells


def _inner_cells(points: gb.Array, fixed: int) -> gb.Array:
    """Delaunay cells without the flat ones on the faces, positively oriented, (M, 4)."""
    cells = Delaunay(points).simplices.astype(np.int64)
    turned = cell_measures(points, cells) < 0.0
    cells[turned] = cells[turned][:, [1, 0, 2, 3]]
    on_face = np.zeros((len(points), 5), dtype=bool)
    on_face[:fixed] = depths(points[:fixed]) < ON_FACE
    return cells[~on_face[cells].all(axis=1).any(axis=1)]
