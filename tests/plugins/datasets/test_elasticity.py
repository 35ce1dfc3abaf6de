"""The cell dataset: accuracy and cost, good meshes for every void, what a sample depends on."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Array, Split
from gsnobench.datasets import tasks
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.datasets import elasticity
from gsnobench_plugins.solvers.equations.unit_cell import bent_space, mesh_cell, refine_cell
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.methods.stress_recovery import recover
from gsnobench_plugins.solvers.shapes.voids import Void, VoidLaw


def cell_of(resolution: int, **knobs: float | int | str) -> elasticity.Cell:
    return elasticity.setup(elasticity.Params(**knobs), resolution, gb.Cache())


def sample_of(
    cell: elasticity.Cell, split: Split = "test", index: int = 0, seed: int = 0
) -> gb.Sample:
    return next(elasticity.generate(cell, seed, split, [index]))


def mesh_of(sample: gb.Sample) -> gb.Mesh:
    assert sample.mesh is not None
    return sample.mesh


def relative(computed: Array, exact: Array) -> float:
    return float(np.linalg.norm(computed - exact) / np.linalg.norm(exact))


def is_inside(mesh: gb.Mesh) -> Array:
    return ~np.any(list(mesh.tags.values()), axis=0)


def mirrored(void: Void) -> Void:
    """The void seen in a mirror at x = 0.5: angle -> pi - angle."""
    sign = (-1.0) ** np.arange(len(void.cosines))
    return replace(void, cosines=sign * void.cosines, sines=-sign * void.sines)


# ---------------------------------------------------------------------------------- the declaration


def test_declaration_is_the_papers_problem() -> None:
    dataset = elasticity.gsnobench_dataset()
    assert (dataset.name, dataset.dim, dataset.t_in, dataset.times) == ("elasticity", 2, 0, (0.0,))
    assert [field.name for field in dataset.fields] == ["stress"]
    assert not dataset.static
    assert not dataset.scalars
    assert not dataset.fixed_mesh and not dataset.corresponds
    full = dataset.sizes["paper"]
    assert (full.train, full.test, full.resolution) == (1000, 200, 972)
    assert {sizes.resolution for sizes in dataset.sizes.values()} <= set(dataset.resolutions)
    defaults = elasticity.Params()
    assert (defaults.c1, defaults.c2, defaults.traction) == (1.863e5, 9.79e3, 100.0)


def test_samples_have_the_declared_shape_and_their_own_mesh() -> None:
    cell = cell_of(120)
    first, second = elasticity.generate(cell, 0, "train", [0, 1])
    for sample in (first, second):
        assert sample.frames.shape == (1, 120, 1)
        assert sample.static.shape == (120, 0)
        assert sample.scalars.shape == (0,)
        assert mesh_of(sample).size == 120
        assert set(mesh_of(sample).tags) == set(elasticity.gsnobench_dataset().tags)
        assert (sample.frames > 0).all()
    assert elasticity.no_shared_mesh(cell) is None
    assert mesh_of(first).key != mesh_of(second).key


def test_variant_radii_gives_the_radii_of_the_void() -> None:
    task = tasks.resolve(elasticity.gsnobench_dataset(), "elasticity_radii", track="smoke")
    assert len(task.scalars) == 42 and task.in_channels == 44
    assert not tasks.resolve(elasticity.gsnobench_dataset(), "elasticity", track="smoke").scalars
    cell = cell_of(120, inputs="radii")
    given = sample_of(cell).scalars
    assert given.shape == (42,) and given[0] == pytest.approx(given[-1])
    void = elasticity.draw_void(cell, 0, "test", 0)
    assert given[1] == pytest.approx(float(void.radius(np.array(2 * np.pi / 41))))


@pytest.mark.parametrize(
    ("knobs", "complaint"),
    [
        ({"void_low": 0.4, "void_high": 0.3}, "void_low: 0.4 is not below"),
        ({"traction": 1e6}, r"traction: 1e\+06 is too much"),
    ],
)
def test_impossible_knobs_are_refused_in_one_line(knobs: dict[str, float], complaint: str) -> None:
    with pytest.raises(gb.ParamError, match=complaint) as caught:
        cell_of(120, **knobs)
    assert "\n" not in str(caught.value)


# -------------------------------------------------------------------------------- accuracy and cost


def test_error_at_the_published_mesh_is_within_the_bar() -> None:
    """1 % of the stress inside, and at all nodes, against a refinement more."""
    cell = cell_of(972)
    sample = sample_of(cell, index=1)
    fine = replace(cell, params=replace(cell.params, refinements=2, rims=1, gradings=5))
    exact = elasticity.stress(fine, mesh_of(sample), elasticity.draw_void(cell, 0, "test", 1))
    computed, inside = sample.frames[0, :, 0], is_inside(mesh_of(sample))
    # the error falls by 4 a refinement, so the distance to the next level is 3/4 of it
    assert relative(computed[inside], exact[inside]) / 0.75 < 0.005
    assert relative(computed[~inside], exact[~inside]) / 0.75 < 0.005


def test_stress_is_of_second_order_everywhere() -> None:
    cell = cell_of(120)
    void = elasticity.draw_void(cell, 0, "test", 2)
    mesh = mesh_cell(void, 120)
    levels = [
        replace(cell, params=replace(cell.params, refinements=times, rims=0, gradings=4))
        for times in range(4)
    ]
    values = [elasticity.stress(level, mesh, void) for level in levels]
    steps = [relative(stress, values[-1]) for stress in values[:-1]]
    assert np.log2(steps[0] / steps[1]) > 1.5 and np.log2(steps[1] / steps[2]) > 1.7
    assert steps[2] < 0.02


def test_stress_at_a_clamped_corner_is_the_same_on_every_mesh() -> None:
    """The point value would grow without end; the mean around the corner does not."""
    values: list[float] = []
    raw: list[float] = []
    for resolution, gradings in ((120, 3), (250, 3), (250, 5)):
        cell = cell_of(resolution, gradings=gradings)
        for kept, knobs in ((values, {}), (raw, {"corner_radius": 0.0})):
            sample = sample_of(replace(cell, params=replace(cell.params, **knobs)))
            corner = mesh_of(sample).tags["bottom"] & mesh_of(sample).tags["sides"]
            assert corner.sum() == 2
            kept.append(sample.frames[0, corner, 0].max())
    assert np.ptp(values) / values[0] < 0.003
    assert raw[2] > 1.5 * raw[1] > 2.0 * values[1]


def test_mirrored_void_has_the_mirrored_stress() -> None:
    """On the mirrored mesh to round-off: the solver knows no left and right."""
    cell = cell_of(200)
    void = elasticity.draw_void(cell, 0, "test", 0)
    mesh = mesh_cell(void, 200)
    flip = np.array([-1.0, 1.0])
    points = mesh.points * flip + [1.0, 0.0]
    seen = gb.Mesh(points, cells_of(mesh)[:, ::-1].copy(), mesh.tags)
    plain = elasticity.stress(cell, mesh, void)
    turned = elasticity.stress(cell, seen, mirrored(void))
    assert np.abs(turned - plain).max() <= 1e-6 * plain.max()


def test_symmetric_void_has_a_symmetric_stress() -> None:
    """On a mesh that is not symmetric, to the accuracy of the solver, by interpolation.

    The stresses at (x, y) and (1 - x, y) are compared.
    """
    cell = cell_of(450)
    void = elasticity.draw_void(cell, 0, "test", 0)
    even = np.arange(len(void.cosines)) % 2 == 0
    void = replace(
        void, cosines=np.where(even, void.cosines, 0.0), sines=np.where(even, 0.0, void.sines)
    )
    assert mirrored(void).cosines == pytest.approx(void.cosines)
    assert mirrored(void).sines == pytest.approx(void.sines)
    mesh = mesh_cell(void, 450)
    fine = refine_cell(mesh, void, times=1)
    space = bent_space(fine, void)
    deviator = recover(space, cell.material.deviator(elasticity.pulled(cell, space).stretch(space)))
    inside = is_inside(mesh)
    opposite = mesh.points[inside] * [-1.0, 1.0] + [1.0, 0.0]
    there = evaluation_matrix(fine, opposite) @ deviator
    assert relative(there * [1.0, 1.0, -1.0], deviator[: mesh.size][inside]) < 0.015
    assert relative(there, deviator[: mesh.size][inside]) > 0.1  # the shear changes its sign


def test_traction_of_the_default_is_linear_and_that_of_stretched_is_not() -> None:
    small, ten, large = (
        sample_of(cell_of(120, traction=traction)).frames / traction
        for traction in (100.0, 1000.0, 3e4)
    )
    assert relative(ten, small) < 0.02
    assert relative(large, small) > 0.05


# ---------------------------------------------------------------------------------------- the voids


def check_geometry(void: Void, nodes: int) -> tuple[float, float]:
    """Smallest angles of the published and of the refined mesh, whose rim lies on the void."""
    mesh = mesh_cell(void, nodes)
    fine = refine_cell(mesh, void, times=1, rims=1)
    assert mesh.size == nodes and np.array_equal(fine.points[:nodes], mesh.points)
    for level in (mesh, fine):
        at = level.points[level.tags["void"]]
        distance = np.linalg.norm(at - void.centre, axis=1)
        assert np.abs(distance - void.radius(void.angle(at))).max() < 1e-12
        assert (cell_measures(level.points, cells_of(level)) > 0).all()
    corner = (mesh.points[:, 0] % 1.0 == 0.0) & (mesh.points[:, 1] % 1.0 == 0.0)
    assert corner.sum() == 4
    # raises if a bent cell is folded
    bent_space(refine_cell(fine, void, times=0, gradings=3), void)
    return min_angle(mesh), min_angle(fine)


@pytest.mark.parametrize("resolution", [120, 450])
@pytest.mark.parametrize("split", ["test", "test_ood"])
def test_meshes_are_good_for_many_voids(resolution: int, split: Split) -> None:
    cell = cell_of(resolution)
    angles = np.array(
        [
            check_geometry(elasticity.draw_void(cell, 1, split, index), resolution)
            for index in range(3)
        ]
    )
    assert angles[:, 0].min() >= 25.0 and angles[:, 1].min() >= 12.0


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 50, 100, 150])
@pytest.mark.parametrize("split", ["train", "test_ood"])
def test_two_hundred_draws_do_not_fail(split: Split, first: int) -> None:
    cell = cell_of(972)
    voids = [elasticity.draw_void(cell, 2, split, index) for index in range(first, first + 50)]
    angles = np.array([check_geometry(void, 972) for void in voids])
    assert angles[:, 0].min() >= 25.0 and angles[:, 1].min() >= 12.0


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.parametrize("split", ["train", "test_ood"])
def test_two_hundred_draws_are_solved(split: Split, first: int) -> None:
    cell = cell_of(120)
    for index in range(first, first + 100):
        values = sample_of(cell, split, index, seed=3).frames
        assert np.isfinite(values).all() and 200.0 < values.max() < 2e4


def test_radii_follow_the_law() -> None:
    """g has the stated variance, radii stay in their limits, more modes refine the same void."""
    angle = np.linspace(0.0, 2 * np.pi, 64, endpoint=False)
    voids = [VoidLaw().draw(sample_rng(0, "train", index)) for index in range(2000)]
    radius = np.stack([void.radius(angle) for void in voids])
    assert radius.min() > 0.2 and radius.max() < 0.4
    field = np.log((0.4 - radius) / (radius - 0.2))
    number = np.arange(1, 6)
    variance = 16 / (2 * np.pi * 9) + np.sum(16 / np.pi / (number**2 + 9))
    assert field.std() == pytest.approx(np.sqrt(variance), rel=0.03)
    assert abs(field.mean()) < 0.05
    rough = VoidLaw(modes=8).draw(sample_rng(0, "train", 0))
    assert np.array_equal(rough.cosines[:6], voids[0].cosines)
    assert np.array_equal(rough.sines[:6], voids[0].sines)


def test_halfway_is_on_the_curve_and_as_far_from_both_ends() -> None:
    void = VoidLaw().draw(sample_rng(0, "train", 7))
    angle = np.linspace(-3.0, 3.4, 30)  # across the cut at pi
    ends = void.points(angle)
    middle = void.halfway(ends[:-1], ends[1:])
    assert np.linalg.norm(middle - void.centre, axis=1) == pytest.approx(
        void.radius(void.angle(middle)), abs=1e-14
    )
    assert np.linalg.norm(middle - ends[:-1], axis=1) == pytest.approx(
        np.linalg.norm(middle - ends[1:], axis=1), abs=1e-9
    )
    to_end = np.linalg.norm(middle - ends[1:], axis=1)
    assert (to_end < np.linalg.norm(ends[1:] - ends[:-1], axis=1)).all()


def test_ood_voids_are_larger() -> None:
    cell = cell_of(120)
    usual, wider = (cell.laws[split] for split in ("test", "test_ood"))
    assert (wider.low - usual.low, wider.high - usual.high) == pytest.approx((0.05, 0.05))
    assert cell.laws["train"] == cell.laws["valid"] == usual
    assert sample_of(cell, "test_ood").frames.mean() > sample_of(cell, "test").frames.mean()


# ------------------------------------------------------------------------- what a sample depends on


def test_same_sample_on_two_meshes_is_the_same_void_and_stress() -> None:
    coarse, fine = sample_of(cell_of(450), index=3), sample_of(cell_of(972), index=3)
    inside = is_inside(mesh_of(coarse))
    seen = evaluation_matrix(mesh_of(fine), mesh_of(coarse).points[inside]) @ fine.frames[0, :, 0]
    assert relative(seen, coarse.frames[0, inside, 0]) < 0.03  # most of it is the interpolation
    away = (
        evaluation_matrix(mesh_of(fine), mesh_of(coarse).points[inside])
        @ sample_of(cell_of(972), index=4).frames[0, :, 0]
    )
    assert relative(away, coarse.frames[0, inside, 0]) > 0.2


def test_sample_does_not_depend_on_its_neighbours_in_the_chunk() -> None:
    cell = cell_of(120)
    together = [
        (sample.frames.tobytes(), mesh_of(sample).key)
        for sample in elasticity.generate(cell, 0, "valid", [0, 1, 2])
    ]
    alone = [sample_of(cell_of(120), "valid", index) for index in (2, 1, 0)]
    assert together == [(sample.frames.tobytes(), mesh_of(sample).key) for sample in alone[::-1]]
    assert len(set(together)) == 3


def test_seed_split_and_index_each_change_the_sample() -> None:
    cell = cell_of(120)
    drawn: list[tuple[int, Split, int]] = [
        (0, "train", 0),
        (1, "train", 0),
        (0, "test", 0),
        (0, "train", 1),
    ]
    keys = {mesh_of(sample_of(cell, split, index, seed)).key for seed, split, index in drawn}
    assert len(keys) == len(drawn)


def test_another_process_gives_the_same_bytes() -> None:
    program = (
        "import hashlib, gsnobench as gb; from gsnobench_plugins.datasets import elasticity as e;"
        "s = next(e.generate(e.setup(e.Params(), 120, gb.Cache()), 0, 'train', [5]));"
        "print(hashlib.sha256(s.frames.tobytes() + s.mesh.points.tobytes()).hexdigest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    here = sample_of(cell_of(120), "train", 5)
    content = here.frames.tobytes() + mesh_of(here).points.tobytes()
    assert there == hashlib.sha256(content).hexdigest()
