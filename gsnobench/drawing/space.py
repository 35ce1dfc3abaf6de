"""Bodies in space on paper: surfaces seen from a corner, and slices through the middle."""

from __future__ import annotations

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.surfaces import star_surface, triangle_areas
from gsnobench.meshes.topology import directed_facets

TURN, TILT = np.radians(-35.0), np.radians(22.0)  # of the onlooker about the vertical, and down
LIGHT = np.array([-0.45, -0.55, 0.7])  # where the light comes from
DARKEST = 0.62  # share of its colour that a face in the shade keeps
# Edges over the spacing of points: 90 and 99 % of those of a body are shorter. Measured: 2.3 and
# 3.4 on a car, 3.2 and 6.4 on random points of a sphere, 5.8 and 10.7 in a random volume.
LONG_EDGES = (4.5, 9.0)
ACROSS = 1  # slices are across this axis


def seen(points: Array) -> tuple[Array, Array]:
    """Positions on paper (n, 2) and depths away from the onlooker (n,), without perspective."""
    x, y, z = (points - 0.5 * (points.min(0) + points.max(0))).T
    across, away = np.cos(TURN) * x - np.sin(TURN) * y, np.sin(TURN) * x + np.cos(TURN) * y
    return (
        np.column_stack([across, np.cos(TILT) * z + np.sin(TILT) * away]),
        np.cos(TILT) * away - np.sin(TILT) * z,
    )


def towards_onlooker() -> Array:
    """Direction from the body to the eye, (3,)."""
    return -np.array([np.sin(TURN) * np.cos(TILT), np.cos(TURN) * np.cos(TILT), -np.sin(TILT)])


def visible_faces(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Outward triangles that face the onlooker, back to front, and how bright each is."""
    normals = triangle_areas(points, triangles)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    front = np.flatnonzero(normals @ towards_onlooker() > 0)
    depth = seen(points)[1][triangles[front]].mean(1)
    order = front[np.argsort(-depth)]
    lit = np.clip(normals[order] @ (LIGHT / np.linalg.norm(LIGHT)), 0.0, 1.0)
    return triangles[order], DARKEST + (1 - DARKEST) * lit


def surface_of_volume(mesh: Mesh) -> Array:
    """Boundary triangles of tetrahedra (F, 3), facing outward."""
    assert mesh.cells is not None
    faces = directed_facets(mesh.cells)
    middle = mesh.points[mesh.cells].mean(1)
    near = scipy.spatial.KDTree(middle).query(mesh.points[faces].mean(1))[1]
    outward = mesh.points[faces].mean(1) - middle[near]
    is_inward = (triangle_areas(mesh.points, faces) * outward).sum(1) < 0
    faces[is_inward] = faces[is_inward][:, ::-1]
    return faces


def surface_of_cloud(points: Array) -> Array | None:
    """Triangles of the body that the points lie on; None if they fill a volume instead."""
    if len(points) < 8:
        return None
    try:
        triangles = star_surface(points)
    except (DataError, scipy.spatial.QhullError):
        return None
    following = np.roll(triangles, 1, axis=1)
    spacing = scipy.spatial.KDTree(points).query(points, 2)[0][:, 1]
    lengths = np.linalg.norm(points[triangles] - points[following], axis=2)
    ratios = lengths / np.maximum(spacing[triangles], spacing[following])
    return triangles if (np.quantile(ratios, (0.9, 0.99)) < LONG_EDGES).all() else None


def tetrahedra_of(points: Array) -> Array:
    """Delaunay cells between the points of a cloud, (m, 4)."""
    return scipy.spatial.Delaunay(points).simplices.astype(np.int64)


def slice_of(points: Array, cells: Array, level: float) -> tuple[Array, Array, Array]:
    """Where the plane of a level cuts simplices: ends (n, 2), shares (n,), pieces (m, v - 1).

    A point of the slice lies on the edge between its two ends, at this share of the way to the
    second one. Tetrahedra give triangles, triangles give segments.
    """
    height = points[:, ACROSS] - level
    height = np.where(height == 0, 1e-12 * (np.ptp(height) or 1.0), height)  # no node in the plane
    above = height[cells] > 0
    edges: list[Array] = []
    pieces: list[Array] = []
    for ups in np.unique(above, axis=0):
        up, down = np.flatnonzero(ups), np.flatnonzero(~ups)
        if not len(up) or not len(down):
            continue
        cut = cells[(above == ups).all(1)]
        corners = [(cut[:, a], cut[:, b]) for a in up for b in down]
        first = sum(map(len, edges))
        number = first + np.arange(len(cut) * len(corners)).reshape(len(corners), len(cut))
        edges += [np.column_stack(pair) for pair in corners]
        faces = ((0, 1, 2), (1, 2, 3)) if len(corners) == 4 else (tuple(range(len(corners))),)
        pieces += [number[list(face)].T for face in faces]
    if not edges:
        width = cells.shape[1] - 1
        return np.zeros((0, 2), dtype=int), np.zeros(0), np.zeros((0, width), dtype=int)
    ends, position = np.unique(np.concatenate(edges), axis=0, return_inverse=True)
    shares = height[ends[:, 0]] / (height[ends[:, 0]] - height[ends[:, 1]])
    return ends, shares, position.reshape(-1)[np.concatenate(pieces)]


def ring_of(points: Array, triangles: Array, level: float) -> Array:
    """The curve in which a closed surface meets the plane of a level, in order, (n, 2)."""
    ends, shares, segments = slice_of(points, triangles, level)
    kept = [axis for axis in range(3) if axis != ACROSS]
    cut = (1 - shares)[:, None] * points[ends[:, 0]] + shares[:, None] * points[ends[:, 1]]
    corners = cut[segments][..., kept].reshape(-1, 2)  # segments in no order
    if not len(corners):
        return corners
    middle = 0.5 * (corners.min(0) + corners.max(0))
    angle = np.arctan2(*(corners - middle).T[::-1])  # a body that is seen from its middle
    return corners[np.argsort(angle)]
