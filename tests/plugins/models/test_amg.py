"""AMG: counts, samples and graphs, both attentions by their formulas, symmetries, learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import problems
import pytest
import torch
from random_data import relative
from torch import Tensor
from torch.nn import functional

import gsnobench as gb
from gsnobench.check.fixture import placed
from gsnobench.files import Cache
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench_plugins.models.amg import graph as amg_graph
from gsnobench_plugins.models.amg import model as amg
from gsnobench_plugins.models.amg.graph import Graph, Sites
from gsnobench_plugins.models.amg.model import (
    Amg,
    GraphAttention,
    NodeNorm,
    Params,
    PhysicsAttention,
)

MODEL = amg.gsnobench_model()
SMALL: dict[str, Any] = {
    "width": 16,
    "layers": 2,
    "heads": 2,
    "states": 5,
    "local_nodes": 30,
    "global_ratio": 0.4,
}
VARIED: dict[str, Any] = {"fixed_mesh": False, "corresponds": False}


def make_task(
    dim: int = 2, static: int = 1, fields: int = 1, scalars: int = 0, **changes: Any
) -> gb.Task:
    u, a, p = (
        tuple(gb.Field(f"{letter}{i}") for i in range(n))
        for letter, n in (("u", fields), ("a", static), ("p", scalars))
    )
    return gb.Task("t", "t", u, dim=dim, static=a, scalars=p, **changes)


def cloud(size: int, dim: int = 2, seed: int = 0) -> gb.Mesh:
    return gb.Mesh(np.random.default_rng(seed).uniform(size=(size, dim)))


def samples(task: gb.Task, meshes: tuple[gb.Mesh, ...], count: int = 3) -> gb.Samples:
    draw, nodes = np.random.default_rng(1), max(mesh.size for mesh in meshes)
    frames = draw.normal(size=(count, task.t_in + task.t_out, nodes, len(task.fields)))
    static = draw.normal(size=(count, nodes, len(task.static)))
    scalars = draw.normal(size=(count, len(task.scalars)))
    return gb.Samples(task, meshes, frames.astype("f4"), static.astype("f4"), scalars.astype("f4"))


def load(data: gb.Samples, params: Params, like: gb.Samples | None = None) -> Loader:
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(like or data, TrainParams.make(MODEL.presets["compact"].train)),
        geometries=[
            compute_geometry(MODEL, params, data.task, mesh, summary={}, cache=Cache())
            for mesh in data.meshes
        ],
        device="cpu",
        impose_boundary=False,
    )


def everything(loader: Loader) -> tuple[gb.Batch, Tensor]:
    indices = torch.arange(len(loader))
    return loader.batch(indices, torch.zeros_like(indices), loader.task.t_out)


def make(task: gb.Task, *meshes: gb.Mesh, **knobs: Any) -> tuple[Amg, gb.Batch]:
    params = Params.make(SMALL, knobs)
    torch.manual_seed(0)
    module = Amg(task, params)
    for norm in module.modules():
        if isinstance(norm, NodeNorm):  # as after some training
            norm.mean.uniform_(-0.5, 0.5)
            norm.variance.uniform_(0.5, 2.0)
    return module.eval(), everything(load(samples(task, meshes or (cloud(60),)), params))[0]


def count(task: gb.Task, preset: str = "paper", **knobs: Any) -> int:
    return sum(
        parameter.numel()
        for parameter in Amg(task, Params.make(MODEL.presets[preset].model, knobs)).parameters()
    )


def test_parameters_are_those_of_the_published_sizes() -> None:
    # the authors' blocks also build a layer norm that they never use; it is left out here
    idle = 2 * 256 * 3
    assert count(make_task()) == 14_062_457 - idle == 14_060_921
    assert count(make_task(static=0, fields=4, t_in=1)) == 14_064_764 - idle
    assert count(make_task(static=0, t_in=5, t_out=46)) == 14_076_070 - idle
    assert count(make_task(dim=3, static=4, fields=4)) == 14_065_276 - idle
    assert count(make_task(), "official") == 3_541_497 - idle // 2
    assert count(make_task(dim=3, static=4, fields=4), "official", heads=4) == 2_154_352 - idle // 2
    assert (
        max(count(make_task(), "compact"), count(make_task(static=0, t_in=5, t_out=46), "compact"))
        <= 300_000
    )


@pytest.mark.parametrize("dim", [2, 3])
def test_farthest_points_begin_at_the_centroid_and_close_in(dim: int) -> None:
    points = cloud(50, dim).points
    chosen = amg_graph.farthest_points(points, 50)
    assert sorted(chosen) == list(range(50))
    assert chosen[0] == np.argmin(np.linalg.norm(points - points.mean(0), axis=1))
    table = np.linalg.norm(points[chosen][:, None] - points[chosen], axis=2)
    spacing = [table[turn, :turn].min() for turn in range(1, 50)]
    assert all(
        later <= earlier + 1e-12 for earlier, later in zip(spacing, spacing[1:], strict=False)
    )
    for turn in (1, 7, 30, 45):  # no other point was farther
        assert np.isclose(spacing[turn - 1], table[turn:, :turn].min(1).max())


def test_geometry_follows_the_nodes_when_they_are_renumbered_even_on_a_lattice() -> None:
    axis = np.linspace(0, 1, 7)  # full of equal distances
    mesh = gb.Mesh(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    order = np.random.default_rng(0).permutation(mesh.size)
    mine, turned = (
        amg.geometry(variant, make_task(), Params(), {})
        for variant in (mesh, gb.Mesh(mesh.points[order]))
    )
    assert len(mine["farthest"].value) == 37 and mine["is_local"].value.shape == (49,)
    assert np.array_equal(order[turned["farthest"].value], mine["farthest"].value)
    assert np.array_equal(turned["rank"].value, mine["rank"].value[order])
    assert np.array_equal(
        turned["detail"].value.toarray(), mine["detail"].value.toarray()[order][:, order]
    )


def test_detail_is_what_three_coarse_nodes_cannot_interpolate() -> None:
    points = cloud(80).points
    coarse = amg_graph.farthest_points(points, 20)
    detail = amg_graph.detail_operator(points, coarse)
    assert np.abs(detail @ np.full(80, 3.0)).max() < 1e-14
    x = np.sin(5 * points[:, 0]) + points[:, 1]
    assert np.all((detail @ x)[coarse] == 0) and np.abs(detail @ x).max() > 0.01
    node = next(i for i in range(80) if i not in coarse)
    square = ((points[coarse] - points[node]) ** 2).sum(1)
    three = np.argsort(square)[:3]
    assert (detail @ x)[node] == pytest.approx(
        x[node] - np.average(x[coarse][three], weights=1 / square[three])
    )
    assert 0 < np.abs(detail @ points[:, 0]).mean() < 0.1  # affine: small, not zero


def test_local_graph_joins_the_roughest_nodes_to_their_nearest() -> None:
    _, batch = make(make_task())
    x = torch.randn(3, 60, 16, generator=torch.Generator().manual_seed(0))
    graph = Sites.of(batch).local_graph(x, 6, "place")
    # 6 * 30 edges and self loops per sample
    assert graph.nodes.shape == (90,) and graph.near.shape == (90, 7)
    detail = batch.apply("detail", x).abs().sum(-1)
    for sample in range(3):
        nodes = graph.nodes.view(3, 30)[sample] - 60 * sample
        assert set(nodes.tolist()) == set(detail[sample].topk(30).indices.tolist())
        place = batch.geometry["place"][0, nodes]
        # the node itself comes first
        expected = torch.cdist(place, place).topk(7, largest=False).indices
        assert torch.equal(graph.near.view(3, 30, 7)[sample] - 30 * sample, expected)


def test_global_graph_joins_farthest_points_by_the_cosine_of_their_features() -> None:
    _, batch = make(make_task())
    x = torch.randn(3, 60, 16, generator=torch.Generator().manual_seed(0)) + 3
    graph = Sites.of(batch).global_graph(x, 4)
    assert graph.nodes.shape == (72,) and graph.near.shape == (72, 5)
    unit = functional.normalize(x.double().flatten(0, 1)[graph.nodes].view(3, 24, 16), dim=-1)
    expected = (unit @ unit.mT).topk(5).indices + 24 * torch.arange(3)[:, None, None]
    assert torch.equal(graph.near.view(3, 24, 5), expected)
    assert torch.equal(graph.nodes[:24], batch.geometry["farthest"][0])


def test_neighbours_are_the_same_in_pieces_and_the_first_of_equals_comes_first() -> None:
    draw = torch.Generator().manual_seed(0)
    # many equal distances, three pieces
    x = torch.randint(0, 12, (1, 700, 2), generator=draw).float()
    result, is_missing = amg_graph.neighbours(
        amg_graph.close(x), 1, 700, k=5, is_real=None, device=x.device
    )
    table = torch.cdist(x.double(), x.double()).square().round()[0].fill_diagonal_(1e9)
    expected = table.sort(dim=1, stable=True).indices[:, :5]
    is_apart = (table.gather(1, expected) > 0).all(1)  # coincident points have no order
    assert (
        torch.equal(result[0][is_apart], expected[is_apart])
        and is_apart.any()
        and not is_missing.any()
    )


def literal_edges(
    x: Tensor, weight: Tensor, bias: Tensor, score: Tensor, edges: list[list[int]]
) -> Tensor:
    """GATv2 node by node and edge by edge; bias (H, 2, d)."""
    rows = []
    for node, near in enumerate(edges):
        heads = []
        for (to_source, to_target), (b, c), a in zip(weight, bias, score, strict=True):
            source = [to_source @ x[j] + b for j in near]
            logits = torch.stack(
                [functional.leaky_relu(s + to_target @ x[node] + c, 0.2) @ a for s in source]
            )
            heads.append(sum(share * s for share, s in zip(logits.softmax(0), source, strict=True)))
        rows.append(torch.stack(heads).mean(0))
    return torch.stack(rows)


def attention(width: int = 6, heads: int = 3) -> GraphAttention:
    torch.manual_seed(1)
    module = GraphAttention(width, heads).double()
    torch.nn.init.normal_(module.bias)
    torch.nn.init.normal_(module.shift)
    return module


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
@pytest.mark.parametrize("cache", [24, amg_graph.IN_CACHE], ids=["pieces", "whole"])
def test_graph_attention_and_its_gradients_are_those_of_the_edge_list(
    monkeypatch: pytest.MonkeyPatch, cache: int, kind: torch.dtype, tolerance: float
) -> None:
    # edges are worked off four at a time, or all at once
    monkeypatch.setattr(amg_graph, "IN_CACHE", cache)
    module, x = attention().to(kind), torch.randn(1, 12, 6, dtype=kind, requires_grad=True)
    nodes = torch.tensor([7, 2, 9, 4, 0])
    near = torch.tensor([[0, 1, 2], [1, 0, 4], [2, 3, 0], [3, 1, 0], [4, 0, 0]])
    is_missing = torch.zeros(5, 3, dtype=torch.bool)
    is_missing[4, 2] = True
    edges = [[node] for node in range(12)]
    for row, node in enumerate(nodes.tolist()):
        edges[node] = [
            int(nodes[j]) for j, gone in zip(near[row], is_missing[row], strict=True) if not gone
        ]
    expected = (
        literal_edges(x[0], module.weight, module.bias, module.score, edges)[None] + module.shift
    )
    result = module(x, Graph(nodes, near, is_missing))
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)
    above, inputs = torch.randn_like(result), [x, *module.parameters()]
    gradients = [torch.autograd.grad(y, inputs, above) for y in (result, expected)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=10 * tolerance)


def test_a_node_outside_the_sample_attends_to_itself_and_shares_sum_to_one() -> None:
    module = attention()
    graph = Graph(torch.tensor([1, 3]), torch.tensor([[0, 1], [1, 0]]), None)
    x = torch.randn(1, 6, 6, dtype=torch.float64)
    own = torch.stack(
        [x @ w.mT + b for w, b in zip(module.weight[:, 0], module.bias[:, 0], strict=True)]
    ).mean(0)
    result, outside = module(x, graph), [0, 2, 4, 5]
    torch.testing.assert_close(
        result[:, outside], own[:, outside] + module.shift, rtol=0, atol=1e-13
    )
    # all nodes have the same value, so only the sum of the shares matters
    alike_nodes = x[:, :1].expand_as(x).contiguous()
    torch.testing.assert_close(
        module(alike_nodes, graph), (own[:, :1] + module.shift).expand_as(x), rtol=0, atol=1e-13
    )


def test_physics_attention_is_the_formula_and_its_shares_sum_to_one() -> None:
    torch.manual_seed(0)
    module, x = PhysicsAttention(8, 3, 4).double(), torch.randn(11, 8, dtype=torch.float64)
    with torch.no_grad():
        start = module.state.weight @ module.state.weight.mT
        torch.testing.assert_close(start, torch.eye(4).double(), rtol=0, atol=1e-6)
        module.temperature.uniform_(0.4, 0.9)
    y = module.out_bias
    for head, tau in enumerate(module.temperature):
        place = x @ module.place[head].mT + module.place_bias[head]  # (N, d)
        token = x @ module.token[head].mT + module.token_bias[head]
        share = ((place @ module.state.weight.mT + module.state.bias) / tau).softmax(1)  # (N, M)
        tokens = share.mT @ token / (share.sum(0)[:, None] + amg.EMPTY)
        query, key, value = (tokens @ matrix.mT for matrix in module.query_key_value)
        y = y + share @ ((query @ key.mT / 8**0.5).softmax(1) @ value) @ module.out[head].mT
    torch.testing.assert_close(module(x[None], None)[0], y, rtol=0, atol=1e-12)
    sums = module.shares(x[None], None).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_node_norm_is_batch_norm_of_the_real_nodes() -> None:
    x, mask = torch.randn(3, 20, 8) * 2 + 1, torch.arange(20) < torch.tensor([20, 13, 7])[:, None]
    for real in (mask, None):
        mine, theirs = NodeNorm(8), torch.nn.BatchNorm1d(8)
        rows = x[mask] if real is not None else x.flatten(0, 1)
        for _ in range(2):
            result = mine(x, None if real is None else real[..., None].float())
            expected = theirs(rows)
        torch.testing.assert_close(
            result[mask] if real is not None else result.flatten(0, 1),
            expected,
            rtol=1e-4,
            atol=1e-5,
        )
        torch.testing.assert_close(mine.mean, theirs.running_mean)
        torch.testing.assert_close(mine.variance, theirs.running_var)
        torch.testing.assert_close(
            mine.eval()(x, None).flatten(0, 1), theirs.eval()(x.flatten(0, 1)), rtol=1e-4, atol=1e-5
        )


def test_recomputing_blocks_changes_nothing_and_counts_statistics_once() -> None:
    results = []
    for recompute in (False, True):
        module, batch = make(make_task(), checkpoint=recompute)
        y = module.train()(batch)
        y.square().sum().backward()
        results.append(
            [y, *module.buffers(), *(parameter.grad for parameter in module.parameters())]
        )
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("space", ["place", "features"])
def test_every_parameter_gets_a_gradient(space: str) -> None:
    for task in (
        make_task(),
        make_task(dim=3, static=0, scalars=2, t_in=2, t_out=3),
        make_task(static=0),
    ):
        module, batch = make(task, cloud(60, task.dim), local_space=space)
        module.train()(batch).square().sum().backward()
        idle = [
            name
            for name, parameter in module.named_parameters()
            if parameter.grad is None or not parameter.grad.abs().sum() > 0
        ]
        assert not idle, idle


def test_bfloat16_trains_too() -> None:
    module, batch = make(make_task())
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        module.train()(batch).float().square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())


def test_renumbered_nodes_give_renumbered_values_with_the_geometry_made_anew() -> None:
    module, _ = make(make_task())
    data = samples(make_task(), (cloud(60),))
    order = np.random.default_rng(0).permutation(60)
    moved = replace(
        data, meshes=(gb.Mesh(data.meshes[0].points[order]),), static=data.static[:, order]
    )
    with torch.no_grad():
        mine, turned = (
            module(everything(load(samples, module.params, data))[0]) for samples in (data, moved)
        )
        again = module(everything(load(data, module.params))[0])
    assert torch.equal(again, mine)
    torch.testing.assert_close(turned, mine[:, :, torch.from_numpy(order)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "knobs", [{}, {"local_share": 0.3, "local_space": "features"}], ids=["count", "share"]
)
@pytest.mark.parametrize("dim", [2, 3])
def test_neither_padding_nor_companions_are_seen(dim: int, knobs: dict[str, Any]) -> None:
    task, sizes = make_task(dim, scalars=1, **VARIED), (25, 60, 5)  # 5 nodes: fewer than neighbours
    meshes = tuple(cloud(size, dim, seed) for seed, size in enumerate(sizes))
    module, batch = make(task, *meshes, **knobs)
    dirty = replace(batch, static=torch.where(batch.mask[..., None], batch.static, 1e3))
    with torch.no_grad():
        together = module(dirty)
        for index, size in enumerate(sizes):
            data = samples(task, meshes)
            sample = data.take([index])
            sample = replace(
                sample, frames=sample.frames[:, :, :size], static=sample.static[:, :size]
            )
            alone = module(everything(load(sample, module.params, data))[0])
            torch.testing.assert_close(together[[index], :, :size], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "task", [make_task(), make_task(static=0, t_in=2, t_out=3, **VARIED)], ids=["fixed", "ragged"]
)
@pytest.mark.parametrize("preset", MODEL.presets)
def test_nothing_is_made_on_a_default_device(task: gb.Task, preset: str) -> None:
    meshes = (cloud(60),) if task.fixed_mesh else (cloud(40), cloud(60), cloud(50))
    module, batch = make(task, *meshes, **{**MODEL.presets[preset].model, "width": 16, "layers": 1})
    y = module.to("meta")(placed(batch, "meta"))
    assert y.device.type == "meta" and y.shape == (3, task.t_out, 60, 1)


def trained(module: Amg, loader: Loader, steps: int) -> float:
    """AdamW with one cycle, four samples per step; the last loss, in training mode."""
    optimiser = torch.optim.AdamW(module.train().parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for step in range(steps):
        indices = (torch.arange(4) + step * 4) % len(loader)
        batch, target = loader.batch(indices, torch.zeros_like(indices), 1)
        loss = relative(loader.finish(module(batch), batch, indices), target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return float(loss.detach())


def test_it_fits_four_samples_below_two_percent() -> None:
    data = problems.steady({"train": 4})["train"]
    params = Params(width=32, layers=2, heads=2, states=8, local_nodes=60, global_ratio=0.3)
    torch.manual_seed(0)
    assert trained(Amg(data.task, params), load(data, params), 200) < 0.02


def test_it_learns_an_operator_and_answers_on_another_mesh() -> None:
    """Beats the mean of the split on its own mesh and, with the same weights, on a finer one."""
    coarse = problems.steady({"train": 32, "valid": 1, "test": 16})
    fine = problems.steady({"train": 1, "valid": 1, "test": 16}, problems.square(14, seed=5))
    params = Params(width=32, layers=2, heads=2, states=8, local_share=0.5, global_ratio=0.3)
    torch.manual_seed(0)
    module = Amg(coarse["train"].task, params)
    trained(module, load(coarse["train"], params), 160)
    for data in (coarse["test"], fine["test"]):
        loader = load(data, params, coarse["train"])
        batch, truth = everything(loader)
        with torch.no_grad():
            error = relative(loader.finish(module.eval()(batch), batch, torch.arange(16)), truth)
        assert float(error) < 0.5 * float(
            relative(truth.mean(0, keepdim=True).expand_as(truth), truth)
        )
