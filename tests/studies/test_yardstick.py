"""A common yardstick: interpolation, the headline by hand, and modes of two meshes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_datasets import HEAT, square

from gsnobench.data import Array, Mesh
from gsnobench.datasets.tasks import resolve
from gsnobench.errors import ParamError
from gsnobench.studies.yardstick import agreement, check_meshes, headlines, onto

TASK = resolve(HEAT, "heat", track="smoke")


def oblong(side: int) -> Mesh:
    """Unequal sides, so that no two modes have the same eigenvalue."""
    mesh = square(side)
    return replace(mesh, points=mesh.points * [1.0, 0.63])


def linear(mesh: Mesh) -> Array:
    """Two equal frames of one sample, (1, 2, N, 1)."""
    values = mesh.points @ [2.0, -1.0] + 3.0
    return np.stack([values, values])[None, ..., None]


def test_a_linear_field_is_interpolated_exactly_and_scored_by_hand() -> None:
    coarse, fine = oblong(5), oblong(9)
    frames = [linear(mesh) for mesh in (coarse, fine)]
    np.testing.assert_allclose(onto(frames[0], coarse, fine), frames[1], rtol=1e-6)
    wrong = frames[1] * 1.1
    assert headlines(wrong, frames[1], fine, TASK) == pytest.approx([0.1])


def test_fem_modes_of_two_meshes_are_the_same_functions_and_random_ones_are_not() -> None:
    coarse, fine = oblong(13), oblong(25)
    same = agreement(coarse, coarse, 6, "gaussian")
    assert (same.cosine, same.correlation) == pytest.approx((1.0, 1.0))
    close = agreement(coarse, fine, 6, "fem")
    assert close.cosine > 0.99 and close.correlation > 0.99
    assert agreement(coarse, fine, 6, "random").cosine < 0.5


def test_tasks_that_cannot_be_compared_across_meshes_are_refused() -> None:
    with pytest.raises(ParamError, match="every sample has its own mesh"):
        check_meshes(replace(TASK, fixed_mesh=False))
    with pytest.raises(ParamError, match="several windows"):
        check_meshes(replace(TASK, starts=(0, 1)))
    check_meshes(TASK)
