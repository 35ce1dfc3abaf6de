"""Floors give the known result wherever there is one, and the reason where they decline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_floors import (
    floor,
    heat,
    make_samples,
    make_task,
    moving,
    plane_mesh,
    relative,
    shapes,
    steady,
    train,
    wave,
)

import gsnobench as gb
from gsnobench.data import Array, Mesh, Samples
from gsnobench.errors import ParamError
from gsnobench.meshes.modes import eigenbasis
from gsnobench.training.checkpoint import load_state
from gsnobench.training.metrics import relative_l2
from gsnobench_plugins.models.floors import common_mesh, nearest
from gsnobench_plugins.models.floors.boundaries import boundary_distances
from gsnobench_plugins.models.floors.choices import strongest_of_the_best
from gsnobench_plugins.models.floors.kernel_ridge import Scored, make_products

FLOORS = ("mean", "persistence", "pod", "ridge", "modal", "nearest")


# -------------------------------------------------------------------------------- mean, persistence


def test_mean_is_the_training_mean_at_every_node_and_frame() -> None:
    known = moving(plane_mesh(), 6, 0, heat)
    guess = train("mean", known, known, target="field")(known)
    expected = (np.asarray(known.frames) - [5.0, 0.0])[:, 3:].mean(0)
    assert guess.shape == (6, 8, 49, 2)
    np.testing.assert_allclose(guess, np.broadcast_to(expected, guess.shape), atol=1e-6)


def test_mean_pools_support_nodes_where_nodes_do_not_correspond() -> None:
    known = shapes(5)
    guess = train("mean", known, known)(known)
    frames, meshes = np.asarray(known.frames), known.meshes
    u = np.concatenate([frames[i, 0, : mesh.size, 0] for i, mesh in enumerate(meshes)]).mean() - 1.0
    w = np.concatenate(
        [frames[i, 0, : mesh.size, 1][mesh.tags["wall"]] for i, mesh in enumerate(meshes)]
    ).mean()
    np.testing.assert_allclose(guess, np.broadcast_to([u, w], guess.shape), rtol=1e-5)


def test_mean_takes_every_evaluated_window() -> None:
    known = moving(plane_mesh(), 4, 0, heat, t_in=1, t_out=5)
    known = replace(known, task=replace(known.task, t_out=1, starts=(0, 2)))
    centred = np.asarray(known.frames) - [5.0, 0.0]
    np.testing.assert_allclose(
        train("mean", known, known, target="field")(known)[0, 0],
        centred[:, [1, 3]].mean((0, 1)),
        atol=1e-6,
    )


def test_persistence_repeats_the_last_known_frame() -> None:
    known = moving(plane_mesh(), 3, 0, wave)
    guess = train("persistence", known, known)(known)
    last = (np.asarray(known.frames) - [5.0, 0.0])[:, 2:3]
    np.testing.assert_allclose(guess, np.repeat(last, 8, axis=1), atol=1e-5)


# --------------------------------------------------------------------------------------- pod, ridge


def low_rank(count: int, seed: int) -> Samples:
    """Unsteady data of rank six in which the future is an affine function of the window."""
    mesh, mixed = plane_mesh(), np.random.default_rng(7)
    before, after = mixed.normal(size=(6, 2, mesh.size, 1)), mixed.normal(size=(6, 4, mesh.size, 1))
    code = np.random.default_rng(seed).normal(size=(count, 6))
    frames = np.concatenate(
        [np.tensordot(code, before, 1), np.tensordot(code, after, 1) + 3.0], axis=1
    )
    return make_samples(make_task(t_in=2, t_out=4), mesh, frames)


@pytest.mark.parametrize("name", ["pod", "ridge"])
def test_linear_maps_of_low_rank_are_learnt_exactly(name: str) -> None:
    test = low_rank(10, 3)
    knobs = {"energy": 1.0} if name == "pod" else {"kernel": "linear"}
    guess = train(name, low_rank(40, 1), low_rank(10, 2), **knobs)(test)
    # ridge also has x^2 among its features, which only 40 samples must rule out
    limit = 1e-4 if name == "pod" else 2e-2
    assert relative(guess, np.asarray(test.frames)[:, 2:]) < limit


def test_pod_keeps_the_asked_share_of_the_energy() -> None:
    known = low_rank(40, 1)
    full, half = (train("pod", known, known, energy=energy).module for energy in (1.0, 0.5))
    assert full.in_basis.shape[1] == full.out_basis.shape[0] == 6
    assert 1 <= half.in_basis.shape[1] < 6


def smoothed(x: Array) -> Array:
    """A fixed linear map."""
    return x @ np.exp(-np.abs(np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])) / 10)


def harmonic(x: Array) -> Array:
    return smoothed(1 / x)


@pytest.mark.parametrize("transform", [np.positive, np.reciprocal, np.log])
def test_ridge_recovers_a_map_that_is_linear_in_a_transform_of_x(transform: Any) -> None:
    mesh = plane_mesh()
    known, valid, test = (
        steady(mesh, lambda x: smoothed(transform(x)), *draw)
        for draw in ((150, 1), (30, 2), (30, 3))
    )
    guess = train("ridge", known, valid, kernel="linear")(test)
    assert relative(guess, np.asarray(test.frames)) < 2e-3


def test_ridge_takes_logarithms_of_positive_channels_only() -> None:
    known = steady(plane_mesh(), harmonic, 20, 1)
    # after two constant coordinates
    assert train("ridge", known, known).module.positive.tolist() == [2]
    signed = replace(known, static=np.asarray(known.static) - 1.0)
    module = train("ridge", signed, signed).module
    assert module.positive.tolist() == [] and module.other.tolist() == [2]


def test_ridge_stays_finite_on_inputs_below_the_training_range() -> None:
    known = steady(plane_mesh(), harmonic, 20, 1)
    assert np.isfinite(
        train("ridge", known, known)(replace(known, static=-np.asarray(known.static)))
    ).all()


def test_ridge_picks_the_kernel_on_validation() -> None:
    mesh = plane_mesh()

    def product(x: Array) -> Array:
        return np.log(x) * np.log(x)[:, ::-1] + 1.0

    known, valid, test = (
        steady(mesh, product, count, seed) for count, seed in ((200, 1), (40, 2), (40, 3))
    )
    truth = np.asarray(test.frames)
    scores = {
        kernel: relative(train("ridge", known, valid, kernel=kernel)(test), truth)
        for kernel in ("linear", "rbf", "best")
    }
    assert scores["rbf"] < scores["linear"] / 3
    assert scores["best"] == scores["rbf"]


def test_ridge_scores_a_weight_by_the_headline_of_its_predictions() -> None:
    known, valid = moving(plane_mesh(), 12, 1, wave), moving(plane_mesh(), 5, 2, wave)
    task = replace(
        known.task, fields=(known.task.fields[0], replace(known.task.fields[1], support="wall"))
    )
    y, y_valid = (
        torch.from_numpy(np.asarray(samples.frames)[:, 3:] - [5.0, 0.0])
        for samples in (known, valid)
    )
    weight = torch.rand(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    guess = y.mean(0) + torch.tensordot(weight, y - y.mean(0), 1)
    support = torch.from_numpy(np.stack([np.ones(49), plane_mesh().tags["wall"]], axis=1))
    expected = float(relative_l2(guess, y_valid, support[None], task).mean())
    products = make_products(y, y_valid, y_valid, Scored([[0], [1]], support))
    errors = torch.stack([product.errors(weight) for product in products])
    assert float(errors.mean()) == pytest.approx(expected, rel=1e-9)


# -------------------------------------------------------------------------------------------- modal


@pytest.mark.parametrize("rate", [heat, wave])
def test_modal_is_exact_where_each_mode_moves_by_itself(rate: Any) -> None:
    mesh = plane_mesh()
    test = moving(mesh, 5, 3, rate)
    guess = train("modal", moving(mesh, 20, 1, rate), moving(mesh, 5, 2, rate), k=12)(test)
    assert relative(guess, np.asarray(test.frames)[:, 3:] - [5.0, 0.0]) < 1e-5


def test_modal_drops_what_its_modes_do_not_carry() -> None:
    mesh = plane_mesh()
    known, few = moving(mesh, 20, 1, heat), 4
    guess = train("modal", known, known, k=few, target="field")(known)
    basis = eigenbasis(mesh, few)

    def projected(frames: Array) -> Array:
        return np.einsum("nk,km,stmc->stnc", basis.vectors, basis.analysis, frames)

    target = np.asarray(known.frames)[:, 3:] - [5.0, 0.0]
    assert relative(guess, projected(guess)) < 1e-5
    assert relative(guess, projected(target)) < 1e-2
    assert relative(guess, target) > 0.1


def test_modal_lets_the_rest_persist_if_it_predicts_the_change() -> None:
    mesh = plane_mesh()
    known, few = moving(mesh, 20, 1, heat), 4
    guess = train("modal", known, known, k=few, target="change")(known)
    basis = eigenbasis(mesh, few)
    change = guess - (np.asarray(known.frames) - [5.0, 0.0])[:, 2:3]
    inside = np.einsum("nk,km,stmc->stnc", basis.vectors, basis.analysis, change)
    assert relative(inside, change) < 1e-5


def test_modal_learns_from_windows_that_start_later() -> None:
    mesh = plane_mesh()
    # two windows at frame 0 cannot fix three weights and an offset; later ones do
    known = moving(mesh, 2, 1, wave)
    test = moving(mesh, 5, 3, wave)
    first = train("modal", known, known, k=12)(test)[:, 0]
    assert relative(first, (np.asarray(test.frames) - [5.0, 0.0])[:, 3]) < 1e-2


# ------------------------------------------------------------------------------------------ nearest


@pytest.mark.parametrize("times", [(0, 1), (2, 3)])
def test_nearest_returns_a_training_geometry_its_own_values(times: tuple[int, int]) -> None:
    known = shapes(5, t_in=times[0], t_out=times[1])
    guess = train("nearest", known, known)(known)
    truth = (np.asarray(known.frames) - [1.0, 0.0])[:, times[0] :]
    for index, mesh in enumerate(known.meshes):
        np.testing.assert_allclose(
            guess[index, :, : mesh.size, 0], truth[index, :, : mesh.size, 0], rtol=1e-5
        )
        wall = np.flatnonzero(mesh.tags["wall"])
        np.testing.assert_allclose(guess[index][:, wall, 1], truth[index][:, wall, 1], rtol=1e-5)


def test_nearest_chooses_the_most_similar_shape_whatever_its_mesh() -> None:
    known = shapes(5)
    trained = train("nearest", known, known)
    near_third = plane_mesh(9, 1 + 0.3 * 2 + 0.05)
    parts = nearest.geometry(near_third, known.task, trained.params, trained.summary)
    assert parts["sample"].value.tolist() == [2]


def test_nearest_takes_a_field_only_from_nodes_that_carry_it() -> None:
    known = shapes(3)
    trained = train("nearest", known, known)
    parts = nearest.geometry(plane_mesh(9, 1.0), known.task, trained.params, trained.summary)
    assert known.meshes[0].tags["wall"][parts["match"].value[:, 1]].all()
    assert not known.meshes[0].tags["wall"][parts["match"].value[:, 0]].all()


def test_signed_distance_is_negative_inside_and_zero_on_the_boundary() -> None:
    probes = np.array([[0.5, 0.5], [0.25, 0.5], [2.0, 0.5], [2.0, 2.0], [1.0, 0.3]])
    np.testing.assert_allclose(
        boundary_distances(plane_mesh(), probes),
        [-0.5, -0.25, 1.0, 2**0.5, 0.0],
        atol=1e-12,
    )


def test_signed_distance_sees_a_hole() -> None:
    mesh = plane_mesh(9)
    assert mesh.cells is not None
    centres = mesh.points[mesh.cells].mean(axis=1)
    ring = replace(mesh, cells=mesh.cells[np.abs(centres - 0.5).max(axis=1) > 0.25])
    np.testing.assert_allclose(
        boundary_distances(ring, np.array([[0.5, 0.5], [0.1, 0.5]])),
        [0.25, -0.1],
        atol=1e-12,
    )


def test_distance_in_space_is_unsigned_and_to_tagged_nodes() -> None:
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    cloud = Mesh(points, None, {"surface": np.array([True, False, False])})
    assert boundary_distances(cloud, np.array([[1.0, 0.0, 0.0]])).tolist() == [1.0]
    assert boundary_distances(replace(cloud, tags={}), np.array([[1.0, 0.0, 0.0]])).tolist() == [
        0.0
    ]


# -------------------------------------------------------------------------- the field or its change


def drifting(count: int, seed: int, *, drift: float, memory: float) -> Samples:
    """A random field that keeps a share of its past, and grows by a fixed amount per frame."""
    mesh, draw = plane_mesh(), np.random.default_rng(seed)
    frames = [draw.normal(size=(count, mesh.size, 1))]
    for _ in range(3):
        frames.append(memory * frames[-1] + drift + 0.01 * draw.normal(size=frames[0].shape))
    task = make_task(t_in=2, t_out=2, times=(0.0, 1.0, 2.0, 3.0))
    return make_samples(task, mesh, np.stack(frames, axis=1))


CHOOSERS = ("mean", "pod", "ridge", "modal")


@pytest.mark.parametrize("name", CHOOSERS)
def test_validation_picks_the_change_of_a_field_that_drifts(name: str) -> None:
    known, valid = (drifting(12, seed, drift=0.5, memory=1.0) for seed in (1, 2))
    assert float(train(name, known, valid).module.adds_last) == 1.0


@pytest.mark.parametrize("name", CHOOSERS)
def test_validation_picks_a_field_that_forgets_its_past(name: str) -> None:
    known, valid = (drifting(12, seed, drift=3.0, memory=0.0) for seed in (1, 2))
    assert float(train(name, known, valid).module.adds_last) == 0.0


@pytest.mark.parametrize("name", [*CHOOSERS, "nearest"])
def test_what_is_picked_has_the_lower_validation_error(name: str) -> None:
    draw = {"t_in": 2, "t_out": 3} if name == "nearest" else {"drift": 0.2, "memory": 0.7}
    make = shapes if name == "nearest" else drifting
    known, valid = make(8, 1, **draw), make(8, 2, **draw)

    def error(target: str) -> float:
        trained = train(name, known, valid, target=target)
        assert float(trained.module.adds_last) == (target == "change")
        batch, frames = trained.batch(valid)
        guess = trained.normaliser.output.decode(trained.module(batch))
        support = trained.loader(valid).support
        return float(relative_l2(guess, frames, support, known.task).mean())

    best = train(name, known, valid)
    errors = {target: error(target) for target in ("field", "change")}
    assert errors["field"] != errors["change"]
    assert float(best.module.adds_last) == (errors["change"] < errors["field"])


@pytest.mark.parametrize("name", CHOOSERS)
def test_a_steady_task_has_no_change_to_predict(name: str) -> None:
    model = floor(name)
    with pytest.raises(ParamError, match="gives no frame"):
        model.build(make_task(), model.params.make({"target": "change"}))


def test_of_equal_errors_the_strongest_ridge_is_chosen() -> None:
    assert strongest_of_the_best([0.3, 0.10000001, 0.1, 0.1, 0.2]) == 3
    assert strongest_of_the_best([0.1, 0.2, 0.3]) == 0


# ------------------------------------------------------------------------------------ common nodes


def plane_waves(count: int, seed: int, size: int = 0) -> Samples:
    """u = a x + b y + a on squares with meshes of their own; the input is a + 2 at every node."""
    draw = np.random.default_rng(seed)
    meshes = [plane_mesh(size or 8 + index % 4) for index in range(count)]
    largest = max(mesh.size for mesh in meshes)
    frames, static = np.zeros((count, 1, largest, 1)), np.zeros((count, largest, 1))
    for index, mesh in enumerate(meshes):
        a = draw.uniform(-1, 1)
        frames[index, 0, : mesh.size, 0] = a * (mesh.points @ [1.0, 2.0] + 1.0)
        static[index, : mesh.size] = a + 2.0
    task = make_task(static=(gb.Field("a"),), corresponds=False, fixed_mesh=False)
    return make_samples(task, meshes, frames, static)


def test_ridge_learns_a_linear_map_on_meshes_without_common_nodes() -> None:
    known, valid, test = (plane_waves(count, seed) for count, seed in ((20, 1), (6, 2), (8, 3)))
    guess = train("ridge", known, valid)(test)
    assert relative(guess, np.asarray(test.frames)) < 0.05  # of the interpolation
    finer = plane_waves(4, 4, size=15)
    assert relative(train("ridge", known, valid)(finer), np.asarray(finer.frames)) < 0.05


def test_common_nodes_cover_what_only_some_samples_cover() -> None:
    meshes = tuple(plane_mesh(6, stretch) for stretch in (1.0, 1.0, 1.0, 3.0))
    known = make_samples(make_task(), list(meshes), np.zeros((4, 1, 36, 1)))
    nodes = common_mesh.common_nodes(known, 1000)
    assert len(nodes) == 60  # different places
    assert nodes[:, 0].max() > 2.5
    assert len(common_mesh.common_nodes(known, 20)) == 20
    assert len(np.unique(nodes, axis=0)) == len(nodes)


def test_linear_functions_reach_the_common_nodes_exactly() -> None:
    mesh, common = plane_mesh(9), np.random.default_rng(0).uniform(0, 1, size=(50, 2))
    parts = common_mesh.common_geometry(mesh, make_task(), common)
    np.testing.assert_allclose(parts["from all"].value @ mesh.points, common, atol=1e-12)


def test_a_field_of_few_nodes_is_taken_from_these_alone() -> None:
    mesh, common = plane_mesh(9), np.random.default_rng(0).uniform(0, 1, size=(50, 2))
    task = make_task(fields=(gb.Field("u"), gb.Field("w", support="wall")))
    matrix = common_mesh.common_geometry(mesh, task, common)["from wall"].value
    values = np.where(mesh.tags["wall"], 1.0, np.nan)
    used = np.unique(matrix.indices)
    assert mesh.tags["wall"][used].all()
    np.testing.assert_allclose(matrix.toarray() @ np.nan_to_num(values), 1.0)


def test_the_way_back_returns_constants_and_values_at_common_nodes() -> None:
    mesh = plane_mesh(9)
    back = common_mesh.common_geometry(mesh, make_task(), mesh.points[::-1])["back"].value
    np.testing.assert_allclose(back @ mesh.points[::-1], mesh.points, atol=1e-9)


# ------------------------------------------------------------------------------------------ all six


def example(name: str) -> Samples:
    return shapes(4, t_in=2, t_out=3) if name == "nearest" else moving(plane_mesh(), 6, 0, wave)


@pytest.mark.parametrize("name", FLOORS)
def test_floor_runs_on_the_meta_device(name: str) -> None:
    known = example(name)
    trained = train(name, known, known)
    batch, _ = trained.batch(known)
    parts = {part: value.to("meta") for part, value in batch.geometry.items()}
    tensors = {
        part: getattr(batch, part).to("meta")
        for part in ("window", "static", "scalars", "points", "tags")
    }
    result = trained.module.to("meta")(replace(batch, mask=None, geometry=parts, **tensors))
    assert result.device.type == "meta"
    assert tuple(result.shape) == (
        len(known),
        known.task.t_out,
        known.frames.shape[2],
        len(known.task.fields),
    )


@pytest.mark.parametrize("name", FLOORS)
def test_floor_gives_the_same_answer_after_saving_and_loading(name: str) -> None:
    known = example(name)
    trained = train(name, known, known)
    fresh = trained.model.build(known.task, trained.params)
    load_state(fresh, trained.module.state_dict())
    np.testing.assert_array_equal(replace(trained, module=fresh)(known), trained(known))
    assert all(
        value.dtype in (torch.float64, torch.int64)
        for value in trained.module.state_dict().values()
    )


@pytest.mark.parametrize("name", FLOORS)
def test_samples_of_a_batch_do_not_see_one_another(name: str) -> None:
    known = example(name)
    trained = train(name, known, known)
    np.testing.assert_allclose(trained(known.take([1])), trained(known)[1:2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FLOORS)
def test_floor_is_declared_as_one(name: str) -> None:
    model = floor(name)
    assert model.name == name and model.is_floor and list(model.presets) == ["default"]
    assert model.title and model.cites and model.capabilities
    phases = model.phases(make_task(), model.params())
    assert len(phases) == 1 and phases[0].solve is not None
    assert not list(model.build(make_task(), model.params()).parameters())


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("persistence", {}, "no frame is given"),
        ("modal", {}, "no frame is given"),
        ("modal", {"t_in": 3, "fixed_mesh": False}, "another geometry"),
        ("pod", {"corresponds": False}, "do not correspond"),
        ("nearest", {}, "share one geometry"),
    ],
)
def test_floor_says_why_it_cannot_be_used(name: str, changes: dict[str, Any], reason: str) -> None:
    assert reason in (floor(name).declines(make_task(**changes)) or "")
