"""Geometry of many meshes: padded, shifted and joined by declared axes; computed once per mesh."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from problems import square, steady
from random_geometry import random_geometry
from torch import nn

import gsnobench as gb
from gsnobench.training.geometry import compute_geometry, padded, stack_geometry


def test_axes_decide_how_parts_are_padded_shifted_and_joined() -> None:
    meshes = [random_geometry(5, 7, 0), random_geometry(8, 4, 1), random_geometry(6, 9, 2)]
    picked = stack_geometry(meshes, 8, "cpu").pick(torch.tensor([2, 0]))
    assert picked["modes"].shape == (2, 8, 3)
    np.testing.assert_allclose(picked["modes"][0, :6], meshes[2]["modes"].value, rtol=1e-6)
    assert float(picked["modes"][0, 6:].abs().max()) == 0.0
    assert torch.equal(
        picked["neighbours"][1, :7], torch.from_numpy(meshes[0]["neighbours"].value) + 8
    )
    dense = picked["smooth"].to_dense()
    assert dense.shape == (16, 16)
    np.testing.assert_allclose(dense[:6, :6], meshes[2]["smooth"].value.toarray(), rtol=1e-5)
    np.testing.assert_allclose(dense[8:13, 8:13], meshes[0]["smooth"].value.toarray(), rtol=1e-5)
    assert float(dense[:8, 8:].abs().max()) == 0.0
    torch.testing.assert_close(picked["smooth^T"].to_dense(), dense.T)


def test_a_shared_geometry_is_stored_once() -> None:
    picked = stack_geometry([random_geometry(5, 7, 0)], 5, "cpu").pick(torch.tensor([3, 1, 2]))
    assert picked["modes"].shape == (1, 5, 3)
    assert picked["smooth"].shape == (5, 5)


def test_padding_keeps_the_kind_of_a_value() -> None:
    kinds = {np.float64: torch.float32, np.int32: torch.int64, np.bool_: torch.bool}
    for kind, expected in kinds.items():
        full = padded(np.ones((2, 1), dtype=kind), (3, 2))
        assert full.dtype == expected
        assert full.tolist() == [[1, 0], [1, 0], [0, 0]]


class Params(gb.Params):
    modes: int = gb.knob(2, low=1, high=9, geometry=True)
    width: int = gb.knob(8, low=1, high=99)


def test_a_geometry_is_computed_once_per_mesh_knob_and_summary(tmp_path: Path) -> None:
    calls = []

    def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
        calls.append(params)
        return random_geometry(mesh.size, 7, seed=params.modes)

    model = gb.Model("m", Params, lambda task, params: nn.Identity(), geometry=geometry)
    task, cache = steady()["train"].task, gb.Cache(tmp_path)

    def compute(side: int, length: float, **knobs: int) -> gb.Geometry:
        summary = {"length": np.array([length])}
        params = Params(**knobs)
        return compute_geometry(model, params, task, square(side), summary=summary, cache=cache)

    first, again = compute(4, 1.0), compute(4, 1.0, width=16)
    assert len(calls) == 1
    assert (first["smooth"].value != again["smooth"].value).nnz == 0
    assert again["neighbours"].axes == ("edge", "end") and again["neighbours"].index == "node"
    compute(5, 1.0), compute(4, 2.0), compute(4, 1.0, modes=3)
    assert len(calls) == 4
