"""The bundled metrics keep the contract of every metric, on tasks they are made for."""

from __future__ import annotations

import numpy as np
import pytest
from toy_meshes import box, sphere

import gsnobench as gb
from gsnobench.check import assert_contract, failed
from gsnobench.check.metrics_executors import check_metric_on
from gsnobench.plugins import listed, load
from gsnobench_plugins.datasets.pipe import straight_mesh
from gsnobench_plugins.solvers.meshing.foil_mesh import foil_mesh
from gsnobench_plugins.solvers.shapes.naca import Section

BUNDLED = sorted(entry.name for entry in listed("metric") if entry.package == "gsnobench")
VELOCITY = [gb.Field(f"velocity_{axis}", reference=2.0, vector="velocity") for axis in "xyz"]


def samples(fields: list[gb.Field], *meshes: gb.Mesh, **data: float) -> gb.Samples:
    """Smooth random fields around their references in two frames, one sample per mesh."""
    task = gb.Task(
        id="toy@0-2",
        dataset="toy",
        fields=tuple(fields),
        dim=meshes[0].dim,
        tags=tuple(meshes[0].tags),
        t_out=2,
        times=(0.0, 1.0),
        fixed_mesh=False,
        data=data,
    )
    draw, nodes = np.random.default_rng(0), max(mesh.size for mesh in meshes)
    frames = np.zeros((len(meshes), 2, nodes, len(fields)))
    for index, mesh in enumerate(meshes):
        rates = draw.uniform(1.0, 3.0, (2, mesh.dim, len(fields)))
        waves = 0.5 * np.sin(np.einsum("nd,tdc->tnc", mesh.points, rates))
        frames[index, :, : mesh.size] = [field.reference for field in fields] + waves
    count = len(meshes)
    return gb.Samples(task, meshes, frames, np.zeros((count, nodes, 0)), np.zeros((count, 0)))


def pipe(side: int) -> gb.Mesh:
    straight = straight_mesh(side)
    lift = np.stack([0 * straight.points[:, 0], np.sin(straight.points[:, 0])], axis=1)
    return gb.Mesh(straight.points + lift, straight.cells, straight.tags)


def ball(count: int) -> gb.Mesh:
    points = np.concatenate([sphere(count).points, 2 * sphere(40).points])
    return gb.Mesh(points, None, {"surface": np.arange(len(points)) < count})


def tasks() -> dict[str, gb.Samples]:
    """Small examples with different numbers of nodes, so that there is padding."""
    foils = [foil_mesh(Section.of(digits), nodes=300, radius=10.0) for digits in ("0012", "4412")]
    pressure, density = gb.Field("pressure", reference=0.7), gb.Field("density", reference=1.0)
    surface = gb.Field("pressure", support="surface")
    return {
        "lake": samples([gb.Field("height", reference=5.0)], box(6, jitter=0.2), box(9)),
        "pipe": samples([VELOCITY[0]], pipe(5), pipe(9)),
        "wing": samples([density, pressure, *VELOCITY[:2]], *foils),
        "body": samples([surface, *VELOCITY], ball(60), ball(90), density=1.2),
    }


APPLIES = {
    "rel_h1": {"lake", "pipe", "wing"},
    "mass": {"lake"},
    "flux": {"pipe"},
    "drag": {"wing", "body"},
    "lift": {"wing", "body"},
}


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_metric_keeps_the_rules_where_it_applies(name: str) -> None:
    metric = load("metric", name)
    chosen = {
        label: made
        for label, made in tasks().items()
        if all(metric.applies(made.task, mesh) for mesh in made.meshes)
    }
    assert set(chosen) == APPLIES[name]
    assert failed(check_metric_on(metric, chosen)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_metric_keeps_the_contract_on_real_data(name: str) -> None:
    assert_contract("metric", name)
