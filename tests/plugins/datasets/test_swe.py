"""The lake dataset: accuracy and cost of the defaults, and what a sample depends on."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Array
from gsnobench.datasets import tasks
from gsnobench.datasets.ensure import data_path
from gsnobench.home import Home
from gsnobench.records import RunSpec
from gsnobench.registry import read_registry, remember_file
from gsnobench.runs.plan import make_plan, plan_of_spec
from gsnobench.runs.request import Request
from gsnobench_plugins.datasets import swe
from gsnobench_plugins.solvers.methods.random_fields import sample_rng
from gsnobench_plugins.solvers.shapes.geojson import read_outline
from gsnobench_plugins.solvers.shapes.geometry import contains, signed_area
from gsnobench_plugins.solvers.shapes.lake_union import lake_union_outline

QUICK = {"duration": 3.0, "pieces": 2}


def lake_of(resolution: int, **knobs: float | int | str) -> swe.Lake:
    return swe.setup(swe.Params(**knobs), resolution, gb.Cache())


def heights(lake: swe.Lake, split: str, index: int) -> Array:
    return next(swe.generate(lake, 0, split, [index])).frames[:, :, 0] - lake.params.base


def relative(computed: Array, exact: Array) -> float:
    return math.sqrt(np.sum((computed - exact) ** 2) / np.sum(exact**2))


# ---------------------------------------------------------------------------------- the declaration


def test_declaration_is_the_papers_problem():
    dataset = swe.gsnobench_dataset()
    assert (dataset.name, dataset.dim, dataset.t_in, len(dataset.times)) == ("swe", 2, 5, 51)
    assert dataset.times[0] == 0.0 and dataset.times[-1] == 30.0
    (field,) = dataset.fields
    assert (field.name, field.unit, field.reference) == ("height", "m", 5.0)
    assert dataset.sizes["paper"] == gb.Sizes(
        train=600, valid=200, test=200, test_ood=100, resolution=1830
    )
    assert set(dataset.resolutions) >= {450, 1000, 1830, 3663}
    defaults = swe.Params()
    assert (defaults.gravity, defaults.base, defaults.amplitude, defaults.sigma) == (
        8.81,
        5.0,
        1.0,
        20.0,
    )


def test_knobs_of_time_and_depth_reach_the_task():
    task = tasks.resolve(
        swe.gsnobench_dataset(), "swe", track="laptop", knobs={"duration": 10.0, "base": 8.0}
    )
    assert (task.id, task.times[-1], task.fields[0].reference) == ("swe@5-46", 10.0, 8.0)
    assert tasks.resolve(swe.gsnobench_dataset(), "swe", track="laptop").times[-1] == 30.0


def test_outline_is_a_simple_polygon_of_the_stated_size():
    outline = lake_union_outline()
    assert 30 <= len(outline) <= 60
    assert np.ptp(outline, axis=0).tolist() == [200.0, 300.0]
    assert signed_area(outline) > 0
    starts, ends = outline, np.roll(outline, -1, axis=0)
    for i in range(len(outline)):
        for j in range(i + 2, len(outline) - (i == 0)):
            assert not _cross(starts[i], ends[i], starts[j], ends[j])


def _cross(a: Array, b: Array, c: Array, d: Array) -> bool:
    def side(p: Array, q: Array, r: Array) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


# -------------------------------------------------------------------------------- accuracy and cost


def test_error_and_cost_at_the_published_mesh_are_within_the_bars():
    """1 % of h - base at t = 10 s against half the edge length, at 0.8 CPU seconds per sample."""
    lake = lake_of(1830)
    short = replace(lake, params=replace(lake.params, duration=10.0))
    fine = lake_of(1830, duration=10.0, pieces=2 * lake.pieces)
    assert len(fine.points) > 3.9 * len(lake.points)
    # a bump between two shores: a hard one
    assert relative(heights(short, "test", 1)[-1], heights(fine, "test", 1)[-1]) < 0.01
    seconds = []
    for _ in range(2):
        began = time.process_time()
        heights(lake, "test", 0)
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("resolution", [450, 1830])
def test_error_stays_small_against_a_much_finer_mesh(resolution):
    lake = lake_of(resolution, duration=10.0)
    fine = lake_of(resolution, duration=10.0, pieces=round(2.7 * lake.pieces))
    errors = [
        relative(heights(lake, "test", index)[-1], heights(fine, "test", index)[-1])
        for index in range(6)
    ]
    assert np.mean(errors) < 0.01


def test_all_resolutions_are_solved_on_meshes_of_about_the_same_fineness():
    for resolution in (120, 450):
        lake = lake_of(resolution)
        edge = np.sqrt(2 / math.sqrt(3) * lake.dual.volume.sum() / len(lake.points))
        assert 1.2 < edge < 1.75
        assert lake.mesh.size == resolution


def test_lake_at_rest_and_mass_on_the_real_mesh():
    lake = lake_of(450)
    still = swe.solve(lake, np.array([-1e6, -1e6]), amplitude=1.0, sigma=20.0)
    assert np.abs(still).max() <= 1e-11
    eta = swe.solve(lake, np.array([110.0, 100.0]), amplitude=1.0, sigma=20.0)  # (T, F)
    mass = (lake.params.base + eta) @ lake.dual.volume
    assert np.abs(mass / mass[0] - 1).max() < 1e-12
    assert eta.min() > -lake.params.base


# ------------------------------------------------------------------------- what a sample depends on


def test_first_frame_is_the_bump_itself():
    lake = lake_of(450, **QUICK)
    centre = swe.draw_centre(lake.loops, sample_rng(0, "train", 3))
    expected = np.exp(-np.sum((lake.mesh.points - centre) ** 2, axis=1) / 800)
    assert np.abs(heights(lake, "train", 3)[0] - expected).max() < 1e-14


def test_centres_are_uniform_in_the_lake():
    loops = (lake_union_outline(),)
    centres = np.array(
        [swe.draw_centre(loops, sample_rng(0, "train", index)) for index in range(600)]
    )
    assert contains(loops, centres).all()
    south = contains([np.array([[0, 0], [200, 0], [200, 150], [0, 150.0]])], centres).mean()
    grid = np.stack(np.meshgrid(np.arange(0.5, 200), np.arange(0.5, 300)), axis=-1).reshape(-1, 2)
    grid = grid[contains(loops, grid)]
    assert south == pytest.approx((grid[:, 1] < 150).mean(), abs=0.07)


def test_same_sample_on_two_meshes_is_the_same_wave():
    coarse, fine = lake_of(450, duration=10.0), lake_of(1000, duration=10.0)
    # (450, 1000)
    apart = np.linalg.norm(coarse.mesh.points[:, None] - fine.mesh.points[None], axis=-1)
    here, there = np.nonzero(apart < 1e-9)
    assert len(here) > 20  # most corners of the outline are nodes of both
    computed = [heights(coarse, "test", 1)[:, here], heights(fine, "test", 1)[:, there]]
    assert relative(computed[0][1:], computed[1][1:]) < 0.02
    assert not np.array_equal(computed[0][1:], computed[1][1:])  # solved twice, not interpolated


def test_sample_does_not_depend_on_its_neighbours_in_the_chunk():
    lake = lake_of(120, **QUICK)
    together = [sample.frames.tobytes() for sample in swe.generate(lake, 0, "valid", [0, 1, 2])]
    alone = [next(swe.generate(lake, 0, "valid", [index])).frames.tobytes() for index in (2, 1, 0)]
    assert together == alone[::-1]
    assert len(set(together)) == 3


def test_seed_split_and_index_each_change_the_sample():
    lake = lake_of(120, **QUICK)
    drawn = [(0, "train", 0), (1, "train", 0), (0, "test", 0), (0, "train", 1)]
    first = {
        next(swe.generate(lake, seed, split, [index])).frames[0].tobytes()
        for seed, split, index in drawn
    }
    assert len(first) == len(drawn)


def test_another_process_and_a_cached_setup_give_the_same_bytes(tmp_path):
    program = (
        "import sys, hashlib, gsnobench as gb; from pathlib import Path; from "
        "gsnobench_plugins.datasets import swe;"
        "lake = swe.setup(swe.Params(duration=3.0, pieces=2), 120, gb.Cache(Path(sys.argv[1])));"
        "sample = next(swe.generate(lake, 0, 'train', [5]));"
        "print(hashlib.sha256(sample.frames.tobytes()).hexdigest())"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert list((tmp_path / "swe-lake-v1").glob("*.safetensors"))
    read = swe.setup(swe.Params(**QUICK), 120, gb.Cache(tmp_path))  # what it wrote
    for lake in (lake_of(120, **QUICK), read):
        frames = next(swe.generate(lake, 0, "train", [5])).frames
        assert hashlib.sha256(frames.tobytes()).hexdigest() == there


def test_ood_bump_is_higher_and_narrower():
    lake = lake_of(450, **QUICK)
    first = heights(lake, "test_ood", 0)[0]
    centre = swe.draw_centre(lake.loops, sample_rng(0, "test_ood", 0))
    squared = np.sum((lake.mesh.points - centre) ** 2, axis=1)
    assert np.abs(first - 1.5 * np.exp(-squared / (2 * 15.0**2))).max() < 1e-14


def test_too_high_a_bump_is_refused():
    with pytest.raises(gb.ParamError, match=r"data.amplitude: 3.0 is too high"):
        lake_of(120, amplitude=3.0)


# ---------------------------------------------------------------------------------- the user's lake


def write(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def ring(x: float, y: float, width: float, height: float) -> list[list[float]]:
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]]


def test_geojson_polygon_with_a_hole_becomes_the_lake(tmp_path):
    polygon = {"type": "Polygon", "coordinates": [ring(-10, 5, 40, 20), ring(0, 10, 8, 8)]}
    document = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": {}, "geometry": polygon}],
    }
    path = write(tmp_path / "lake.geojson", document)
    lake = lake_of(450, geojson=path, coordinates="plane", extent=200.0, **QUICK)
    assert np.ptp(lake.mesh.points, axis=0).tolist() == [200.0, 100.0]
    assert lake.dual.volume.sum() == pytest.approx(200 * 100 - 40 * 40)
    assert {"boundary", "outer", "hole"} <= set(lake.mesh.tags)
    centre = swe.draw_centre(lake.loops, sample_rng(0, "train", 0))
    assert contains(lake.loops, centre[None])[0]
    assert np.isfinite(heights(lake, "train", 0)).all()


def test_degrees_are_projected_in_the_middle_of_the_polygon(tmp_path):
    path = write(
        tmp_path / "lake.geojson", {"type": "Polygon", "coordinates": [ring(10, 59.9, 0.2, 0.2)]}
    )
    (outline,) = read_outline(gb.InputFile.of(path), coordinates="degrees", extent=300.0)
    assert np.ptp(outline, axis=0) == pytest.approx([150.0, 300.0], rel=1e-9)  # cos 60 degrees


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"type": "Point", "coordinates": [0, 0]}, "holds 0 polygons"),
        (
            {"type": "MultiPolygon", "coordinates": [[ring(0, 0, 1, 1)], [ring(2, 0, 1, 1)]]},
            "holds 2 polygons",
        ),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}, "a ring has 2 points"),
        ({"type": "Polygon", "coordinates": [["north"]]}, "not a list of coordinate pairs"),
        ({"type": "Polygon", "coordinates": [ring(1000, 2000, 50, 50)]}, "are no degrees"),
    ],
)
def test_wrong_geojson_is_one_line(tmp_path, document, complaint):
    with pytest.raises(gb.DataError, match=complaint) as caught:
        path = write(tmp_path / "lake.geojson", document)
        read_outline(gb.InputFile.of(path), coordinates="degrees", extent=300.0)
    assert "\n" not in str(caught.value)


def test_unreadable_geojson_is_one_line(tmp_path):
    with pytest.raises(gb.DataError, match="cannot be read"):
        swe.Params(geojson=str(tmp_path / "none.geojson"))
    path = tmp_path / "text.geojson"
    path.write_text("not json")
    with pytest.raises(gb.DataError, match="is not JSON"):
        read_outline(gb.InputFile.of(str(path)), coordinates="degrees", extent=300.0)
    path.write_text("[" * 3000 + "]" * 3000)
    with pytest.raises(gb.DataError, match="nested more than"):
        read_outline(gb.InputFile.of(str(path)), coordinates="degrees", extent=300.0)


def test_key_and_data_file_follow_the_outline_and_not_its_path(tmp_path):
    square = {"type": "Polygon", "coordinates": [ring(0, 0, 1, 1)]}
    oblong = {"type": "Polygon", "coordinates": [ring(0, 0, 1, 2)]}
    here, there = tmp_path / "here.geojson", tmp_path / "there.geojson"

    def planned(path):
        knobs = {"data.geojson": str(path), "data.coordinates": "plane"}
        plan = make_plan(Request("mean", "swe", track="smoke", knobs=knobs))
        return plan.spec.key, data_path(plan.task, tmp_path).name

    write(here, square)
    write(there, square)
    first = planned(here)
    assert planned(there) == first
    write(here, oblong)
    second = planned(here)
    assert second[0] != first[0] and second[1] != first[1]


def test_a_run_on_an_outline_is_repeated_from_its_spec_where_the_home_knows_the_file(tmp_path):
    path = write(tmp_path / "a.geojson", {"type": "Polygon", "coordinates": [ring(0, 0, 1, 1)]})
    plan = make_plan(Request("mean", "swe", track="smoke", knobs={"data.geojson": path}))
    home = Home(tmp_path / "home")
    remember_file(plan.task.data["geojson"], Path(path), home)
    spec = RunSpec.from_json(json.dumps(plan.spec.to_dict()))
    again = plan_of_spec(spec, read_registry(home=home))
    assert again.spec.key == plan.spec.key
    assert again.task.data["geojson"].read() == Path(path).read_bytes()
    unknown = plan_of_spec(spec, read_registry())
    with pytest.raises(gb.DataError, match="not known here"):
        unknown.task.data["geojson"].read()


def test_an_outline_that_changes_after_planning_is_refused(tmp_path):
    path = write(tmp_path / "a.geojson", {"type": "Polygon", "coordinates": [ring(0, 0, 1, 1)]})
    file = pickle.loads(pickle.dumps(gb.InputFile.of(path)))
    assert file.read()
    Path(path).write_text("{}")
    with pytest.raises(gb.DataError, match="has changed"):
        file.read()
