"""Errors against values worked out by hand."""

from __future__ import annotations

import numpy as np
import torch

from gsnobench.batch import Batch
from gsnobench.data import Array, Field, Mesh, Task
from gsnobench.training.metrics import (
    ScoredNodes,
    each_sample,
    frame_errors,
    relative_l2,
    sample_errors,
)

VECTOR = Task(
    id="t",
    dataset="t",
    fields=(
        Field("p", reference=5.0),
        Field("u", vector="velocity"),
        Field("v", vector="velocity"),
    ),
    dim=2,
    tags=("wall",),
)


def everywhere(nodes: int, fields: int) -> ScoredNodes:
    tags = torch.zeros(1, nodes, 1, dtype=torch.bool)
    tags[0, 0] = True
    return ScoredNodes(torch.ones(1, nodes, fields), torch.ones(1, nodes), tags)


def test_the_headline_counts_a_vector_group_as_one_field() -> None:
    target = torch.zeros(1, 1, 2, 3)
    target[..., 0], target[..., 1], target[..., 2] = 1.0, 3.0, 4.0
    prediction = target.clone()
    prediction[..., 0] += 0.5  # relative error 0.5
    prediction[..., 1] += 1.0  # relative error 1/5 of the vector
    score = relative_l2(prediction, target, torch.ones(1, 2, 3), VECTOR)
    torch.testing.assert_close(score, torch.tensor([(0.5 + 0.2) / 2]))


def test_the_reference_is_left_out_of_the_headline_and_kept_in_the_raw_score() -> None:
    task = Task(id="t", dataset="t", fields=(Field("h", reference=5.0),), dim=2)
    target, prediction = torch.full((1, 2, 4, 1), 1.0), torch.full((1, 2, 4, 1), 2.0)
    scored = ScoredNodes(
        torch.ones(1, 4, 1), torch.ones(1, 4), torch.zeros(1, 4, 0, dtype=torch.bool)
    )
    errors = sample_errors(prediction, target, scored, task)["h"]
    torch.testing.assert_close(errors["rel_l2"], torch.tensor([1.0]))
    torch.testing.assert_close(errors["rel_l2_raw"], torch.tensor([1 / 6]))
    torch.testing.assert_close(errors["rmse"], torch.tensor([1.0]))
    torch.testing.assert_close(errors["mae"], torch.tensor([1.0]))
    torch.testing.assert_close(errors["max"], torch.tensor([1.0]))


def test_nodes_outside_the_support_do_not_count() -> None:
    task = Task(id="t", dataset="t", fields=(Field("h"),), dim=2)
    support = torch.tensor([[[1.0], [0.0]]])
    target = torch.ones(1, 1, 2, 1)
    prediction = torch.tensor([[[[1.0], [100.0]]]])
    scored = ScoredNodes(support, torch.ones(1, 2), torch.zeros(1, 2, 0, dtype=torch.bool))
    errors = sample_errors(prediction, target, scored, task)["h"]
    assert all(float(value) < 1e-6 for value in errors.values())
    assert float(relative_l2(prediction, target, support, task)) < 1e-6


def test_the_area_weighted_error_weighs_by_area() -> None:
    task = Task(id="t", dataset="t", fields=(Field("h"),), dim=2)
    target, prediction = torch.ones(1, 1, 2, 1), torch.tensor([[[[2.0], [1.0]]]])
    scored = ScoredNodes(
        torch.ones(1, 2, 1), torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2, 0, dtype=torch.bool)
    )
    errors = sample_errors(prediction, target, scored, task)["h"]
    torch.testing.assert_close(errors["rel_l2_area"], torch.tensor([0.5]))
    torch.testing.assert_close(errors["rel_l2"], torch.tensor([0.5**0.5]))


def test_the_boundary_error_sees_the_tagged_nodes_alone() -> None:
    target, prediction = torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 3, 3)
    prediction[0, 0, 0, 0], prediction[0, 0, 1, 0] = 2.0, 50.0
    errors = sample_errors(prediction, target + 1, everywhere(3, 3), VECTOR)["p"]
    torch.testing.assert_close(errors["boundary_wall"], torch.tensor([1.0]))


def test_magnitudes_are_scored_beside_vectors() -> None:
    target = torch.zeros(1, 1, 2, 3)
    target[..., 1], target[..., 2] = 3.0, 4.0
    turned = target.clone()
    turned[..., 1], turned[..., 2] = 4.0, 3.0  # another direction, the same length
    errors = sample_errors(turned, target, everywhere(2, 3), VECTOR)
    assert float(errors["velocity"]["rel_l2"]) > 0.2
    assert float(errors["velocity_magnitude"]["rel_l2"]) < 1e-6


def test_each_frame_has_its_own_error() -> None:
    task = Task(id="t", dataset="t", fields=(Field("h"),), dim=2, t_out=2)
    target = torch.ones(1, 2, 4, 1)
    prediction = target.clone()
    prediction[:, 1] = 3.0
    scored = ScoredNodes(
        torch.ones(1, 4, 1), torch.ones(1, 4), torch.zeros(1, 4, 0, dtype=torch.bool)
    )
    torch.testing.assert_close(
        frame_errors(prediction, target, scored, task)["h"], torch.tensor([[0.0, 2.0]])
    )


def test_a_score_of_one_sample_sees_its_own_nodes_in_double_precision() -> None:
    meshes = tuple(Mesh(np.arange(2.0 * size).reshape(-1, 2)) for size in (3, 5))
    task = Task(id="v", dataset="v", fields=(Field("u"),), dim=2)
    empty = torch.zeros(2, 5, 0)
    batch = Batch(
        task=task,
        window=torch.zeros(2, 0, 5, 1),
        static=empty,
        scalars=torch.zeros(2, 0),
        points=empty,
        tags=empty.bool(),
        mask=torch.tensor([[True] * 3 + [False] * 2, [True] * 5]),
        geometry={},
        meshes=meshes,
    )

    def largest(p: Array, u: Array, mesh: Mesh, task: Task) -> float:
        assert p.dtype == u.dtype == np.float64
        assert p.shape == u.shape == (4, mesh.size, 1)
        return float(np.abs(p - u).max())

    target = torch.randn(2, 4, 5, 1)
    prediction = target + torch.arange(5)[:, None]  # node i is wrong by i
    scores = each_sample(largest)(prediction, target, batch)
    assert scores.dtype == torch.float64
    np.testing.assert_allclose(scores, [2.0, 4.0], rtol=1e-6)
