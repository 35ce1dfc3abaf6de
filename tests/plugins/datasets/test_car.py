"""The car dataset: bodies, points and flow of the defaults, and what a sample depends on."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.datasets import tasks
from gsnobench.meshes.simplices import cell_measures
from gsnobench_plugins.datasets import car
from gsnobench_plugins.solvers.equations.potential_flow import (
    force_coefficients,
    pressure_coefficient,
    solve_flow,
    surface_velocity,
    volume_velocity,
)
from gsnobench_plugins.solvers.meshing.surface_mesh import (
    enclosed_volume,
    is_closed,
    triangle_angles,
)
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.methods.surface_distance import winding_number
from gsnobench_plugins.solvers.shapes.car_body import (
    RANGES,
    CarShape,
    body_normals,
    body_points,
    draw_shape,
    level,
)


def air_of(resolution: int, **knobs: float | int | str) -> car.Air:
    return car.setup(car.Params(**knobs), resolution, gb.Cache())


def sample_of(air: car.Air, split: str, index: int) -> gb.Sample:
    return next(car.generate(air, 0, split, [index]))


def shape_of(split: str, index: int) -> CarShape:
    return draw_shape(sample_rng(0, split, index), tall=split == "test_ood")


def relative(computed: Array, exact: Array) -> float:
    return float(np.linalg.norm(computed - exact) / np.linalg.norm(exact))


def mesh_of(sample: gb.Sample) -> gb.Mesh:
    assert sample.mesh is not None
    return sample.mesh


# ---------------------------------------------------------------------------------- the declaration


def test_declaration_is_the_papers_problem_and_says_potential_flow():
    dataset = car.gsnobench_dataset()
    assert (dataset.name, dataset.dim, dataset.t_in, len(dataset.times)) == ("car", 3, 0, 1)
    assert (dataset.fixed_mesh, dataset.corresponds) == (False, False)
    assert [(field.name, field.support, field.vector) for field in dataset.fields] == [
        ("pressure", "surface", None),
        *[(f"velocity_{axis}", "not surface", "velocity") for axis in "xyz"],
    ]
    names = ["signed_distance", "normal_x", "normal_y", "normal_z"]
    assert [field.name for field in dataset.static] == names
    full = gb.Sizes(train=500, valid=56, test=111, test_ood=56, resolution=32186)
    assert dataset.sizes["paper"] == dataset.sizes["workstation"] == full
    assert dataset.sizes["laptop"].train >= 80
    for text in (
        dataset.title,
        dataset.solver,
        str(car.__doc__),
        *(field.help for field in dataset.fields),
    ):
        assert "potential flow" in text.lower()


def test_score_of_the_velocity_is_on_what_the_body_changes():
    task = tasks.resolve(car.gsnobench_dataset(), "car", track="laptop", knobs={"speed": 35.0})
    assert [field.reference for field in task.fields] == [0.0, 35.0, 0.0, 0.0]
    assert set(task.scored) == {"pressure", "velocity"}


# ------------------------------------------------------------------------------------------- bodies


def bodies(count: int) -> list[CarShape]:
    """Every fifth is taller than the family, and the first few are its corners."""
    draws = [
        shape_of("test_ood" if index % 5 == 4 else "train", index) for index in range(count - 4)
    ]
    ends = [CarShape(**{name: ends[i] for name, ends in RANGES.items()}) for i in (0, 1)]
    mixed = [
        CarShape(**{name: ends[(k + i) % 2] for k, (name, ends) in enumerate(RANGES.items())})
        for i in (0, 1)
    ]
    return [*ends, *mixed, *draws]


def test_two_hundred_bodies_are_watertight_and_have_sound_panels():
    lattice = car.car_lattice(8)
    assert is_closed(lattice.triangles)
    # as in the surface set
    assert (len(lattice.positions) + len(lattice.mirrored), len(lattice.triangles)) == (3586, 7168)
    for shape in bodies(200):
        half = car.vertices(shape, lattice)
        points = lattice.whole_vectors(half)
        assert np.abs(level(shape, points) - 1).max() < 1e-12
        assert 3.5 < enclosed_volume(points, lattice.triangles) < 14.0  # m^3
        assert np.isclose(points[:, 0].min(), -shape.length / 2)
        assert np.isclose(points[:, 0].max(), shape.length / 2)
        assert points[:, 2].min() > 0.9 * shape.ride and points[:, 2].max() < shape.height + 1e-9
        angles = triangle_angles(points, lattice.triangles)
        assert angles.min() > 7.0 and angles.max() < 145.0  # degrees
        corners = half[lattice.half]
        faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        outward = body_normals(shape, half)[lattice.half].mean(axis=1)
        assert np.all(np.sum(faces * outward, axis=1) > 0)
        assert np.all(corners[..., 1] >= 0) and np.all(half[lattice.numbers[:, 1] == 0, 1] == 0)


@pytest.mark.slow
def test_two_hundred_bodies_are_solved():
    """With few panels: none fails, the air is at most thrice as fast as the stream, no drag."""
    lattice = car.car_lattice(6)
    for shape in bodies(200):
        half = car.vertices(shape, lattice)
        flow = solve_flow(lattice, half)
        pressure = pressure_coefficient(surface_velocity(flow, half, body_normals(shape, half)))
        drag, side, _ = force_coefficients(
            flow.vertices, lattice.triangles, lattice.whole(pressure)
        )
        assert pressure.min() > -8.0 and 0.9 < pressure.max() < 1.0 + 1e-9
        assert abs(drag) < 0.03 and abs(side) < 1e-9


def test_level_tells_inside_from_outside():
    for split, index in (("train", 0), ("test_ood", 1)):
        shape, lattice = shape_of(split, index), car.car_lattice(8)
        corners = lattice.whole_vectors(car.vertices(shape, lattice))[lattice.triangles]
        points = np.random.default_rng(index).uniform([-2.7, -1.1, 0.0], [2.7, 1.1, 2.2], (1500, 3))
        height = level(shape, points)
        clear = np.abs(height - 1) > 0.03  # flat panels lie a little inside the smooth body
        winding = winding_number(corners, points[clear])
        assert np.abs(winding - (height[clear] < 1)).max() < 1e-6
        assert 0.1 < np.mean(height < 1) < 0.6


def test_nowhere_beyond_the_clear_level_is_near_the_body():
    for shape in bodies(24):
        directions = np.random.default_rng(0).normal(size=(4000, 3))
        surface = body_points(shape, directions)
        moved = surface + car.CLEARANCE * body_normals(shape, surface)
        assert level(shape, moved).max() < car.CLEAR


def test_tall_bodies_differ_in_their_height_alone():
    low, tall = (
        draw_shape(sample_rng(0, "test", 3)),
        draw_shape(sample_rng(0, "test", 3), tall=True),
    )
    assert replace(tall, height=low.height) == low
    heights = [shape_of("test_ood", index).height for index in range(50)]
    assert min(heights) > max(RANGES["height"]) + 0.1
    air = air_of(1000)
    tops = [
        mesh_of(sample_of(air, split, 0)).points[:226, 2].max() for split in ("test", "test_ood")
    ]
    assert tops[0] < 1.61 and tops[1] > 1.7


# ------------------------------------------------------------------------------------------- points


@pytest.fixture(scope="module")
def cloud() -> gb.Sample:
    return sample_of(air_of(12000), "test", 0)


def test_cloud_has_the_asked_points_and_none_in_the_body(cloud):
    mesh, shape = mesh_of(cloud), shape_of("test", 0)
    surface = mesh.tags["surface"]
    assert (mesh.size, surface.sum(), mesh.cells) == (12000, 56 * 36 + 2, None)
    lattice = car.car_lattice(8)
    corners = lattice.whole_vectors(car.vertices(shape, lattice))[lattice.triangles]
    away = mesh.points[~surface]
    near = away[level(shape, away) < 1.5]
    assert len(near) > 500
    assert np.abs(winding_number(corners, near[:1500])).max() < 1e-6
    assert away[:, 2].min() > 0
    assert level(shape, away).min() > 1
    assert len(np.unique(mesh.points, axis=0)) == mesh.size


def test_distance_and_normals_are_those_of_the_body(cloud):
    mesh, shape = mesh_of(cloud), shape_of("test", 0)
    surface = mesh.tags["surface"]
    distance, normals = cloud.static[:, 0], cloud.static[:, 1:]
    assert np.all(distance[surface] == 0) and distance[~surface].min() >= car.CLEARANCE
    assert np.abs(np.linalg.norm(normals, axis=1) - 1).max() < 1e-9
    assert np.abs(normals[surface] - body_normals(shape, mesh.points[surface])).max() < 1e-9
    away, inward = mesh.points[~surface], -distance[~surface, None] * normals[~surface]
    # back to the body, but for the flatness of its panels
    assert np.abs(level(shape, away + inward) - 1).max() < 0.02
    dense = car.car_lattice(20)
    vertices = dense.whole_vectors(car.vertices(shape, dense))
    for point, computed in zip(away[:200], distance[~surface][:200], strict=True):
        to_vertex = np.linalg.norm(vertices - point, axis=1).min()
        assert computed - 2e-3 <= to_vertex + 5e-3 and to_vertex <= np.hypot(computed, 0.06) + 5e-3


def test_tetrahedra_leave_the_body_open():
    shape = shape_of("test", 0)
    mesh = mesh_of(sample_of(air_of(2000, cells="tetrahedra"), "test", 0))
    assert mesh.cells is not None
    assert np.array_equal(np.unique(mesh.cells), np.arange(mesh.size))
    inside = level(shape, mesh.points[mesh.cells].mean(axis=1)) < 1
    volume = np.abs(cell_measures(mesh.points, mesh.cells))
    # those that only touch the body
    assert volume[inside].sum() < 0.05 * volume[~inside].sum() / 100
    bare = mesh_of(sample_of(air_of(2000), "test", 0))
    assert bare.cells is None and np.array_equal(bare.points, mesh.points)


# --------------------------------------------------------------------------------------------- flow


def test_pressure_is_bernoullis_and_air_speeds_up_over_the_roof(cloud):
    mesh, values = mesh_of(cloud), cloud.frames[0]
    surface = mesh.tags["surface"]
    pressure, velocity = values[:, 0], values[:, 1:]
    assert np.abs(pressure - 0.6 * (400 - np.sum(velocity**2, axis=1))).max() < 1e-9
    assert 0.95 * 240 < pressure[surface].max() <= 240.0
    roof = mesh.points[surface, 2] > 0.97 * mesh.points[surface, 2].max()
    assert velocity[surface][roof, 0].min() > 22.0
    normals = cloud.static[surface, 1:]
    assert np.abs(np.sum(velocity[surface] * normals, axis=1)).max() < 1e-9
    far = np.linalg.norm(mesh.points - [0, 0, 0.7], axis=1) > 7.0
    assert np.abs(velocity[far] - [20.0, 0.0, 0.0]).max() < 0.4


def test_no_air_passes_the_ground_and_the_isolated_body_has_no_drag():
    shape, lattice = shape_of("test", 1), car.car_lattice(8)
    half = car.vertices(shape, lattice)
    flow = solve_flow(lattice, half, ground=False)
    pressure = pressure_coefficient(surface_velocity(flow, half, body_normals(shape, half)))
    forces = force_coefficients(flow.vertices, lattice.triangles, lattice.whole(pressure))
    assert abs(forces[0]) < 0.01
    assert abs(forces[2]) < 0.02  # d'Alembert: without the ground there is no lift either
    grounded = solve_flow(lattice, half)
    ground = np.column_stack([np.random.default_rng(0).uniform(-4, 4, (300, 2)), np.zeros(300)])
    assert np.abs(volume_velocity(grounded, ground)[:, 2]).max() < 1e-12


def test_speed_and_density_scale_the_fields():
    plain = sample_of(air_of(1000), "valid", 0).frames
    fast = sample_of(air_of(1000, speed=40.0, density=2.4), "valid", 0).frames
    assert relative(fast[..., 1:], 2 * plain[..., 1:]) < 1e-12
    assert relative(fast[..., 0], 8 * plain[..., 0]) < 1e-12


def errors(resolution: int, split: str, index: int, fineness: int) -> tuple[float, float]:
    """Errors of surface pressure and of the changed velocity against a finer panelling."""
    coarse = sample_of(air_of(resolution), split, index)
    fine = sample_of(air_of(resolution, fineness=fineness), split, index)
    surface = mesh_of(coarse).tags["surface"]
    same = np.flatnonzero(np.all(mesh_of(coarse).points == mesh_of(fine).points, axis=1) & ~surface)
    assert len(same) > 300
    stream = np.array([20.0, 0.0, 0.0])
    computed, exact = (sample.frames[0, same, 1:] - stream for sample in (coarse, fine))
    return relative(coarse.frames[0, surface, 0], fine.frames[0, surface, 0]), relative(
        computed, exact
    )


def test_smoke_resolution_is_near_a_finer_panelling():
    pressure, velocity = errors(2000, "test", 0, 12)
    assert pressure < 0.06 and velocity < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("split", "index"), [("test", 0), ("test", 1), ("test_ood", 0)])
def test_default_panelling_is_near_a_finer_one(split, index):
    pressure, velocity = errors(4000, split, index, 18)
    assert pressure < 0.015 and velocity < 0.004


# ---------------------------------------------------------------------------------- reproducibility


def test_same_car_at_every_resolution(cloud):
    laptop = sample_of(air_of(4000), "test", 0)
    small, large = mesh_of(laptop), mesh_of(cloud)
    few, many = (mesh.points[~mesh.tags["surface"]] for mesh in (small, large))
    # the points of the air are the first of the larger cloud
    assert np.array_equal(few, many[: len(few)])
    first, second = (
        sample.frames[0, ~mesh_of(sample).tags["surface"]] for sample in (laptop, cloud)
    )
    assert np.array_equal(first, second[: len(few)])
    shared = {
        tuple(point): values
        for point, values in zip(large.points.round(9), cloud.frames[0], strict=True)
    }
    pairs = [
        (values, shared[tuple(point)])
        for point, values in zip(small.points.round(9), laptop.frames[0], strict=True)
        if tuple(point) in shared
    ]
    assert len(pairs) > len(few) + 200  # every second or third vertex of the lattices
    assert max(np.abs(here - there).max() for here, there in pairs) < 1e-9


def test_resolutions_on_other_panels_are_the_same_car():
    smoke, laptop = sample_of(air_of(2000), "train", 2), sample_of(air_of(4000), "train", 2)
    surface = mesh_of(smoke).tags["surface"][:898]
    assert surface.all()
    assert np.array_equal(mesh_of(smoke).points[:898], mesh_of(laptop).points[:898])
    # solved twice
    assert 1e-4 < relative(smoke.frames[0, :898, 0], laptop.frames[0, :898, 0]) < 0.08


def test_sample_does_not_depend_on_its_neighbours_in_the_chunk():
    air = air_of(1000)
    together = [sample.frames.tobytes() for sample in car.generate(air, 0, "valid", [0, 1, 2])]
    alone = [next(car.generate(air, 0, "valid", [index])).frames.tobytes() for index in (2, 1, 0)]
    assert together == alone[::-1]
    assert len(set(together)) == 3


def test_another_process_gives_the_same_bytes():
    program = (
        "import hashlib, gsnobench as gb; from gsnobench_plugins.datasets import car;"
        "sample = next(car.generate(car.setup(car.Params(), 1000, gb.Cache()), 0, 'train', [5]));"
        "print(hashlib.sha256(sample.frames.tobytes() + sample.static.tobytes()).hexdigest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    here = next(car.generate(air_of(1000), 0, "train", [5]))
    assert there == hashlib.sha256(here.frames.tobytes() + here.static.tobytes()).hexdigest()


def test_seed_split_and_index_each_change_the_body_and_the_points():
    air = air_of(1000)
    drawn = [(0, "train", 0), (1, "train", 0), (0, "test", 0), (0, "train", 1)]
    meshes = [
        mesh_of(next(car.generate(air, seed, split, [index]))) for seed, split, index in drawn
    ]
    for part in (slice(226), slice(226, None)):
        assert len({mesh.points[part].tobytes() for mesh in meshes}) == 4
