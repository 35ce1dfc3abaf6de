"""GNOT: counts, attention and experts by their formulas, symmetries, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import problems
import pytest
import torch
from random_data import nodes_picked, random_batch
from torch import Tensor
from torch.nn import functional

import gsnobench as gb
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench_plugins.models import gnot
from gsnobench_plugins.models.gnot import Attention, Block, Experts, Gnot, Mlp, Params

MODEL = gnot.gsnobench_model()
SMALL = {"width": 16, "layers": 2, "heads": 4, "depth": 1}


def make_task(
    dim: int = 2, static: int = 1, fields: int = 1, scalars: int = 0, **changes: Any
) -> gb.Task:
    return gb.Task(
        "t",
        "t",
        tuple(gb.Field(f"u{i}") for i in range(fields)),
        dim=dim,
        static=tuple(gb.Field(f"a{i}") for i in range(static)),
        scalars=tuple(gb.Field(f"p{i}") for i in range(scalars)),
        **changes,
    )


def make(task: gb.Task, **knobs: Any) -> Gnot:
    torch.manual_seed(0)
    return Gnot(task, Params.make(SMALL, knobs))


def count(task: gb.Task, preset: str = "paper", **knobs: Any) -> int:
    return sum(
        parameter.numel()
        for parameter in Gnot(task, Params.make(MODEL.presets[preset].model, knobs)).parameters()
    )


# ------------------------------------------------------------------------------------------- counts


def formula(task: gb.Task, params: Params) -> int:
    """The sheet's count, term by term."""
    h, L, E, D, n = params.width, params.layers, params.experts, task.dim, params.depth
    c = round(params.ratio * h)

    def mlp(inputs: int, outputs: int) -> int:
        return inputs * h + h + n * (h * h + h) + h * outputs + outputs

    rows = D + task.t_in * len(task.fields) + len(task.static)
    block = (
        2 * h * 5
        + 8 * (h * h + h)
        + 2 * E * (2 * c * h + c + h)
        + (D * c + c + c * c + c + c * E + E)
    )
    return mlp(D + len(task.scalars), h) + mlp(rows, h) + L * block + mlp(h, task.out_channels)


def test_parameters_are_those_of_the_published_sizes() -> None:
    assert count(make_task()) == 6_531_853
    assert count(make_task(), ratio=2.0) == 10_477_325
    assert count(make_task(), ratio=4.0) == 19_941_133
    assert count(make_task(dim=3, static=4, fields=4), ratio=4.0) == 19_947_280
    assert count(make_task(static=0, t_in=5, t_out=46)) == 6_544_442
    assert count(make_task(scalars=1)) == 6_531_853 + 256
    assert count(make_task(), "compact") <= 300_000


@pytest.mark.parametrize("preset", ["paper", "official"])
def test_parameters_follow_the_formula(preset: str) -> None:
    for task in (make_task(), make_task(dim=3, static=0, scalars=2, t_in=3, t_out=4)):
        assert count(task, preset) == formula(task, Params.make(MODEL.presets[preset].model))


def test_width_must_divide_into_heads() -> None:
    with pytest.raises(gb.ParamError, match="width"):
        Gnot(make_task(), Params(width=20, heads=8))


# ------------------------------------------------------------------------------------------ formula


def literal_attention(module: Attention, x: Tensor, z: Tensor) -> Tensor:
    """Queries (N, h) and rows (M, h) of one sample, every pair of them, head by head."""
    each = x.shape[1] // module.heads
    query, key, value = module.query(x), module.key(z), module.value(z)
    heads = []
    for head in range(module.heads):
        at = slice(head * each, (head + 1) * each)
        q, k = query[:, at].softmax(1), key[:, at].softmax(1)
        scores = q @ k.T  # (N, M)
        weights = scores / scores.sum(1, keepdim=True)
        assert (weights > 0).all()
        heads.append(q + weights @ value[:, at])
    return module.out(torch.cat(heads, 1))


def literal_experts(module: Experts, x: Tensor, gates: Tensor) -> Tensor:
    """One expert after the other, (N, h)."""
    total = torch.zeros_like(x)
    for expert in range(len(module.up)):
        hidden = functional.gelu(x @ module.up[expert].T + module.up_bias[expert])
        total = total + gates[:, expert, None] * (
            hidden @ module.down[expert] + module.down_bias[expert]
        )
    return total


def test_linear_attention_is_the_explicit_one_with_its_gradients() -> None:
    torch.manual_seed(0)
    module = Attention(16, 4).double()
    x, z = (torch.randn(2, size, 16, dtype=torch.float64, requires_grad=True) for size in (50, 40))
    result = module(x, z, None)
    expected = torch.stack([literal_attention(module, *pair) for pair in zip(x, z, strict=True)])
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)
    above = torch.randn_like(result)
    gradients = [
        torch.autograd.grad(y, [x, z, *module.parameters()], above) for y in (result, expected)
    ]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-11)


def test_attention_to_constant_values_returns_them() -> None:
    torch.manual_seed(0)
    module, value = Attention(16, 4), torch.randn(16)
    query, key = torch.randn(2, 7, 16), torch.randn(2, 9, 16)
    result = module.read(query, key, value.expand(2, 9, 16), None)
    torch.testing.assert_close(result, query.unflatten(-1, (4, 4)).softmax(-1).flatten(2) + value)


def test_fused_experts_are_the_loop_with_its_gradients() -> None:
    torch.manual_seed(0)
    module = Experts(8, 12, 3).double()
    x = torch.randn(2, 11, 8, dtype=torch.float64, requires_grad=True)
    for shared in (1, 2):  # one mesh for both samples, or one each
        logits = torch.randn(shared, 11, 3, dtype=torch.float64, requires_grad=True)
        gates = logits.softmax(-1)
        result = module(x, gates)
        expected = torch.stack(
            [
                literal_experts(module, *pair)
                for pair in zip(x, gates.expand(2, -1, -1), strict=True)
            ]
        )
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)
        above = torch.randn_like(result)
        gradients = [
            torch.autograd.grad(y, [x, logits, *module.parameters()], above, retain_graph=True)
            for y in (result, expected)
        ]
        torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-12)


def test_block_is_that_of_the_formula() -> None:
    torch.manual_seed(0)
    block = Block(2, Params(width=16, heads=4)).double()
    x, z, points = (torch.randn(2, 11, size, dtype=torch.float64) for size in (16, 16, 2))
    expected = []
    for x_, z_, gates in zip(x, z, block.gate(points), strict=True):
        y = x_ + literal_attention(block.cross, block.norm_query(x_), block.norm_branch(z_))
        y = y + block.norm_experts[0](literal_experts(block.experts[0], y, gates))
        y = y + literal_attention(block.self, block.norm_self(y), block.norm_self(y))
        expected.append(y + block.norm_experts[1](literal_experts(block.experts[1], y, gates)))
    torch.testing.assert_close(block(x, z, points, None), torch.stack(expected), rtol=0, atol=1e-12)


def test_mlp_adds_its_square_layers() -> None:
    torch.manual_seed(0)
    module, x = Mlp(3, 8, 2, depth=2), torch.randn(5, 3)
    a = functional.gelu(module.first(x))
    for layer in module.middle:
        a = a + functional.gelu(layer(a))
    torch.testing.assert_close(module(x), module.last(a))


def test_gates_share_out_one() -> None:
    points = torch.randn(1, 9, 2)
    gates = Block(2, Params(width=16, heads=4)).gate(points)
    assert gates.shape == (1, 9, 3) and (gates >= 0).all()
    torch.testing.assert_close(gates.sum(-1), torch.ones(1, 9))
    assert (Block(2, Params(width=16, heads=4, experts=1)).gate(points) == 1).all()


def test_work_shared_by_a_mesh_changes_nothing() -> None:
    for knobs in ({}, {"trunk": "inputs"}):
        batch = random_batch(make_task())
        apart = replace(batch, points=batch.points.repeat(3, 1, 1))
        module = make(batch.task, **knobs)
        torch.testing.assert_close(module(batch), module(apart))


def test_recomputing_blocks_changes_nothing() -> None:
    batch, results = random_batch(make_task()), []
    for recompute in (False, True):
        module = make(batch.task, checkpoint=recompute)
        y = module(batch)
        y.square().sum().backward()
        results.append([y, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("trunk", ["place", "inputs"])
def test_every_parameter_gets_a_gradient(trunk: str) -> None:
    for task in (
        make_task(),
        make_task(dim=3, static=0, scalars=2, t_in=2, t_out=3),
        make_task(static=0, fixed_mesh=False),
    ):
        module = make(task, trunk=trunk)
        module(random_batch(task)).square().sum().backward()
        idle = [
            name
            for name, parameter in module.named_parameters()
            if parameter.grad is None or not parameter.grad.abs().sum() > 0
        ]
        assert not idle, idle


def test_bfloat16_trains_too() -> None:
    batch = random_batch(make_task())
    module = make(batch.task)
    exact = module(batch).detach()
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        y = module(batch)
        y.float().square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())
    assert float((y.detach() - exact).norm() / exact.norm()) < 0.05


# --------------------------------------------------------------------------------------- symmetries


def test_renumbered_nodes_give_renumbered_values() -> None:
    batch = random_batch(make_task())
    module, turned = make(batch.task), torch.randperm(batch.nodes)
    torch.testing.assert_close(
        module(nodes_picked(batch, turned)), module(batch)[:, :, turned], rtol=0, atol=1e-6
    )


def test_rows_of_the_branch_have_no_order_and_no_count() -> None:
    torch.manual_seed(0)
    module, x, z = Attention(16, 4), torch.randn(2, 7, 16), torch.randn(2, 9, 16)
    exact = module(x, z, None)
    torch.testing.assert_close(module(x, z[:, torch.randperm(9)], None), exact)
    torch.testing.assert_close(module(x, z.repeat(1, 2, 1), None), exact)  # a mean, not a sum


def test_queries_read_one_another() -> None:
    torch.manual_seed(0)
    block = Block(2, Params(width=16, heads=4))
    z = torch.randn(1, 9, 16)
    points = torch.randn(1, 9, 2)
    x = torch.randn(1, 9, 16)
    some, among_all = block(x[:, :5], z, points[:, :5], None), block(x, z, points, None)[:, :5]
    assert float((some - among_all).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("trunk", ["place", "inputs"])
def test_padding_does_not_leak(trunk: str) -> None:
    task = make_task(scalars=1, fixed_mesh=False, corresponds=False)
    module, batch = make(task, trunk=trunk), random_batch(task, nodes=20)
    mask = torch.arange(20) < torch.tensor([20, 13, 7])[:, None]
    dirty = replace(batch, mask=mask, static=torch.where(mask[..., None], batch.static, 1e3))
    for index, size in enumerate((20, 13, 7)):
        kept = torch.tensor([index])
        sample = {
            "window": batch.window[kept],
            "static": batch.static[kept],
            "points": batch.points[kept],
        }
        alone = nodes_picked(
            replace(batch, **sample, scalars=batch.scalars[kept]), torch.arange(size)
        )
        torch.testing.assert_close(module(dirty)[kept, :, :size], module(alone), rtol=0, atol=1e-6)


def test_frames_can_be_found_one_by_one() -> None:
    task = make_task(static=0, t_in=3, t_out=7)
    assert MODEL.horizon(task, Params()) == gb.Horizon(3, 7)
    assert MODEL.horizon(task, Params(frames=1)) == gb.Horizon(3, 1)


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


def overfit(steps: int) -> tuple[Gnot, gb.Samples, float]:
    data = problems.steady({"train": 4})["train"]
    loader, everyone = load(data, data), torch.arange(4)
    batch, target = loader.batch(everyone, torch.zeros_like(everyone), 1)
    module = make(data.task, width=32, layers=2, trunk="inputs")
    optimiser = torch.optim.AdamW(module.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for _ in range(steps):
        error = (loader.finish(module(batch), batch, everyone) - target).flatten(1).norm(
            dim=1
        ) / target.flatten(1).norm(dim=1)
        optimiser.zero_grad()
        error.mean().backward()
        optimiser.step()
        schedule.step()
    return module, data, float(error.detach().mean())


def test_it_fits_four_samples_and_answers_on_a_finer_mesh() -> None:
    module, data, error = overfit(200)
    assert error < 0.1
    finer = problems.steady({"train": 4}, problems.square(side=15))["train"]
    nearest = np.argmin(
        ((finer.meshes[0].points[:, None] - data.meshes[0].points) ** 2).sum(-1), axis=1
    )
    elsewhere = load(replace(finer, static=np.asarray(data.static)[:, nearest]), data)
    everyone = torch.arange(4)
    batch, _ = elsewhere.batch(everyone, torch.zeros_like(everyone), 1)
    with torch.no_grad():
        result = elsewhere.finish(module(batch), batch, everyone)[:, 0, :, 0]  # (4, N)
    expected = torch.as_tensor(np.asarray(data.frames)[:, 0, nearest, 0])
    # nearest-node inputs and targets: coarse, but the same field
    assert float((result - expected).norm() / expected.norm()) < 0.3


@pytest.mark.slow
def test_it_fits_four_samples_below_one_percent() -> None:
    assert overfit(2000)[2] < 0.01
