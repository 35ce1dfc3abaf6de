"""A finished run predicts what it was scored with, also on other meshes; misfits are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import square, steady, unsteady

import gsnobench as gb
from gsnobench.records import RunResult

pytestmark = pytest.mark.usefixtures("untracked")


def gsno(dataset: Path, home: Path, **request: Any) -> RunResult:
    return gb.run("gsno", str(dataset), home=home, device="cpu", track="smoke", **request)


def test_loaded_weights_predict_what_the_run_scored(steady_file: Path, tmp_path: Path) -> None:
    result = gsno(steady_file, tmp_path, knobs={"train.steps": "20"})
    trained = gb.load(result.spec.key[:8], home=tmp_path, device="cpu")
    test = steady()["test"]
    score = trained.score(test).scores()["headline"]["rel_l2"]
    assert score == pytest.approx(result.headline, rel=1e-5)
    predicted = trained.predict(test)
    assert predicted.shape == np.asarray(test.frames).shape
    single = trained.predict_on(test.meshes[0], static=np.asarray(test.static)[0])
    np.testing.assert_allclose(single, predicted[0], rtol=1e-4, atol=1e-6)


def test_a_run_predicts_on_another_mesh_of_the_domain(steady_file: Path, tmp_path: Path) -> None:
    result = gsno(steady_file, tmp_path, knobs={"train.steps": "20"})
    trained = gb.load(tmp_path / "runs" / result.spec.short, home=tmp_path, device="cpu")
    fine = square(17, seed=3)
    other = steady(mesh=fine)["test"]
    assert trained.predict(other).shape == (8, 1, fine.size, 1)
    assert np.isfinite(trained.predict(other)).all()


def test_inputs_that_do_not_fit_the_run_are_one_line(
    steady_file: Path, unsteady_file: Path, tmp_path: Path
) -> None:
    result = gsno(steady_file, tmp_path, knobs={"train.steps": "5"})
    trained = gb.load(result.spec.short, home=tmp_path, device="cpu")
    with pytest.raises(gb.DataError, match="was trained with"):
        trained.predict(unsteady()["test"])
    with pytest.raises(gb.DataError, match="expected"):
        trained.predict_on(steady()["test"].meshes[0], static=np.zeros((3, 1)))
    ridge = gb.run("ridge", str(steady_file), home=tmp_path, device="cpu", track="smoke")
    other = steady(mesh=square(17, seed=3))["test"]
    with pytest.raises(gb.DataError, match="its training mesh of .* nodes alone"):
        gb.load(ridge.spec.short, home=tmp_path, device="cpu").predict(other)


def test_a_run_without_weights_or_with_damaged_ones_is_one_line(
    steady_file: Path, tmp_path: Path
) -> None:
    declined = gb.run("persistence", str(steady_file), home=tmp_path, device="cpu", track="smoke")
    with pytest.raises(gb.RunError, match="has no weights"):
        gb.load(declined.spec.short, home=tmp_path, device="cpu")
    result = gsno(steady_file, tmp_path, knobs={"train.steps": "5"})
    (tmp_path / "runs" / result.spec.short / "task.json").write_text("{")
    with pytest.raises(gb.DataError) as caught:
        gb.load(result.spec.short, home=tmp_path, device="cpu")
    assert "\n" not in str(caught.value)
