"""Outlines from GeoJSON (RFC 7946): one polygon with holes, in the plane at a given size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

import gsnobench as gb


def read_outline(
    path: str | Path, *, coordinates: Literal["degrees", "plane"], extent: float
) -> tuple[gb.Array, ...]:
    """The exterior ring and the holes, (n, 2) each, with the origin at their lower corner.

    They are scaled so that the longer side is `extent`. Degrees are longitude and latitude,
    projected on the tangent plane in the middle of the polygon.
    """
    try:
        document = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise gb.DataError(
            f"{path}: cannot be read ({error.strerror}); expected a GeoJSON file; check "
            "data.geojson"
        ) from error
    except ValueError as error:
        raise gb.DataError(
            f"{path}: is not JSON ({error}); expected GeoJSON with one Polygon; export it again"
        ) from error
    rings = [_ring(path, ring) for ring in _polygon(path, document)]
    low, high = rings[0].min(axis=0), rings[0].max(axis=0)
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


def _polygon(path: str | Path, document: Any) -> list[Any]:
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
    features, geometries = document.get("features") or [], document.get("geometries") or []
    parts = [*features, *geometries, document.get("geometry")]
    polygons = [polygon for part in parts for polygon in _polygons(part)]
    if document.get("type") == "Polygon":
        polygons.append(document.get("coordinates") or [])
    if document.get("type") == "MultiPolygon":
        polygons.extend(document.get("coordinates") or [])
    return [polygon for polygon in polygons if polygon]


def _ring(path: str | Path, ring: Any) -> gb.Array:
    try:
        points = np.array([[float(position[0]), float(position[1])] for position in ring])
    except (TypeError, ValueError, IndexError, KeyError):
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
