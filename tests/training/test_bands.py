"""Errors by band of Laplacian modes, against fields that are modes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from problems import square, steady

from gsnobench.data import Field, Samples, Task
from gsnobench.files import Cache
from gsnobench.meshes.modes import eigenbasis
from gsnobench.training.bands import MODES, MOST_MESHES, OCTAVES, band_energies, band_table
from gsnobench.training.evaluate import collect
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams
from gsnobench.training.rollout import Step


def loader_of(samples: Samples) -> Loader:
    normaliser = fit_normaliser(samples, TrainParams())
    return Loader(
        samples,
        task=samples.task,
        normaliser=normaliser,
        geometries=[{}],
        device="cpu",
        impose_boundary=False,
    )


def evaluated(loader: Loader, wrong_by: float) -> Iterator[Step]:
    """Every sample in a batch of its own, each prediction `wrong_by` times the truth."""
    for index in range(len(loader)):
        indices = torch.tensor([index])
        batch, target = loader.batch(indices, torch.zeros(1, dtype=torch.long), 1)
        yield Step(indices, batch, target, target * (1 + wrong_by), 0.0)


@pytest.mark.parametrize(
    ("mode", "band"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (63, 5), (64, 6), (127, 6)]
)
def test_a_mode_lies_in_its_own_band(mode: int, band: int) -> None:
    basis = eigenbasis(square(13), MODES)
    expected = np.zeros(OCTAVES + 1)
    expected[band] = 9.0
    values = 3.0 * basis.vectors[None, :, mode - 1, None]
    np.testing.assert_allclose(band_energies(basis, values), expected, atol=1e-9)


def test_what_no_mode_holds_is_in_the_last_band() -> None:
    basis = eigenbasis(square(13), MODES)
    noise = np.random.default_rng(0).standard_normal((2, 169, 3))
    rest = noise - np.einsum(
        "nk,tkc->tnc", basis.vectors, np.einsum("kn,tnc->tkc", basis.analysis, noise)
    )
    energies = band_energies(basis, rest)
    whole = (basis.mass[:, None] * rest**2).sum()
    assert energies[:-1].max() < 1e-20 and energies[-1] == pytest.approx(whole)


def test_a_mesh_smaller_than_the_bands_leaves_the_last_ones_empty() -> None:
    basis = eigenbasis(square(5), 25)
    energies = band_energies(basis, np.random.default_rng(0).standard_normal((1, 25, 1)))
    assert energies.shape == (OCTAVES + 1,)
    assert (energies[:5] > 0).all() and energies[5:].max() < 1e-12


def test_squares_add_up_to_the_error_that_is_weighted_by_area(tmp_path: Path) -> None:
    loader = loader_of(steady()["test"])
    table = band_table(evaluated(loader, 0.25), loader, Cache(tmp_path))["head"]
    whole = collect(evaluated(loader, 0.25), loader).samples["head"]["rel_l2_area"]
    assert np.square(table["error"]).sum() == pytest.approx(
        float(np.square(whole).mean()), rel=1e-3
    )
    assert np.square(table["truth"]).sum() == pytest.approx(1.0, rel=1e-3)
    # the modes hold the whole field, so that the last band is rounding error
    expected = 0.25 * np.array(table["truth"])
    np.testing.assert_allclose(table["error"], expected, rtol=2e-3, atol=1e-7)
    from_cache = band_table(evaluated(loader, 0.25), loader, Cache(tmp_path))["head"]
    assert table == from_cache
    assert len(list((tmp_path / "spectrum-v1").glob("*.safetensors"))) == 1


def test_a_field_on_part_of_a_mesh_has_no_bands() -> None:
    samples = steady()["test"]
    partial = replace(samples.task, fields=(Field("head", support="boundary"),))
    loader = loader_of(replace(samples, task=partial))
    assert band_table(evaluated(loader, 0.1), loader, Cache()) == {}


def test_of_many_meshes_only_the_first_are_decomposed(tmp_path: Path) -> None:
    """Padding of ragged meshes is not seen, and eigenbases are bounded in number."""
    count = MOST_MESHES + 2
    meshes = tuple(square(3 + index % 2, seed=index) for index in range(count))
    frames = np.full((count, 1, 16, 1), 1e9, dtype="f4")
    for index, mesh in enumerate(meshes):
        frames[index, :, : mesh.size] = 1.0
    task = Task(
        id="v", dataset="v", fields=(Field("u"),), dim=2, fixed_mesh=False, corresponds=False
    )
    loader = loader_of(
        Samples(task, meshes, frames, np.zeros((count, 16, 0), "f4"), np.zeros((count, 0), "f4"))
    )
    table = band_table(evaluated(loader, 0.5), loader, Cache(tmp_path))["u"]
    assert table["truth"][0] == pytest.approx(1.0) and table["error"][0] == pytest.approx(0.5)
    assert len(list((tmp_path / "spectrum-v1").glob("*.safetensors"))) == MOST_MESHES
