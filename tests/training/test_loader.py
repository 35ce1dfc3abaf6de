"""Batches: ragged meshes are padded, stacked and shifted by their declared axes, and say the same
as single samples.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from problems import square, steady

from gsnobench.data import Field, Mesh, Samples, Task
from gsnobench.declare import Geometry, Part, Preset
from gsnobench.training.geometry import stack_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser


def parts(nodes: int, edges: int, seed: int) -> Geometry:
    draw = np.random.default_rng(seed)
    matrix = scipy.sparse.random_array((nodes, nodes), density=0.3, rng=draw, format="csr")
    return {
        "modes": Part(draw.normal(size=(nodes, 3)), ("node", "mode")),
        "neighbours": Part(draw.integers(0, nodes, size=(edges, 2)), ("edge", "end"), index="node"),
        "smooth": Part(matrix @ matrix, ("node", "node")),  # a product: its columns come unsorted
    }


def test_axes_decide_how_parts_are_padded_shifted_and_joined() -> None:
    held = [parts(5, 7, 0), parts(8, 4, 1), parts(6, 9, 2)]
    picked = stack_geometry(held, 8, "cpu").pick(torch.tensor([2, 0]))
    assert picked["modes"].shape == (2, 8, 3)
    np.testing.assert_allclose(picked["modes"][0, :6], held[2]["modes"].value, rtol=1e-6)
    assert float(picked["modes"][0, 6:].abs().max()) == 0.0
    assert torch.equal(
        picked["neighbours"][1, :7], torch.from_numpy(held[0]["neighbours"].value) + 8
    )
    dense = picked["smooth"].to_dense()
    assert dense.shape == (16, 16)
    np.testing.assert_allclose(dense[:6, :6], held[2]["smooth"].value.toarray(), rtol=1e-5)
    np.testing.assert_allclose(dense[8:13, 8:13], held[0]["smooth"].value.toarray(), rtol=1e-5)
    assert float(dense[:8, 8:].abs().max()) == 0.0
    torch.testing.assert_close(picked["smooth^T"].to_dense(), dense.T)


def test_a_shared_geometry_is_held_once() -> None:
    picked = stack_geometry([parts(5, 7, 0)], 5, "cpu").pick(torch.tensor([3, 1, 2]))
    assert picked["modes"].shape == (1, 5, 3)
    assert picked["smooth"].shape == (5, 5)


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
    normaliser = fit_normaliser(samples, Preset())
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
    held = [
        {"smooth": parts(mesh.size, 3, index)["smooth"]}
        for index, mesh in enumerate(samples.meshes)
    ]
    loader = loader_of(samples, held)
    batch, _ = loader.batch(torch.arange(3), torch.zeros(3, dtype=torch.long), 1)
    x = torch.randn(3, 36, 2, requires_grad=True)
    y = batch.apply("smooth", x)
    for index, mesh in enumerate(samples.meshes):
        expected = held[index]["smooth"].value @ x[index, : mesh.size].detach().numpy()
        np.testing.assert_allclose(y[index, : mesh.size].detach(), expected, rtol=1e-4, atol=1e-5)
    y.square().sum().backward()
    matrix = torch.from_numpy(held[0]["smooth"].value.toarray()).float()
    torch.testing.assert_close(
        x.grad[0, :25], 2 * matrix.T @ (matrix @ x[0, :25].detach()), rtol=1e-4, atol=1e-4
    )


def test_features_are_points_window_static_scalars() -> None:
    samples = steady()["train"]
    loader = loader_of(samples, [])
    batch, target = loader.batch(torch.tensor([4, 2]), torch.zeros(2, dtype=torch.long), 1)
    assert batch.features.shape == (2, samples.meshes[0].size, samples.task.in_channels)
    torch.testing.assert_close(batch.features[..., :2], batch.points.expand(2, -1, -1))
    torch.testing.assert_close(batch.features[..., 2:], batch.static)
    np.testing.assert_allclose(target, np.asarray(samples.frames)[[4, 2]])


def test_a_mesh_key_follows_content_not_identity() -> None:
    one, same, other = square(5), square(5), square(5, seed=1)
    assert one.key == same.key != other.key
    assert Mesh(one.points, one.cells, {}).key != one.key
