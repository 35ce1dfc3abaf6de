"""Damaged and strange input for every reader: one line or a right answer, never a traceback."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from campaign import (
    COUNTS,
    SIZES,
    drawer,
    how_many,
    mutated,
    mutated_json,
    nothing_written_outside,
    outcome,
)
from command_line import command, run_folder
from fake_results import made_result, made_spec
from official_files import cube_surface, example, record, vtk_text
from problems import steady
from toy_samples import without_hashes, write_toy

import gsnobench as gb
from gsnobench.boards.evidence import read_evidence
from gsnobench.datasets.from_numpy import import_npz
from gsnobench.datasets.store import open_file, problems, verify, write
from gsnobench.datasets.task_json import task_from_json, task_to_json
from gsnobench.files import digest
from gsnobench.home import Home
from gsnobench.reading import read_npy, read_npz, read_text
from gsnobench.records import RunResult, RunSpec
from gsnobench.registry import read_registry, registry_path
from gsnobench.runs.bundle import unpack
from gsnobench.runs.trained import load
from gsnobench.tracking import spool
from gsnobench_plugins.importers.legacy_vtk import read_grid
from gsnobench_plugins.importers.tfrecord import open_records
from gsnobench_plugins.solvers.shapes.geojson import read_outline

pytestmark = pytest.mark.usefixtures("untracked", "contained")
Reader = Callable[[Path], object]
WHOLE = 10_000  # inputs of all readers together
OUTLINE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 2], [0, 2], [0, 0]]]}


def read_tfrecord(path: Path) -> None:
    file = open_records(path)
    for number in range(len(file)):
        file.peek(number, ["a"])
        file.features(number)


def read_data(path: Path) -> None:
    problems(path)
    with open_file(path) as opened:
        for split in opened.task.sizes:
            opened.read(split)
    verify(path)


def read_result(path: Path) -> None:
    evidence = read_evidence([path.parent])
    assert len(evidence.entries) + len(evidence.problems) == 1
    RunResult.load(path)


def arrays() -> dict[str, np.ndarray]:
    parts = steady()
    frames = np.concatenate([np.asarray(part.frames) for part in parts.values()])
    mesh = parts["train"].mesh(0)
    split = np.concatenate([[number] * len(part) for number, part in enumerate(parts.values())])
    static = np.concatenate([np.asarray(part.static) for part in parts.values()])
    own = {"frames": frames, "points": mesh.points, "cells": mesh.cells, "split": split}
    return {**own, "static": static, "tag_boundary": mesh.tags["boundary"]}


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[None]:
    """Whatever a damaged input makes a reader do, it stays in the folder of the test."""
    with nothing_written_outside(tmp_path):
        yield


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, Reader]]:
    """Reader -> a file that is in order, and how it is read."""
    folder = tmp_path_factory.mktemp("seeds")
    task = steady()["train"].task
    np.savez(folder / "a.npz", **arrays())
    np.savez_compressed(folder / "b.npz", **arrays())
    np.save(folder / "a.npy", arrays()["frames"])
    toy = write_toy(folder)
    own = without_hashes(toy)
    points, cells = cube_surface(3, 0)
    vtk = vtk_text(points, cells, 5, "p", np.arange(len(points), dtype=float))
    records = b"".join(record(example({"a": b"1234", "b": bytes(50)})) for _ in range(3))

    def plain(path: Path) -> str:
        return read_text(path, expected="JSON")

    spec = made_spec()
    begun = {"event": "started", "id": "a", "store": "default", "time": 1, "run": "x"}
    lines = [begun, {"event": "epoch", "time": 2, "phase": "fit", "epoch": 1, "scores": {"v": 1}}]
    return {
        "npz": ((folder / "a.npz").read_bytes(), lambda path: import_npz(path, task)),
        "npz compressed": ((folder / "b.npz").read_bytes(), read_npz),
        "npy": ((folder / "a.npy").read_bytes(), lambda path: np.asarray(read_npy(path)).sum()),
        "netcdf": (toy.read_bytes(), read_data),
        "netcdf of a user": (own.read_bytes(), read_data),
        "vtk": (vtk.encode(), read_grid),
        "tfrecord": (records, read_tfrecord),
        "registry": (registry_path().read_bytes(), lambda path: read_registry(path)),
        "spool": ("\n".join(map(json.dumps, lines)).encode(), spool.read),
        "task json": (task_to_json(task).encode(), lambda path: task_from_json(plain(path))),
        "spec json": (json.dumps(spec.to_dict()).encode(), lambda p: RunSpec.from_json(plain(p))),
        "result json": (made_result().to_json().encode(), read_result),
        "geojson": (
            json.dumps(OUTLINE).encode(),
            lambda path: read_outline(gb.InputFile.of(str(path)), coordinates="plane", extent=10.0),
        ),
    }


NAMES = (
    *("npz", "npz compressed", "npy", "netcdf", "netcdf of a user", "vtk", "tfrecord"),
    *("registry", "spool", "task json", "spec json", "result json", "geojson"),
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes(
    name: str, size: float, seeds: dict[str, tuple[bytes, Reader]], tmp_path: Path
) -> None:
    content, read = seeds[name]
    draw = drawer("bytes", name)
    read_one(name, read, content, tmp_path)
    for number in range(how_many(size, WHOLE // 20)):
        read_one(name, read, mutated(content, draw), tmp_path, number)


def read_one(name: str, read: Reader, content: bytes, folder: Path, number: int = -1) -> None:
    ending = {"netcdf": ".nc", "netcdf of a user": ".nc"}.get(name, ".json")
    path = folder / "input" / f"it{ending}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    ended = outcome(f"bytes: {name}", lambda: read(path), number)
    assert number >= 0 or ended == "accepted", f"{name}: what is in order is refused"
    path.unlink()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["task json", "spec json", "result json", "geojson", "spool"])
def test_strange_documents(
    name: str, size: float, seeds: dict[str, tuple[bytes, Reader]], tmp_path: Path
) -> None:
    content, read = seeds[name]
    draw = drawer("documents", name)
    path = tmp_path / "it.json"
    path.write_bytes(content)
    assert outcome(f"documents: {name}", lambda: read(path), "in order") == "accepted"
    for number in range(how_many(size, WHOLE // 20)):
        lines = content.decode().splitlines()
        chosen = draw.randrange(len(lines))
        lines[chosen] = mutated_json(lines[chosen], draw)
        text = "\n".join(lines)
        if name == "result json":
            text = with_digest(text)
        path.write_text(text)
        outcome(f"documents: {name}", lambda: read(path), number)


def with_digest(text: str) -> str:
    """A forged result: its digest is that of its content."""
    body = json.loads(text)
    if isinstance(body, dict):
        body.pop("digest", None)
        body["digest"] = digest(body)
    return json.dumps(body)


@pytest.mark.parametrize("size", SIZES)
def test_strange_values_in_the_registry(size: float, tmp_path: Path) -> None:
    body = tomllib.loads(registry_path().read_text())
    draw, path = drawer("registry"), tmp_path / "registry.toml"
    words = ["-1", '"x"', "[]", "{}", "true", "1e308", "nan", "1979-05-27", "{ a = { b = [1] } }"]
    lines = registry_path().read_text().splitlines()
    assert read_registry(registry_path()).tracks.keys() == body["track"].keys()
    for number in range(how_many(size, WHOLE // 40)):
        changed = list(lines)
        position = draw.randrange(len(changed))
        key, mark, _ = changed[position].partition(" = ")
        changed[position] = f"{key} = {draw.choice(words)}" if mark else draw.choice(words)
        path.write_text("\n".join(changed))
        outcome("values: registry", lambda: read_registry(path), number)


# ------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_strange_shapes_and_types(size: float, tmp_path: Path) -> None:
    draw, path = drawer("arrays"), tmp_path / "a.npz"
    task = steady()["train"].task

    def read() -> None:
        splits = import_npz(path, task)
        write(tmp_path / "out.nc", splits, provenance={"title": "a", "source": "b"})

    np.savez(path, **arrays())
    assert outcome("arrays: npz", read, "in order") == "accepted"
    for number in range(how_many(size, WHOLE // 20)):
        own = arrays()
        name = draw.choice([*own, "node_count", "cell_count", "times", "scalars", "tag_x", "y"])
        value = own.get(name, np.arange(3.0))
        ways: list[Callable[[], np.ndarray]] = [
            lambda value=value: value[:0],
            lambda value=value: value[None],
            lambda value=value: value.reshape(-1),
            lambda value=value: value.astype("U5"),
            lambda value=value: value.astype(complex),
            lambda value=value: value.astype(np.int8),
            lambda value=value: np.full_like(value, -7),
            lambda value=value: np.full(value.shape, np.nan),
            lambda value=value: value[..., :1],
            lambda: np.array(draw.choice((0, -1, 2**40, 0.5, "x"))),
            lambda value=value: np.full(value.shape, 2**62, dtype=np.int64),
            lambda value=value: value.astype("f8") * 1e300,
        ]
        own[name] = draw.choice(ways)()
        np.savez(path, **own)
        outcome("arrays: npz", read, (number, name))


@pytest.mark.parametrize("size", SIZES)
def test_declared_sizes_are_looked_at_before_anything_is_allocated(
    size: float, tmp_path: Path
) -> None:
    draw, path = drawer("sizes"), tmp_path / "large.nc"
    for number in range(how_many(size, 100)):
        source = write_toy(tmp_path)
        with netCDF4.Dataset(source) as old, netCDF4.Dataset(path, "w") as new:
            new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
            grown = draw.choice(["sample", "frame", "node", "cell"])
            count = draw.choice([10**8, 10**9, 10**10])
            for name, dimension in old.dimensions.items():
                new.createDimension(name, count if name == grown else len(dimension))
            for name, variable in old.variables.items():
                made = new.createVariable(name, variable.dtype, variable.dimensions, zlib=True)
                made.setncatts({key: variable.getncattr(key) for key in variable.ncattrs()})
        ended = outcome("declared sizes: netcdf", lambda: read_data(path), (number, grown))
        assert ended == "one line" and path.stat().st_size < 1e6


# --------------------------------------------------------------------------------- runs and bundles


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, steady_file: Path) -> Path:
    return run_folder("mean", steady_file, tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("size", SIZES)
def test_damaged_run_folders_and_bundles(size: float, run: Path, tmp_path: Path) -> None:
    draw, home = drawer("runs"), Home(tmp_path / "home")
    copy = home.runs / run.name
    names = ["spec.json", "task.json", "weights.safetensors", "reference.safetensors"]
    names += ["result.json", "bundle.zip"]
    shutil.copytree(run, copy)
    in_order = lambda: load(copy, home=home.root, device="cpu")  # noqa: E731
    assert outcome("bytes: run folder", in_order, "in order") == "accepted"
    for number in range(how_many(size, WHOLE // 20)):
        copy.mkdir(parents=True, exist_ok=True)
        name = draw.choice(names)
        for own in names:
            content = (run / own).read_bytes()
            is_text = own.endswith(".json")
            if own == name and is_text and draw.random() < 0.6:
                content = mutated_json(content.decode(), draw).encode()
            elif own == name:
                content = mutated(content, draw)
            (copy / own).write_bytes(content)
        if name == "bundle.zip":
            target = tmp_path / "unpacked"
            target.mkdir(exist_ok=True)
            outcome("bytes: bundle", lambda: unpack(copy / "bundle.zip", target), number)
        elif name == "result.json":
            outcome("bytes: result of a run", lambda: RunResult.load(copy / name), number)
        else:
            outcome("bytes: run folder", in_order, (number, name))
        assert {path.name for path in tmp_path.iterdir()} <= {"home", "unpacked", "entered"}


# --------------------------------------------------------------------------------- the command line

VERBS = (
    *(["show"], ["list"], ["run", "--dry-run", "--model", "mean", "--dataset"], ["verify"]),
    *(["run", "--dry-run", "--dataset", "darcy", "--model"], ["leaderboard", "show"], ["score"]),
    *(["data", "download"], ["predict"], ["export"], ["diff"], ["status"], ["doctor"]),
    *(["sweep", "--model", "mean", "--dataset", "darcy", "--over"], ["data", "import"]),
    ["run", "--dry-run", "--model", "mean", "--dataset", "darcy", "--track", "smoke"],
)
WORDS = (
    *("", "-", "--", "--x", "²", "-1", "1e400", "nan", "../../etc/passwd", "/", "/dev/zero"),
    *("a" * 300, "\x00", "é", "--seed", "--data.seed", "--train.steps", "--model.x", "--t-in"),
    *("darcy@1-1", "darcy@²", "@", "swe@5-46", "--json", "--home", "--data.geojson", "*", "%s"),
    *("{}", "[", "mean", "gsno", "darcy", "99999999999999999999", "0", "--help", "--track"),
)


@pytest.mark.parametrize("size", SIZES)
def test_words_on_the_command_line(
    size: float, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = drawer("words")
    monkeypatch.setenv("GSNOBENCH_HOME", str(tmp_path / "home"))
    for _ in range(how_many(size, WHOLE // 40)):
        words = [*draw.choice(VERBS), *draw.choices(WORDS, k=draw.choice((1, 1, 2, 3)))]
        ended = command(capsys, *words)
        assert ended.code in (0, 1, 2), (words, ended)
        assert "Traceback" not in ended.err, (words, ended.err)
        COUNTS["words: command line", f"exit {ended.code}"] += 1
