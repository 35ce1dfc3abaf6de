"""NumPy files become samples, and nothing in them is ever unpickled."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from toy_samples import TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.data import Samples
from gsnobench.datasets import store
from gsnobench.datasets.from_numpy import import_npz


def _arrays(samples: dict[str, Samples]) -> dict[str, np.ndarray]:
    parts = list(samples.values())
    mesh = parts[0].mesh(0)
    arrays = {"points": mesh.points, "cells": mesh.cells}
    arrays |= {f"tag_{tag}": member for tag, member in mesh.tags.items()}
    for name in ("frames", "static", "scalars"):
        arrays[name] = np.concatenate([getattr(part, name) for part in parts])
    arrays["split"] = np.repeat(list(samples), [len(part) for part in parts])
    return arrays


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_numpy_files_become_the_same_file(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "toy.npz" if kind == "npz" else tmp_path / "toy"
    if kind == "npz":
        np.savez(source, **_arrays(fixed()))
    else:
        source.mkdir()
        for name, array in _arrays(fixed()).items():
            np.save(source / f"{name}.npy", array)
    imported = import_npz(source, TASK)
    direct = store.write(tmp_path / "direct.nc", fixed(), provenance={})
    assert store.write(tmp_path / "imported.nc", imported, provenance={}) == direct


def test_padded_meshes_are_imported(tmp_path: Path) -> None:
    samples = ragged()["train"]
    points = np.full((3, 25, 2), np.nan)
    cells = np.full((3, 32, 3), -1)
    wall = np.zeros((3, 25), dtype=bool)
    for index, mesh in enumerate(samples.meshes):
        points[index, : mesh.size], cells[index, : len(mesh.cells)] = mesh.points, mesh.cells
        wall[index, : mesh.size] = mesh.tags["wall"]
    np.savez(
        tmp_path / "r.npz",
        frames=samples.frames,
        static=samples.static,
        scalars=samples.scalars,
        points=points,
        cells=cells,
        tag_wall=wall,
        node_count=[mesh.size for mesh in samples.meshes],
        cell_count=[len(mesh.cells) for mesh in samples.meshes],
        split=np.array([0, 1, 2]),
    )
    imported = import_npz(tmp_path / "r.npz", TASK)
    assert not imported["train"].task.fixed_mesh
    np.testing.assert_array_equal(imported["valid"].mesh(0).points, samples.mesh(1).points)
    np.testing.assert_array_equal(imported["test"].mesh(0).cells, samples.mesh(2).cells)
    store.write(tmp_path / "r.nc", imported, provenance={})


class _Bomb:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("exploded",)


def test_pickled_arrays_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frames = np.array([_Bomb()], dtype=object)
    np.savez("bomb.npz", frames=frames, points=np.zeros((3, 2)), split=[0])
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(_Bomb()))
    for name in ("bomb.npz", "raw.npz"):
        with pytest.raises(gb.DataError) as error:
            import_npz(Path(name), TASK)
        one_line(error, name)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"frames": None}, "'frames' is missing"),
        ({"point": np.zeros(1)}, "did you mean 'points'"),
        ({"frames": np.zeros((3, 4))}, "(samples, frames, nodes, fields)"),
        ({"times": np.arange(4.0)}, "frames holds 3 frames, but there are 4 times"),
        ({"split": np.zeros(3, dtype=int)}, "split holds 3 samples"),
        ({"split": np.full(10, "training")}, "split holds training"),
        ({"points": np.zeros((2, 16, 2))}, "points has the shape (2, 16, 2)"),
        ({"points": np.zeros((16, 2)) + 1j}, "points holds values of type complex128"),
        ({"cells": np.full((3, 3), 0.6)}, "cells holds values of type float64; expected whole"),
        ({"tag_wall": np.full(16, -7)}, "tag_wall holds values of type int64; expected true or"),
    ],
)
def test_a_wrong_numpy_file_is_one_line(tmp_path: Path, change: dict, line: str) -> None:
    arrays = _arrays(fixed()) | change
    given = {name: array for name, array in arrays.items() if array is not None}
    np.savez(tmp_path / "x.npz", **given)
    with pytest.raises(gb.DataError) as error:
        import_npz(tmp_path / "x.npz", TASK)
    one_line(error, "x.npz", line)
