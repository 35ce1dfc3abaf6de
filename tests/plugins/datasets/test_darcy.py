"""Darcy: one field on all meshes, accurate heads, samples independent of their chunk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import gsnobench as gb
from gsnobench.data import SPLITS, Array, Split
from gsnobench.meshes.interpolation import evaluation_matrix
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.datasets import darcy
from gsnobench_plugins.solvers.meshing.angles import min_angle
from gsnobench_plugins.solvers.methods.random_fields import sample_rng

Make = Callable[..., darcy.Setup]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    cache = gb.Cache(tmp_path_factory.mktemp("cache"))
    return lambda resolution=298, **knobs: darcy.setup(darcy.Params(**knobs), resolution, cache)


def heads(setup: darcy.Setup, split: Split, count: int, seed: int = 1) -> Array:
    return np.stack(
        [sample.frames[0, :, 0] for sample in darcy.generate(setup, seed, split, range(count))]
    )


def relative(computed: Array, exact: Array) -> Array:
    return np.linalg.norm(computed - exact, axis=1) / np.linalg.norm(exact, axis=1)


def test_samples_have_the_declared_shape(make: Make) -> None:
    dataset = darcy.gsnobench_dataset()
    setup = make()
    sample = next(dataset.generate(setup, 0, "train", [0]))
    assert sample.frames.shape == (1, 298, 1)
    assert sample.static.shape == (298, 1)
    assert sample.scalars.shape == (0,)
    assert dataset.mesh(setup) is setup.mesh and setup.mesh.size == 298
    assert dataset.fields[0].boundary == {"boundary": "dirichlet"}
    assert dataset.variants["threshold"] == {"psi": "threshold"}
    assert {sizes.resolution for sizes in dataset.sizes.values()} <= set(dataset.resolutions)


@pytest.mark.parametrize("nodes", [298, 600, 1184])
def test_meshes_have_the_published_counts_and_good_angles(make: Make, nodes: int) -> None:
    mesh = make(nodes, refinements=0).mesh
    assert mesh.size == nodes and min_angle(mesh) >= 25.0


@pytest.mark.parametrize("psi", ["exp", "threshold"])
def test_a_sample_does_not_depend_on_its_chunk(make: Make, psi: str) -> None:
    together = list(darcy.generate(make(psi=psi), 3, "valid", range(6)))
    setup = make(psi=psi)
    for index in (4, 1):
        (alone,) = darcy.generate(setup, 3, "valid", [index])
        assert alone.frames.tobytes() == together[index].frames.tobytes()
        assert alone.static.tobytes() == together[index].static.tobytes()


def test_seeds_splits_and_indices_give_different_samples(make: Make) -> None:
    setup = make()
    samples = [
        next(darcy.generate(setup, seed, split, [i]))
        for seed in (0, 1)
        for split in SPLITS
        for i in (0, 1)
    ]
    assert len({sample.static.tobytes() for sample in samples}) == len(samples)


@pytest.mark.parametrize("psi", ["exp", "threshold", "standardised"])
def test_the_head_is_positive_inside_and_zero_on_the_boundary(make: Make, psi: str) -> None:
    setup = make(psi=psi)
    rim = setup.mesh.tags["boundary"]
    for split in SPLITS:
        u = heads(setup, split, 2)
        assert (u[:, rim] == 0.0).all() and (u[:, ~rim] > 0.0).all()


def test_the_field_is_one_function_on_every_mesh(make: Make) -> None:
    coarse, fine = make(298), make(600)
    g = darcy.draw_field(coarse, 1, "test", 0)
    assert np.array_equal(g, darcy.draw_field(fine, 1, "test", 0))
    for setup in (coarse, fine):
        (sample,) = darcy.generate(setup, 1, "test", [0])
        at_nodes = evaluation_matrix(setup.basis.mesh, setup.mesh.points) @ g
        assert np.allclose(np.log(sample.static[:, 0]), at_nodes, atol=1e-12)
    shared = evaluation_matrix(coarse.mesh, fine.mesh.points) @ heads(coarse, "test", 1)[0]
    # interpolation of the coarse head is the larger part
    assert relative(shared[None], heads(fine, "test", 1))[0] < 0.03


def test_the_threshold_has_two_values_and_both_occur(make: Make) -> None:
    for sample in darcy.generate(make(psi="threshold"), 0, "train", range(20)):
        assert set(np.unique(sample.static)) == {darcy.LOW, darcy.HIGH}


def test_the_permeability_has_the_stated_spread(make: Make) -> None:
    setup = make()
    logs = np.log([sample.static[:, 0] for sample in darcy.generate(setup, 0, "train", range(200))])
    assert logs.std() == pytest.approx(setup.deviation, rel=0.15)
    standard = np.log(
        [
            sample.static[:, 0]
            for sample in darcy.generate(make(psi="standardised"), 0, "train", range(200))
        ]
    )
    assert standard.std() == pytest.approx(1.0, rel=0.15)


def test_test_ood_is_rougher_at_the_same_variance(make: Make) -> None:
    setup = make()
    usual, rough = setup.spectra["test"], setup.spectra["test_ood"]
    assert setup.basis.mean_variance(rough) == pytest.approx(setup.basis.mean_variance(usual))
    energy = [float(np.sum(spectrum**2 * setup.basis.values)) for spectrum in (usual, rough)]
    assert energy[1] > 2.0 * energy[0]


@pytest.mark.parametrize("psi", ["exp", "threshold"])
def test_the_default_head_is_within_three_per_mille_of_a_finer_one(make: Make, psi: str) -> None:
    default, finer = make(1184, psi=psi), make(1184, psi=psi, refinements=3)
    difference = relative(heads(default, "test", 3), heads(finer, "test", 3))
    # the error falls by 2.7 a refinement, so the distance to the next level is 0.63 of the error
    assert difference.mean() / 0.63 < 3e-3


def test_finite_differences_agree_within_their_own_error(make: Make) -> None:
    exact = heads(make(600, refinements=3), "test", 2)
    coarse, fine = (
        relative(heads(make(600, solver="gfdm", refinements=r), "test", 2), exact).max()
        for r in (0, 1)
    )
    assert coarse < 0.02 and fine < 0.5 * coarse


def test_the_setup_is_read_from_disk_the_second_time(tmp_path: Path) -> None:
    first = darcy.setup(darcy.Params(), 298, gb.Cache(tmp_path))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    again = darcy.setup(darcy.Params(), 298, gb.Cache(tmp_path))
    assert len(files) == 2
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert first.mesh.key == again.mesh.key
    assert np.array_equal(cells_of(first.basis.mesh), cells_of(again.basis.mesh))
    both = [next(darcy.generate(setup, 0, "test", [0])).frames for setup in (first, again)]
    assert both[0].tobytes() == both[1].tobytes()


# ------------------------------------------------------------------------------------------ inverse


@pytest.mark.parametrize("psi", ["exp", "threshold", "standardised"])
def test_coefficients_of_a_sample_give_its_permeability_and_its_head(make: Make, psi: str) -> None:
    inverse, setup = darcy.gsnobench_dataset().inverse, make(psi=psi)
    assert inverse is not None
    decoder = inverse.decode(setup)
    first = [sample_rng(1, "train", index).standard_normal(inverse.dim) for index in range(9)]
    high = [float(np.mean(decoder.matrix @ draw >= 0)) for draw in first]
    index = next(index for index in range(9) if 0.2 < high[index] < 0.8)  # not drawn again
    coefficients = first[index]
    (sample,) = darcy.generate(setup, 1, "train", [index])
    field = decoder.link(torch.from_numpy(decoder.matrix @ coefficients))
    np.testing.assert_allclose(field, sample.static[:, 0], rtol=1e-10)
    np.testing.assert_allclose(inverse.solve(setup, coefficients), sample.frames, rtol=1e-10)
    assert decoder.is_smooth == (psi != "threshold")


def test_observations_come_from_a_solver_refined_once_more(make: Make) -> None:
    inverse, setup = darcy.gsnobench_dataset().inverse, make()
    assert inverse is not None
    params = inverse.finer(setup.params)
    assert (params.refinements, params.psi) == (setup.params.refinements + 1, "exp")
    finer = make(refinements=params.refinements)
    coefficients = np.random.default_rng(0).normal(size=inverse.dim)
    rough, fine = (inverse.solve(own, coefficients)[:, :, 0] for own in (setup, finer))
    assert 1e-5 < relative(rough, fine)[0] < 5e-3
    with pytest.raises(gb.ParamError, match="refinements"):
        inverse.finer(params)


@pytest.mark.parametrize("psi", ["exp", "standardised"])
def test_the_adjoint_is_the_derivative_of_the_solver(make: Make, psi: str) -> None:
    setup, rng = make(psi=psi), np.random.default_rng(0)
    coefficients, ahead = rng.normal(size=(2, darcy.MODES))
    weights = rng.normal(size=(1, setup.mesh.size, 1))
    frames, pull = darcy.adjoint(setup, coefficients)
    np.testing.assert_allclose(frames, darcy.solve(setup, coefficients), rtol=1e-10)
    up, down = (darcy.solve(setup, coefficients + step * ahead) for step in (1e-4, -1e-4))
    expected = float(((up - down) * weights).sum() / 2e-4)
    assert pull(weights) @ ahead == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("knobs", [{"psi": "threshold"}, {"solver": "gfdm"}])
def test_what_has_no_adjoint_is_refused(make: Make, knobs: dict[str, str]) -> None:
    with pytest.raises(gb.ParamError, match=f"data.{next(iter(knobs))}"):
        darcy.adjoint(make(**knobs), np.zeros(darcy.MODES))
