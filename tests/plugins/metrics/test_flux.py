"""flux: Poiseuille flow through bent pipes, whose flux is known."""

from __future__ import annotations

import numpy as np
import pytest

import gsnobench as gb
from gsnobench_plugins.datasets.pipe import straight_mesh
from gsnobench_plugins.metrics.flux import applies, score, sections

TASK = gb.Task(id="pipe", dataset="pipe", fields=(gb.Field("velocity_x"),), dim=2)
SIDE = 17
STRAIGHT = straight_mesh(SIDE)
ETA = STRAIGHT.points[:, 1] + 0.5  # share of the way across
BENT = gb.Mesh(
    STRAIGHT.points + np.stack([0 * ETA, np.sin(STRAIGHT.points[:, 0])], axis=1),
    STRAIGHT.cells,
    STRAIGHT.tags,
)
FLOW = (4 * ETA * (1 - ETA))[None, :, None]  # (1, n, 1)


def test_every_section_of_a_bent_pipe_has_the_flux_of_the_parabola() -> None:
    flux = sections(BENT) @ FLOW[0, :, 0]
    trapezoids = 2 / 3 * (1 - 1 / (SIDE - 1) ** 2)  # the error of the rule for a parabola
    np.testing.assert_allclose(flux, np.full(SIDE, trapezoids), rtol=1e-12)


def test_a_tenth_more_flow_is_an_error_of_a_tenth() -> None:
    assert score(1.1 * FLOW, FLOW, BENT, TASK) == pytest.approx(0.1, rel=1e-12)


def test_a_shift_across_the_pipe_conserves_the_flux() -> None:
    skewed = FLOW + (ETA * (1 - ETA) * (ETA - 0.5))[None, :, None]
    assert score(skewed, FLOW, BENT, TASK) == pytest.approx(0.0, abs=1e-14)


def test_a_leak_in_one_section_counts_once() -> None:
    x = BENT.points[:, 0]
    leaking = np.where((x == np.unique(x)[5])[None, :, None], 0.0, FLOW)
    assert score(leaking, FLOW, BENT, TASK) == pytest.approx(1 / SIDE, rel=1e-12)


def test_the_flux_has_the_reference_that_values_lack() -> None:
    moving = gb.Task(
        id="pipe", dataset="pipe", fields=(gb.Field("velocity_x", reference=2.0),), dim=2
    )
    rest = np.zeros((1, BENT.size, 1))  # a velocity of 2 everywhere
    assert score(rest + 0.5, rest, BENT, moving) == pytest.approx(0.25, rel=1e-12)


def test_it_needs_nodes_on_vertical_lines_from_inlet_to_outlet() -> None:
    assert applies(TASK, BENT)
    shaken = BENT.points + np.random.default_rng(0).uniform(0, 1e-3, BENT.points.shape)
    assert not applies(TASK, gb.Mesh(shaken, BENT.cells, BENT.tags))
    assert not applies(TASK, gb.Mesh(BENT.points, BENT.cells, {"wall": BENT.tags["wall"]}))
    other = gb.Task(id="toy", dataset="toy", fields=(gb.Field("head"),), dim=2)
    assert not applies(other, BENT)
