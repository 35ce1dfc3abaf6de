"""Geometry of many simplices at once: volumes, hat-function gradients, the nearest simplex.

Simplices are arrays of corners (M, v, d).
"""

from __future__ import annotations

import math

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second

from gsnobench.data import Array

FLAT = 1e-12  # fullness below which a simplex has no volume
INSIDE = 1e-9  # barycentric slack of a point on a facet
CHUNK = 4096  # points that search for their simplex together: bounds the memory


def volumes(corners: Array) -> Array:
    """Length, area or volume, (M,)."""
    spans = _spans(corners)
    if spans.shape[1] == spans.shape[2]:
        return np.abs(_determinant(spans)) / math.factorial(spans.shape[1])
    squared = np.linalg.det(spans @ spans.transpose(0, 2, 1))
    return np.sqrt(np.maximum(squared, 0.0)) / math.factorial(spans.shape[1])


def cell_measures(points: Array, cells: Array) -> Array:
    """Signed area of triangles or volume of tetrahedra, (M,).

    Beside `volumes`, whose closed formula for triangles has other roundings than LAPACK's.
    """
    sides = points[cells[:, 1:]] - points[cells[:, :1]]  # (M, d, d)
    return np.asarray(np.linalg.det(sides) / (2.0 if cells.shape[1] == 3 else 6.0))


def fullness(corners: Array) -> Array:
    """Volume over that of a cube on the longest side at the first corner, (M,): 0 if flat."""
    longest = np.max(np.sum(_spans(corners) ** 2, axis=2), axis=1) ** ((corners.shape[1] - 1) / 2)
    return volumes(corners) / np.where(longest > 0, longest, 1.0)


def hat_gradients(corners: Array) -> Array:
    """Gradients of the barycentric coordinates, (M, v, d); tangential on a surface."""
    dual = _dual(_spans(corners))
    return np.concatenate([-dual.sum(axis=1, keepdims=True), dual], axis=1)


def nearest(points: Array, corners: Array) -> tuple[Array, Array, Array]:
    """The nearest of M simplices to each of P points: index, weights (P, v), distance.

    The weights are the barycentric ones of the nearest place in that simplex. Exact: a k-d tree of
    the centres only bounds the search.
    """
    chunks = [points[i : i + CHUNK] for i in range(0, len(points), CHUNK)]
    parts = [_nearest_of_chunk(chunk, corners) for chunk in chunks]
    index, weights, distance = (np.concatenate(column) for column in zip(*parts, strict=True))
    return index, weights, distance


def _nearest_of_chunk(points: Array, corners: Array) -> tuple[Array, Array, Array]:
    centres = corners.mean(axis=1)
    index, weights = _containing(points, corners, centres)
    distance = np.zeros(len(points))
    outside = np.flatnonzero(index < 0)
    if outside.size:
        which, candidates = _candidates(points[outside], corners, centres)
        foot, apart = _project(points[outside][which], corners[candidates])
        order = np.lexsort((apart, which))
        best = order[np.append(True, np.diff(which[order]) > 0)]  # the first of each point
        index[outside], weights[outside] = candidates[best], foot[best]
        distance[outside] = apart[best]
    return index, weights, distance


def _containing(points: Array, corners: Array, centres: Array) -> tuple[Array, Array]:
    """A simplex around each point among the few with the nearest centres; index -1 if none is."""
    vertices, dim = corners.shape[1:]
    index, weights = np.full(len(points), -1), np.zeros((len(points), vertices))
    if vertices <= dim:  # a surface or a line contains no point of space for certain
        return index, weights
    tried = min(4 * dim, len(corners))
    _, near = scipy.spatial.KDTree(centres).query(points, np.arange(1, tried + 1))  # (P, tried)
    around = _barycentric(np.repeat(points, tried, axis=0), corners[near.ravel()])
    around = around.reshape(-1, tried, vertices)
    least = around.min(axis=2)
    rows, best = np.arange(len(points)), np.argmax(least, axis=1)
    inside = least[rows, best] >= -INSIDE
    index[inside] = near[rows, best][inside]
    weights[inside] = _clipped(around[rows, best][inside])
    return index, weights


def _candidates(points: Array, corners: Array, centres: Array) -> tuple[Array, Array]:
    """Pairs (point, simplex) that hold every point's nearest simplex.

    A simplex is kept if it may be as near as the nearest corner of all. Simplices are searched by
    size class, so that a few large ones do not widen the search among the small.
    """
    bound, _ = scipy.spatial.KDTree(corners.reshape(-1, corners.shape[2])).query(points)
    bound = bound * (1 + INSIDE)
    squared = np.max(np.sum((corners - centres[:, None]) ** 2, axis=2), axis=1)
    radii = np.sqrt(squared) * (1 + INSIDE)
    classes = np.floor(np.log2(radii / radii.min()))
    which, candidates = [], []
    for size in np.unique(classes):
        members = np.flatnonzero(classes == size)
        tree = scipy.spatial.KDTree(centres[members])
        balls = tree.query_ball_point(points, bound + radii[members].max())
        which.append(np.repeat(np.arange(len(points)), [len(ball) for ball in balls]))
        near = np.concatenate([np.asarray(ball, dtype=np.int64) for ball in balls])
        candidates.append(members[near])
    point, simplex = np.concatenate(which), np.concatenate(candidates)
    away = np.linalg.norm(points[point] - centres[simplex], axis=1)
    reachable = away <= bound[point] + radii[simplex]
    return point[reachable], simplex[reachable]


def _project(points: Array, corners: Array) -> tuple[Array, Array]:
    """The place of simplex q nearest to point q: barycentric weights (Q, v) and distance (Q,)."""
    vertices = corners.shape[1]
    if vertices == 1:
        return np.ones((len(points), 1)), np.linalg.norm(points - corners[:, 0], axis=1)
    weights = _barycentric(points, corners)
    beside = np.flatnonzero(weights.min(axis=1) < 0)  # the nearest place is on a facet
    weights = _clipped(weights)
    distance = np.linalg.norm(points - np.einsum("qv,qvd->qd", weights, corners), axis=1)
    if vertices == 2:  # clipping is projecting
        return weights, distance
    distance[beside] = np.inf
    for skipped in range(vertices):
        side = np.delete(np.arange(vertices), skipped)
        foot, apart = _project(points[beside], corners[beside][:, side])
        nearer = apart < distance[beside]
        chosen = beside[nearer]
        distance[chosen] = apart[nearer]
        weights[chosen] = 0.0
        weights[np.ix_(chosen, side)] = foot[nearer]
    return weights, distance


def _barycentric(points: Array, corners: Array) -> Array:
    """Of the orthogonal projection of point q on the plane of simplex q, (Q, v)."""
    coordinates = np.einsum("qvd,qd->qv", _dual(_spans(corners)), points - corners[:, 0])
    return np.concatenate([1.0 - coordinates.sum(axis=1, keepdims=True), coordinates], axis=1)


def _clipped(weights: Array) -> Array:
    positive = np.maximum(weights, 0.0)
    return positive / positive.sum(axis=1, keepdims=True)


def _spans(corners: Array) -> Array:
    return corners[:, 1:] - corners[:, :1]  # (M, v-1, d)


def _determinant(spans: Array) -> Array:
    if spans.shape[1:] == (2, 2):  # ten times faster than the general routine
        return spans[:, 0, 0] * spans[:, 1, 1] - spans[:, 0, 1] * spans[:, 1, 0]
    return np.linalg.det(spans)


def _dual(spans: Array) -> Array:
    """Vectors with dual_i . span_j = delta_ij inside the plane of the spans, (M, v-1, d)."""
    if spans.shape[1] == 1:
        return spans / np.sum(spans**2, axis=2, keepdims=True)
    if spans.shape[1:] == (2, 2):
        signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
        turned = spans[:, ::-1, ::-1] * signs  # (s1y, -s1x), (-s0y, s0x)
        return turned / _determinant(spans)[:, None, None]
    if spans.shape[1] == spans.shape[2]:
        return np.linalg.inv(spans).transpose(0, 2, 1)
    return np.linalg.solve(spans @ spans.transpose(0, 2, 1), spans)
