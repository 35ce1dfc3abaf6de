"""Batches: padding is masked, and a batch holds the same as its single samples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from problems import square, steady, unsteady
from random_geometry import random_geometry

from gsnobench.data import Field, Samples, Task
from gsnobench.declare import Geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams


def varying() -> Samples:
    meshes = (square(5), square(6), square(4))
    nodes = max(mesh.size for mesh in meshes)
    draw = np.random.default_rng(0)
    frames, static = draw.normal(size=(3, 1, nodes, 1)), draw.normal(size=(3, nodes, 1))
    for index, mesh in enumerate(meshes):
        # padding must not be seen
        frames[index, :, mesh.size :], static[index, mesh.size :] = 1e9, 1e9
    field, source = Field("u", boundary={"boundary": "dirichlet"}), Field("f")
    task = Task(
        id="v",
        dataset="v",
        fields=(field,),
        static=(source,),
        dim=2,
        tags=("boundary",),
        fixed_mesh=False,
        corresponds=False,
    )
    return Samples(task, meshes, frames, static, np.zeros((3, 0)))


def loader_of(samples: Samples, geometries: list[Geometry]) -> Loader:
    normaliser = fit_normaliser(samples, TrainParams())
    return Loader(
        samples,
        task=samples.task,
        normaliser=normaliser,
        geometries=geometries,
        device="cpu",
        impose_boundary=True,
    )


def test_padding_is_masked_and_left_out_of_the_statistics() -> None:
    samples = varying()
    loader = loader_of(samples, [])
    batch, _ = loader.batch(torch.arange(3), torch.zeros(3, dtype=torch.long), 1)
    assert batch.mask is not None
    assert batch.mask.sum(1).tolist() == [25, 36, 16]
    assert float(loader.normaliser.static.scale) < 10
    assert loader.scored_nodes(torch.tensor([2])).support.sum() == 16


def test_a_sparse_part_acts_on_each_sample_of_a_batch_by_itself() -> None:
    samples = varying()
    geometries = [
        {"smooth": random_geometry(mesh.size, 3, seed=index)["smooth"]}
        for index, mesh in enumerate(samples.meshes)
    ]
    loader = loader_of(samples, geometries)
    batch, _ = loader.batch(torch.arange(3), torch.zeros(3, dtype=torch.long), 1)
    x = torch.randn(3, 36, 2, requires_grad=True)
    y = batch.apply("smooth", x)
    for index, mesh in enumerate(samples.meshes):
        expected = geometries[index]["smooth"].value @ x[index, : mesh.size].detach().numpy()
        np.testing.assert_allclose(y[index, : mesh.size].detach(), expected, rtol=1e-4, atol=1e-5)
    y.square().sum().backward()
    matrix = torch.from_numpy(geometries[0]["smooth"].value.toarray()).float()
    torch.testing.assert_close(
        x.grad[0, :25], 2 * matrix.T @ (matrix @ x[0, :25].detach()), rtol=1e-4, atol=1e-4
    )


def test_a_target_is_the_frames_after_the_window_without_the_reference() -> None:
    samples = unsteady()["train"]
    loader = loader_of(samples, [])
    indices, starts = torch.tensor([4, 2]), torch.tensor([0, 3])
    batch, target = loader.batch(indices, starts, 4)
    frames = np.asarray(samples.frames) - 5.0
    expected = np.stack([frames[4, 2:6], frames[2, 5:9]])
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-5)
    window = loader.normaliser.window.decode(batch.window)
    np.testing.assert_allclose(window[1], frames[2, 3:5], rtol=1e-5, atol=1e-5)


def test_data_that_do_not_fit_are_read_per_batch_and_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = unsteady()["train"]
    resident = loader_of(samples, [])
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1))
    streamed = loader_of(samples, [])
    assert isinstance(resident.frames, torch.Tensor)
    assert not isinstance(streamed.frames, torch.Tensor)
    indices, starts = torch.tensor([4, 2]), torch.tensor([0, 3])
    batch, target = resident.batch(indices, starts, 4)
    again, again_target = streamed.batch(indices, starts, 4)
    assert torch.equal(batch.window, again.window) and torch.equal(target, again_target)


def test_features_are_points_window_static_scalars() -> None:
    samples = steady()["train"]
    loader = loader_of(samples, [])
    batch, target = loader.batch(torch.tensor([4, 2]), torch.zeros(2, dtype=torch.long), 1)
    assert batch.features.shape == (2, samples.meshes[0].size, samples.task.in_channels)
    torch.testing.assert_close(batch.features[..., :2], batch.points.expand(2, -1, -1))
    torch.testing.assert_close(batch.features[..., 2:], batch.static)
    np.testing.assert_allclose(target, np.asarray(samples.frames)[[4, 2]])


def test_a_model_gets_no_mesh() -> None:
    loader = loader_of(varying(), [])
    batch, _ = loader.batch(torch.arange(3), torch.zeros(3, dtype=torch.long), 1)
    assert batch.meshes == ()
