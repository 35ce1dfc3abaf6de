"""Small meshes of known shape: box, notched square, sphere."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.spatial import ConvexHull

from gsnobench.data import Array, Mesh
from gsnobench.meshes.topology import triangulation


def grid_points(side: int, dim: int) -> Array:
    axis = np.linspace(0.0, 1.0, side)
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


def box(side: int, dim: int = 2, jitter: float = 0.0) -> Mesh:
    """The unit square or cube, each small box cut into dim! simplices; inner nodes may be moved."""
    points = grid_points(side, dim)
    strides = side ** np.arange(dim - 1, -1, -1)
    origins = np.array([i for i in np.ndindex(*[side - 1] * dim)]) @ strides
    paths = [
        np.cumsum([0, *(strides[axis] for axis in order)]) for order in permutations(range(dim))
    ]
    cells = np.concatenate([origins[:, None] + path for path in paths])
    rim = np.any((points == 0) | (points == 1), axis=1)
    moved = points + jitter / side * np.where(
        rim[:, None], 0, np.random.default_rng(0).uniform(-1, 1, points.shape)
    )
    return Mesh(moved, cells, {"wall": rim, "left": points[:, 0] == 0})


def notched(side: int = 13) -> Mesh:
    """The square without the wedge |y - 1/2| < 0.1 for x > 1/2: not convex."""
    mesh = box(side)
    cells = triangulation(mesh)
    centres = mesh.points[cells].mean(axis=1)
    cells = cells[~((centres[:, 0] > 0.5) & (np.abs(centres[:, 1] - 0.5) < 0.1))]
    used, inverse = np.unique(cells, return_inverse=True)
    return Mesh(mesh.points[used], inverse.reshape(cells.shape))


def sphere(count: int = 200) -> Mesh:
    """The convex hull of points of the unit sphere: a closed surface in space."""
    turns = np.arange(count) + 0.5
    height, angle = 1 - 2 * turns / count, np.pi * (1 + 5**0.5) * turns
    ring = np.sqrt(1 - height**2)
    points = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)
    return Mesh(points, ConvexHull(points).simplices.astype(np.int64))
