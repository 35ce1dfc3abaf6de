"""What a model sees: features, frames, and sparse operators with their gradients."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import scipy.sparse
import torch
from problems import square, steady

import gsnobench as gb
from gsnobench.training.geometry import stack_geometry

TASK = gb.Task(
    "t@2-3",
    "t",
    (gb.Field("u"), gb.Field("v")),
    dim=2,
    static=(gb.Field("f"),),
    scalars=(gb.Field("a"),),
    t_in=2,
    t_out=3,
)
B, N = 3, 9


def batch(operator: scipy.sparse.csr_array | None = None, copies: int = 1) -> gb.Batch:
    draw = torch.Generator().manual_seed(0)
    parts = {} if operator is None else {"operator": gb.Part(operator, ("node", "node"))}
    geometry = stack_geometry([parts] * copies, N, "cpu").pick(torch.arange(B)) if parts else {}
    return gb.Batch(
        task=TASK,
        window=torch.randn(B, 2, N, 2, generator=draw),
        static=torch.randn(B, N, 1, generator=draw),
        scalars=torch.randn(B, 1, generator=draw),
        points=torch.from_numpy(square(3).points)[None].float(),
        tags=torch.zeros(1, N, 0, dtype=torch.bool),
        mask=None,
        geometry=geometry,
    )


def test_features_are_points_window_static_scalars() -> None:
    inputs = batch()
    features = inputs.features
    assert features.shape == (B, N, TASK.in_channels)
    torch.testing.assert_close(features[..., :2], inputs.points.expand(B, -1, -1))
    first_frame, second_frame = features[..., 2:4], features[..., 4:6]
    torch.testing.assert_close(first_frame, inputs.window[:, 0])
    torch.testing.assert_close(second_frame, inputs.window[:, 1])
    torch.testing.assert_close(features[..., 6:7], inputs.static)
    torch.testing.assert_close(features[:, 4, 7], inputs.scalars[:, 0])


def test_a_flat_prediction_becomes_frames() -> None:
    y = torch.arange(B * N * 6.0).reshape(B, N, 6)
    frames = batch().frames(y)
    assert frames.shape == (B, 3, N, 2)
    torch.testing.assert_close(frames[1, 2, 4], y[1, 4, 4:6])


def test_flat_nodes_are_numbered_sample_by_sample() -> None:
    x = torch.arange(B * N * 2.0).reshape(B, N, 2)
    torch.testing.assert_close(batch().flat(x)[2 * N + 4], x[2, 4])


def test_an_operator_acts_on_every_sample_and_its_gradient_is_the_transpose() -> None:
    draw = np.random.default_rng(0)
    operator = scipy.sparse.random_array((N, N), density=0.4, rng=draw, format="csr")
    dense = torch.from_numpy(operator.toarray()).float()
    for copies in (1, B):  # one shared mesh; one mesh per sample
        inputs = batch(operator, copies)
        x = torch.randn(B, N, 2, requires_grad=True)
        y = inputs.apply("operator", x)
        torch.testing.assert_close(y, dense @ x)
        y.square().sum().backward()
        torch.testing.assert_close(x.grad, 2 * dense.T @ (dense @ x.detach()))


def test_an_operator_keeps_shapes_on_the_meta_device() -> None:
    inputs = batch(scipy.sparse.csr_array(scipy.sparse.eye_array(N)))
    y = inputs.apply("operator", torch.zeros(B, N, 2, device="meta"))
    assert y.shape == (B, N, 2) and y.is_meta


def test_a_steady_batch_has_no_window() -> None:
    task = steady()["train"].task
    assert task.in_channels == task.dim + len(task.static)


def test_gather_reads_the_named_nodes_of_shared_and_of_own_geometries() -> None:
    """Against a loop over samples; padding of an index is the first node of the same sample."""
    draw = np.random.default_rng(0)
    sizes = (9, 5, 7)  # nodes of the three meshes, padded to N
    own = [draw.integers(0, size, (size, 1 + position)) for position, size in enumerate(sizes)]
    shared = own[:1]
    x = torch.randn(B, N, 4, generator=torch.Generator().manual_seed(1))
    for indices in (shared, own):
        parts = [{"near": gb.Part(index, ("node", "k"), index="node")} for index in indices]
        picked = stack_geometry(parts, N, "cpu").pick(torch.arange(B))
        inputs = replace(batch(), geometry=picked)
        found = inputs.gather("near", x)
        widest = max(index.shape[1] for index in indices)
        assert found.shape == (B, N, widest, 4)
        for sample in range(B):
            index = indices[sample % len(indices)]
            padded = np.zeros((N, widest), dtype=int)
            padded[: index.shape[0], : index.shape[1]] = index
            torch.testing.assert_close(found[sample], x[sample][torch.from_numpy(padded)])


def test_gather_of_one_sample_of_its_own_geometry() -> None:
    parts = [{"near": gb.Part(np.array([[2], [0]]), ("node", "k"), index="node")}] * 2
    picked = stack_geometry(parts, N, "cpu").pick(torch.tensor([1]))
    x = torch.arange(N * 1.0).reshape(1, N, 1)
    found = replace(batch(), geometry=picked).gather("near", x)
    assert found[0, :3, 0, 0].tolist() == [2, 0, 0]


def test_help_states_the_shape_of_every_field() -> None:
    fields = [field.name for field in dataclasses.fields(gb.Batch)]
    lines = [line.split()[0] for line in (gb.Batch.__doc__ or "").splitlines() if line.strip()]
    assert not [name for name in fields if name not in lines]
