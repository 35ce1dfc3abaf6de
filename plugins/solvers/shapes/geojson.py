"""Outlines from GeoJSON (RFC 7946): one polygon with holes, in the plane at a given size."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import gsnobench as gb


def read_outline(
    file: gb.InputFile, *, coordinates: Literal["degrees", "plane"], extent: float
) -> tuple[gb.Array, ...]:
    """The exterior ring and the holes, (n, 2) each, with the origin at their lower corner.

    They are scaled so that the longer side is `extent`. Degrees are longitude and latitude,
    projected on the tangent plane in the middle of the polygon.
    """
    document = file.read_json(expected="GeoJSON with one Polygon")
    path = str(file.path)
    rings = [_ring(path, ring) for ring in _polygon(path, document)]
    low, high = rings[0].min(axis=0), rings[0].max(axis=0)
    if not ((high - low > 0) & (np.abs(rings[0]).max() < 1e100)).all():
        raise gb.DataError(f"{path}: the outline encloses no area; expected a polygon")
    if coordinates == "degrees":
        if np.abs(rings[0]).max(axis=0)[0] > 360 or np.abs(rings[0])[:, 1].max() >= 90:
            raise gb.DataError(
                f"{path}: coordinates up to {high.tolist()} are no degrees; use "
                "data.coordinates=plane"
            )
        stretch = np.array([np.cos(np.radians(0.5 * (low[1] + high[1]))), 1.0])
    else:
        stretch = np.ones(2)
    scale = stretch * (extent / float(((high - low) * stretch).max()))
    return tuple((ring - low) * scale for ring in rings)


def _polygon(path: str, document: Any) -> list[Any]:
    """The rings of the only polygon in a geometry, a feature or a collection."""
    polygons = _polygons(document)
    if len(polygons) != 1:
        raise gb.DataError(
            f"{path}: holds {len(polygons)} polygons; expected one, its holes inside it; keep only "
            "the outline"
        )
    return polygons[0]


def _polygons(document: Any) -> list[list[Any]]:
    if not isinstance(document, dict):
        return []
    parts = [*_list(document, "features"), *_list(document, "geometries"), document.get("geometry")]
    polygons = [polygon for part in parts for polygon in _polygons(part)]
    if document.get("type") == "Polygon":
        polygons.append(_list(document, "coordinates"))
    if document.get("type") == "MultiPolygon":
        polygons.extend(_list(document, "coordinates"))
    return [polygon for polygon in polygons if isinstance(polygon, list) and polygon]


def _list(document: dict[str, Any], name: str) -> list[Any]:
    value = document.get(name)
    return value if isinstance(value, list) else []


def _ring(path: str, ring: Any) -> gb.Array:
    try:
        points = np.array([[float(position[0]), float(position[1])] for position in ring])
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        raise gb.DataError(
            f"{path}: a ring is not a list of coordinate pairs; expected [[x, y], ...]; export it "
            "again"
        ) from None
    if len(points) < 4 or not np.isfinite(points).all():
        raise gb.DataError(
            f"{path}: a ring has {len(points)} points; expected at least 4 finite ones, closed; "
            "export it again"
        )
    return points[:-1] if np.array_equal(points[0], points[-1]) else points
