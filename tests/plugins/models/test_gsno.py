"""The Graph Spectral Neural Operator: counts, formula, tiles, symmetries, what `plus` adds."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from problems import steady, unsteady

import gsnobench as gb
from gsnobench.files import Cache
from gsnobench.training.fit import Job, fit
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench_plugins.models.gsno import gelu as gsno_gelu
from gsnobench_plugins.models.gsno import model as gsno
from gsnobench_plugins.models.gsno import plus as gsno_plus
from gsnobench_plugins.models.gsno import tiled

MODEL = gsno.gsnobench_model()
STEADY = {"t_in": 0, "t_out": 1, "static": (gb.Field("a"),)}
UNSTEADY = {"t_in": 3, "t_out": 9, "static": ()}
SMALL = {"k_s": 8, "width": 8, "head": 12}


def square(side: int, bend: float = 0.1) -> gb.Mesh:
    """A bent square of side*side nodes: simple eigenvalues, tagged boundary."""
    x, y = (
        axis.ravel()
        for axis in np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1.3, side), indexing="ij")
    )
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    lower = np.stack([corner, corner + side, corner + side + 1], axis=1)
    upper = np.stack([corner, corner + side + 1, corner + 1], axis=1)
    edge = (x == 0) | (x == 1) | (y == 0) | (y == 1.3)
    points = np.stack([x + bend * np.sin(2 * y), y + bend * x**2], axis=1)
    return gb.Mesh(points=points, cells=np.concatenate([lower, upper]), tags={"wall": edge})


def samples(
    meshes: tuple[gb.Mesh, ...], count: int, shape: Mapping[str, Any], seed: int = 0
) -> gb.Samples:
    """Random smooth-free data: the rules below hold for any numbers."""
    task = gb.Task(
        "t", "t", (gb.Field("u", boundary={"wall": "dirichlet"}),), dim=2, tags=("wall",), **shape
    )
    draw, nodes = np.random.default_rng(seed), max(mesh.size for mesh in meshes)
    return gb.Samples(
        task=task,
        meshes=meshes,
        frames=draw.standard_normal((count, task.t_in + task.t_out, nodes, 1)).astype(np.float32),
        static=draw.standard_normal((count, nodes, len(task.static))).astype(np.float32),
        scalars=np.zeros((count, 0), dtype=np.float32),
    )


def load(data: gb.Samples, params: gsno.Params, preset: str = "plus") -> Loader:
    summary = MODEL.summary(data, params)
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(data, TrainParams.make(MODEL.presets[preset].train)),
        geometries=[
            compute_geometry(MODEL, params, data.task, mesh, summary=summary, cache=Cache())
            for mesh in data.meshes
        ],
        device="cpu",
        impose_boundary=False,
    )


def make(
    shape: Mapping[str, Any], preset: str = "paper", count: int = 3, **knobs: Any
) -> tuple[gsno.Gsno, gb.Batch]:
    params = gsno.Params.make(MODEL.presets[preset].model, {**SMALL, **knobs})
    data = samples((square(7),), count, shape)
    loader = load(data, params, preset)
    torch.manual_seed(0)
    module = gsno.Gsno(data.task, params)
    for buffer in module.buffers():  # a propagator and waves that are not trivial
        if buffer.dim() == 3:
            buffer.normal_()
    return module, loader.batch(
        torch.arange(count), torch.zeros(count, dtype=torch.long), data.task.t_out
    )[0]


def count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def darcy_task() -> gb.Task:
    return gb.Task("darcy", "darcy", (gb.Field("u"),), dim=2, static=(gb.Field("a"),))


def swe_task() -> gb.Task:
    return gb.Task("swe", "swe", (gb.Field("h"),), dim=2, t_in=5, t_out=46)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "gsno_step.py"
    spec = importlib.util.spec_from_file_location("gsno_step", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gsno_step"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------- counts


PRINTED = 20_817  # parameters of darcy in the paper: no reading of its tables gives them


def test_darcy_has_the_parameters_of_the_printed_layers_not_the_printed_count() -> None:
    lift, layer = 3 * 20 + 20, 8 * 20**2 + 20**2 + 20
    head = 20 * 128 + 128 + 128 + 1
    count = count_parameters(gsno.Gsno(darcy_task(), gsno.Params()))
    assert count == lift + 4 * layer + head == 17_377 != PRINTED
    assert any(f"{count:,}, printed {PRINTED:,}" in reading for reading in MODEL.differs)
    assert count_parameters(gsno.Gsno(darcy_task(), gsno.Params(coordinates=False))) == 17_337


def test_compact_has_the_printed_architecture() -> None:
    params = gsno.Params.make(MODEL.presets["compact"].model)
    changed = {knob.name for knob in params.knobs()} - set(params.at_default())
    assert changed == {"padding"}  # the paper pads nothing
    for task in (darcy_task(), swe_task()):
        module = gsno.Gsno(task, params)
        assert module.steps == task.t_out and module.width == 20 * min(2, task.t_out)
        assert module.hints.channels == 0 and module.layers[0].out is None


def test_every_open_reading_names_a_knob_that_exists() -> None:
    knobs = {knob.name for owner in (gsno.Params, TrainParams) for knob in owner.knobs()}
    values = {"paper", "compact", "plus", "knn", "random", "mlp"}
    named = {name for reading in MODEL.differs for name in re.findall(r"`(\w+)`", reading)}
    assert named <= knobs | values
    open_readings = {"padding", "k_t", "nyquist", "lift_layers", "last_gelu", "sigma_edges"}
    open_readings |= {"kernel_start", "basis_seed", "loss", "schedule", "width", "coordinates"}
    assert open_readings <= named


def test_time_has_two_real_blocks_per_frequency_but_for_frequency_zero() -> None:
    module = gsno.Gsno(swe_task(), gsno.Params())
    assert module.layers[0].kernel.weight.shape == (8, 2 * 8 - 1, 40, 40)
    assert gsno.Gsno(darcy_task(), gsno.Params()).layers[0].kernel.weight.shape == (8, 1, 20, 20)


def test_every_parameter_gets_a_gradient() -> None:
    for shape in (STEADY, UNSTEADY):
        for preset in MODEL.presets:
            module, batch = make(shape, preset)
            module(batch).square().sum().backward()
            idle = [
                name
                for name, parameter in module.named_parameters()
                if parameter.grad is None or not parameter.grad.abs().sum() > 0
            ]
            assert not idle, (shape, preset, idle)


def test_more_modes_than_nodes_is_an_error() -> None:
    with pytest.raises(gb.ParamError, match="k_s"):
        gsno.geometry(square(3), darcy_task(), gsno.Params(k_s=16), {"length": np.ones(1)})


# ------------------------------------------------------------------------------------------ formula


@pytest.mark.parametrize("case", ["steady", "unsteady"])
@pytest.mark.parametrize("variant", ["plain", "fast", "tiled"])
def test_prediction_and_gradients_are_those_of_the_textbook(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, case: str, variant: str
) -> None:
    monkeypatch.setattr(tiled, "CACHE", 2000)  # so small that `fast` has several tiles
    benchmark.CASES[case] = replace(benchmark.CASES[case], nodes=60, batch=2)
    predictions = [
        module(batch)
        for module, batch in (benchmark.make(case, name) for name in ("textbook", variant))
    ]
    torch.testing.assert_close(*predictions, rtol=1e-4, atol=1e-5)
    assert benchmark.gradient_gap(case, variant) < 1e-5


READINGS = [
    {"last_gelu": False},
    {"kernel_start": "small"},
    {"lift_layers": 2},
    {"padding": 0},
    {"k_t": 32},
    {"k_t": 32, "nyquist": True},
    {"padding": 0, "k_t": 32, "nyquist": True, "lift_layers": 2, "last_gelu": False},
]


@pytest.mark.parametrize("case", ["steady", "unsteady"])
@pytest.mark.parametrize("knobs", READINGS, ids=str)
def test_every_reading_is_that_of_the_textbook(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, case: str, knobs: dict[str, Any]
) -> None:
    monkeypatch.setattr(tiled, "CACHE", 2000)
    benchmark.CASES[case] = replace(benchmark.CASES[case], nodes=60, batch=2)
    textbook, batch = benchmark.make(case, "textbook", torch.float64, **knobs)
    for variant in ("plain", "fast"):
        module, _ = benchmark.make(case, variant, torch.float64, **knobs)
        torch.testing.assert_close(module(batch), textbook(batch), rtol=1e-6, atol=1e-7)
        assert benchmark.gradient_gap(case, variant, torch.float64, **knobs) < 1e-7


def test_all_frequencies_of_an_even_number_of_steps_are_a_complete_basis() -> None:
    for steps in (1, 2, 7, 8):
        waves = gsno.fourier_waves(99, steps, nyquist=True)
        assert waves.shape == (steps, steps)
        torch.testing.assert_close(waves @ waves.T, torch.eye(steps), rtol=0, atol=1e-6)
    assert gsno.fourier_waves(99, 8).shape == (7, 8)


def test_small_start_is_positive_and_of_the_size_of_one_matrix_entry() -> None:
    module = gsno.Gsno(swe_task(), gsno.Params(kernel_start="small"))
    weight = module.layers[0].kernel.weight.detach()
    assert float(weight.min()) >= 0 and float(weight.max()) <= 1 / 40**2
    assert float(weight.mean()) == pytest.approx(0.5 / 40**2, rel=0.01)


def test_a_random_basis_follows_its_seed() -> None:
    length = {"length": np.ones(1)}
    bases = [
        gsno.geometry(square(7), darcy_task(), gsno.Params(basis="random", basis_seed=seed), length)
        for seed in (0, 0, 1)
    ]
    first, again, other = (parts["modes"].value for parts in bases)
    assert np.array_equal(first, again) and not np.allclose(first, other)


@pytest.mark.slow
@pytest.mark.parametrize("data", [steady, unsteady], ids=["steady", "unsteady"])
def test_the_textbook_trains_along_the_same_curve(
    benchmark: ModuleType, tmp_path: Path, data: Callable[[], dict[str, gb.Samples]]
) -> None:
    splits, params = data(), gsno.Params()
    curves = []
    for name in ("ours", "textbook"):
        torch.manual_seed(0)
        module: torch.nn.Module = gsno.Gsno(splits["train"].task, params)
        if name == "textbook":
            module = benchmark.Textbook(module)
        curves.append(train(module, splits, params, tmp_path / name))
    losses, scores = (
        [[point[entry] for point in curve if entry in point] for curve in curves]
        for entry in ("loss", "valid")
    )
    assert losses[0][-1] < 0.5 * losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3)


def train(
    module: torch.nn.Module, splits: dict[str, gb.Samples], params: gsno.Params, folder: Path
) -> list[dict[str, Any]]:
    """The curve of 200 steps of the paper's training."""
    task, knobs = splits["train"].task, TrainParams.make(MODEL.presets["paper"].train, {"batch": 4})
    normaliser = fit_normaliser(splits["train"], knobs)
    summary = MODEL.summary(splits["train"], params)
    geometry = compute_geometry(
        MODEL, params, task, splits["train"].meshes[0], summary=summary, cache=Cache()
    )
    loaders = {
        split: Loader(
            splits[split],
            task=task,
            normaliser=normaliser,
            geometries=[geometry],
            device="cpu",
            impose_boundary=False,
        )
        for split in ("train", "valid")
    }
    job = Job(
        module=module,
        **loaders,
        phases=(gb.Phase(),),
        steps={"fit": 200},
        horizon=gb.Horizon(task.t_in, task.t_out),
        frames=task.t_out,
        params=knobs,
        seed=0,
        folder=folder,
    )
    return fit(job).progress.curve


KNOBS = [
    {},
    {"local": False},
    {"residual": True},
    {"residual": True, "local": False},
    {"time": "mlp"},
    {"kernel": "identity"},
]
KNOBS += [{"last_gelu": False}, {"last_gelu": False, "residual": True}, {"lift_layers": 2}]
KNOBS += [{"time": "channels"}, {"padding": 0}, {"gradients": True, "basis": "fem"}]


@pytest.mark.parametrize(
    "meshes", [(square(7),), (square(6), square(8))], ids=["one mesh", "two meshes"]
)
@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_tiles_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
    meshes: tuple[gb.Mesh, ...],
    shape: Mapping[str, Any],
    knobs: dict[str, Any],
) -> None:
    plain = trace(meshes, shape, {**knobs, "tile": -1})
    torch.testing.assert_close(
        trace(meshes, shape, {**knobs, "tile": 900}), plain, rtol=1e-4, atol=1e-4
    )
    monkeypatch.setattr(tiled, "CACHE", 400)  # the automatic choice takes tiles and keeps them
    torch.testing.assert_close(trace(meshes, shape, knobs), plain, rtol=1e-4, atol=1e-4)


def trace(
    meshes: tuple[gb.Mesh, ...], shape: Mapping[str, Any], knobs: Mapping[str, Any]
) -> list[torch.Tensor | None]:
    """A prediction and all gradients, computed twice from one graph."""
    params = gsno.Params.make(MODEL.presets["paper"].model, {**SMALL, **knobs})
    count = 4 if len(meshes) == 1 else len(meshes)
    data = samples(meshes, count, shape)
    torch.manual_seed(0)
    module, chosen = gsno.Gsno(data.task, params), torch.arange(count)
    y = module(
        load(data, params, "paper").batch(chosen, torch.zeros_like(chosen), data.task.t_out)[0]
    )
    # nothing that a second backward pass needs is overwritten by the first
    for again in (True, False):
        y.square().mean().backward(retain_graph=again)
    return [y, *(parameter.grad for parameter in module.parameters())]


def test_latents_choose_their_tiles_by_size() -> None:
    small, large = torch.empty(tiled.CACHE), torch.empty(tiled.CACHE + 1)
    huge = torch.empty(1).expand(tiled.KEPT)
    assert tiled.choose(small, tile=0) is None
    assert tiled.choose(large, tile=0) == tiled.Tiling(tiled.CACHE, keep=True)
    assert tiled.choose(huge, tile=0) == tiled.Tiling(tiled.CACHE, keep=False)
    with torch.no_grad():  # nothing to keep it for
        assert tiled.choose(large, tile=0) == tiled.Tiling(tiled.CACHE, keep=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert tiled.choose(large, tile=0) is None
    assert tiled.choose(large, tile=-1) is None
    assert tiled.choose(torch.empty(1), tile=900) == tiled.Tiling(900, keep=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_and_its_slope_are_exact_to_round_off(dtype: torch.dtype) -> None:
    z = torch.cat(
        [torch.linspace(-14, 14, 200_001), torch.tensor([0.0, -0.0, 1e-30, 300.0, -300.0])]
    ).to(dtype)
    exact = z.double()
    h, right = z.clone(), torch.nn.functional.gelu(exact)
    slope = gsno_gelu.activate(h)
    assert float(((h - right).abs() / exact.abs().clamp_min(1)).max()) < 2e-7
    assert (
        float((slope - torch.ops.aten.gelu_backward(torch.ones_like(exact), exact)).abs().max())
        < 5e-7
    )
    # a diverged run must be seen to diverge
    assert gsno_gelu.activate(torch.full((40,), math.nan)).isnan().all()


def test_temporal_modes_are_orthonormal() -> None:
    waves = gsno.fourier_waves(5, 12)
    torch.testing.assert_close(waves @ waves.T, torch.eye(9), rtol=0, atol=1e-6)


def test_kernel_keeps_a_wave_of_its_own_frequency() -> None:
    params = gsno.Params(k_s=4, k_t=3, width=1)
    kernel = gsno.JointKernel(1, 8, params, 1)
    with torch.no_grad():
        kernel.weight.zero_()
        kernel.weight[:, 2] = 1.0  # the imaginary part at frequency 1: a quarter period forward
    time = 2 * math.pi * torch.arange(8) / 8
    c = time.cos()[None, None, None, :, None].expand(1, 4, 1, 8, 1)
    torch.testing.assert_close(
        kernel(c, torch.zeros(1, 4))[0, 0, 0, :, 0], -time.sin(), rtol=0, atol=1e-6
    )


def test_hats_are_linear_between_their_knots() -> None:
    params = gsno.Params(k_s=4, width=1, kernel="hats", knots=3)
    kernel = gsno.JointKernel(1, 1, params, 1)
    with torch.no_grad():
        kernel.weight.copy_(torch.tensor([1.0, 3.0, 7.0])[:, None, None, None])
    level = torch.tensor([[0.0, 0.25, 0.75, 1.5]])  # beyond the last knot the last value holds
    result = kernel(torch.ones(1, 4, 1, 1, 1), level).flatten()
    torch.testing.assert_close(result, torch.tensor([1.0, 2.0, 5.0, 7.0]))


# --------------------------------------------------------------------------------------- symmetries


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
@pytest.mark.parametrize("preset", ["paper", "plus"])
def test_signs_of_the_modes_do_not_matter(shape: Mapping[str, Any], preset: str) -> None:
    module, batch = make(shape, preset)
    modes = batch.geometry["modes"]
    signs = torch.where(torch.arange(module.params.k_s) % 3 == 0, -1.0, 1.0).repeat(
        modes.shape[2] // module.params.k_s
    )
    turned = replace(batch, geometry={**batch.geometry, "modes": modes * signs})
    torch.testing.assert_close(module(turned), module(batch), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
@pytest.mark.parametrize("preset", ["paper", "plus"])
def test_renumbered_nodes_give_renumbered_values(shape: Mapping[str, Any], preset: str) -> None:
    module, batch = make(shape, preset)
    order = torch.randperm(batch.nodes, generator=torch.Generator().manual_seed(1))
    along = {"modes", "mass", "distance", "heat", "heat_mass"}
    renumbered = replace(
        batch,
        window=batch.window[:, :, order],
        static=batch.static[:, order],
        points=batch.points[:, order],
        tags=batch.tags[:, order],
        geometry={
            name: value[:, order] if name in along else value
            for name, value in batch.geometry.items()
        },
    )
    torch.testing.assert_close(module(renumbered), module(batch)[:, :, order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("preset", ["paper", "plus"])
def test_samples_of_a_batch_do_not_see_one_another(preset: str) -> None:
    module, batch = make(UNSTEADY, preset)
    alone = replace(
        batch, window=batch.window[1:2], static=batch.static[1:2], scalars=batch.scalars[1:2]
    )
    torch.testing.assert_close(module(alone), module(batch)[1:2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("preset", ["paper", "plus"])
@pytest.mark.parametrize("tile", [-1, 900])
def test_padding_does_not_leak_into_smaller_meshes(preset: str, tile: int) -> None:
    params = gsno.Params.make(MODEL.presets[preset].model, {**SMALL, "tile": tile})
    meshes = (square(6), square(8))
    data = samples(meshes, 2, STEADY)
    loader = load(data, params, preset)
    torch.manual_seed(0)
    module = gsno.Gsno(data.task, params)
    start = torch.zeros(1, dtype=torch.long)
    both, _ = loader.batch(torch.arange(2), start.repeat(2), 1)
    dirty = both.static.clone()
    dirty[0, meshes[0].size :] = 1e3
    small, _ = loader.batch(torch.tensor([0]), start, 1)
    expected = module(small)[0, :, : meshes[0].size]
    result = module(replace(both, static=dirty))[0, :, : meshes[0].size]
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
@pytest.mark.parametrize("preset", ["paper", "plus"])
def test_nothing_is_made_on_a_default_device(shape: Mapping[str, Any], preset: str) -> None:
    module, batch = make(shape, preset)
    away = {name: value.to("meta") for name, value in batch.geometry.items()}
    moved = {
        name: getattr(batch, name).to("meta")
        for name in ("window", "static", "scalars", "points", "tags")
    }
    y = module.to("meta")(replace(batch, geometry=away, **moved))
    assert y.device.type == "meta" and y.shape == (3, batch.task.t_out, batch.nodes, 1)


# ---------------------------------------------------------------------------------------- ablations


def test_ablations_remove_what_they_say() -> None:
    for shape in (STEADY, UNSTEADY):
        full = count_parameters(make(shape)[0])
        for knobs in ({"kernel": "identity"}, {"local": False}, {"coordinates": False}):
            module, batch = make(shape, **knobs)
            assert count_parameters(module) < full
            assert torch.isfinite(module(batch)).all()
        assert torch.isfinite(make(shape, time="mlp")[0](make(shape)[1])).all()


@pytest.mark.parametrize("basis", ["gaussian", "fem", "nodes", "knn", "random"])
def test_every_basis_is_orthonormal_in_its_mass(basis: str) -> None:
    parts = gsno.geometry(square(7), darcy_task(), gsno.Params(basis=basis), {"length": np.ones(1)})
    modes, mass = parts["modes"].value, parts["mass"].value
    np.testing.assert_allclose(modes.T @ (mass[:, None] * modes), np.eye(8), atol=1e-8)


# --------------------------------------------------------------------------------------------- plus


def test_plus_differs_by_family_and_not_by_task() -> None:
    keys = {key for key, presets in MODEL.settings.items() if "plus" in presets}
    assert keys <= {"steady", "unsteady", "varying"}


def test_modes_of_equal_nodal_mass_are_fine_where_nodes_are_dense() -> None:
    even = square(15, bend=0.0)
    from_middle = even.points - np.array([0.5, 0.65])
    radius = np.linalg.norm(from_middle, axis=1, keepdims=True)
    graded = replace(even, points=from_middle * radius**2)  # nodes crowd in the middle
    wave = np.cos(2 * np.pi * even.points[:, 0])  # short where they do
    left = {}
    for basis in ("fem", "nodes"):
        params = gsno.Params(basis=basis, k_s=64)
        parts = gsno.geometry(graded, darcy_task(), params, {"length": np.ones(1)})
        modes, mass = parts["modes"].value, parts["mass"].value
        left[basis] = np.linalg.norm(wave - modes @ (modes.T @ (mass * wave)))
    assert left["nodes"] < 0.3 * left["fem"], left


def test_known_zero_boundary_chooses_the_dirichlet_basis() -> None:
    mesh, task = square(7), samples((square(7),), 1, STEADY).task
    modes = gsno.geometry(mesh, task, gsno.Params(basis="fem"), {"length": np.ones(1)})[
        "modes"
    ].value
    assert np.abs(modes[mesh.tags["wall"]]).max() == 0


def test_gradient_modes_are_orthonormal_as_vectors_when_the_mesh_is_fine() -> None:
    mesh = square(40, bend=0.0)
    params = gsno.Params(basis="fem", k_s=6, gradients=True)
    parts = gsno.geometry(mesh, darcy_task(), params, {"length": np.ones(1)})
    _, dx, dy = np.split(parts["modes"].value, 3, axis=1)
    gram = (dx.T * parts["mass"].value) @ dx + (dy.T * parts["mass"].value) @ dy
    # the constant mode has no gradient
    np.testing.assert_allclose(gram[1:, 1:], np.eye(5), atol=0.03)


def test_contrasts_of_a_constant_are_zero() -> None:
    module, batch = make(STEADY, "plus")
    ones = replace(batch, static=torch.ones_like(batch.static))
    contrasts = module.hints(ones)[0][..., 1:]
    torch.testing.assert_close(contrasts, torch.zeros_like(contrasts), rtol=0, atol=1e-4)
    assert (module.hints(batch)[0][..., 1:].std(dim=(0, 1)) > 0.01).all()


@pytest.mark.parametrize("time", ["channels", "fourier"])
def test_with_gain_the_answer_starts_at_the_propagator_and_grows_in_units_of_its_residual(
    time: str,
) -> None:
    module, batch = make(UNSTEADY, "plus", gain=True, time=time)
    _, start = module.hints(batch)
    assert torch.equal(module(batch), start)
    draw = torch.Generator().manual_seed(0)
    target = torch.randn(start.shape, generator=draw) * torch.arange(1, 10)[:, None, None]
    samples_of_batch = samples((square(7),), 3, UNSTEADY)
    fit = gb.Fit(batch.task, samples_of_batch, samples_of_batch, lambda split: [(batch, target)])
    phase = MODEL.phases(batch.task, module.params)[0]
    assert phase.solve is not None
    with torch.no_grad():
        phase.solve(module, fit)
    _, start = module.hints(batch)
    size = (target - start).square().mean((0, 2)).sqrt()  # (t_out, fields)
    with torch.no_grad():
        module.last.bias.fill_(1.0)
    torch.testing.assert_close(
        module(batch) - start, size[:, None].expand_as(start), rtol=1e-4, atol=1e-5
    )


def test_propagator_is_exact_for_oscillating_modes() -> None:
    params = gsno.Params.make(MODEL.presets["plus"].model, {**SMALL, "width": 4})
    data = samples((square(7),), 12, UNSTEADY)
    modes = gsno.geometry(data.meshes[0], data.task, params, MODEL.summary(data, params))[
        "modes"
    ].value[:, :8]
    draw = np.random.default_rng(3)
    # (T, k): every mode has its own frequency
    waves = np.cos(np.arange(1, 9) * 0.2 * np.arange(12)[:, None])
    frames = np.einsum("sk,tk,nk->stn", draw.standard_normal((12, 8)), waves, modes)[
        ..., None
    ].astype(np.float32)
    data = replace(data, frames=frames)
    loader = load(data, params)
    module = gsno.Gsno(data.task, params)
    batch, target = loader.batch(torch.arange(12), torch.zeros(12, dtype=torch.long), 9)
    encoded = loader.normaliser.output.encode(target)
    phase = MODEL.phases(data.task, params)[0]
    assert phase.solve is not None
    with torch.no_grad():
        phase.solve(
            module,
            gb.Fit(
                task=data.task, train=data, valid=data, batches=lambda split: [(batch, encoded)]
            ),
        )
    _, start = module.hints(batch)
    assert float((start - encoded).norm() / encoded.norm()) < 1e-2


def test_decode_without_a_fit_is_in_cosines() -> None:
    joint = gsno_plus.JointDecode(swe_task(), width=2, modes=3, k_t=4)
    assert joint.waves.shape == (3, 4, 46)
    torch.testing.assert_close(joint.waves[:, 0], torch.ones(3, 46))
    gram = joint.waves[0] @ joint.waves[0].T
    torch.testing.assert_close(gram, torch.diag(gram.diagonal()), rtol=0, atol=1e-4)


def test_alignment_undoes_order_and_signs_on_the_same_mesh() -> None:
    mesh, params = square(7), gsno.Params(basis="fem", align=True)
    data = samples((mesh,), 1, UNSTEADY)
    summary = gsno.summary(data, params)
    shuffled = summary["modes"][:, [1, 0, 2, 3, 4, 6, 5, 7]] * np.array([1, -1, 1, 1, -1, 1, 1, 1])
    plain = gsno.geometry(mesh, data.task, params, summary)["modes"].value
    turned = gsno.geometry(mesh, data.task, params, {**summary, "modes": shuffled})["modes"].value
    np.testing.assert_allclose(
        turned, plain[:, [1, 0, 2, 3, 4, 6, 5, 7]] * [1, -1, 1, 1, -1, 1, 1, 1], atol=1e-8
    )
