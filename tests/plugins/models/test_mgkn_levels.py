"""The hierarchy of MGKN: visibility, cover of the domain, links, and levels of another mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import problems
import pytest

import gsnobench as gb
from gsnobench_plugins.models.mgkn import levels as build
from gsnobench_plugins.models.mgkn import model as mgkn
from gsnobench_plugins.models.mgkn.model import Params


def one_mesh(mesh: gb.Mesh, **changes: Any) -> gb.Samples:
    task = gb.Task("t", "t", (gb.Field("u"),), dim=mesh.dim, static=(gb.Field("a"),), **changes)
    values = np.zeros((1, mesh.size, 1), np.float32)
    return gb.Samples(task, (mesh,), values[:, None], values, np.zeros((1, 0), np.float32))


def holed(side: int = 21, seed: int = 0) -> gb.Mesh:
    """The unit square with a thin notch from above and a square hole; one spacing wide and more."""
    axis = np.linspace(0, 1, side)
    points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    number = np.arange(side * side).reshape(side, side)
    a, b, c, d = (
        corners.ravel()
        for corners in (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:])
    )
    cells = np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)])
    cells = cells[~outside(points[cells].mean(axis=1))]
    kept = np.unique(cells)
    new = np.zeros(side * side, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return gb.Mesh(points[kept], new[cells])


def outside(x: np.ndarray) -> np.ndarray:
    """Where the notch and the hole of `holed` are, (P,), up to rounding on their rims."""
    notch = (np.abs(x[:, 0] - 0.525) < 0.025 - 1e-9) & (x[:, 1] > 0.3 + 1e-9)
    return notch | (np.abs(x - np.array([0.25, 0.5])) < 0.1 - 1e-9).all(axis=1)


@pytest.mark.parametrize("neighbours", [0, 20])
def test_no_edge_leaves_the_domain_and_every_node_has_a_parent(neighbours: int) -> None:
    mesh = holed()
    params = Params(neighbours=neighbours)
    train = one_mesh(mesh)
    parts = mgkn.geometry(mesh, train.task, params, mgkn.summary(train, params))
    levels = [np.arange(mesh.size), parts["level1"].value, parts["level2"].value]
    assert set(levels[2]) < set(levels[1])
    along = np.linspace(0, 1, 101)[:, None, None]
    for name, (a, b) in mgkn.kinds(3).items():
        start = mesh.points[levels[a][parts[f"{name}.edge_source"].value]]
        end = mesh.points[levels[b][parts[f"{name}.edge_target"].value]]
        assert not outside((start + along * (end - start)).reshape(-1, 2)).any(), name
        targets = np.unique(parts[f"{name}.edge_target"].value)
        assert np.array_equal(targets, np.arange(len(levels[b]))), name


def test_a_chord_of_a_hole_is_not_seen_though_it_crosses_nothing() -> None:
    mesh = holed()
    domain = build.Domain(mesh)

    def sees(*ends: tuple[float, float]) -> bool:
        a, b = (np.argmin(((mesh.points - end) ** 2).sum(1), keepdims=True) for end in ends)
        return bool(domain.sees(a, b)[0])

    assert not sees((0.15, 0.5), (0.35, 0.5))  # from side to side
    assert not sees((0.15, 0.4), (0.35, 0.6))  # from corner to corner
    assert sees((0.15, 0.4), (0.15, 0.6))  # along a side
    assert sees((0.0, 0.0), (1.0, 0.0))
    assert not sees((0.5, 0.9), (0.55, 0.9))  # over the notch
    assert sees((0.4, 0.2), (0.7, 0.2))  # below it


def test_segments_meet_triangles_in_space() -> None:
    facet = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]])
    start = np.array([[0.2, 0.2, -1], [0.8, 0.8, -1], [0.2, 0.2, 0], [0.2, 0.2, 0.1]])
    end = np.array([[0.2, 0.3, 1], [0.8, 0.8, 1], [0.2, 0.2, 1], [0.2, 0.2, 1]])
    assert build.crosses(start, end, facet).tolist() == [True, False, False, False]


def test_farthest_points_cover_both_banks_of_the_notch() -> None:
    mesh = holed()
    domain = build.Domain(mesh)
    chosen = build.farthest(domain, 40)
    assert len(set(chosen.tolist())) == 40
    paths = build.dijkstra(domain.paths, indices=chosen)  # (40, N)
    apart = paths[:, chosen][~np.eye(40, dtype=bool)].min()
    # what makes farthest points: they cover as closely as they are apart
    assert paths.min(axis=0).max() <= apart + 1e-12


def test_weights_of_a_node_sum_to_one() -> None:
    mesh = holed()
    train = one_mesh(mesh)
    for knobs in ({"gamma": 0.0}, {"gamma": 1.0}, {"weights": "area"}):
        params = Params.make(knobs)
        parts = mgkn.geometry(mesh, train.task, params, mgkn.summary(train, params))
        for name in mgkn.kinds(3):
            share = parts[f"{name}.share"].value
            np.testing.assert_allclose(share.sum(axis=1), 1)
            if knobs == {"gamma": 0.0}:
                # the plain mean
                np.testing.assert_allclose(share.max(axis=1) * (share > 0).sum(axis=1), 1)


def test_another_mesh_has_the_same_coarse_positions_and_links_of_the_same_length() -> None:
    coarse, fine = problems.square(11), problems.square(21, seed=3)
    train = one_mesh(coarse)
    carried = mgkn.summary(train, Params())
    first, second = (mgkn.geometry(mesh, train.task, Params(), carried) for mesh in (coarse, fine))
    gap = coarse.points[first["level1"].value] - fine.points[second["level1"].value]
    assert np.linalg.norm(gap, axis=1).max() < 0.06  # half a diagonal of the finer mesh
    reach = []
    for mesh, parts in ((coarse, first), (fine, second)):
        source, target = parts["mid0.edge_source"].value, parts["mid0.edge_target"].value
        length = np.linalg.norm(mesh.points[source] - mesh.points[target], axis=1)
        farthest = np.zeros(mesh.size)
        np.maximum.at(farthest, target, length)
        reach.append(np.median(farthest))
    assert 0.8 < reach[1] / reach[0] < 1.25


def test_nodes_of_a_cloud_are_linked_to_their_nearest() -> None:
    points = np.random.default_rng(0).uniform(size=(200, 3))
    train = one_mesh(gb.Mesh(points), fixed_mesh=False, corresponds=False)
    parts = mgkn.geometry(train.mesh(0), train.task, Params(), mgkn.summary(train, Params()))
    expected = np.argsort(((points[:, None] - points) ** 2).sum(-1), axis=1)[:, : build.CLOUD + 1]
    assert np.array_equal(np.sort(parts["mid0.source"].value, axis=1), np.sort(expected, axis=1))
    assert len(parts["level1"].value) == 25 and len(parts["level2"].value) == 3


def test_gradients_of_linear_fields_are_exact_and_constants_stay() -> None:
    domain = build.Domain(holed())
    field = domain.points @ np.array([2.0, -3.0]) + 1
    result = np.stack([matrix @ field for matrix in build.slopes(domain)])
    np.testing.assert_allclose(result, np.array([[2.0], [-3.0]]) * np.ones(domain.size), atol=1e-9)
    np.testing.assert_allclose(build.smoothing(domain) @ np.ones(domain.size), 1)


def test_weight_of_an_edge_is_a_gaussian_of_its_length_over_the_farthest() -> None:
    """Target by target, with gamma 2; the weights of a target sum to one."""
    mesh, params = holed(), Params(gamma=2.0)
    train = one_mesh(mesh)
    parts = mgkn.geometry(mesh, train.task, params, mgkn.summary(train, params))
    source, share = parts["mid0.source"].value, parts["mid0.share"].value
    for node, (others, weights) in enumerate(zip(source, share, strict=True)):
        is_link = weights > 0
        length = np.linalg.norm(mesh.points[others[is_link]] - mesh.points[node], axis=1)
        expected = np.exp(-2 * (length / length.max()) ** 2)
        np.testing.assert_allclose(weights[is_link], expected / expected.sum(), atol=1e-13)
