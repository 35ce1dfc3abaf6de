"""Distances to a tagged boundary against exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box

from gsnobench.data import Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.distances import boundary_distance


@pytest.mark.parametrize(("dim", "side"), [(2, 9), (3, 5)])
def test_distance_is_to_the_sides_and_not_to_their_nodes(dim: int, side: int) -> None:
    mesh = box(side, dim, jitter=0.4)
    exact = np.minimum(mesh.points, 1 - mesh.points).min(axis=1)
    assert np.allclose(boundary_distance(mesh, "wall"), exact, atol=1e-13)
    assert np.allclose(boundary_distance(mesh, "left"), mesh.points[:, 0], atol=1e-13)
    cloud = Mesh(mesh.points, None, mesh.tags)
    to_nodes = np.linalg.norm(mesh.points[:, None] - mesh.points[mesh.tags["wall"]], axis=2).min(
        axis=1
    )
    assert np.allclose(boundary_distance(cloud, "wall"), to_nodes)


def test_distance_to_a_tag_nobody_has_is_refused() -> None:
    with pytest.raises(DataError, match="no node has the tag 'wal'; did you mean 'wall'"):
        boundary_distance(box(3), "wal")
