"""DeepONet: counts, the Cartesian form against rows, inputs of both nets, sensors elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from problems import square, steady
from random_data import all_of

import gsnobench as gb
from gsnobench.files import Cache
from gsnobench.meshes.interpolation import interpolation
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench_plugins.models import deeponet

MODEL = deeponet.gsnobench_model()
FIXED = {"static": (gb.Field("a"),)}
UNSTEADY = {"t_in": 2, "t_out": 3, "fields": (gb.Field("u"), gb.Field("v"))}
DEFORMED = {"fixed_mesh": False}
RAGGED = {
    "static": (gb.Field("a"),),
    "scalars": (gb.Field("s"),),
    "fixed_mesh": False,
    "corresponds": False,
}
SMALL = {"width": 16, "basis": 10, "sensors": 36}


def deformed(mesh: gb.Mesh, amount: float) -> gb.Mesh:
    points = mesh.points * [1.0, 1.0 + amount] + [0.0, amount] * np.sin(3 * mesh.points[:, :1])
    return replace(mesh, points=points)


def samples(meshes: tuple[gb.Mesh, ...], count: int, shape: Mapping[str, Any]) -> gb.Samples:
    """Random numbers: the rules below hold for any."""
    nodes = max(mesh.size for mesh in meshes)
    task = gb.Task(
        "t",
        "t",
        **{
            "fields": (gb.Field("u"),),
            "dim": 2,
            "tags": ("boundary",),
            "resolution": nodes,
            **shape,
        },
    )
    draw = np.random.default_rng(0)
    return gb.Samples(
        task=task,
        meshes=meshes,
        frames=draw.standard_normal(
            (count, task.t_in + task.t_out, nodes, len(task.fields))
        ).astype(np.float32),
        static=draw.standard_normal((count, nodes, len(task.static))).astype(np.float32),
        scalars=draw.standard_normal((count, len(task.scalars))).astype(np.float32),
    )


def load(
    data: gb.Samples,
    params: deeponet.Params,
    train: gb.Samples | None = None,
    preset: str = "official",
) -> Loader:
    train = train or data
    summary = deeponet.summary(train, params)
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(train, TrainParams.make(MODEL.presets[preset].train)),
        geometries=[
            compute_geometry(MODEL, params, data.task, mesh, summary=summary, cache=Cache())
            for mesh in data.meshes
        ],
        device="cpu",
        impose_boundary=False,
    )


def make(
    shape: Mapping[str, Any], *meshes: gb.Mesh, count: int = 3, **knobs: Any
) -> tuple[deeponet.DeepONet, gb.Batch]:
    params = deeponet.Params.make({**SMALL, **knobs})
    data = samples(meshes or (square(5),), count, shape)
    return build(data.task, params), all_of(load(data, params))


def build(task: gb.Task, params: deeponet.Params) -> deeponet.DeepONet:
    """A module whose biases are not the zeros it starts from."""
    torch.manual_seed(0)
    module = deeponet.DeepONet(task, params)
    for parameter in module.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return module


def count_parameters(task: gb.Task, preset: str) -> int:
    params = deeponet.Params.make(MODEL.presets[preset].model)
    return sum(parameter.numel() for parameter in deeponet.DeepONet(task, params).parameters())


def darcy_task(nodes: int) -> gb.Task:
    return gb.Task(
        "darcy", "darcy", (gb.Field("u"),), dim=2, static=(gb.Field("a"),), resolution=nodes
    )


# ------------------------------------------------------------------------------------------- counts


def test_parameters_are_those_of_the_sheet() -> None:
    nse = gb.Task("nse", "nse", (gb.Field("w"),), dim=2, t_in=5, t_out=46, resolution=1244)
    assert count_parameters(darcy_task(1184), "paper") == 149_101
    assert count_parameters(darcy_task(1184), "official") == 227_401
    assert count_parameters(nse, "paper") == 652_801
    assert count_parameters(darcy_task(600), "compact") <= 300_000


def test_paper_scales_to_the_unit_interval() -> None:
    data = samples((square(5),), 3, {"static": (gb.Field("a"),), "t_in": 2, "t_out": 3})
    scaling = fit_normaliser(data, TrainParams.make(MODEL.presets["paper"].train))
    frames, points = torch.from_numpy(data.frames), torch.from_numpy(data.meshes[0].points)
    pairs = [
        (scaling.window, frames),
        (scaling.output, frames),
        (scaling.static, torch.from_numpy(data.static)),
        (scaling.points, points),
    ]
    for affine, values in pairs:
        encoded = affine.encode(values)
        assert (float(encoded.min()), float(encoded.max())) == pytest.approx((0, 1), abs=1e-6)


def test_every_parameter_gets_a_gradient() -> None:
    for shape in (FIXED, UNSTEADY, RAGGED):
        module, batch = make(shape, *([square(5), square(6), square(4)] if shape is RAGGED else []))
        module(batch).square().sum().backward()
        idle = [
            name
            for name, parameter in module.named_parameters()
            if parameter.grad is None or not parameter.grad.abs().sum() > 0
        ]
        assert not idle, (shape, idle)


def test_a_task_without_a_node_count_is_an_error() -> None:
    with pytest.raises(gb.DataError, match="resolution"):
        deeponet.DeepONet(darcy_task(0), deeponet.Params())


# ------------------------------------------------------------------------------------------ formula


@pytest.mark.parametrize("activated", [True, False])
@pytest.mark.parametrize(
    "shape", [FIXED, UNSTEADY, DEFORMED], ids=["steady", "unsteady", "deformed"]
)
def test_cartesian_form_is_the_row_by_row_form(shape: Mapping[str, Any], activated: bool) -> None:
    """One row = one sample and one point in space and time, as in the authors' first code."""
    meshes = (
        tuple(deformed(square(5), amount) for amount in (0.1, 0.2, 0.3))
        if shape is DEFORMED
        else ()
    )
    module, batch = make(shape, *meshes, activated_basis=activated)
    result = module(batch)
    B, T, N, C = result.shape
    points = batch.points.expand(B, -1, -1)
    readings = deeponet.sensed(batch)
    for b, t, n in ((0, 0, 0), (1, T - 1, 7), (2, T // 2, 3), (1, 0, N - 1), (0, T - 1, 11)):
        clock = [torch.tensor([t / (T - 1)])] if T > 1 else []
        row = module.trunk.rest(module.trunk.first(torch.cat([points[b, n], *clock])))  # (p,)
        weights = module.branch(readings[b]).reshape(C, -1)  # (C, p)
        torch.testing.assert_close(
            result[b, t, n], (weights * row).sum(-1) + module.offset, rtol=1e-4, atol=1e-5
        )
    assert bool((row >= 0).all()) is activated


def test_output_is_linear_in_the_branch() -> None:
    module, batch = make(UNSTEADY)
    with torch.no_grad():
        module.offset.zero_()
        before = module(batch)
        module.branch[-1].weight *= 2
        module.branch[-1].bias *= 2
        torch.testing.assert_close(module(batch), 2 * before, rtol=0, atol=0)


def test_outputs_of_many_inputs_span_at_most_the_basis() -> None:
    module, batch = make(FIXED, square(6), count=30, basis=8, width=64)
    u = (module(batch) - module.offset).flatten(1).detach().double()  # (30, N)
    singular = torch.linalg.svdvals(u)
    assert int((singular > 1e-5 * singular[0]).sum()) <= 8


def test_a_point_is_answered_alike_whatever_else_is_asked() -> None:
    module, batch = make(UNSTEADY)
    order = torch.randperm(batch.nodes, generator=torch.Generator().manual_seed(1))[:9]
    basis = module.trunk(batch.points).unflatten(1, (3, -1))  # (1, T, N, p)
    fewer = module.trunk(batch.points[:, order]).unflatten(1, (3, -1))
    torch.testing.assert_close(fewer, basis[:, :, order], rtol=0, atol=1e-6)


def test_exchanged_sensors_change_the_answer() -> None:
    module, batch = make(FIXED)
    turned = module(replace(batch, static=batch.static.flip(1)))
    assert float((turned - module(batch)).abs().max()) > 1e-2


# ------------------------------------------------------------------------------ batches and devices


@pytest.mark.parametrize("shape", [UNSTEADY, RAGGED], ids=["unsteady", "ragged"])
def test_samples_and_padding_do_not_leak(shape: Mapping[str, Any]) -> None:
    meshes = (square(4), square(6), square(5)) if shape is RAGGED else (square(5),)
    params = deeponet.Params.make(SMALL)
    data = samples(meshes, 3, shape)
    module, loader = build(data.task, params), load(data, params)
    nodes = meshes[0].size
    alone, _ = loader.batch(torch.tensor([0]), torch.tensor([0]), data.task.t_out)
    both = all_of(loader)
    static = both.static.clone()
    static[0, nodes:] = 1e3
    torch.testing.assert_close(
        module(replace(both, static=static))[0, :, :nodes],
        module(alone)[0, :, :nodes],
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("preset", MODEL.presets)
def test_nothing_is_made_on_a_default_device(preset: str) -> None:
    module, batch = make(UNSTEADY, **{**MODEL.presets[preset].model, **SMALL})
    moved = {
        name: getattr(batch, name).to("meta")
        for name in ("window", "static", "scalars", "points", "tags")
    }
    assert module.to("meta")(replace(batch, **moved)).shape == (3, 3, 25, 2)


# ------------------------------------------------------------------------------------------ sensors


def test_nodes_of_the_training_mesh_are_the_sensors() -> None:
    _, batch = make(FIXED)
    assert not batch.geometry
    assert torch.equal(deeponet.sensed(batch), batch.static[..., 0])


def test_another_mesh_is_read_at_the_training_sensors() -> None:
    params, coarse, fine = deeponet.Params.make(SMALL), square(5), square(9, seed=3)
    train, other = samples((coarse,), 3, FIXED), samples((fine,), 3, FIXED)
    batch = all_of(load(other, params, train))
    onto = torch.from_numpy(interpolation(fine, coarse.points).toarray()).float()  # (25, 81)
    torch.testing.assert_close(
        deeponet.sensed(batch), batch.static[..., 0] @ onto.T, rtol=1e-4, atol=1e-5
    )
    assert build(train.task, params)(batch).shape == (3, 1, 81, 1)


def test_a_deformed_mesh_is_read_by_its_node_positions() -> None:
    meshes = tuple(deformed(square(5), amount) for amount in (0.0, 0.2, 0.4))
    _, batch = make(DEFORMED, *meshes)
    read = deeponet.sensed(batch)  # (3, 50)
    assert read.shape == (3, 50)
    torch.testing.assert_close(read.mean(0), torch.zeros(50), rtol=0, atol=1e-5)
    torch.testing.assert_close(read.square().mean(), torch.tensor(1.0))


def test_a_shape_with_other_nodes_is_read_almost_as_the_same_shape() -> None:
    params = deeponet.Params.make(SMALL)
    train = samples(tuple(deformed(square(5), amount) for amount in (0.0, 0.2, 0.4)), 3, DEFORMED)
    finer = samples(
        tuple(deformed(square(9, seed=2), amount) for amount in (0.0, 0.2, 0.4)), 3, DEFORMED
    )
    known, guessed = (deeponet.sensed(all_of(load(data, params, train))) for data in (train, finer))
    assert float((known - guessed).norm() / known.norm()) < 0.05


def test_signed_distance_of_a_square_with_and_without_cells() -> None:
    mesh = square(11)
    probes = np.array([[0.5, 0.4], [0.2, 0.5], [1.5, 0.5], [-0.3, -0.4]])
    np.testing.assert_allclose(
        deeponet.signed_distance(mesh, probes), [-0.4, -0.2, 0.5, 0.5], atol=1e-12
    )
    cloud = replace(mesh, cells=None)
    np.testing.assert_allclose(
        deeponet.signed_distance(cloud, probes), [0.4, 0.2, 0.5, 0.5], atol=0.02
    )


def test_geometries_without_common_nodes_are_read_on_a_grid() -> None:
    module, batch = make(RAGGED, square(4), deformed(square(6), 0.3), square(5))
    assert deeponet.sensed(batch).shape == (3, 36 + 1 + 36)  # static, scalar, distance
    assert batch.geometry["shape"].shape == (3, 36)
    assert torch.isfinite(module(batch)).all()


# ----------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("seed", [0, 1])
def test_eight_unrelated_pairs_are_memorised(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = draw.uniform(size=(300, 2))

    def fields() -> np.ndarray:
        waves = draw.integers(1, 4, (8, 4, 2)) * np.pi
        return np.einsum(
            "sk,snk->sn",
            draw.normal(size=(8, 4)),
            np.sin(np.einsum("skd,nd->snk", waves, points) + 1),
        )

    task = darcy_task(300)
    frames, static = (fields()[..., None].astype(np.float32) for _ in range(2))
    data = gb.Samples(
        task, (gb.Mesh(points),), frames[:, None], static, np.zeros((8, 0), np.float32)
    )
    batch = all_of(load(data, deeponet.Params()))
    torch.manual_seed(seed)
    module = deeponet.DeepONet(task, deeponet.Params())
    target = torch.from_numpy(frames[:, None])
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    for _ in range(500):
        optimiser.zero_grad()
        loss = (
            (module(batch) - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)
        ).mean()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.1


def test_real_operator_is_learned_and_moves_to_another_mesh() -> None:
    """Beats the mean of the training split on its own mesh and on a finer one."""
    fine_mesh = square(17, seed=5)
    sizes = {"train": 64, "valid": 8, "test": 16}
    coarse, fine = steady(sizes), steady({"train": 1, "valid": 1, "test": 16}, fine_mesh)
    params = deeponet.Params.make(MODEL.presets["compact"].model)
    train = load(coarse["train"], params)
    torch.manual_seed(0)
    module = deeponet.DeepONet(coarse["train"].task, params)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    batch, target = train.batch(torch.arange(64), torch.zeros(64, dtype=torch.long), 1)
    for _ in range(300):
        optimiser.zero_grad()
        gap = train.finish(module(batch), batch, torch.arange(64)) - target
        (gap.flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).mean().backward()
        optimiser.step()
    for data in (coarse["test"], fine["test"]):
        loader = load(data, params, coarse["train"])
        batch, truth = loader.batch(torch.arange(16), torch.zeros(16, dtype=torch.long), 1)
        with torch.no_grad():
            gap = (loader.finish(module(batch), batch, torch.arange(16)) - truth).flatten(1).norm(
                dim=1
            ) / truth.flatten(1).norm(dim=1)
        mean = (truth - truth.mean(0)).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
        assert float(gap.mean()) < 0.6 * float(mean.mean())
