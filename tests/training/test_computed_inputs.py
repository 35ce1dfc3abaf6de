"""Computed inputs on problems where they are known: channels, smoothing, a linear propagator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import square, steady, unsteady

import gsnobench as gb
from gsnobench.meshes.modes import eigenbasis
from gsnobench.training.computed_inputs import (
    SMOOTHING_LENGTHS,
    Propagator,
    smoothing_lengths,
)


def batch_of(data: gb.Samples, geometry: gb.Geometry) -> tuple[gb.Batch, torch.Tensor]:
    """All samples in physical units without references, and the frames after the window."""
    task, mesh = data.task, data.meshes[0]
    reference = np.array([field.reference for field in task.fields])
    frames = torch.from_numpy(np.asarray(data.frames) - reference).double()
    tensors = {name: torch.from_numpy(part.value)[None] for name, part in geometry.items()}
    batch = gb.Batch(
        task=task,
        window=frames[:, : task.t_in],
        static=torch.from_numpy(np.asarray(data.static)).double(),
        scalars=torch.zeros(len(data), 0, dtype=torch.float64),
        points=torch.from_numpy(mesh.points)[None],
        tags=torch.from_numpy(mesh.tag_matrix(task.tags))[None],
        mask=None,
        geometry=tensors,
    )
    return batch, frames[:, task.t_in :]


def test_the_length_of_a_domain_is_the_side_of_a_square_as_large() -> None:
    mesh = square(6)
    assert gb.domain_length(mesh) == pytest.approx(1.0)
    assert gb.domain_length(replace(mesh, points=3 * mesh.points)) == pytest.approx(3.0)


def test_channels_are_distances_contrasts_and_shown_frames() -> None:
    poisson, waves = steady()["train"].task, unsteady()["train"].task
    assert gb.ComputedInputs(poisson, True, propagated=4, modes=8).channels == 1 + 3
    assert gb.ComputedInputs(poisson, False, propagated=4, modes=8).channels == 0
    some = gb.ComputedInputs(waves, True, propagated=4, modes=8)
    assert some.channels == 1 + 4 and some.shown[-1] == waves.t_out - 1
    assert gb.ComputedInputs(waves, False, propagated=99, modes=8).shown == list(range(7))


def test_inputs_in_space_have_no_contrasts() -> None:
    task = steady()["train"].task
    assert len(smoothing_lengths(task)) == 3
    assert smoothing_lengths(replace(task, dim=3)) == ()


def test_distances_are_relative_to_the_length_and_one_where_a_tag_is_missing() -> None:
    mesh, task = square(6), replace(steady()["train"].task, tags=("boundary", "inlet"))
    distance = gb.computed_geometry(mesh, task, length=2.0)["distance"].value
    assert distance.shape == (mesh.size, 2)
    assert distance[mesh.tags["boundary"], 0].max() == 0.0 < distance[:, 0].max() <= 0.25
    assert (distance[:, 1] == 1.0).all()


def test_a_constant_has_no_contrast_and_contrasts_add_up_to_what_smoothing_removes() -> None:
    data = steady()["train"]
    mesh = data.meshes[0]
    length = gb.domain_length(mesh)
    geometry = gb.computed_geometry(mesh, data.task, length)
    basis = eigenbasis(mesh, 30)
    mode, value = basis.vectors[:, 29], basis.values[29] * length**2
    static = np.stack([np.full(mesh.size, 2.5), mode])[:, :, None]
    two = replace(data.take([0, 1]), static=static)
    batch, _ = batch_of(two, geometry)
    inputs = gb.ComputedInputs(data.task, True, propagated=0, modes=1)
    values, start = inputs(batch)
    contrasts = values[..., 1:]
    torch.testing.assert_close(contrasts[0], torch.zeros_like(contrasts[0]), rtol=0, atol=1e-9)
    shares = 1 / (1 + np.array([0, *SMOOTHING_LENGTHS]) ** 2 * value)  # of the mode that remain
    expected = torch.from_numpy(mode[:, None] * -np.diff(shares))  # (N, 3)
    torch.testing.assert_close(contrasts[1], expected, rtol=1e-6, atol=1e-9)
    assert not start.any()


def test_the_size_of_a_residual_is_per_frame_and_field_and_without_padding() -> None:
    data = unsteady()["train"]
    batch, target = batch_of(data, {})
    inputs = gb.ComputedInputs(data.task, False, propagated=0, modes=1)  # starts from zero
    fit = gb.Fit(data.task, data, data, lambda split: [(batch, target)])
    size = gb.residual_size(inputs, fit)
    assert size.shape == (data.task.t_out, 1)
    torch.testing.assert_close(size, target.square().mean((0, 2)).sqrt().float())
    half = batch.nodes // 2
    mask = (torch.arange(batch.nodes) < half).expand(batch.size, -1)
    padded = replace(fit, batches=lambda split: [(replace(batch, mask=mask), target)])
    expected = target[:, :, :half].square().mean((0, 2)).sqrt().float()
    torch.testing.assert_close(gb.residual_size(inputs, padded), expected)


def test_the_propagator_reproduces_modes_that_evolve_by_themselves() -> None:
    data = unsteady()["train"]
    basis = eigenbasis(data.meshes[0], 12)
    geometry = {
        "modes": gb.Part(basis.vectors, ("node", "wave")),
        "mass": gb.Part(basis.mass, ("node",)),
    }
    batch, target = batch_of(data, geometry)
    propagator = Propagator(data.task, modes=12).double()
    fit = gb.Fit(data.task, data, data, lambda split: [(batch, target)])
    residual = gb.fit_propagator(propagator, fit)
    assert residual.shape == (12, len(data), data.task.t_out)
    prediction = batch.frames(propagator(batch))
    assert float((prediction - target).norm() / target.norm()) < 1e-3
