"""Bundled invariants: 0 where the physics is exact by hand, and the size of a planted fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_datasets import square

import gsnobench as gb
from gsnobench.check import assert_contract
from gsnobench.plugins import listed, load

NAMES = [entry.name for entry in listed("invariant")]
WALLS = {"boundary": "dirichlet"}


def task(*names: str, **entries: object) -> gb.Task:
    fields = tuple(gb.Field(name) for name in names)
    return gb.Task("t", "t", **{"fields": fields, "dim": 2, **entries})  # type: ignore[arg-type]


def measured(
    name: str, task: gb.Task, mesh: gb.Mesh, frames: gb.Array, static: gb.Array | None = None
) -> float:
    """The measure of one sample, where the invariant applies."""
    invariant = load("invariant", name)
    assert invariant.applies(task, mesh)
    inputs = np.zeros((mesh.size, 0)) if static is None else static
    return invariant.measure(gb.Sample(frames, inputs, np.zeros(0), mesh), mesh, task)


def test_all_declare_what_they_measure() -> None:
    assert len(NAMES) == 7
    for name in NAMES:
        assert_contract("invariant", name)


def test_water_that_appears_is_measured() -> None:
    lake = task("height", times=(0.0, 1.0, 2.0))
    lake = replace(lake, fields=(gb.Field("height", reference=5.0),))
    mesh = square(5)
    frames = np.full((3, mesh.size, 1), 6.0)
    assert measured("water_volume", lake, mesh, frames) == pytest.approx(0.0, abs=1e-12)
    frames[2] += 0.1
    assert measured("water_volume", lake, mesh, frames) == pytest.approx(0.1)


def test_a_section_with_more_flux_is_measured() -> None:
    mesh = square(9)
    x, y = mesh.points.T
    mesh = replace(mesh, tags={"inlet": x == 0, "outlet": x == 1, "wall": (y == 0) | (y == 1)})
    bent = replace(mesh, points=np.stack([x, y + np.sin(x)], axis=1))
    frames = (y * (1 - y))[None, :, None]
    assert measured("pipe_flux", task("velocity_x"), bent, frames) == pytest.approx(0, abs=1e-12)
    frames = frames * np.where(x == 1, 1.2, 1.0)[:, None]
    assert measured("pipe_flux", task("velocity_x"), bent, frames) == pytest.approx(0.2)


def test_a_head_of_another_source_is_measured() -> None:
    mesh = square(33)
    x, y = mesh.points.T
    odd = np.arange(1, 40, 2)
    series = np.zeros(mesh.size)  # of -2 Laplace u = 1 with u = 0 on the unit square
    for i in odd:
        for j in odd:
            wave = np.sin(i * np.pi * x) * np.sin(j * np.pi * y)
            series += 8.0 / (np.pi**4 * i * j * (i**2 + j**2)) * wave
    darcy = replace(task("head"), static=(gb.Field("permeability"),))
    static = np.full((mesh.size, 1), 2.0)
    exact = measured("darcy_energy", darcy, mesh, series[None, :, None], static)
    assert exact < 0.005
    planted = measured("darcy_energy", darcy, mesh, 1.1 * series[None, :, None], static)
    assert planted == pytest.approx(0.1, abs=0.006)


def test_vorticity_from_a_wall_is_measured() -> None:
    mesh, times = square(5), np.array([0.0, 0.5, 1.0])
    field = gb.Field("vorticity", boundary={"boundary": "neumann"})
    flow = gb.Task("t", "t", fields=(field,), dim=2, times=tuple(times))
    frames = np.ones((3, mesh.size, 1)) * (1 + times)[:, None, None]
    assert measured("total_vorticity", flow, mesh, frames) == pytest.approx(0.0, abs=1e-12)
    frames = np.ones((3, mesh.size, 1)) * (1 + times**2)[:, None, None]
    assert measured("total_vorticity", flow, mesh, frames) == pytest.approx(0.25 / 2)


def burgers(mesh: gb.Mesh, crest: float) -> tuple[gb.Task, gb.Array]:
    """Ridges that start with their crest at x = `crest` and later have it on the nodes x = 1/2."""
    fields = tuple(gb.Field(name, boundary={"wall": "dirichlet"}) for name in ("u", "v"))
    flow = replace(task("u", "v", times=(0.0, 1.0)), dataset="burgers2d", fields=fields)
    ridges = [np.exp(-(((mesh.points[:, 0] - x) / 0.3) ** 2)) for x in (crest, 0.5)]
    frames = np.repeat(np.stack(ridges)[..., None], 2, axis=2)
    frames[:, mesh.tags["wall"]] = 0.0
    return flow, frames


def test_growth_of_a_component_is_measured() -> None:
    mesh = square(9)
    flow, frames = burgers(mesh, 0.5)
    frames[:, :, 1] *= -2.0
    assert measured("maximum_principle", flow, mesh, frames) == pytest.approx(0.0, abs=1e-12)
    frames[1, :, 0] *= -1.5
    assert measured("maximum_principle", flow, mesh, frames) == pytest.approx(0.5, abs=0.01)
    assert not load("invariant", "maximum_principle").applies(task("u", "v"), mesh)


@pytest.mark.parametrize(
    ("crest", "height", "fault"),
    [
        pytest.param(0.5625, 1.0, 1.05, id="between nodes"),
        pytest.param(1.0, 0.95, 1.3, id="at a wall"),  # where the spline goes on with the slope
    ],
)
def test_a_crest_that_no_node_saw_at_the_start_is_no_growth(
    crest: float, height: float, fault: float
) -> None:
    mesh = square(9)
    flow, frames = burgers(mesh, crest)
    frames[1] *= height
    seen = np.abs(frames).max(axis=(1, 2))
    limit = load("invariant", "maximum_principle").limit
    assert seen[1] / seen[0] - 1 > limit
    assert measured("maximum_principle", flow, mesh, frames) < limit / 2
    frames[1] *= fault / height
    assert measured("maximum_principle", flow, mesh, frames) > limit


def test_pressure_off_bernoullis_law_is_measured() -> None:
    draw = np.random.default_rng(0)
    mesh = gb.Mesh(draw.normal(size=(6, 3)), None, {"surface": np.arange(6) < 4})
    fields = (gb.Field("pressure"), *(gb.Field(f"v_{a}", vector="velocity") for a in "xyz"))
    air = gb.Task("t", "t", fields=fields, dim=3, data={"density": 1.2, "speed": 20.0})
    velocity = draw.normal(size=(6, 3)) + [20.0, 0, 0]
    pressure = 0.6 * (400.0 - (velocity**2).sum(axis=1))
    pressure[4:] = 1e6  # in the air nobody asks
    frames = np.column_stack([pressure, velocity])[None]
    assert measured("bernoulli", air, mesh, frames) == pytest.approx(0.0, abs=1e-12)
    frames[0, 2, 0] += 0.05 * 240.0
    assert measured("bernoulli", air, mesh, frames) == pytest.approx(0.05)


def test_negative_density_is_measured_and_negative_gauge_pressure_is_not() -> None:
    mesh = square(3)
    gas, frames = task("density", "pressure", "velocity_x"), np.ones((1, mesh.size, 3))
    frames[..., 2] = -5.0
    assert measured("positivity", gas, mesh, frames) == 0.0
    frames[0, 3, 0] = -0.2
    assert measured("positivity", gas, mesh, frames) == pytest.approx(0.2)
    assert not load("invariant", "positivity").applies(task("pressure"), mesh)
