"""mass: integrals of manufactured heights on a square lake."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box

import gsnobench as gb
from gsnobench_plugins.metrics.mass import applies, score

TASK = gb.Task(id="lake", dataset="lake", fields=(gb.Field("height", "m", reference=5.0),), dim=2)
LAKE = box(9, jitter=0.25)
X, Y = LAKE.points.T


def frames(*values: gb.Array) -> gb.Array:
    return np.stack(values)[..., None]  # (T, n, 1)


def test_water_that_appears_is_counted_against_the_displaced_volume() -> None:
    u = frames(X, 2 * X)  # 1/2 and 1 of displaced water in a lake of area 1
    p = u + frames(0.1 + 0.2 * Y, -0.1 * np.ones_like(X))  # adds 0.2, loses 0.1
    assert score(p, u, LAKE, TASK) == pytest.approx(0.15 / 0.75, rel=1e-12)


def test_water_in_the_wrong_position_is_still_there() -> None:
    u = frames(np.ones_like(X))
    assert score(u + frames(3 * (X - 0.5)), u, LAKE, TASK) == pytest.approx(0.0, abs=1e-14)


def test_the_scale_is_what_moves_up_and_down_together() -> None:
    u = frames(X - 0.5)  # nothing in sum, yet a quarter is displaced
    error = score(u + 0.1, u, LAKE, TASK)
    lumped = np.abs(X - 0.5) @ areas()
    assert error == pytest.approx(0.1 / lumped, rel=1e-12)
    assert lumped == pytest.approx(0.25, rel=0.05)


def areas() -> gb.Array:
    """A third of the area of its triangles for each node, by hand."""
    total = np.zeros(LAKE.size)
    for cell in LAKE.cells if LAKE.cells is not None else ():
        (ax, ay), (bx, by), (cx, cy) = LAKE.points[cell]
        total[cell] += abs((bx - ax) * (cy - ay) - (cx - ax) * (by - ay)) / 6
    return total


def test_a_lake_at_rest_has_a_finite_score() -> None:
    rest = frames(np.zeros_like(X))
    assert score(rest, rest, LAKE, TASK) == 0.0
    assert np.isfinite(score(rest + 1, rest, LAKE, TASK))


def test_it_needs_a_depth_on_triangles() -> None:
    other = gb.Task(id="toy", dataset="toy", fields=(gb.Field("head"),), dim=2)
    assert applies(TASK, LAKE)
    assert not applies(other, LAKE)
    assert not applies(TASK, gb.Mesh(LAKE.points))
