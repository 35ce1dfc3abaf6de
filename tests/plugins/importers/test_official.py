"""Public datasets in their authors' formats: every layout, real sizes for a sample, and damage."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import official_files as official
import pytest
from command_line import command
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store
from gsnobench.datasets.imported import import_public, imported_path
from gsnobench.meshes.operators import lumped_mass
from gsnobench.plugins import listed, load

NAMES = [entry.name for entry in listed("importer") if entry.package == "gsnobench"]
SMALL = {"train": 2, "test": 1}


def imported(name: str, tmp_path: Path, **knobs: object) -> tuple[store.Opened, dict[str, Any]]:
    importer = load("importer", name)
    path, facts = import_public(importer, tmp_path / "in", home=tmp_path / "home", knobs=knobs)
    assert path == imported_path(name, tmp_path / "home")
    store.verify(path)
    return store.open_file(path), facts


def frames(opened: store.Opened, split: gb.Split) -> np.ndarray:
    return np.asarray(opened.read(split).frames)


# ------------------------------------------------------------------------------------------ airfoil


def test_airfoil_records_become_steps_on_one_mesh(tmp_path: Path) -> None:
    written = official.write_airfoil(tmp_path / "in")
    opened, facts = imported("airfoil_official", tmp_path, frames=3, every=2)
    task = opened.task
    assert (task.id, task.t_in, task.t_out, task.starts) == ("airfoil_official@1-1", 1, 1, (0, 1))
    np.testing.assert_allclose(task.times, [0, 0.016, 0.032])
    assert dict(task.sizes) == official.SIZES and facts["distinct meshes"] == 1
    for split, parts in written.items():
        expected = np.stack(
            [
                np.concatenate([part[n] for n in ("density", "pressure", "velocity")], axis=-1)
                for part in parts
            ]
        )
        np.testing.assert_array_equal(frames(opened, split), expected[:, :5:2])
    mesh = opened.read("test").mesh(0)
    np.testing.assert_array_equal(mesh.cells, written["test"][0]["cells"][0])
    assert np.flatnonzero(mesh.tags["foil"]).tolist() == [0, 8]
    assert np.flatnonzero(mesh.tags["far"]).tolist() == [2, 6, 7]


def test_meshes_of_trajectories_that_differ_are_kept(tmp_path: Path) -> None:
    written = official.write_airfoil(tmp_path / "in")
    changed = written["valid"][1] | {"mesh_pos": written["valid"][1]["mesh_pos"] + 1}
    records = [
        official.record(official.example({name: a.tobytes() for name, a in part.items()}))
        for part in (written["valid"][0], changed)
    ]
    (tmp_path / "in" / "valid.tfrecord").write_bytes(b"".join(records))
    opened, facts = imported("airfoil_official", tmp_path, frames=3)
    assert facts["distinct meshes"] == 2 and not opened.task.fixed_mesh
    moved = opened.read("valid").mesh(1).points
    np.testing.assert_array_equal(moved, changed["mesh_pos"][0])


@pytest.mark.slow
def test_records_of_real_size_are_read_to_their_last_frame(tmp_path: Path) -> None:
    """Three trajectories of 50 MB."""
    written = {split: [official.real_trajectory(seed)] for seed, split in enumerate(official.SIZES)}
    official.write_trajectories(tmp_path / "in", written, frames=601)
    opened, facts = imported("airfoil_official", tmp_path, frames=3, every=300)
    assert facts["distinct meshes"] == 1 and facts["nodes"] == "5233"
    np.testing.assert_allclose(opened.task.times, [0, 2.4, 4.8])
    for split, (part,) in written.items():
        expected = [part[name][::300] for name in ("density", "pressure", "velocity")]
        np.testing.assert_array_equal(frames(opened, split)[0], np.concatenate(expected, axis=-1))
    mesh = opened.read("train").mesh(0)
    assert mesh.cells is not None and mesh.cells.shape == (10216, 3)
    assert (mesh.tags["foil"].sum(), mesh.tags["far"].sum()) == (200, 50)


@pytest.mark.parametrize("size", ["small", "real"])
def test_the_repacked_airfoil_is_read(tmp_path: Path, size: str) -> None:
    part = official.trajectory(0) if size == "small" else official.real_trajectory(0)
    stored = 4 if size == "small" else 31
    data = official.write_repacked(tmp_path / "in", part, frames=stored)
    opened, _ = imported("airfoil_official", tmp_path, frames=3)
    assert dict(opened.task.sizes) == {"train": 9, "valid": 1, "test": 2}
    expected = data[:, :, :3, [2, 3, 0, 1]].transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(frames(opened, "test"), expected)
    foil = np.flatnonzero(opened.read("test").mesh(0).tags["foil"])
    np.testing.assert_array_equal(foil, np.flatnonzero(part["node_type"][0, :, 0] == 2))


# ------------------------------------------------------------------------------ elasticity and pipe


def test_elasticity_keeps_the_official_splits_and_gets_cells(tmp_path: Path) -> None:
    arrays = official.write_elasticity(tmp_path / "in")
    opened, facts = imported("elasticity_official", tmp_path, **SMALL)
    assert dict(opened.task.sizes) == {"train": 2, "valid": 3, "test": 1}
    for split, rows in (("train", [0, 1]), ("valid", [2, 3, 4]), ("test", [5])):
        samples = opened.read(split)
        expected = arrays["sigma"].T[rows].astype("f4")
        np.testing.assert_array_equal(samples.frames[:, 0, :, 0], expected)
        np.testing.assert_array_equal(samples.scalars, arrays["rr"].T[rows].astype("f4"))
        for index, row in enumerate(rows):
            mesh = samples.mesh(index)
            np.testing.assert_array_equal(mesh.points, arrays["XY"][:, :, row])
            void = np.pi * arrays["rr"][0, row] ** 2
            assert lumped_mass(mesh).sum() == pytest.approx(1 - void, rel=0.02)
            assert mesh.tags["void"].sum() >= 41 and mesh.tags["outer"].sum() >= 70
    assert facts["nodes inside the void"] == 0


def test_pipe_is_thinned_and_keeps_the_official_test_set(tmp_path: Path) -> None:
    arrays = official.write_pipe(tmp_path / "in")
    opened, facts = imported("pipe_official", tmp_path, **SMALL)
    assert dict(opened.task.sizes) == {"train": 2, "valid": 1, "test": 1}
    test = opened.read("test")
    np.testing.assert_array_equal(
        test.frames[0, 0, :, 0], arrays["Q"][2, 0, ::2, ::2].ravel().astype("f4")
    )
    mesh = test.mesh(0)
    assert mesh.size == 4225 and mesh.cells is not None and len(mesh.cells) == 8192
    assert lumped_mass(mesh).sum() == pytest.approx(10 * arrays["Y"][2].max())
    wall = test.frames[0, 0, mesh.tags["wall"], 0]
    assert len(wall) == 130 and not wall.any()
    assert facts["samples that move at a wall"] == 0
    finer, _ = imported("pipe_official", tmp_path, stride="1", **SMALL)
    assert finer.task.resolution == 129**2


# --------------------------------------------------------------------------------------------- cars


def write_cars(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    names = {f"param{fold}/car{fold}": fold for fold in range(4)}
    (folder / "param2" / "empty").mkdir(parents=True)
    return {name: official.write_car(folder / name, fold) for name, fold in names.items()}


def test_raw_cars_have_the_points_of_air_and_surface(tmp_path: Path) -> None:
    cars = write_cars(tmp_path / "in" / "mlcfd_data" / "training_data")
    opened, facts = imported("car_official", tmp_path)
    assert dict(opened.task.sizes) == {"train": 2, "valid": 1, "test": 1}
    assert facts["empty folders"] == 1
    test, car = opened.read("test"), cars["param0/car0"]
    mesh, values = test.mesh(0), test.frames[0, 0]
    np.testing.assert_array_equal(mesh.points, np.concatenate([car["air"][25:], car["body"]]))
    assert np.flatnonzero(mesh.tags["surface"]).tolist() == list(range(50, 75))
    np.testing.assert_array_equal(values[50:, 3], car["pressure"])
    assert not values[:50, 3].any()
    np.testing.assert_array_equal(values[:, :3], np.roll(car["velocity"], -25, axis=0))
    distance = np.linalg.norm(mesh.points[:50, None] - mesh.points[50:], axis=2).min(axis=1)
    np.testing.assert_allclose(test.static[0, :50, 0], distance, rtol=1e-5)
    assert not test.static[0, 50:, 0].any()
    np.testing.assert_allclose(np.linalg.norm(test.static[0, :, 1:], axis=1), 1, rtol=1e-4)


def write_prepared(case: Path, samples: gb.Samples, index: int) -> None:
    """The arrays that other repositories make of a raw car."""
    case.mkdir(parents=True)
    mesh = samples.mesh(index)
    np.save(case / "x.npy", np.concatenate([mesh.points, samples.static[index]], 1).astype("f4"))
    np.save(case / "y.npy", samples.frames[index][0])
    np.save(case / "surf.npy", mesh.tags["surface"].astype("f4"))


def test_prepared_cars_are_the_same_as_raw_ones(tmp_path: Path) -> None:
    write_cars(tmp_path / "in")
    raw, _ = imported("car_official", tmp_path)
    folder = tmp_path / "prepared" / "in"
    for split, name in (("test", "param0"), ("valid", "param1"), ("train", "param2")):
        samples = raw.read(split)
        for index in range(len(samples)):
            fold = name if split != "train" else f"param{2 + index}"
            write_prepared(folder / fold / "car", samples, index)
    prepared, facts = imported("car_official", tmp_path / "prepared")
    assert prepared.content_hash == raw.content_hash and facts["layout"] == "prepared arrays"


def test_a_car_of_real_size_has_the_known_number_of_points(tmp_path: Path) -> None:
    write_cars(tmp_path / "in")
    official.write_real_car(tmp_path / "in" / "param0" / "real")
    importer = load("importer", "car_official")
    started = time.process_time()
    test = importer.read(tmp_path / "in", importer.params.make({})).samples["test"]
    assert np.asarray(test.frames[1]).shape == (1, 32186, 4)
    assert time.process_time() - started < 2  # one case, read once
    assert test.mesh(1).size == 32186 and test.mesh(1).tags["surface"].sum() == 3682
    known = np.linalg.norm(test.static[1][-3682:, 1:], axis=1) > 0.5
    assert not known[16:112].any() and known.sum() == 3586  # the others are in no cell
    for fold in range(4):  # the same car as prepared arrays, in every fold
        write_prepared(tmp_path / "prepared" / f"param{fold}" / "real", test, 1)
    prepared = importer.read(tmp_path / "prepared", importer.params.make({})).samples["test"]
    np.testing.assert_array_equal(prepared.frames[0], test.frames[1])
    np.testing.assert_array_equal(prepared.mesh(0).points, test.mesh(1).points)
    np.testing.assert_allclose(prepared.static[0], test.static[1], rtol=1e-6)


def test_surfaces_of_the_water_tight_set_lose_unused_pressures(tmp_path: Path) -> None:
    pressures = official.write_surface_cars(tmp_path / "in")
    opened, _ = imported("car_surface_official", tmp_path)
    assert dict(opened.task.sizes) == {"train": 5, "valid": 1, "test": 2}
    stored = pressures["007"][0]
    expected = np.concatenate([stored[:16], stored[112:]])
    np.testing.assert_array_equal(frames(opened, "test")[0, 0, :, 0], expected)
    assert opened.read("test").mesh(0).size == 3586


# ------------------------------------------------------------------------------------ in Python


def test_an_imported_task_is_opened_by_its_name(tmp_path: Path) -> None:
    official.write_pipe(tmp_path / "in")
    home = tmp_path / "home"
    with pytest.raises(gb.DataError) as error:
        gb.open_task("pipe_official", home=home)
    one_line(error, "its files were not imported here; first `gsnobench data import pipe_official")
    opened, _ = imported("pipe_official", tmp_path, stride=8, **SMALL)
    with gb.open_task("pipe_official", home=home) as data:
        assert data.attrs["content_hash"] == opened.content_hash
    assert len(gb.samples("pipe_official", "train", home=home)) == SMALL["train"]
    with pytest.raises(gb.ParamError) as misused:
        gb.open_task("pipe_official", samples=1, home=home)
    one_line(misused, "no number of samples")


# ------------------------------------------------------------------------------------------- damage


def spoil(name: str, change: Callable[[Path], None]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        (path,) = folder.rglob(name)
        change(path)

    return act


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-400])


def pickled(path: Path) -> None:
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)


def squeezed(path: Path) -> None:
    np.save(path, np.load(path)[:-1])


def with_nan(path: Path) -> None:
    array = np.load(path)
    array.reshape(-1)[8] = np.nan
    np.save(path, array)


def without_dt(path: Path) -> None:
    path.write_text(json.dumps({key: v for key, v in official.meta().items() if key != "dt"}))


def with_float_cells(path: Path) -> None:
    plain = official.meta()
    plain["features"]["cells"]["dtype"] = "float32"
    path.write_text(json.dumps(plain))


def with_two_open_axes(path: Path) -> None:
    plain = official.meta()
    plain["features"]["cells"]["shape"] = [-1, -1, 3]
    path.write_text(json.dumps(plain))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def at_one_point(path: Path) -> None:
    np.save(path, np.full_like(np.load(path), 0.9))


def with_no_void(path: Path) -> None:
    np.save(path, np.zeros_like(np.load(path)))


def with_a_car_twice(path: Path) -> None:
    path.write_text(f"{path.read_text()},001,001")


def with_a_word(path: Path) -> None:
    path.write_text(path.read_text().replace("CELL_TYPES", "oops CELL_TYPES"))


DAMAGE = [
    ("airfoil", spoil("valid.tfrecord", flip), "record 0 is damaged"),
    ("airfoil", spoil("valid.tfrecord", cut), "it is truncated"),
    ("airfoil", spoil("meta.json", Path.unlink), "holds no meta.json"),
    ("airfoil", spoil("meta.json", without_dt), "meta.json: not the meta.json of MeshGraphNets"),
    ("airfoil", spoil("meta.json", with_float_cells), "cells is of type float32"),
    ("airfoil", spoil("meta.json", with_two_open_axes), "cannot be read (ValueError"),
    ("airfoil", spoil("train.tfrecord", emptied), "holds no sample for train"),
    ("airfoil", spoil("test.tfrecord", Path.unlink), "holds no test.tfrecord"),
    ("elasticity", spoil("*_sigma_10.npy", pickled), "NumPy file with a plain array"),
    ("elasticity", spoil("*_sigma_10.npy", squeezed), "expected numbers of the shape (972, 6)"),
    ("elasticity", spoil("*_sigma_10.npy", with_nan), "only finite numbers can be trained on"),
    ("elasticity", spoil("*_XY_10.npy", with_nan), "holds a number that is not finite"),
    ("elasticity", spoil("*_XY_10.npy", at_one_point), "cannot be read (QhullError"),
    ("elasticity", spoil("*_rr_10.npy", with_no_void), "a radius that is not above 0"),
    ("elasticity", spoil("*_rr_10.npy", cut), "NumPy file with a plain array"),
    ("pipe", spoil("Pipe_Q.npy", with_nan), "only finite numbers can be trained on"),
    ("pipe", spoil("Pipe_Y.npy", squeezed), "expected numbers of the shape (4, 129, 129)"),
    ("car", spoil("param0/car0/quadpress_smpl.vtk", cut), "it is truncated"),
    ("car", spoil("param0/car0/quadpress_smpl.vtk", with_a_word), "has 'OOPS' where a keyword"),
    ("car", spoil("param1/car1/hexvelo_smpl.vtk", Path.unlink), "holds no hexvelo_smpl.vtk"),
    ("car_surface", spoil("train.txt", with_a_car_twice), "names a car twice"),
    ("car_surface", spoil("press_002.npy", squeezed), "shape (1, any)"),
    ("car_surface", spoil("mesh_003.ply", cut), "mesh_003.ply"),
]
WRITERS: dict[str, Callable[[Path], object]] = {
    "airfoil": official.write_airfoil,
    "elasticity": official.write_elasticity,
    "pipe": official.write_pipe,
    "car": write_cars,
    "car_surface": official.write_surface_cars,
}


@pytest.mark.parametrize(("name", "damage", "line"), DAMAGE)
def test_damage_is_one_line_and_leaves_nothing(
    name: str,
    damage: Callable[[Path], None],
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    WRITERS[name](tmp_path / "in")
    damage(tmp_path / "in")
    knobs = {"airfoil": ["--data.frames", 3]}.get(name, [])
    if name in ("elasticity", "pipe"):
        knobs = ["--data.train", 2, "--data.test", 1]
    task, home = f"{name}_official", tmp_path / "home"
    words = ["data", "import", task, "--from", tmp_path / "in", *knobs, "--home", home]
    assert line in command(capsys, *words).mistake
    assert not [path for path in home.rglob("*") if path.suffix in (".nc", ".part")]


@pytest.mark.parametrize("name", NAMES)
def test_an_importer_keeps_its_contract(name: str) -> None:
    from gsnobench.check import assert_contract

    assert_contract("importer", name)


def test_too_few_samples_and_too_many_frames_are_one_line(tmp_path: Path) -> None:
    official.write_pipe(tmp_path / "in")
    with pytest.raises(gb.DataError) as error:
        imported("pipe_official", tmp_path)
    one_line(error, "holds 4 samples; expected more than 1000 for training")
    official.write_airfoil(tmp_path / "in")
    with pytest.raises(gb.DataError) as error:
        imported("airfoil_official", tmp_path)
    one_line(error, "data.frames: 11 frames, every 1, end behind the last of 6")
