"""Computed inputs on problems where they are known: channels, smoothing, a linear propagator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import square, steady, unsteady

import gsnobench as gb
from gsnobench.meshes.modes import eigenbasis
from gsnobench.training.computed_inputs import Propagator, smoothing_lengths


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


def test_channels_are_distances_smoothed_inputs_and_shown_frames() -> None:
    poisson, waves = steady()["train"].task, unsteady()["train"].task
    assert gb.ComputedInputs(poisson, True, propagated=4, modes=8).channels == 1 + 3
    assert gb.ComputedInputs(poisson, False, propagated=4, modes=8).channels == 0
    some = gb.ComputedInputs(waves, True, propagated=4, modes=8)
    assert some.channels == 1 + 4 and some.shown[-1] == waves.t_out - 1
    assert gb.ComputedInputs(waves, False, propagated=99, modes=8).shown == list(range(7))


def test_inputs_in_space_are_not_smoothed() -> None:
    task = steady()["train"].task
    assert len(smoothing_lengths(task)) == 3
    assert smoothing_lengths(replace(task, dim=3)) == ()


def test_distances_are_relative_to_the_length_and_one_where_a_tag_is_missing() -> None:
    mesh, task = square(6), replace(steady()["train"].task, tags=("boundary", "inlet"))
    distance = gb.computed_geometry(mesh, task, length=2.0)["distance"].value
    assert distance.shape == (mesh.size, 2)
    assert distance[mesh.tags["boundary"], 0].max() == 0.0 < distance[:, 0].max() <= 0.25
    assert (distance[:, 1] == 1.0).all()


def test_smoothing_keeps_a_constant_and_damps_what_is_short() -> None:
    data = steady()["train"]
    mesh = data.meshes[0]
    geometry = gb.computed_geometry(mesh, data.task, gb.domain_length(mesh))
    mode = eigenbasis(mesh, 30).vectors[:, 29]
    static = np.stack([np.full(mesh.size, 2.5), mode])[:, :, None]
    two = replace(data.take([0, 1]), static=static)
    batch, _ = batch_of(two, geometry)
    inputs = gb.ComputedInputs(data.task, True, propagated=0, modes=1)
    values, start = inputs(batch)
    torch.testing.assert_close(values[0, :, 1:], torch.full_like(values[0, :, 1:], 2.5))
    sizes = values[1, :, 1:].norm(dim=0).tolist()
    assert np.linalg.norm(mode) > sizes[0] > sizes[1] > sizes[2] > 0
    assert not start.any()


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
