"""Sp2GNO: counts, graph, both branches by their formulas, symmetries, time, and learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from problems import square, steady
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

import gsnobench as gb
from gsnobench.check.fixture import permuted, permuted_geometry, placed
from gsnobench.files import Cache
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench.training.rollout import rollout
from gsnobench_plugins.models.sp2gno import model as sp2gno
from gsnobench_plugins.models.sp2gno.graph import (
    balanced,
    edge_lengths,
    farthest,
    lipschitz,
    make_graph,
    messages,
)
from gsnobench_plugins.models.sp2gno.model import Gates, Layer, Params, Sp2Gno

MODEL = sp2gno.gsnobench_model()
STEADY = {"static": (gb.Field("a"),)}
UNSTEADY = {"t_in": 3, "t_out": 5, "fields": (gb.Field("u"), gb.Field("v"))}
VARIED = {
    "static": (gb.Field("a"),),
    "scalars": (gb.Field("s"),),
    "fixed_mesh": False,
    "corresponds": False,
}
SHAPES = {"steady": STEADY, "unsteady": UNSTEADY, "varied": VARIED}
AIRFOIL_GATES = {"length_channels": 32, "gate_channels": 8, "balanced": True}
SMALL = {"width": 8, "layers": 2, "modes": 6, "neighbours": 5, "anchors": 3, "head": 10}


def make_task(dim: int = 2, static: int = 1, fields: int = 1, **changes: Any) -> gb.Task:
    given, sought = (
        tuple(gb.Field(f"{name}{i}") for i in range(count))
        for name, count in (("a", static), ("u", fields))
    )
    return gb.Task("t", "t", sought, dim=dim, static=given, **changes)


def samples(meshes: tuple[gb.Mesh, ...], count: int, shape: Mapping[str, Any]) -> gb.Samples:
    """Random numbers: the rules below hold for any."""
    nodes, draw = max(mesh.size for mesh in meshes), np.random.default_rng(0)
    task = gb.Task("t", "t", **{"fields": (gb.Field("u"),), "dim": meshes[0].dim, **shape})
    shapes = (
        (task.t_in + task.t_out, nodes, len(task.fields)),
        (nodes, len(task.static)),
        (len(task.scalars),),
    )
    return gb.Samples(
        task,
        meshes,
        *(draw.standard_normal((count, *shape)).astype(np.float32) for shape in shapes),
    )


def narrowed(task: gb.Task, params: Params) -> gb.Task:
    """The task as the core hands it to the module."""
    horizon = MODEL.horizon(task, params)
    return task.narrowed(horizon.window, horizon.steps)


def load(
    data: gb.Samples,
    params: Params,
    train: gb.Samples | None = None,
    parts: list[Any] | None = None,
) -> Loader:
    task, summary = narrowed(data.task, params), sp2gno.summary(train or data, params)
    made = (
        compute_geometry(MODEL, params, task, mesh, summary=summary, cache=Cache())
        for mesh in data.meshes
    )
    normaliser = fit_normaliser(train or data, TrainParams.make(MODEL.presets["official"].train))
    geometries = parts or list(made)
    return Loader(
        data,
        task=task,
        normaliser=normaliser,
        geometries=geometries,
        device="cpu",
        impose_boundary=False,
    )


def batch_of(loader: Loader, *indices: int) -> gb.Batch:
    return loader.batch(torch.tensor(indices), torch.zeros(len(indices), dtype=torch.long), 1)[0]


def meshes_of(shape: Mapping[str, Any]) -> tuple[gb.Mesh, ...]:
    return (square(5), square(6), square(4)) if shape is VARIED else (square(6),)


def make(shape: Mapping[str, Any], **knobs: Any) -> tuple[Sp2Gno, gb.Batch]:
    """A small module whose kernels are not almost zero, and a batch of three samples."""
    params = Params.make(SMALL, knobs)
    loader = load(samples(meshes_of(shape), 3, shape), params)
    torch.manual_seed(0)
    module = Sp2Gno(loader.task, params)
    for layer in module.layers:
        torch.nn.init.normal_(layer.kernel, std=0.3)
    return module, batch_of(loader, 0, 1, 2)


def count(task: gb.Task, preset: str = "paper", name: str = "") -> int:
    own = {
        dotted.partition(".")[2]: v
        for dotted, v in sp2gno.OFFICIAL.get(name, {}).items()
        if dotted.startswith("model.")
    }
    params = Params.make(MODEL.presets[preset].model, own)
    return sum(
        parameter.numel() for parameter in Sp2Gno(narrowed(task, params), params).parameters()
    )


def test_parameters_are_those_of_the_published_sizes() -> None:
    assert count(make_task()) == 217_323
    assert (
        count(make_task(static=0, t_in=5, t_out=46))
        == count(make_task(static=0, t_in=1, t_out=50))
        == 217_323
    )
    assert count(make_task(static=0, fields=2, t_in=5, t_out=46)) == 217_484
    assert count(make_task(dim=3, static=0, fields=3, t_in=5, t_out=46)) == 217_677
    assert count(make_task(), "official") == 925_883
    assert count(make_task(), "compact") <= 300_000
    assert count(make_task(static=0, t_in=5, t_out=46), "compact") <= 300_000
    every = Sp2Gno(make_task(), Params(width=8)).named_parameters(remove_duplicate=False)
    # one for all layers
    assert [name for name, parameter in every if parameter.shape == (8, 16)] == ["fuse.weight"]


def test_gates_of_the_airfoil_are_the_authors() -> None:
    # coordinates alone: 32 channels of a length, 32 anchors at both ends, 8 hidden channels
    d, L, m, a, inputs = 32, 6, 48, 32, 2
    gates = 2 * 32 + 8 * (32 + 2 * a) + 8 + 8 + 1
    layers = L * (m * d**2 + 2 * (d**2 + d) + 2 * d + gates)
    for name in ("airfoil", "airfoil_family", "pipe", "car"):
        assert (
            count(make_task(static=0), "official", name)
            == (inputs + 1) * d + layers + 2 * d**2 + d + 128 * d + 128 + 129
        )


def test_official_decays_weights_as_beside_a_sum_of_losses() -> None:
    """The authors add 1e-4 of a weight to the gradient of a sum; ours is that of its mean."""
    summed = {"elasticity": 5, "elasticity_radii": 5, "airfoil": 20, "pipe": 20, "nse": 10}
    official = {name: MODEL.settings[name]["official"]["train.weight_decay"] for name in summed}
    official["darcy"] = MODEL.presets["official"].train["weight_decay"]
    for name, decay in official.items():
        assert decay * summed.get(name, 10) == pytest.approx(1e-4)


def test_positional_inputs_are_the_authors() -> None:
    # elasticity: coordinates, angle, radius, and eight octaves of their sines and cosines
    d, L, m, a, inputs = 32, 4, 48, 6, 68
    layers = L * (m * d**2 + 2 * (d**2 + d) + 2 * d + 32 + 3 * (16 + 2 * a) + 3 + 4)
    assert (
        count(make_task(static=0), "official", "elasticity")
        == (inputs + 1) * d + layers + 2 * d**2 + d + 128 * d + 128 + 129
    )
    result = sp2gno.positional(torch.tensor([[[1e-4, 2.0001]]]))[0, 0]
    torch.testing.assert_close(result[:2], torch.tensor([torch.pi / 2, 2.0]))
    torch.testing.assert_close(
        result[2:6],
        (torch.pi * torch.tensor([1e-4, 2.0001, torch.pi / 2, 2.0])).sin(),
        rtol=0,
        atol=1e-5,
    )


# -------------------------------------------------------------------------------------------- graph


def parts_of(mesh: gb.Mesh, **knobs: Any) -> dict[str, Any]:
    params = Params.make(SMALL, knobs)
    summary = sp2gno.summary(samples((mesh,), 1, STEADY), params)
    return {
        name: part.value
        for name, part in sp2gno.geometry(mesh, make_task(dim=mesh.dim), params, summary).items()
    }


def laplacian(lengths: csr_array) -> np.ndarray:
    joined = (lengths.toarray() > 0).astype(float)
    root = np.sqrt(joined.sum(1))
    return np.eye(len(joined)) - joined / root[:, None] / root


@pytest.mark.parametrize("dim", [2, 3])
def test_modes_are_the_lowest_of_the_normalised_laplacian(dim: int) -> None:
    mesh = gb.Mesh(np.random.default_rng(0).uniform(size=(300, dim)))
    parts = parts_of(mesh, modes=20, neighbours=8)
    modes, operator = parts["modes"], laplacian(parts["lengths"])
    np.testing.assert_allclose(modes.T @ modes, np.eye(20), atol=1e-9)
    values = np.linalg.eigvalsh(operator)[:20]
    np.testing.assert_allclose(np.diag(modes.T @ operator @ modes), values, atol=1e-9)
    assert np.abs(values[0]) < 1e-9 and values[-1] < 2
    np.testing.assert_allclose(
        modes[:, 0], np.sqrt(np.diff(parts["lengths"].indptr) / parts["lengths"].nnz), atol=1e-7
    )


def test_parts_that_no_edge_joins_have_a_mode_each_and_paths_end() -> None:
    points = np.random.default_rng(0).uniform(size=(80, 2))
    points[40:, 0] += 10
    parts = parts_of(gb.Mesh(points))
    energies = np.diag(parts["modes"].T @ laplacian(parts["lengths"]) @ parts["modes"])
    assert (energies[:2] < 1e-9).all() and energies[2] > 1e-3
    line = csr_array(np.diag([1.0, 2.0, 0.0], 1) + np.diag([1.0, 2.0, 0.0], -1))
    # 1 / (1 + path length), nothing where there is none
    near = np.array([[1, 1 / 4], [1 / 2, 1 / 3], [1 / 4, 1], [0, 0]])
    np.testing.assert_allclose(
        lipschitz(line, np.array([0, 2])), (near - near.mean(0)) / near.std(0)
    )


def test_graph_joins_a_node_to_its_nearest_and_to_those_that_count_it() -> None:
    points = np.random.default_rng(1).uniform(size=(40, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    is_near = distance.argsort(1).argsort(1) <= 5  # rank 0 is the node itself
    np.testing.assert_allclose(edge_lengths(points, 5).toarray(), distance * (is_near | is_near.T))


def test_anchors_are_far_from_one_another_and_stay_at_their_place() -> None:
    mesh, finer = square(9), square(17, seed=3)
    params = Params.make(SMALL, {"anchors": 4})
    summary = sp2gno.summary(samples((mesh,), 1, STEADY), params)
    assert {tuple(anchor) for anchor in summary["anchors"].tolist()} == {
        (0, 0),
        (1, 1),
        (0, 1),
        (1, 0),
    }
    moved = gb.Mesh(finer.points * [3, 2] + 7, finer.cells)
    for other in (mesh, finer, moved):
        embedding = sp2gno.geometry(other, make_task(), params, summary)["embedding"].value
        in_box = (other.points - other.points.min(0)) / np.ptp(other.points, axis=0)
        np.testing.assert_allclose(in_box[embedding.argmax(0)], summary["anchors"])
    assert farthest(np.zeros((2, 2)), 3).tolist() == [0, 0, 0]  # fewer points than anchors


def test_lengths_are_in_domain_sizes_relative_to_their_mean_or_balanced() -> None:
    mesh = square(7)
    large = gb.Mesh(100 * mesh.points)
    np.testing.assert_allclose(
        parts_of(large)["lengths"].toarray(), parts_of(mesh)["lengths"].toarray()
    )
    np.testing.assert_allclose(parts_of(large)["embedding"], parts_of(mesh)["embedding"], atol=1e-9)
    assert parts_of(mesh, relative=True)["lengths"].data.mean() == pytest.approx(1.0)
    lengths, even = parts_of(mesh)["lengths"].toarray(), parts_of(mesh, balanced=True)["lengths"]
    for i, j in np.argwhere(lengths):
        expected = lengths[i, j] / np.sqrt(sum(lengths[i]) * sum(lengths[:, j]))
        assert even[i, j] == pytest.approx(expected, rel=1e-12)
    assert even.nnz == np.count_nonzero(lengths)
    np.testing.assert_array_equal(even.indices, parts_of(mesh)["lengths"].indices)
    assert not balanced(csr_array((3, 3))).nnz
    # fewer nodes than either
    few = parts_of(gb.Mesh(mesh.points[:5] + mesh.points[5:10, ::-1]), modes=8, neighbours=9)
    np.testing.assert_allclose(
        few["modes"].T @ few["modes"], np.diag([1.0] * 5 + [0.0] * 3), atol=1e-9
    )


# ----------------------------------------------------------------------------------------- branches


def literal(module: Sp2Gno, batch: gb.Batch, b: int) -> Tensor:
    """The formula for one sample, node by node, (N, out)."""
    g = min(b, len(batch.points) - 1)
    real = slice(None) if batch.mask is None else batch.mask[b]
    modes, embedding = (batch.geometry[name][g][real] for name in ("modes", "embedding"))
    whole = batch.geometry["lengths"].to_dense()
    lengths = whole[g * batch.nodes :][: len(modes), g * batch.nodes :][:, : len(modes)]
    x = module.lift(module.inputs(batch)[b][real])
    for number, layer in enumerate(module.layers):
        # (m, d)
        kept = torch.stack([(modes[:, m] @ x) @ layer.kernel[m] for m in range(modes.shape[1])])
        f = functional.gelu(modes @ kept + layer.local(x))
        f = functional.layer_norm(f, f.shape[1:], layer.norm.weight, layer.norm.bias)
        rows, gate = [], module.gates
        for i in range(len(x)):
            total = torch.zeros_like(x[0])
            for j in torch.nonzero(lengths[i]).flatten():
                on_length = gate.length[number][:, 0] * lengths[i, j] + gate.length_bias[number]
                hidden = (
                    gate.hidden[number] @ torch.cat([on_length, embedding[i], embedding[j]])
                    + gate.hidden_bias[number]
                )
                logit = gate.out[number] @ hidden.relu() + gate.out_bias[number]
                total = total + logit.sigmoid() * layer.sent(x[j])
            rows.append(total / total.norm())
        x = module.fuse(torch.cat([f, torch.stack(rows)], 1))
    return module.last(module.head(x).relu())


@pytest.mark.parametrize("knobs", [{}, AIRFOIL_GATES], ids=["darcy", "airfoil"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_prediction_and_gradients_are_those_of_the_formula(
    shape: Mapping[str, Any], knobs: Mapping[str, Any]
) -> None:
    module, batch = make(shape, **knobs)
    moved = {
        name: getattr(batch, name).double() for name in ("window", "static", "scalars", "points")
    }
    batch = replace(
        batch,
        geometry={name: value.to(torch.float64) for name, value in batch.geometry.items()},
        **moved,
    )
    y = module.double()(batch)
    sizes = [batch.nodes] * 3 if batch.mask is None else batch.mask.sum(1).tolist()
    mine = torch.cat([y[b, 0, :size].flatten() for b, size in enumerate(sizes)])
    expected = torch.cat([literal(module, batch, b).flatten() for b in range(3)])
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-9)
    gradients = [
        torch.autograd.grad(output.square().sum(), list(module.parameters()))
        for output in (mine, expected)
    ]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-9)
    assert all(bool(gradient.any()) for gradient in gradients[0])  # no parameter is idle
    signs = torch.tensor([1.0, -1, -1, 1, -1, 1])
    turned = replace(batch, geometry={**batch.geometry, "modes": batch.geometry["modes"] * signs})
    torch.testing.assert_close(module(turned), y, rtol=0, atol=1e-9)  # an eigenvector has no sign


def test_gates_are_shares_and_messages_have_length_one_and_forget_the_scale() -> None:
    torch.manual_seed(0)
    joined = torch.zeros(6, 6)
    joined[range(5), [1, 2, 3, 4, 0]] = torch.arange(1.0, 6)  # a ring and a node without neighbours
    graph = make_graph((joined + joined.T).to_sparse_csr(), torch.randn(1, 6, 2))
    gates, y = Gates(Params(layers=2, anchors=2))(graph.described), torch.randn(6, 3, 4)
    assert gates.shape == (2, 10) and bool(((gates > 0) & (gates < 1)).all())
    assert not torch.allclose(gates, gates[:, graph.reverse])  # receiver and sender are not alike
    result = messages(y, gates[0], graph)
    torch.testing.assert_close(result[:5].norm(dim=-1), torch.ones(5, 3))
    assert not result[5].any()
    torch.testing.assert_close(messages(7 * y, gates[0], graph), result)


@pytest.mark.parametrize("kept", [5, 30])
def test_filter_with_identity_matrices_is_the_projector_on_the_modes(kept: int) -> None:
    modes = torch.linalg.qr(torch.randn(30, 30, dtype=torch.float64))[0][None, :, :kept]
    layer = Layer(4, kept).double()
    layer.kernel.data = torch.eye(4, dtype=torch.float64).repeat(kept, 1, 1)
    x = torch.randn(1, 30, 3 * 4, dtype=torch.float64)
    once = modes @ layer.filter(modes.mT @ x)
    torch.testing.assert_close(modes @ layer.filter(modes.mT @ once), once)
    torch.testing.assert_close(once, x if kept == 30 else modes @ (modes.mT @ x))


# ------------------------------------------------------------------------------ symmetries and time


def test_renumbered_nodes_give_renumbered_values() -> None:
    params, data = Params.make(SMALL), samples((square(6),), 3, STEADY)
    module, batch = make(STEADY)
    order = np.random.default_rng(1).permutation(36)
    parts = sp2gno.geometry(data.meshes[0], data.task, params, sp2gno.summary(data, params))
    turned = load(permuted(data, [order]), params, parts=[permuted_geometry(parts, order)])
    torch.testing.assert_close(
        module(batch_of(turned, 0, 1, 2)), module(batch)[:, :, order], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_batch_is_its_samples_one_by_one_whatever_is_in_the_padding(
    shape: Mapping[str, Any],
) -> None:
    module, batch = make(shape)
    loader = load(samples(meshes_of(shape), 3, shape), Params.make(SMALL))
    dirty = (
        batch
        if batch.mask is None
        else replace(batch, static=torch.where(batch.mask[..., None], batch.static, 1e3))
    )
    for index in range(3):
        real, alone = loader.samples.mesh(index).size, module(batch_of(loader, index))[0]
        torch.testing.assert_close(
            module(dirty)[index, :, :real], alone[:, :real], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_nothing_is_made_on_a_default_device(shape: Mapping[str, Any]) -> None:
    module, batch = make(shape, positional=True)
    y = module.to("meta")(placed(batch, "meta"))
    assert y.is_meta and y.shape == (3, 1, 36, len(batch.task.fields))


def test_bfloat16_trains_too() -> None:
    module, batch = make(STEADY)
    exact = module(batch).detach()
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        y = module(batch)
        y.float().square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())
    assert float((y.detach() - exact).norm() / exact.norm()) < 0.05


def test_a_call_sees_the_window_and_finds_the_frames_that_the_knobs_say() -> None:
    task = make_task(static=0, t_in=5, t_out=46)
    knobs = (
        ({}, gb.Horizon(1, 1)),
        ({"unroll": 10}, gb.Horizon(1, 1, unroll=10)),
        ({"frames": 0}, gb.Horizon(1, 46)),
    )
    knobs += (
        ({"window": 2}, gb.Horizon(2, 1)),
        ({"window": 0}, gb.Horizon(5, 1)),
        ({"window": 9}, gb.Horizon(5, 1)),
    )
    assert all(MODEL.horizon(task, Params.make(values)) == horizon for values, horizon in knobs)


def test_rollout_is_nested_calls_and_of_an_identity_the_last_given_frame() -> None:
    data, params = samples((square(6),), 3, UNSTEADY), Params.make(SMALL, {"increment": True})
    loader = load(data, params)
    everyone = torch.arange(3)
    (module, _) = make(UNSTEADY, increment=True)
    batch = now = batch_of(loader, 0, 1, 2)
    result, expected = rollout(module, loader, batch, everyone, 5), []
    for _ in range(5):
        expected.append(module(now))
        now = replace(now, window=torch.cat([now.window[:, 1:], expected[-1]], 1))
    torch.testing.assert_close(
        result, loader.finish(torch.cat(expected, 1), batch, everyone), rtol=1e-4, atol=1e-5
    )
    module.last.requires_grad_(False).weight.zero_()
    module.last.bias.zero_()
    still = torch.from_numpy(np.asarray(data.frames)[:, :1]).expand(-1, 5, -1, -1)
    torch.testing.assert_close(
        rollout(module, loader, batch, everyone, 5), still, rtol=1e-4, atol=1e-5
    )


# ----------------------------------------------------------------------------------------- learning


def trained(module: Sp2Gno, loader: Loader, steps: int) -> float:
    """Whole batches; the last loss, relative L2."""
    indices = torch.arange(len(loader))
    batch, target = loader.batch(indices, torch.zeros_like(indices), 1)
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for _ in range(steps):
        optimiser.zero_grad()
        error = (loader.finish(module(batch), batch, indices) - target).flatten(1).norm(
            dim=1
        ) / target.flatten(1).norm(dim=1)
        error.mean().backward()
        optimiser.step()
        schedule.step()
    return float(error.detach().mean())


def test_four_samples_are_fitted_below_two_percent() -> None:
    data, params = steady({"train": 4})["train"], Params(width=16, layers=3, modes=16, neighbours=8)
    torch.manual_seed(0)
    assert trained(Sp2Gno(data.task, params), load(data, params), 400) < 0.02


def test_real_operator_is_learned_and_moves_to_another_mesh() -> None:
    """Beats the mean of the split on its own mesh and, with the same weights, on a finer one."""
    coarse = steady({"train": 32, "valid": 1, "test": 16})
    fine = steady({"train": 1, "valid": 1, "test": 16}, square(17, seed=5))
    params = Params(width=16, layers=3, modes=12, neighbours=8, relative=True)
    torch.manual_seed(0)
    module = Sp2Gno(coarse["train"].task, params)
    trained(module, load(coarse["train"], params), 150)
    for data in (coarse["test"], fine["test"]):
        loader, indices = load(data, params, coarse["train"]), torch.arange(16)
        batch, truth = loader.batch(indices, torch.zeros_like(indices), 1)
        with torch.no_grad():
            result = loader.finish(module(batch), batch, indices)
        size = truth.flatten(1).norm(dim=1)
        error, mean = (
            ((prediction - truth).flatten(1).norm(dim=1) / size).mean()
            for prediction in (result, truth.mean(0)[None])
        )
        assert float(error) < 0.6 * float(mean)
