"""A finished run predicts what it was scored with, also on other meshes; misfits are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
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


def test_the_operator_is_predict_and_its_gradient_that_of_differences(
    steady_file: Path, tmp_path: Path
) -> None:
    result = gsno(steady_file, tmp_path, knobs={"train.steps": "20"})
    trained = gb.load(result.spec.short, home=tmp_path, device="cpu")
    test = steady()["test"]
    operator = trained.operator(test.meshes[0])
    static = torch.from_numpy(np.asarray(test.static)).double().requires_grad_()
    frames = operator(static)
    assert frames.dtype == torch.float64
    np.testing.assert_allclose(frames.detach(), trained.predict(test), rtol=1e-4, atol=1e-6)
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=frames.shape))
    (gradient,) = torch.autograd.grad((weights * frames).sum(), static)
    along = torch.from_numpy(np.random.default_rng(1).normal(size=static.shape))
    with torch.no_grad():  # the network is float32: a step neither too small nor too large
        ahead, behind = (operator(static + step * along) for step in (0.02, -0.02))
    expected = float((weights * (ahead - behind)).sum()) / 0.04
    assert float((gradient * along).sum()) == pytest.approx(expected, rel=2e-3)


def test_the_operator_of_a_linear_model_has_its_exact_derivative(
    steady_file: Path, tmp_path: Path
) -> None:
    result = gb.run("pod", str(steady_file), home=tmp_path, device="cpu", track="smoke")
    trained = gb.load(result.spec.short, home=tmp_path, device="cpu")
    test = steady()["test"]
    operator = trained.operator(test.meshes[0])
    x, y = (torch.from_numpy(np.asarray(test.static)[i : i + 1]).double() for i in (0, 1))
    _, change = torch.autograd.functional.jvp(operator, x, y - x)
    np.testing.assert_allclose(change, operator(y) - operator(x), rtol=1e-3, atol=1e-5)


def test_the_operator_takes_a_window_and_goes_through_time(
    unsteady_file: Path, tmp_path: Path
) -> None:
    result = gsno(unsteady_file, tmp_path, knobs={"train.steps": "5"})
    trained = gb.load(result.spec.short, home=tmp_path, device="cpu")
    test, task = unsteady()["test"], trained.plan.task
    operator = trained.operator(test.meshes[0])
    window = torch.from_numpy(np.asarray(test.frames)[:, : task.t_in]).requires_grad_()
    static = torch.from_numpy(np.asarray(test.static)) if task.static else None
    frames = operator(static, window)
    np.testing.assert_allclose(frames.detach(), trained.predict(test), rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(frames[:, -1].sum(), window)
    assert gradient.abs().sum() > 0
    with pytest.raises(gb.DataError, match="window: has shape .*; expected"):
        operator(static, window[:, :, :3])
    with pytest.raises(gb.DataError, match="no input given"):
        operator()
