"""MGKN: counts, both forms of the kernel sums by their formula, symmetries, and learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import problems
import pytest
import torch
from random_data import all_of, relative, samples
from torch import Tensor
from torch.nn import functional

import gsnobench as gb
from gsnobench.check.fixture import permuted, permuted_geometry
from gsnobench.files import Cache
from gsnobench.meshes import topology
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench_plugins.models.mgkn import model as mgkn
from gsnobench_plugins.models.mgkn.model import Mgkn, Params

MODEL = mgkn.gsnobench_model()
SMALL = {"width": 8, "kernel_width": 32, "cycles": 2, "head": 8}
STEADY = {"static": (gb.Field("a"),)}
UNSTEADY = {"t_in": 2, "t_out": 5, "fields": (gb.Field("u"), gb.Field("v"))}
VARIED = {
    "static": (gb.Field("a"),),
    "scalars": (gb.Field("s"),),
    "fixed_mesh": False,
    "corresponds": False,
}


def make_task(dim: int = 2, static: int = 1, **changes: Any) -> gb.Task:
    return gb.Task(
        "t",
        "t",
        (gb.Field("u"),),
        dim=dim,
        static=tuple(gb.Field(f"a{i}") for i in range(static)),
        **changes,
    )


def load(
    data: gb.Samples, params: Params, train: gb.Samples | None = None, preset: str = "official"
) -> Loader:
    carried = mgkn.summary(train or data, params)
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(train or data, TrainParams.make(MODEL.presets[preset].train)),
        geometries=[
            compute_geometry(MODEL, params, data.task, mesh, summary=carried, cache=Cache())
            for mesh in data.meshes
        ],
        device="cpu",
        impose_boundary=False,
    )


def build_module(task: gb.Task, **knobs: Any) -> Mgkn:
    torch.manual_seed(0)
    return Mgkn(task, Params.make(SMALL, knobs))


def make(shape: Mapping[str, Any], *meshes: gb.Mesh, **knobs: Any) -> tuple[Mgkn, gb.Batch]:
    data = samples(meshes or (problems.square(7),), 3, shape)
    return build_module(data.task, **knobs), all_of(load(data, Params.make(SMALL, knobs)))


def in_double(module: Mgkn, batch: gb.Batch) -> tuple[Mgkn, gb.Batch]:
    moved = {
        name: getattr(batch, name).double() for name in ("window", "static", "scalars", "points")
    }
    parts = {
        name: value.double() if value.is_floating_point() else value
        for name, value in batch.geometry.items()
    }
    return module.double(), replace(batch, geometry=parts, **moved)


# ------------------------------------------------------------------------------------------- counts


def test_parameters_are_those_of_the_sheet() -> None:
    def count(task: gb.Task, preset: str, **knobs: Any) -> int:
        return sum(
            parameter.numel()
            for parameter in Mgkn(
                task, Params.make(MODEL.presets[preset].model, knobs)
            ).parameters()
        )

    assert count(make_task(), "paper") == 899_969
    assert count(make_task(static=0, t_in=5, t_out=46), "paper") == 903_150
    assert count(make_task(), "official") == 3_546_177
    assert count(make_task(), "official", root=True) == 3_558_465
    # a matrix a kind of edge, encoder, decoder
    assert count(make_task(), "paper", kernel="rbf") == 7 * 64**2 + 8576 + 4225
    assert (
        max(count(make_task(), "compact"), count(make_task(static=0, t_in=5, t_out=46), "compact"))
        <= 300_000
    )


@pytest.mark.parametrize(
    "knobs",
    [{}, {"edges": "inputs", "slopes": True, "lift": "linear"}, {"kernel": "rbf"}, {"root": True}],
)
@pytest.mark.parametrize("shape", [STEADY, UNSTEADY, VARIED], ids=["steady", "unsteady", "varied"])
def test_every_parameter_gets_a_gradient(
    shape: Mapping[str, Any], knobs: Mapping[str, Any]
) -> None:
    meshes = (problems.square(7), problems.square(6), problems.square(8)) if shape is VARIED else ()
    module, batch = make(shape, *meshes, **knobs)
    module(batch).square().sum().backward()
    assert not [
        name
        for name, parameter in module.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]


# ------------------------------------------------------------------------------------------ formula


def literal(module: Mgkn, batch: gb.Batch) -> Tensor:
    """The whole operator sample by sample, level by level, edge by edge, with explicit matrices."""
    samples, dim, size = [], module.task.dim, batch.nodes
    for b in range(batch.size):
        g = b if len(batch.points) > 1 else 0
        shift = {
            "node": g * size,
            **{f"level{k}": g * batch.geometry[f"level{k}"].shape[1] for k in (1, 2)},
        }
        nodes = [
            torch.arange(size),
            *(batch.geometry[f"level{k}"][g] - shift["node"] for k in (1, 2)),
        ]
        f = module.inputs(batch)[b]
        seen = batch.features[b] if module.params.edges == "inputs" else batch.features[b][:, :dim]

        def kernel_sum(
            name: str,
            v: list[Tensor],
            g: int = g,
            seen: Tensor = seen,
            nodes: Any = nodes,
            shift: Any = shift,
        ) -> Tensor:
            a, c = module.kinds[name]
            kernel, share = module.kernels[name], batch.geometry[f"{name}.share"][g]
            source = batch.geometry[f"{name}.source"][g] - shift[f"level{a}" if a else "node"]
            y = torch.zeros_like(v[c])
            for i, j in torch.nonzero(share).tolist():
                s = int(source[i, j])
                h = kernel.net(torch.cat([seen[nodes[a][s]], seen[nodes[c][i]]]))
                h = h[:0] if module.params.kernel == "rbf" else h  # the weight alone
                matrix = torch.einsum("q,qab->ab", h, kernel.matrices[:-1]) + kernel.matrices[-1]
                y[i] += share[i, j] * (matrix.T @ v[a][s])
            return y

        v = [module.lift(f)[level] for level in nodes]
        if module.params.root:
            samples.append(module.project(second_variant(module, v, kernel_sum)))
            continue
        for turn in range(module.params.cycles):
            for k in (0, 1):
                v[k + 1] = (v[k + 1] + kernel_sum(f"down{k}", v)).relu()
                v = [values.relu() for values in v] if turn == k == 0 else v
            for k in (2, 1, 0):
                v[k] = (v[k] + kernel_sum(f"mid{k}", v)).relu()
                if k:
                    v[k - 1] = (v[k - 1] + kernel_sum(f"up{k - 1}", v)).relu()
        samples.append(module.project(v[0]))
    return batch.frames(torch.stack(samples))


def second_variant(
    module: Mgkn, v: list[Tensor], kernel_sum: Callable[[str, list[Tensor]], Tensor]
) -> Tensor:
    """The cycles of MGKN_general_darcy2d.py: W v inside a level, then a relu of every level."""
    for _ in range(module.params.cycles):
        for k in (0, 1):
            v[k + 1] = v[k + 1] + kernel_sum(f"down{k}", v)
            v = [values.relu() for values in v]
        for k in (2, 1, 0):
            v[k] = v[k] @ module.roots[k] + kernel_sum(f"mid{k}", v)
            if k:
                v[k - 1] = v[k - 1] + kernel_sum(f"up{k - 1}", v)
                v = [values.relu() for values in v]
    return v[0]


@pytest.mark.parametrize("form", ["shared", "gram"])
def test_root_is_the_authors_second_variant(form: str) -> None:
    """In double precision, three cycles, so that no level is positive by chance."""
    knobs = {"form": form, "root": True, "cycles": 3, "small_start": False}
    module, batch = in_double(*make(STEADY, problems.square(4), **knobs))
    expected = literal(module, batch)
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(module(batch), expected, rtol=0, atol=1e-12 * scale)
    module.params = replace(module.params, root=False)  # the other variant is another operator
    assert not torch.allclose(module(batch), expected, rtol=0, atol=0.1 * scale)


@pytest.mark.parametrize(
    "knobs",
    [
        {"form": "shared"},
        {"form": "gram"},
        {"root": True},
        {"kernel": "rbf"},
        {"edges": "inputs", "slopes": True, "lift": "linear"},
    ],
)
def test_prediction_and_gradients_are_those_of_the_formula(knobs: Mapping[str, Any]) -> None:
    module, batch = make(STEADY, problems.square(4), small_start=False, **knobs)
    if "slopes" not in knobs:  # sparse operators stay in single precision
        module, batch = in_double(module, batch)
    near = {"rtol": 1e-4, "atol": 1e-5} if "slopes" in knobs else {"rtol": 1e-10, "atol": 1e-10}
    results = []
    for function in (module, lambda inputs: literal(module, inputs)):
        module.zero_grad()
        y = function(batch)
        y.square().sum().backward()
        results.append([y, *(parameter.grad.clone() for parameter in module.parameters())])
    torch.testing.assert_close(results[0], results[1], **near)


@pytest.mark.parametrize(
    "knobs", [{}, {"checkpoint": True}, {"offsets": True}, {"kernel": "rbf"}, {"root": True}]
)
def test_a_mesh_for_all_gives_what_a_mesh_each_gives(knobs: Mapping[str, Any]) -> None:
    """Shared kernels against kernels per sample; a second gradient of the same graph is equal."""
    data = samples((problems.square(7),), 3, STEADY)
    each = replace(data, meshes=data.meshes * 3, task=replace(data.task, fixed_mesh=False))
    results = []
    for variant in (data, each):
        module = build_module(variant.task, **knobs)
        y = module(all_of(load(variant, Params.make(SMALL, knobs))))
        gradients = [
            torch.autograd.grad(y.square().sum(), list(module.parameters()), retain_graph=True)
            for _ in range(2)
        ]
        torch.testing.assert_close(gradients[0], gradients[1])
        results.append([y, *gradients[0]])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_shared_kernels_are_held_once_whatever_the_cycles() -> None:
    def kept(cycles: int) -> int:
        module, batch = make(STEADY, cycles=cycles, form="shared", width=16)
        most, sizes = batch.geometry["mid0.edge_share"].numel() * 16**2, set()

        def see(value: Tensor) -> Tensor:
            if value.numel() >= most:
                sizes.add(value.data_ptr())
            return value

        with torch.autograd.graph.saved_tensors_hooks(see, lambda value: value):
            module(batch)
        return len(sizes)

    assert kept(1) == kept(4) <= 1


def test_zero_kernels_leave_a_pointwise_map() -> None:
    module, batch = make(STEADY, lift="linear")
    for kernel in module.kernels.values():
        torch.nn.init.zeros_(kernel.matrices)
    expected = module.project[2](
        functional.relu(module.project[0](functional.relu(module.lift(batch.features))))
    )
    torch.testing.assert_close(module(batch), batch.frames(expected))


def test_every_edge_twice_is_every_edge_once() -> None:
    module, batch = make(STEADY, gamma=0.0, form="gram")
    twice = {}
    for name, value in batch.geometry.items():
        is_list = name.endswith((".source", ".share")) and "edge" not in name
        twice[name] = (
            torch.cat([value, value], -1) / (2 if name.endswith(".share") else 1)
            if is_list
            else value
        )
        twice[name] = twice[name].to(value.dtype)
    torch.testing.assert_close(module(replace(batch, geometry=twice)), module(batch))


@pytest.mark.parametrize("levels", [1, 3])
def test_an_input_reaches_its_ring_in_one_level_and_all_nodes_in_three(levels: int) -> None:
    mesh = problems.square(7)
    module, batch = make(STEADY, mesh, levels=levels, cycles=1, lift="linear")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.abs_().add_(0.01)  # no relu hides a path
    static = batch.static.abs().requires_grad_()
    y = module(replace(batch, static=static, points=batch.points.abs()))
    node = mesh.size // 2
    (gradient,) = torch.autograd.grad(y[0, 0, node, 0], static)
    sources = set(torch.nonzero(gradient[0, :, 0]).flatten().tolist())
    ring = {node, *(int(end) for pair in topology.edges(mesh) if node in pair for end in pair)}
    assert sources == (ring if levels == 1 else set(range(mesh.size)))
    assert not gradient[1:].any()


def test_small_start_begins_near_the_truth() -> None:
    data = problems.steady()["train"]
    sizes = []
    for small in (True, False):
        params = Params(width=32, kernel_width=32, small_start=small)
        torch.manual_seed(0)
        sizes.append(
            float(
                Mgkn(data.task, params)(all_of(load(data, params, preset="compact")))
                .detach()
                .norm()
            )
        )
    assert sizes[0] < 0.3 * sizes[1]


@pytest.mark.parametrize("shape", [STEADY, VARIED], ids=["steady", "varied"])
def test_smoothed_inputs_and_slopes_have_mean_zero_and_deviation_one(
    shape: Mapping[str, Any],
) -> None:
    """Over the real nodes of the training split, whatever the batches are."""
    meshes = (problems.square(7), problems.square(6), problems.square(8)) if shape is VARIED else ()
    data = samples(meshes or (problems.square(7),), 3, shape)
    knobs = {"slopes": True, "edges": "inputs"}
    loader, module = load(data, Params.make(SMALL, knobs)), build_module(data.task, **knobs)
    batch, steps, given = all_of(loader), data.task.t_out, data.task.in_channels
    unscaled = module.inputs(batch)
    pairs = [
        loader.batch(torch.tensor(some), torch.zeros(len(some), dtype=torch.long), steps)
        for some in ([0, 1], [2])
    ]
    (phase,) = MODEL.phases(data.task, module.params)
    phase.prepare(module, gb.Fit(data.task, data, data, lambda split: pairs))
    is_real = torch.ones(3, batch.nodes, dtype=torch.bool) if batch.mask is None else batch.mask
    before, after = (
        inputs[is_real].double().numpy() for inputs in (unscaled, module.inputs(batch))
    )
    np.testing.assert_array_equal(after[:, :given], before[:, :given])
    mean, std = before[:, given:].mean(axis=0), before[:, given:].std(axis=0)
    flat = std < 1e-6  # slopes of the scalar
    assert flat.sum() == (2 if shape is VARIED else 0)
    expected = (before[:, given:] - mean) / np.where(flat, 1.0, std)
    np.testing.assert_allclose(after[:, given:], expected, rtol=0, atol=1e-5)
    assert set(module.state_dict()) >= {"middle", "spread"}  # saved with the weights


# --------------------------------------------------------------------------------------- symmetries


@pytest.mark.parametrize("shape", [STEADY, VARIED], ids=["steady", "varied"])
def test_renumbered_nodes_give_renumbered_values(shape: Mapping[str, Any]) -> None:
    meshes = (
        (problems.square(6),)
        if shape is STEADY
        else (problems.square(6), problems.square(5), problems.square(7))
    )
    data, params = samples(meshes, 3, shape), Params.make(SMALL)
    draw = np.random.default_rng(1)
    orders = [draw.permutation(mesh.size) for mesh in meshes]
    carried = mgkn.summary(data, params)
    parts = [mgkn.geometry(mesh, data.task, params, carried) for mesh in meshes]
    moved = [permuted_geometry(part, order) for part, order in zip(parts, orders, strict=True)]
    module, results = build_module(data.task), []
    for variant, geometries in ((data, parts), (permuted(data, orders), moved)):
        scaling = fit_normaliser(data, TrainParams.make(MODEL.presets["official"].train))
        loader = Loader(
            variant,
            task=variant.task,
            normaliser=scaling,
            geometries=geometries,
            device="cpu",
            impose_boundary=False,
        )
        results.append(module(all_of(loader)))
    for index in range(3):
        order = torch.from_numpy(orders[index % len(orders)])
        torch.testing.assert_close(
            results[1][index][:, : len(order)], results[0][index][:, order], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    "knobs", [{}, {"edges": "inputs", "slopes": True, "neighbours": 10}, {"kernel": "rbf"}]
)
@pytest.mark.parametrize("dim", [2, 3])
def test_samples_and_padding_do_not_leak(dim: int, knobs: Mapping[str, Any]) -> None:
    draw = np.random.default_rng(0)
    meshes = tuple(gb.Mesh(draw.uniform(size=(count, dim))) for count in (40, 60, 50))
    data = samples(meshes, 3, VARIED)
    module, loader = build_module(data.task, **knobs), load(data, Params.make(SMALL, knobs))
    alone, _ = loader.batch(torch.tensor([0]), torch.tensor([0]), 1)
    both = all_of(loader)
    static = both.static.clone()
    static[0, 40:] = 1e3
    result, expected = module(replace(both, static=static))[0, :, :40], module(alone)[0, :, :40]
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
@pytest.mark.parametrize("preset", MODEL.presets)
def test_nothing_is_made_on_a_default_device(shape: Mapping[str, Any], preset: str) -> None:
    module, batch = make(shape, **{**MODEL.presets[preset].model, **SMALL})
    moved = {
        name: getattr(batch, name).to("meta")
        for name in ("window", "static", "scalars", "points", "tags")
    }
    y = module.to("meta")(
        replace(
            batch,
            geometry={name: value.to("meta") for name, value in batch.geometry.items()},
            **moved,
        )
    )
    assert y.shape == (3, module.task.t_out, 49, len(module.task.fields))


def test_bfloat16_trains_too() -> None:
    for form in ("shared", "gram"):
        module, batch = make(STEADY, form=form)
        exact = module(batch).detach()
        with (
            torch.backends.mkldnn.flags(enabled=False),
            torch.autocast("cpu", dtype=torch.bfloat16),
        ):
            y = module(batch)
            y.float().square().sum().backward()
        assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())
        assert float((y.detach() - exact).norm() / exact.norm()) < 0.05


# ----------------------------------------------------------------------------------------- learning


def trained(data: gb.Samples, params: Params, steps: int) -> tuple[Mgkn, float]:
    loader, indices = load(data, params, preset="compact"), torch.arange(len(data))
    batch, target = loader.batch(indices, torch.zeros_like(indices), 1)
    torch.manual_seed(0)
    module = Mgkn(data.task, params)
    optimiser = torch.optim.Adam(module.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = relative(loader.finish(module(batch), batch, indices), target)
        loss.backward()
        optimiser.step()
        schedule.step()
    return module, float(loss.detach())


def test_it_learns_a_real_operator_and_moves_to_another_mesh() -> None:
    """Fits four samples; the same weights on a finer mesh still beat the mean of the truth."""
    params = Params(width=16, kernel_width=16, cycles=2, offsets=True)
    data = problems.steady({"train": 4})["train"]
    module, error = trained(data, params, 150)
    assert error < 0.1
    finer = problems.steady({"train": 4}, problems.square(side=15))["train"]
    nearest = np.argmin(
        ((finer.meshes[0].points[:, None] - data.meshes[0].points) ** 2).sum(-1), axis=1
    )
    elsewhere = load(
        replace(finer, static=np.asarray(data.static)[:, nearest]), params, data, preset="compact"
    )
    with torch.no_grad():
        batch = all_of(elsewhere)
        result = elsewhere.finish(module(batch), batch, torch.arange(4))[:, 0, :, 0]  # (4, N)
    expected = torch.as_tensor(np.asarray(data.frames)[:, 0, nearest, 0])
    mean = expected.mean(0, keepdim=True).expand_as(expected)
    assert float(relative(result, expected)) < float(relative(mean, expected))
