"""rel_h1 against analytic fields and against scikit-fem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import skfem
from toy_meshes import box

import gsnobench as gb
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.metrics.rel_h1 import applies, gsnobench_metric, score

U = gb.Field("u")
TASK = gb.Task(id="toy", dataset="toy", fields=(U,), dim=2)
KINDS = {2: (skfem.MeshTri, skfem.ElementTriP1), 3: (skfem.MeshTet, skfem.ElementTetP1)}


def test_linear_fields_are_exact() -> None:
    mesh = box(7, jitter=0.25)
    x, y = mesh.points.T
    u = np.stack([x, 2 * x])[..., None]  # two frames: |u|^2 = 1 + 4
    p = u + np.stack([0.3 * y, 0.4 * y + 7])[..., None]  # a constant has no slope
    assert score(p, u, mesh, TASK) == pytest.approx(np.sqrt((0.09 + 0.16) / 5), rel=1e-12)


def test_smooth_fields_converge_to_their_integrals() -> None:
    errors = []
    exact = 0.1 * np.sqrt(5 / 2)  # |sin(a pi x) sin(b pi y)|^2 = (a^2 + b^2) pi^2 / 4
    for side in (17, 33):
        mesh = box(side)
        x, y = np.pi * mesh.points.T
        u = (np.sin(x) * np.sin(y))[None, :, None]
        p = u + 0.1 * (np.sin(2 * x) * np.sin(y))[None, :, None]
        errors.append(abs(score(p, u, mesh, TASK) / exact - 1))
    assert errors[1] < 2e-3
    assert errors[1] < 0.3 * errors[0]  # second order


@pytest.mark.parametrize("dim", [2, 3])
def test_random_fields_score_as_scikit_fem_integrates_them(dim: int) -> None:
    mesh, draw = box(7, dim, jitter=0.25), np.random.default_rng(0)
    fields = (U, gb.Field("v", vector="w"), gb.Field("w", vector="w"))
    p, u = draw.normal(size=(2, 3, mesh.size, 3))
    kind, element = KINDS[dim]
    basis = skfem.Basis(kind(mesh.points.T, cells_of(mesh).T), element())

    @skfem.Functional
    def slopes(w: Any) -> Any:
        return np.sum(w.field.grad**2, axis=0)

    def energy(values: gb.Array) -> float:
        columns = values.transpose(0, 2, 1).reshape(-1, mesh.size)
        return sum(slopes.assemble(basis, field=basis.interpolate(column)) for column in columns)

    groups = [[0], [1, 2]]  # the scalar and the vector
    ratios = [energy((p - u)[..., group]) / energy(u[..., group]) for group in groups]
    task = gb.Task(id="toy", dataset="toy", fields=fields, dim=dim)
    assert score(p, u, mesh, task) == pytest.approx(np.mean(np.sqrt(ratios)), rel=1e-10)


def test_a_rough_error_is_worse_than_a_smooth_one_of_equal_size() -> None:
    mesh = box(17)
    x, y = np.pi * mesh.points.T
    u = (np.sin(x) * np.sin(y))[None, :, None]
    rough = (np.sin(6 * x) * np.sin(y))[None, :, None]
    assert score(u + 0.1 * rough, u, mesh, TASK) > 3 * score(1.1 * u, u, mesh, TASK)


def test_it_needs_cells_and_fields_at_all_nodes() -> None:
    mesh = box(4)
    assert applies(TASK, mesh)
    assert not applies(TASK, gb.Mesh(mesh.points))
    partly = gb.Task(id="toy", dataset="toy", fields=(gb.Field("u", support="wall"),), dim=2)
    assert not applies(partly, mesh)


def test_a_truth_without_slopes_gives_a_finite_score() -> None:
    mesh = box(4)
    zeros = np.zeros((1, mesh.size, 1))
    assert score(zeros, zeros, mesh, TASK) == 0.0
    assert np.isfinite(score(zeros + mesh.points[:, :1], zeros, mesh, TASK))
    assert gsnobench_metric().applies is applies
