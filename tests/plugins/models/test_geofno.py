"""Geo-FNO: its counts, the literal operator, its symmetries, other meshes and learning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from kept_modes import kept_of
from problems import square, steady
from random_data import all_of, relative, samples
from torch import Tensor
from torch.nn import functional

import gsnobench as gb
from gsnobench.files import Cache
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams, rate_groups
from gsnobench_plugins.models.geofno import model as geofno
from gsnobench_plugins.models.geofno.fourier import ModeMixing

MODEL = geofno.gsnobench_model()
STEADY = {"static": (gb.Field("a"),)}
UNSTEADY = {"t_in": 2, "t_out": 5, "fields": (gb.Field("u"), gb.Field("v"))}
VARIED = {
    "static": (gb.Field("a"),),
    "scalars": (gb.Field("s"),),
    "fixed_mesh": False,
    "corresponds": False,
}
FIXED_CODE = {**STEADY, "scalars": (gb.Field("s"), gb.Field("r"))}
SMALL = {
    "modes": 3,
    "width": 6,
    "grid": 8,
    "head": 10,
    "warp_width": 8,
    "warp_hidden": 12,
    "padding": 2,
}


def load(data: gb.Samples, params: geofno.Params, train: gb.Samples | None = None) -> Loader:
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(train or data, TrainParams.make(MODEL.presets["official"].train)),
        geometries=[
            compute_geometry(MODEL, params, data.task, mesh, summary={}, cache=Cache())
            for mesh in data.meshes
        ],
        device="cpu",
        impose_boundary=False,
    )


def build(task: gb.Task, **knobs: Any) -> geofno.GeoFno:
    """A small module whose kernels are not almost zero."""
    torch.manual_seed(0)
    module = geofno.GeoFno(task, geofno.Params.make(SMALL, knobs))
    for part in module.modules():
        if isinstance(part, ModeMixing):
            torch.nn.init.normal_(part.weight, std=0.3)
    return module


def make(
    shape: Mapping[str, Any], *meshes: gb.Mesh, **knobs: Any
) -> tuple[geofno.GeoFno, gb.Batch]:
    data = samples(meshes or (square(6),), 3, shape)
    return build(data.task, **knobs), all_of(load(data, geofno.Params.make(SMALL, knobs)))


def count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def darcy_task() -> gb.Task:
    return gb.Task(
        "darcy", "darcy", (gb.Field("u"),), dim=2, static=(gb.Field("a"),), resolution=1184
    )


def from_preset(preset: str, **knobs: Any) -> geofno.GeoFno:
    return geofno.GeoFno(darcy_task(), geofno.Params.make(MODEL.presets[preset].model, knobs))


# ------------------------------------------------------------------------------------------- counts


def test_parameters_are_those_of_the_sheet() -> None:
    paper = from_preset("paper")
    assert count_parameters(paper) == 1_364_707 and count_parameters(paper.warp) == 45_858
    assert count_parameters(from_preset("official")) == 2_957_249 + 45_858
    assert count_parameters(from_preset("paper", grid_layers=2)) == 1_101_411
    assert count_parameters(from_preset("compact")) <= 1_500_000  # the budget is time, not numbers


def test_a_mode_of_a_spatial_layer_has_a_complex_matrix() -> None:
    task = replace(darcy_task(), dim=3)
    with torch.device("meta"):
        module = geofno.GeoFno(task, geofno.Params())
    # 8 w^2 M^3
    assert module.layers[0].mixing.weight.numel() == module.onto.weight.numel() == 4_194_304


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
def test_every_parameter_gets_a_gradient(shape: Mapping[str, Any]) -> None:
    module, batch = make(shape)
    module(batch).square().sum().backward()
    idle = [
        name
        for name, parameter in module.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    assert not idle, idle


def test_the_deformation_learns_at_a_tenth_of_the_rate() -> None:
    module, _ = make(STEADY)
    phase = MODEL.phases(module.task, module.params)[0]
    groups = rate_groups(module, list(module.parameters()), phase.rates)
    assert [group["share"] for group in groups] == [1.0, 0.1]
    assert {id(parameter) for parameter in groups[1]["params"]} == {
        id(parameter) for parameter in module.warp.parameters()
    }


# ----------------------------------------------------------------------------------------- operator


def literal(module: geofno.GeoFno, batch: gb.Batch) -> Tensor:
    """The formula sample by sample and frame by frame, with complex sums and the library's FFT."""
    samples = []
    space, modes = module.frame_sizes[-2:], (module.params.modes,) * 2
    waves = module.points.waves[:, : module.onto.weight.shape[0]] / (2 * math.pi)  # (2, K)
    for b in range(batch.size):
        x = 0.05 + 0.9 * batch.points[min(b, len(batch.points) - 1)]
        xi = module.warp(x[None], batch.scalars[[b]])[0]
        real = torch.ones(len(x), dtype=torch.bool) if batch.mask is None else batch.mask[b]
        frames = []
        for t in module.clock:
            given = batch.features[b][:, : module.lift.in_features - len(t)]
            v = module.lift(torch.cat([given, t.expand(len(x), -1)], -1))  # (N, C)
            kernel = torch.exp(-2j * math.pi * (xi @ waves))  # (N, K)
            u = kernel[real].T @ v[real].to(kernel.dtype) / real.sum() * math.prod(space)  # (K, C)
            frames.append(from_modes(mixed(module.onto, u), space, modes))
        z = torch.stack(frames) if len(frames) > 1 else frames[0]  # ([T,] s, s, C)
        z = functional.gelu(z + module.onto_bias(module.grid[: len(z)]))
        z = torch.cat([z, torch.zeros(module.pad, *z.shape[1:])]) if module.pad else z
        for layer in module.layers:
            c = kept_of(torch.fft.rfftn(z[None], dim=tuple(range(1, z.dim()))), grid_modes(layer))[
                0
            ]
            c = mixed(layer.mixing, c.flatten(0, -2)).view(c.shape)
            z = functional.gelu(
                from_modes(c.flatten(0, -2), z.shape[:-1], grid_modes(layer))
                + layer.local(z)
                + layer.bias(module.grid)
            )
        rows = []
        for frame, t in zip(z if module.steps > 1 else z[None], module.clock, strict=False):
            # (K, C)
            y = mixed(
                module.back,
                kept_of(torch.fft.rfftn(frame[None], dim=(1, 2)), modes)[0].flatten(0, 1),
            )
            share = torch.where(waves[1] == 0, 1.0, 2.0)[:, None]
            v = (torch.exp(2j * math.pi * (xi @ waves)) @ (share * y)).real
            # (N, out)
            rows.append(module.head(v + module.back_bias(torch.cat([x, t.expand(len(x), -1)], -1))))
        samples.append(torch.stack(rows))
    y = torch.stack(samples)  # (B, T, N, out)
    return y.unflatten(-1, (-1, len(module.task.fields))).permute(0, 1, 3, 2, 4).flatten(1, 2)


def grid_modes(layer: geofno.GridLayer) -> tuple[int, ...]:
    kept = layer.fourier.kept
    return (*(count // 2 for count in kept[:-1]), kept[-1])


def mixed(mixing: ModeMixing, c: Tensor) -> Tensor:
    return torch.einsum("kc,kcd->kd", c, torch.complex(*mixing.weight.split(c.shape[-1], -1)))


def from_modes(c: Tensor, sizes: tuple[int, ...], modes: tuple[int, ...]) -> Tensor:
    spectrum = torch.zeros(*sizes[:-1], sizes[-1] // 2 + 1, c.shape[-1], dtype=c.dtype)
    axes = [
        torch.cat([torch.arange(m), torch.arange(s - m, s)])
        for s, m in zip(sizes[:-1], modes[:-1], strict=True)
    ]
    index = torch.meshgrid(*axes, torch.arange(modes[-1]), indexing="ij")
    spectrum[index] = c.reshape(*index[0].shape, -1)
    return torch.fft.irfftn(spectrum, s=sizes, dim=tuple(range(len(sizes))))


@pytest.mark.parametrize("time", ["latent", "channels"])
@pytest.mark.parametrize("shape", [STEADY, UNSTEADY, VARIED], ids=["steady", "unsteady", "varied"])
def test_prediction_and_gradients_are_those_of_the_formula(
    shape: Mapping[str, Any], time: str
) -> None:
    meshes = (square(5), square(6), square(4)) if shape is VARIED else ()
    module, batch = make(shape, *meshes, time=time)
    assert_formula(module, batch)


@pytest.mark.parametrize("shape", [FIXED_CODE, VARIED], ids=["fixed", "varied"])
def test_a_code_shapes_the_deformation_and_is_no_input_of_nodes(shape: Mapping[str, Any]) -> None:
    meshes = (square(5), square(6), square(4)) if shape is VARIED else ()
    module, batch = make(shape, *meshes, code=True)
    assert module.inputs == batch.features.shape[-1] - len(module.task.scalars)
    assert_formula(module, batch)
    moved = replace(batch, scalars=batch.scalars + 1)
    assert not torch.allclose(module(moved), module(batch))
    torch.nn.init.zeros_(module.warp.code.weight)
    torch.testing.assert_close(module(moved), module(batch))


def assert_formula(module: geofno.GeoFno, batch: gb.Batch) -> None:
    """Prediction and gradients agree with the literal formula."""
    results = []
    for function in (module, lambda inputs: literal(module, inputs)):
        module.zero_grad()
        y = function(batch)
        y = y if batch.mask is None else y * batch.mask[:, None, :, None]
        y.square().sum().backward()
        results.append([y, *(parameter.grad for parameter in module.parameters())])
    scale = float(results[0][0].detach().abs().max())
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=1e-4 * scale)
    for mine, theirs in zip(results[0][1:], results[1][1:], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-3 * float(theirs.abs().max()))


def test_gradients_are_right_in_double_precision() -> None:
    module, batch = make(STEADY, square(3), modes=2, width=4, grid=4, grid_layers=1, warp_hidden=8)
    module = module.double()
    moved = {
        name: getattr(batch, name).double() for name in ("window", "static", "scalars", "points")
    }
    batch = replace(batch, geometry={"weight": batch.geometry["weight"].double()}, **moved)
    tested = (module.warp.last.weight, module.onto.weight)
    assert torch.autograd.gradcheck(
        lambda *_: module(batch), tested, eps=1e-6, atol=1e-5, fast_mode=True
    )


def test_computing_layers_again_changes_nothing() -> None:
    results = []
    for again in (False, True):
        module, batch = make(UNSTEADY, checkpoint=again)
        y = module(batch)
        y.square().sum().backward()
        results.append([y, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_the_origin_stays_and_a_silent_network_deforms_nothing() -> None:
    warp, code = geofno.Warp(2, 0, geofno.Params()), torch.zeros(1, 0)
    assert torch.equal(warp(torch.zeros(1, 1, 2), code), torch.zeros(1, 1, 2))
    torch.nn.init.zeros_(warp.last.weight)
    torch.nn.init.zeros_(warp.last.bias)
    x = torch.rand(1, 7, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(warp(x, code), x)


@pytest.mark.parametrize("codes", [0, 42])
def test_the_deformation_is_the_authors_with_and_without_a_code(codes: int) -> None:
    """Point by point and number by number, in double precision."""
    torch.manual_seed(0)
    warp = geofno.Warp(2, codes, geofno.Params()).double()
    warp.octaves = math.pi * 2.0 ** torch.arange(8, dtype=torch.float64)
    x, code = torch.rand(2, 5, 2, dtype=torch.float64), torch.rand(2, codes, dtype=torch.float64)
    weight = {name: value.detach().numpy() for name, value in warp.named_parameters()}

    def applied(name: str, values: Any) -> Any:
        return weight[f"{name}.weight"] @ values + weight[f"{name}.bias"]

    def gelu(values: Any) -> Any:
        return np.array([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in values])

    for b, n in np.ndindex(2, 5):
        a, c = x[b, n].tolist()
        q = [a, c, math.atan2(c - 0.5, a - 0.5), math.hypot(a - 0.5, c - 0.5)]
        angles = [value * math.pi * 2**octave for value in q for octave in range(8)]
        waves = [*map(math.sin, angles), *map(math.cos, angles)]
        features = np.concatenate([applied("place", np.array(q)), waves])  # (96,)
        if codes:
            hidden = np.concatenate([applied("code", code[b].numpy()), features])  # (128,)
        else:
            hidden = applied("mix", features)
        for layer in ("hidden.0", "hidden.2"):
            hidden = gelu(applied(layer, hidden))
        expected = x[b, n].numpy() * (1 + applied("last", hidden))
        result = warp(x, code)[b, n].detach().numpy()
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    # 43 * 32 for the code instead of 97 * 128 for the mixture
    assert count_parameters(warp) == (45_858 - 97 * 128 + 43 * 32 if codes else 45_858)


def test_polar_coordinates_in_plane_and_space() -> None:
    x = torch.tensor([[[0.0, 2.0], [-1.0, 0.0]]])
    torch.testing.assert_close(
        geofno.polar(x), torch.tensor([[[math.pi / 2, 2.0], [math.pi, 1.0]]])
    )
    x = torch.tensor([[[0.0, 3.0, 0.0], [0.0, 0.0, 2.0]]])
    torch.testing.assert_close(
        geofno.polar(x), torch.tensor([[[math.pi / 2, math.pi / 2, 3.0], [0.0, 0.0, 2.0]]])
    )


# --------------------------------------------------------------------------------------- symmetries


def renumbered(batch: gb.Batch, order: Tensor) -> gb.Batch:
    return replace(
        batch,
        window=batch.window[:, :, order],
        static=batch.static[:, order],
        points=batch.points[:, order],
        tags=batch.tags[:, order],
        geometry={"weight": batch.geometry["weight"][:, order]},
    )


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
def test_renumbered_nodes_give_renumbered_values(shape: Mapping[str, Any]) -> None:
    module, batch = make(shape)
    order = torch.randperm(batch.nodes, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        module(renumbered(batch, order)), module(batch)[:, :, order], rtol=1e-3, atol=1e-4
    )


def test_a_node_is_answered_alike_whatever_else_is_asked() -> None:
    module, batch = make(STEADY)
    x = 0.05 + 0.9 * batch.points
    basis = module.points.basis(module.warp(x, batch.scalars))
    z = module.to_grid(batch, basis)
    torch.testing.assert_close(
        module.to_nodes(z, basis[:, :5], x[:, :5]), module.to_nodes(z, basis, x)[:, :5]
    )


@pytest.mark.parametrize(("weights", "factor"), [("mean", 1.0), ("sum", 2.0)])
def test_doubled_nodes_count_as_the_weights_say(weights: str, factor: float) -> None:
    module, batch = make(STEADY, weights=weights)
    share = 2 if weights == "mean" else 1
    twice = renumbered(batch, torch.arange(batch.nodes).repeat(2))
    twice = replace(twice, geometry={"weight": twice.geometry["weight"] / share})
    module.onto_bias.weight.data.zero_()
    module.onto_bias.bias.data.zero_()
    results = []
    for inputs in (batch, twice):
        basis = module.points.basis(module.warp(inputs.points, inputs.scalars))
        v = module.lift(inputs.features)[0][None] * inputs.geometry["weight"][..., None]
        results.append(module.points.analyse(basis, v))
    torch.testing.assert_close(
        results[1],
        factor * results[0],
        rtol=1e-4,
        atol=1e-4 * float(results[0].detach().abs().max()),
    )


@pytest.mark.parametrize("weights", ["mean", "sum", "area"])
def test_weights_of_a_mesh(weights: str) -> None:
    mesh = square(6)
    parts = geofno.geometry(mesh, darcy_task(), geofno.Params(weights=weights), {})
    assert parts["weight"].value.sum() == pytest.approx(mesh.size if weights == "sum" else 1.0)


def test_a_shared_mesh_is_the_same_as_a_repeated_one() -> None:
    module, batch = make(UNSTEADY)
    apart = replace(
        batch,
        points=batch.points.repeat(3, 1, 1),
        geometry={"weight": batch.geometry["weight"].repeat(3, 1)},
    )
    torch.testing.assert_close(module(apart), module(batch), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [2, 3])
def test_samples_and_padding_do_not_leak(dim: int) -> None:
    draw = np.random.default_rng(0)
    meshes = tuple(gb.Mesh(draw.uniform(size=(count, dim))) for count in (20, 35, 30))
    data = samples(meshes, 3, VARIED)
    module, loader = build(data.task), load(data, geofno.Params.make(SMALL))
    alone, _ = loader.batch(torch.tensor([0]), torch.tensor([0]), 1)
    both = all_of(loader)
    static = both.static.clone()
    static[0, 20:] = 1e3
    result, expected = module(replace(both, static=static))[0, :, :20], module(alone)[0, :, :20]
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
@pytest.mark.parametrize("preset", MODEL.presets)
def test_nothing_is_made_on_a_default_device(shape: Mapping[str, Any], preset: str) -> None:
    module, batch = make(shape, **{**MODEL.presets[preset].model, **SMALL})
    moved = {
        name: getattr(batch, name).to("meta")
        for name in ("window", "static", "scalars", "points", "tags")
    }
    y = module.to("meta")(
        replace(batch, geometry={"weight": batch.geometry["weight"].to("meta")}, **moved)
    )
    assert y.shape == (3, module.task.t_out, 36, len(module.task.fields))


# ----------------------------------------------------------------------------------------- learning


def trained(module: geofno.GeoFno, loader: Loader, steps: int) -> float:
    """Adam as in the presets, whole batches; the last loss."""
    indices = torch.arange(len(loader))
    batch, target = loader.batch(indices, torch.zeros_like(indices), 1)
    groups = rate_groups(module, list(module.parameters()), {"warp.": 0.1})
    optimiser = torch.optim.Adam(
        [{**group, "lr": 1e-3 * group["share"]} for group in groups], weight_decay=1e-4, fused=True
    )
    for _ in range(steps):
        optimiser.zero_grad()
        loss = relative(loader.finish(module(batch), batch, indices), target)
        loss.backward()
        optimiser.step()
    return float(loss.detach())


def unrelated(seed: int) -> gb.Samples:
    """Eight pairs of smooth fields that have nothing to do with one another."""
    draw = np.random.default_rng(seed)
    points = draw.uniform(size=(300, 2))

    def fields() -> np.ndarray:
        waves = draw.integers(1, 4, (8, 4, 2)) * np.pi
        return np.einsum(
            "sk,snk->sn",
            draw.normal(size=(8, 4)),
            np.sin(np.einsum("skd,nd->snk", waves, points) + 1),
        )

    frames, static = (fields()[..., None].astype(np.float32) for _ in range(2))
    return gb.Samples(
        darcy_task(), (gb.Mesh(points),), frames[:, None], static, np.zeros((8, 0), np.float32)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_eight_unrelated_pairs_are_memorised(seed: int) -> None:
    data = unrelated(seed)
    torch.manual_seed(seed)
    assert (
        trained(geofno.GeoFno(data.task, geofno.Params()), load(data, geofno.Params()), 300) < 0.1
    )


def test_real_operator_is_learned_and_moves_to_another_mesh() -> None:
    """Beats the mean of the split on its own mesh and, with the same weights, on a finer one."""
    coarse = steady({"train": 32, "valid": 1, "test": 16})
    fine = steady({"train": 1, "valid": 1, "test": 16}, square(17, seed=5))
    params = geofno.Params(modes=4, width=12, grid=12, head=32, warp_width=16, warp_hidden=32)
    torch.manual_seed(0)
    module = geofno.GeoFno(coarse["train"].task, params)
    trained(module, load(coarse["train"], params), 200)
    for data in (coarse["test"], fine["test"]):
        loader, indices = load(data, params, coarse["train"]), torch.arange(16)
        batch, truth = loader.batch(indices, torch.zeros_like(indices), 1)
        with torch.no_grad():
            error = relative(loader.finish(module(batch), batch, indices), truth)
        assert float(error) < 0.6 * float(
            relative(truth.mean(0, keepdim=True).expand_as(truth), truth)
        )
