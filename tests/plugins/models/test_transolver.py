"""Transolver: counts, formula in both orders of the products, symmetries, and that it learns."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import problems
import pytest
import torch
from random_data import all_of, nodes_picked, random_batch, samples
from torch import Tensor

import gsnobench as gb
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench_plugins.models.transolver import fused
from gsnobench_plugins.models.transolver import model as transolver
from gsnobench_plugins.models.transolver.fused import EMPTY
from gsnobench_plugins.models.transolver.model import Params, PhysicsAttention, Transolver

MODEL = transolver.gsnobench_model()
SMALL = {"width": 16, "layers": 2, "heads": 4, "slices": 5}
ORDERS = ("fused", "plain")


def make_task(dim: int = 2, static: int = 1, fields: int = 1, **changes: Any) -> gb.Task:
    outputs = tuple(gb.Field(f"u{i}") for i in range(fields))
    inputs = tuple(gb.Field(f"a{i}") for i in range(static))
    return gb.Task("t", "t", outputs, dim=dim, static=inputs, **changes)


def attention(order: str, width: int = 16, heads: int = 4, slices: int = 5) -> PhysicsAttention:
    """With weights of order 1, so that no term of the formula is too small to be seen."""
    torch.manual_seed(1)
    module = PhysicsAttention(width, heads, slices, order == "fused").double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
        module.temperature.uniform_(0.4, 0.9)
    return module


def count(task: gb.Task, preset: str = "paper", **knobs: Any) -> int:
    module = Transolver(task, Params.make(MODEL.presets[preset].model, knobs))
    return sum(parameter.numel() for parameter in module.parameters())


# ------------------------------------------------------------------------------------------- counts


def test_parameters_are_those_of_the_published_sizes() -> None:
    plain = {"octaves": 0}
    assert count(make_task(), **plain) == 2_135_953
    assert count(make_task(static=0), **plain) == 2_135_441
    assert count(make_task(dim=3, static=4, fields=4), **plain) == 2_138_772
    assert count(make_task(static=0, t_in=5, t_out=46), **plain) == 2_149_566
    assert count(make_task(), ratio=2.0, **plain) == 2_923_921
    # 4 octaves of sin and cos of 2 coordinates; 64 distances instead of 2 coordinates
    assert count(make_task()) == 2_135_953 + 16 * 512
    assert count(make_task(), reference=8, **plain) == 2_135_953 + 62 * 512
    assert count(make_task(static=0), "official") == 713_665
    assert count(make_task(), "compact") <= 300_000


def test_start_is_the_authors() -> None:
    torch.manual_seed(0)
    module = Transolver(make_task(), Params(layers=1))
    inner = module.blocks[0].attention
    assert inner.temperature.tolist() == [0.5] * 8
    assert inner.slice.weight.shape == (16, 32)
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    matrices = [value for value in parameters.values() if value.dim() > 1]
    biases = [value for name, value in parameters.items() if name.endswith("bias")]
    assert all(abs(float(matrix.std()) - 0.02) < 0.003 for matrix in matrices)
    assert all(float(bias.abs().max()) == 0 for bias in biases)
    assert all(0 <= number <= 1 / 256 for number in module.everywhere.tolist())


def test_width_must_divide_into_heads() -> None:
    with pytest.raises(gb.ParamError, match="width"):
        Transolver(make_task(), Params(width=20, heads=8))


# ------------------------------------------------------------------------------------------ formula


def literal(module: PhysicsAttention, x: Tensor) -> Tensor:
    """The attention of one sample, (N, h), head by head and slice by slice."""
    each = x.shape[1] // module.heads
    normed = torch.nn.functional.layer_norm(x, x.shape[1:], module.norm.weight, module.norm.bias)
    heads = []
    for head in range(module.heads):
        rows = slice(head * each, (head + 1) * each)
        value = normed @ module.value.weight[rows].T + module.value.bias[rows]  # (N, e)
        place = normed @ module.place.weight[rows].T + module.place.bias[rows]  # (N, e)
        logits = place @ module.slice.weight.T + module.slice.bias  # (N, G)
        logits = logits / module.temperature[head]
        share = logits.exp() / logits.exp().sum(1, keepdim=True)
        means = [
            (share[:, g, None] * value).sum(0) / (share[:, g].sum() + EMPTY)
            for g in range(share.shape[1])
        ]
        tokens = torch.stack(means)  # (G, e)
        query, key, content = (tokens @ matrix.T for matrix in module.query_key_value)
        scores = (query @ key.T / each**0.5).exp()
        heads.append(share @ (scores / scores.sum(1, keepdim=True) @ content))
    return x + torch.cat(heads, 1) @ module.out.weight.T + module.out.bias


@pytest.mark.parametrize("order", ORDERS)
def test_attention_and_its_gradients_are_those_of_the_formula(order: str) -> None:
    module, x = attention(order), torch.randn(2, 11, 16, dtype=torch.float64, requires_grad=True)
    above = torch.randn(2, 11, 16, dtype=torch.float64)
    expected = torch.stack([literal(module, sample) for sample in x])
    result = module(x, None)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)
    inputs = [x, *module.parameters()]
    gradients = [torch.autograd.grad(y, inputs, above) for y in (result, expected)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-11)


def test_whole_model_is_the_same_in_both_orders() -> None:
    batch, results = random_batch(make_task(), dtype=torch.float64), []
    for order in ORDERS:
        torch.manual_seed(0)
        module = Transolver(batch.task, Params(**SMALL, attention=order)).double()
        results.append(module(batch))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-13)


def test_cheaper_order_is_chosen() -> None:
    assert transolver.is_fused(Params())
    assert not transolver.is_fused(Params.make(MODEL.presets["official"].model))


def test_shares_of_a_node_sum_to_one() -> None:
    module, x = attention("fused"), torch.randn(2, 11, 16, dtype=torch.float64)
    weights, _, sizes = fused.FusedSlices.apply(x, *fused.slice_map(module), None)
    shares = weights.unflatten(-1, (4, 5)).sum(-1)
    torch.testing.assert_close(shares, torch.ones_like(shares))
    torch.testing.assert_close(sizes.sum(1), torch.full((2,), 4 * 11.0, dtype=torch.float64))
    ones = torch.ones(2, 4, 5, 4, dtype=torch.float64)
    with torch.no_grad():
        module.query_key_value[2] = torch.eye(4)
    torch.testing.assert_close(module.attend(ones), ones)  # weights among tokens sum to 1 too


@pytest.mark.parametrize("order", ORDERS)
def test_constant_values_come_back_constant(order: str) -> None:
    module = attention(order)
    with torch.no_grad():
        module.value.weight.zero_()  # every node has the value b_f
    x = torch.randn(1, 400, 16, dtype=torch.float64)
    y = module(x, None) - x
    # up to the 1e-5 in the mean
    torch.testing.assert_close(y, y[:, :1].expand_as(y), rtol=0, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_one_slice_gives_the_same_everywhere(order: str) -> None:
    module, x = attention(order, slices=1), torch.randn(2, 11, 16, dtype=torch.float64)
    y = module(x, None) - x
    torch.testing.assert_close(y, y[:, :1].expand_as(y))


def test_recomputing_blocks_changes_nothing() -> None:
    batch, results = random_batch(make_task()), []
    for recompute in (False, True):
        torch.manual_seed(0)
        module = Transolver(batch.task, Params(**SMALL, checkpoint=recompute))
        y = module(batch)
        y.square().sum().backward()
        results.append([y, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("order", ORDERS)
def test_every_parameter_gets_a_gradient(order: str) -> None:
    for task in (make_task(), make_task(dim=3, static=0, t_in=2, t_out=3)):
        torch.manual_seed(0)
        module = Transolver(task, Params(**SMALL, attention=order, octaves=2))
        module(random_batch(task)).square().sum().backward()
        idle = [
            name
            for name, parameter in module.named_parameters()
            if parameter.grad is None or not parameter.grad.abs().sum() > 0
        ]
        assert not idle, idle


def test_bfloat16_trains_too() -> None:
    for order in ORDERS:
        torch.manual_seed(0)
        module = Transolver(make_task(), Params(**SMALL, attention=order))
        batch = random_batch(make_task())
        exact = module(batch).detach()
        plain = torch.backends.mkldnn.flags(enabled=False)
        with plain, torch.autocast("cpu", dtype=torch.bfloat16):
            y = module(batch)
            y.float().square().sum().backward()
        assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())
        assert float((y.detach() - exact).norm() / exact.norm()) < 0.05


# --------------------------------------------------------------------------------------- symmetries


@pytest.mark.parametrize("order", ORDERS)
def test_renumbered_nodes_give_renumbered_values(order: str) -> None:
    torch.manual_seed(0)
    module = Transolver(make_task(), Params(**SMALL, attention=order))
    batch = random_batch(make_task())
    turned = torch.randperm(batch.nodes)
    result, expected = module(nodes_picked(batch, turned)), module(batch)[:, :, turned]
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_twice_the_nodes_give_the_same_values(order: str) -> None:
    torch.manual_seed(0)
    module = Transolver(make_task(), Params(**SMALL, attention=order))
    batch = random_batch(make_task())
    twice = torch.arange(batch.nodes).repeat(2)
    result, expected = module(nodes_picked(batch, twice)), module(batch)[:, :, twice]
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_padding_does_not_leak(order: str) -> None:
    task = make_task(fixed_mesh=False, corresponds=False)
    torch.manual_seed(0)
    module, batch = Transolver(task, Params(**SMALL, attention=order)), random_batch(task, nodes=20)
    mask = torch.arange(20) < torch.tensor([20, 13, 7])[:, None]
    dirty = replace(batch, mask=mask, static=torch.where(mask[..., None], batch.static, 1e3))
    for index, size in enumerate((20, 13, 7)):
        kept = torch.tensor([index])
        names = ("window", "static", "points", "scalars")
        sample = replace(batch, **{name: getattr(batch, name)[kept] for name in names})
        expected = module(nodes_picked(sample, torch.arange(size)))
        result = module(dirty)[[index], :, :size]
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


def test_waves_of_the_coordinates_are_further_inputs() -> None:
    batch = random_batch(make_task())
    waves = Transolver(batch.task, Params(**SMALL, octaves=3)).waves(batch)
    assert len(waves) == 6 and waves[0].shape == (3, 20, 2)
    torch.testing.assert_close(waves[4][1], (4 * torch.pi * batch.points[0]).sin())
    assert count(make_task(), octaves=3) == count(make_task(), octaves=0) + 12 * 512


@pytest.mark.parametrize("dim", [2, 3])
def test_distances_from_a_grid_on_the_unit_box_replace_coordinates(dim: int) -> None:
    """The authors' `unified_pos`, node by node and grid point by grid point."""
    draw, params = np.random.default_rng(0), Params.make(SMALL, {"reference": 3})
    meshes = tuple(gb.Mesh(draw.uniform(-2, 5, (size, dim))) for size in (9, 12))
    shape = {"static": (gb.Field("a"),), "fixed_mesh": False, "corresponds": False}
    data = samples(meshes, 2, shape)
    carried = transolver.summary(data, params)
    everywhere = np.concatenate([mesh.points for mesh in meshes])
    low, high = everywhere.min(axis=0), everywhere.max(axis=0)
    expected = [
        [
            [
                sum(((x - a) / (b - a) - g / 2) ** 2 for x, a, b, g in axes) ** 0.5
                for place in itertools.product(range(3), repeat=dim)
                for axes in [list(zip(point, low, high, place, strict=True))]
            ]
            for point in mesh.points
        ]
        for mesh in meshes
    ]
    parts = [transolver.geometry(mesh, data.task, params, carried) for mesh in meshes]
    for part, distances in zip(parts, expected, strict=True):
        np.testing.assert_allclose(part["reference"].value, distances, rtol=0, atol=1e-13)
    loader = Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(data, TrainParams()),
        geometries=parts,
        device="cpu",
        impose_boundary=False,
    )
    batch, module = all_of(loader), Transolver(data.task, params)
    features = module.features(batch)
    assert features.shape == (2, 12, 3**dim + 1)
    torch.testing.assert_close(
        features[0, :9, :-1].double(), torch.tensor(expected[0]), rtol=0, atol=1e-6
    )
    torch.testing.assert_close(features[..., -1:], batch.static)
    moved = replace(batch, points=batch.points + 1)
    torch.testing.assert_close(module(moved), module(batch), rtol=0, atol=0)


def test_official_is_the_authors_script_of_the_nearest_benchmark() -> None:
    by_task = {task: knobs for task, knobs in MODEL.settings.items() if "official" in knobs}
    official = {task: knobs["official"] for task, knobs in by_task.items()}
    assert official["darcy"]["model.reference"] == official["nse"]["model.reference"] == 8
    assert "model.reference" not in official["airfoil"] | official["burgers3d"] | official["car"]
    for knobs in official.values():
        assert (knobs["train.schedule"], knobs["train.beta1_cycle"]) == ("onecycle", True)
    # the norm of the mean over a batch where the authors clip that of the sum at 0.1
    for task in ("darcy", "airfoil", "pipe"):
        assert official[task]["train.clip"] * official[task]["train.batch"] == pytest.approx(0.1)


def test_frames_can_be_predicted_one_by_one() -> None:
    task = make_task(static=0, t_in=3, t_out=7)
    assert MODEL.horizon(task, Params()) == gb.Horizon(3, 7)
    assert MODEL.horizon(task, Params(frames=1)) == gb.Horizon(3, 1)
    assert MODEL.horizon(make_task(), Params(frames=4)) == gb.Horizon(0, 1)


# ----------------------------------------------------------------------------------------- learning


def load(data: gb.Samples, like: gb.Samples) -> Loader:
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(like, TrainParams.make(MODEL.presets["compact"].train)),
        geometries=[],
        device="cpu",
        impose_boundary=False,
    )


def overfit(steps: int) -> tuple[Transolver, gb.Samples, float]:
    data = problems.steady({"train": 4})["train"]
    loader, everyone = load(data, data), torch.arange(4)
    batch, target = loader.batch(everyone, torch.zeros_like(everyone), 1)
    torch.manual_seed(0)
    module = Transolver(data.task, Params(width=32, layers=3, heads=4, slices=8))
    optimiser = torch.optim.AdamW(module.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(steps):
        gap = (loader.finish(module(batch), batch, everyone) - target).flatten(1)
        error = gap.norm(dim=1) / target.flatten(1).norm(dim=1)
        optimiser.zero_grad()
        error.mean().backward()
        optimiser.step()
        schedule.step()
    return module, data, float(error.detach().mean())


def test_it_fits_four_samples_and_predicts_on_a_finer_mesh() -> None:
    module, data, error = overfit(300)
    assert error < 0.1
    finer = problems.steady({"train": 4}, problems.square(side=15))["train"]
    gaps = finer.meshes[0].points[:, None] - data.meshes[0].points
    nearest = np.argmin((gaps**2).sum(-1), axis=1)
    elsewhere = load(replace(finer, static=np.asarray(data.static)[:, nearest]), data)
    everyone = torch.arange(4)
    batch, _ = elsewhere.batch(everyone, torch.zeros_like(everyone), 1)
    with torch.no_grad():
        prediction = elsewhere.finish(module(batch), batch, everyone)[:, 0, :, 0]  # (4, N)
    target = torch.as_tensor(np.asarray(data.frames)[:, 0, nearest, 0])
    # nearest-node inputs and targets: coarse, but the same field
    assert float((prediction - target).norm() / target.norm()) < 0.3


@pytest.mark.slow
def test_it_fits_four_samples_below_one_percent() -> None:
    assert overfit(2000)[2] < 0.01
