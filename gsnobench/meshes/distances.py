"""Distance of the nodes of a mesh to a tagged part of its boundary."""

from __future__ import annotations

import numpy as np
import scipy  # scipy.spatial is loaded on first use: it takes a tenth of a second

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, did_you_mean
from gsnobench.meshes.simplices import FLAT, fullness, nearest
from gsnobench.meshes.topology import boundary_facets


def boundary_distance(mesh: Mesh, tag: str) -> Array:
    """Distance of every node to the tagged facets, or to the tagged nodes without cells, (N,)."""
    if tag not in mesh.tags or not np.any(mesh.tags[tag]):
        raise DataError(
            f"boundary_distance: no node has the tag {tag!r}; {did_you_mean(tag, mesh.tags)}"
        )
    tagged = np.asarray(mesh.tags[tag], dtype=bool)
    distance, _ = scipy.spatial.KDTree(mesh.points[tagged]).query(mesh.points)
    if mesh.cells is None:
        return distance
    facets = boundary_facets(mesh)
    facets = facets[tagged[facets].all(axis=1) & (fullness(mesh.points[facets]) > FLAT)]
    if facets.size:
        _, _, to_facet = nearest(mesh.points, mesh.points[facets])
        distance = np.minimum(distance, to_facet)
    return distance
