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
from gsnobench.meshes.modes import eigenbasis
from gsnobench.training.checkpoint import load_state
from gsnobench.training.metrics import relative_l2
from gsnobench_plugins.models.floors import nearest, ridge

FLOORS = ("mean", "persistence", "pod", "ridge", "modal", "nearest")


# -------------------------------------------------------------------------------- mean, persistence


def test_mean_is_the_training_mean_at_every_node_and_frame() -> None:
    known = moving(plane_mesh(), 6, 0, heat)
    guess = train("mean", known, known)(known)
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
        train("mean", known, known)(known)[0, 0], centred[:, [1, 3]].mean((0, 1)), atol=1e-6
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


def test_ridge_validation_error_is_the_headline_of_its_predictions() -> None:
    known, valid = moving(plane_mesh(), 12, 1, wave), moving(plane_mesh(), 5, 2, wave)
    task = replace(
        known.task, fields=(known.task.fields[0], replace(known.task.fields[1], support="wall"))
    )
    known, valid = replace(known, task=task), replace(valid, task=task)
    y, y_valid = (
        torch.from_numpy(np.asarray(samples.frames)[:, 3:] - [5.0, 0.0])
        for samples in (known, valid)
    )
    fit = gb.Fit(task, known, valid, lambda split: [])
    weight = torch.rand(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    guess = y.mean(0) + torch.tensordot(weight, y - y.mean(0), 1)
    support = torch.from_numpy(np.stack([np.ones(49), plane_mesh().tags["wall"]], axis=1))
    expected = float(relative_l2(guess, y_valid, support[None], task).mean())
    assert ridge.validation_error(fit, y, y_valid)(weight) == pytest.approx(expected, rel=1e-9)


# -------------------------------------------------------------------------------------------- modal


@pytest.mark.parametrize("rate", [heat, wave])
def test_modal_is_exact_where_each_mode_moves_by_itself(rate: Any) -> None:
    mesh = plane_mesh()
    test = moving(mesh, 5, 3, rate)
    guess = train(
        "modal", moving(mesh, 20, 1, rate), moving(mesh, 5, 2, rate), k=12, strength=1e-11
    )(test)
    assert relative(guess, np.asarray(test.frames)[:, 3:] - [5.0, 0.0]) < 1e-5


@pytest.mark.parametrize("rate", [heat, wave])
def test_modal_default_ridge_costs_little(rate: Any) -> None:
    mesh = plane_mesh()
    test = moving(mesh, 5, 3, rate)
    guess = train("modal", moving(mesh, 20, 1, rate), moving(mesh, 5, 2, rate))(test)
    assert relative(guess, np.asarray(test.frames)[:, 3:] - [5.0, 0.0]) < 1e-4


def test_modal_drops_what_its_modes_do_not_carry() -> None:
    mesh = plane_mesh()
    known, few = moving(mesh, 20, 1, heat), 4
    guess = train("modal", known, known, k=few, strength=1e-11)(known)
    basis = eigenbasis(mesh, few)
    target = np.asarray(known.frames)[:, 3:] - [5.0, 0.0]
    projected = np.einsum("nk,km,stmc->stnc", basis.vectors, basis.analysis, target)
    assert relative(guess, projected) < 2e-3
    assert relative(guess, target) > 0.1


def test_modal_learns_from_windows_that_start_later() -> None:
    mesh = plane_mesh()
    # two windows at frame 0 cannot fix three weights and an offset; later ones do
    known = moving(mesh, 2, 1, wave)
    test = moving(mesh, 5, 3, wave)
    first = train("modal", known, known, k=12, strength=1e-11)(test)[:, 0]
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
        nearest.boundary_distances(plane_mesh(), probes),
        [-0.5, -0.25, 1.0, 2**0.5, 0.0],
        atol=1e-12,
    )


def test_signed_distance_sees_a_hole() -> None:
    mesh = plane_mesh(9)
    assert mesh.cells is not None
    centres = mesh.points[mesh.cells].mean(axis=1)
    ring = replace(mesh, cells=mesh.cells[np.abs(centres - 0.5).max(axis=1) > 0.25])
    np.testing.assert_allclose(
        nearest.boundary_distances(ring, np.array([[0.5, 0.5], [0.1, 0.5]])),
        [0.25, -0.1],
        atol=1e-12,
    )


def test_distance_in_space_is_unsigned_and_to_tagged_nodes() -> None:
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    cloud = Mesh(points, None, {"surface": np.array([True, False, False])})
    assert nearest.boundary_distances(cloud, np.array([[1.0, 0.0, 0.0]])).tolist() == [1.0]
    assert nearest.boundary_distances(
        replace(cloud, tags={}), np.array([[1.0, 0.0, 0.0]])
    ).tolist() == [0.0]


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
        value.dtype in (torch.float32, torch.int64)
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
        ("ridge", {"corresponds": False}, "do not correspond"),
        ("nearest", {}, "share one geometry"),
    ],
)
def test_floor_says_why_it_cannot_be_used(name: str, changes: dict[str, Any], reason: str) -> None:
    assert reason in (floor(name).declines(make_task(**changes)) or "")
