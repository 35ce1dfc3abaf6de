"""What identifies a file: a hash of its arrays, one per split, a fingerprint all machines share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from toy_datasets import square
from toy_samples import fixed, one_line, ragged

import gsnobench as gb
from gsnobench.datasets import store


def test_the_content_hash_is_of_the_arrays_alone(tmp_path: Path) -> None:
    first = store.write(tmp_path / "a.nc", fixed(), provenance={"title": "one"}, level=4)
    assert store.write(tmp_path / "b.nc", fixed(), provenance={"title": "two"}, level=0) == first
    changed = fixed()
    changed["test"].frames[2, 1, 3, 0] += 1e-6
    assert store.write(tmp_path / "c.nc", changed, provenance={}) != first
    moved = square(4)
    moved.points[5] += 1e-9
    assert store.write(tmp_path / "d.nc", fixed(mesh=moved), provenance={}) != first


def test_split_hashes_do_not_depend_on_the_other_splits(tmp_path: Path) -> None:
    samples = ragged()
    store.write(tmp_path / "all.nc", samples, provenance={})
    alone = {"valid": samples["valid"]}  # padded to 9 nodes instead of 25
    store.write(tmp_path / "valid.nc", alone, provenance={})
    with store.open_file(tmp_path / "all.nc") as opened:
        all_content, all_splits = opened.content_hash, opened.task.split_hashes
    with store.open_file(tmp_path / "valid.nc") as opened:
        assert all_splits["valid"] == opened.task.split_hashes["valid"]
        assert all_content != opened.content_hash


def test_the_fingerprint_survives_round_off_and_shows_another_solution(tmp_path: Path) -> None:
    def fingerprint(factor: float) -> str:
        changed = {}
        for split, samples in fixed(train=50).items():
            frames = np.asarray(samples.frames, dtype="f8") * factor + 5
            changed[split] = replace(samples, frames=frames.astype("f4"))
        store.write(tmp_path / "f.nc", changed, provenance={})
        with store.open_file(tmp_path / "f.nc") as opened:
            return opened.fingerprint

    assert fingerprint(1.0) == fingerprint(1.0 + 1e-7) != fingerprint(1.01)
    mean, deviation = json.loads(fingerprint(1.0))["field_h"]
    assert mean == pytest.approx(5.0, abs=0.05) and deviation == pytest.approx(1.0, abs=0.05)
    assert len(repr(deviation).replace(".", "").lstrip("0")) <= 4


def test_a_file_of_the_users_own_is_hashed_when_it_is_opened(own: Path, tmp_path: Path) -> None:
    with store.open_file(own) as opened:
        assert opened.content_hash == store.write(tmp_path / "again.nc", fixed(), provenance={})
        assert set(opened.task.split_hashes) == {"train", "valid", "test"}
        assert opened.fingerprint.startswith("{")


def test_verify_reports_a_changed_value(path: Path) -> None:
    store.verify(path)
    with netCDF4.Dataset(path, "a") as file:
        file["field_u"][7, 1, 2] = 0.25
    with pytest.raises(gb.DataError) as error:
        store.verify(path)
    one_line(error, "changed after it was made")
