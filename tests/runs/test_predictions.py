"""Predictions of any framework get the scores that a run would get; misfits are one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import command, run_folder
from toy_samples import TASK, fixed, one_line, ragged

import gsnobench as gb
from gsnobench.data import Samples
from gsnobench.datasets.store import open_file, write
from gsnobench.records import RunResult
from gsnobench.runs.plan import make_plan
from gsnobench.runs.predictions import read_predictions, score_predictions, write_predictions
from gsnobench.runs.request import Request


def truth_of(folder: Path, splits: dict[str, Samples]) -> Samples:
    """The test split of a file, read back."""
    write(folder / "truth.nc", splits, provenance={"title": "toy", "source": "random"})
    with open_file(folder / "truth.nc") as opened:
        return opened.read("test")


def true_frames(truth: Samples) -> np.ndarray:
    return np.asarray(truth.frames)[:, list(truth.task.predicted_frames())]


def test_our_own_predictions_get_the_scores_of_the_run(
    unsteady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder("persistence", unsteady_file, tmp_path / "home")
    result = RunResult.load(folder / "result.json")
    out = tmp_path / "predictions.nc"
    home = ("--home", tmp_path / "home")
    assert (
        command(capsys, "predict", folder, "--inputs", unsteady_file, "--out", out, *home).code == 0
    )
    scored = command(capsys, "score", out, "--dataset", unsteady_file, "--json", *home)
    assert (scored.code, scored.err) == (0, "")
    for name, table in result.scores["test"].items():
        assert scored.json["scores"][name] == pytest.approx(table, rel=1e-5), name
    assert scored.json["per_sample"] == result.samples["test"]
    assert scored.json["truth"] == result.data["hash"]
    shown = command(capsys, "score", out, "--dataset", unsteady_file, *home)
    for part in (
        "headline",
        "rel_l2_raw",
        "rel_l2_area",
        "rmse",
        "mae",
        "max",
        "boundary_boundary",
        result.data["hash"],
    ):
        assert part in shown.out


def test_metrics_are_those_by_hand(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, fixed())
    true = true_frames(truth)  # (S, 2, N, 2): h around 5 m, u
    scores = score_predictions(true + np.array([0.5, 0.0], dtype="f4"), truth).scores()
    h = true[..., 0]
    own = 0.5 * np.sqrt(h[0].size) / np.sqrt(np.square(h - 5).sum((1, 2)))
    raw = 0.5 * np.sqrt(h[0].size) / np.sqrt(np.square(h).sum((1, 2)))
    assert scores["h"]["rel_l2"] == pytest.approx(own.mean(), rel=1e-5)
    assert scores["h"]["rel_l2_raw"] == pytest.approx(raw.mean(), rel=1e-5)
    assert scores["h"]["rmse"] == pytest.approx(0.5, rel=1e-5)
    assert scores["h"]["max"] == pytest.approx(0.5, rel=1e-5)
    assert scores["velocity"]["rel_l2"] == 0
    assert scores["headline"]["rel_l2"] == pytest.approx(own.mean() / 2, rel=1e-5)


def test_a_trajectory_with_several_windows_is_one_sample(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, fixed(task=replace(TASK, id="toy@1-1", t_out=1, starts=(0, 1))))
    true = true_frames(truth)
    assert true.shape == (3, 2, 16, 2)  # one frame of each window
    wrong = true.copy()
    wrong[:, 1, :, 0] += 0.5  # the second window only
    errors = score_predictions(wrong, truth).samples["h"]["rel_l2"]
    second = 0.5 * 4 / np.linalg.norm(true[:, 1, :, 0] - 5, axis=1)
    np.testing.assert_allclose(errors, second / 2, rtol=1e-5)


def test_predictions_of_several_windows_survive_their_file(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, fixed(task=replace(TASK, id="toy@1-1", t_out=1, starts=(0, 1))))
    plan = make_plan(Request("mean", str(tmp_path / "truth.nc"), track="smoke"))
    # as a model gives them: one row per sample and window
    windows = true_frames(truth).reshape(6, 1, 16, 2) + 1
    write_predictions(tmp_path / "p.nc", truth, windows, plan)
    np.testing.assert_array_equal(
        read_predictions(tmp_path / "p.nc", truth), true_frames(truth) + 1
    )


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_shapes_that_mean_only_one_thing_are_taken(
    steady_file: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_file(steady_file) as opened:
        frames = np.asarray(opened.split("test").frames[:])  # (8, 1, 121, 1)
    results = []
    for shape in ((8, 1, 121, 1), (8, 121, 1), (8, 1, 121), (8, 121)):
        values = 1.1 * frames.reshape(shape).astype(float)
        if name.endswith("npy"):
            np.save(tmp_path / name, values)
        else:
            np.savez(tmp_path / name, predictions=values)
        options = ("--dataset", steady_file, "--json", "--home", tmp_path)
        ended = command(capsys, "score", tmp_path / name, *options)
        results.append(ended.json["scores"])
    assert results[0]["head"]["rel_l2"] == pytest.approx(0.1, rel=1e-5)
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        (np.zeros((7, 1, 121, 1)), "7 samples"),
        (np.zeros((8, 1, 120, 1)), "expected (8, 1, 121, 1)"),
        (np.zeros((8, 2, 121, 1)), "has the shape (8, 2, 121, 1)"),
        (np.float64(3.0), "has the shape ()"),
        (np.full((8, 121), np.nan), "head is nan in sample 0, frame 0, node 0"),
        (np.full((8, 121), 1e300), "head is inf"),
        (np.zeros((8, 121), dtype=complex), "expected real numbers"),
        (np.full((8, 121), None), "NumPy file with a plain array"),
    ],
)
def test_an_array_that_does_not_fit_is_one_line(
    steady_file: Path,
    tmp_path: Path,
    values: np.ndarray,
    part: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save(tmp_path / "a.npy", values, allow_pickle=True)
    line = command(
        capsys, "score", tmp_path / "a.npy", "--dataset", steady_file, "--home", tmp_path
    ).mistake
    assert "a.npy" in line and part in line


def test_files_that_are_no_predictions_are_one_line(
    steady_file: Path, unsteady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "two.npz", a=np.zeros(3), b=np.zeros(3))
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "a.csv").write_text("1,2")
    for path, part in (
        (tmp_path / "none.npy", "no such file"),
        (tmp_path / "a.csv", "not from '.csv'"),
        (tmp_path / "text.npy", "NumPy file"),
        (tmp_path / "two.npz", "holds the arrays a, b"),
        (unsteady_file, "holds predictions for 'waves@2-7'; expected 'poisson'"),
        (steady_file, "expected predictions of one split"),
    ):
        ended = command(capsys, "score", path, "--dataset", steady_file, "--home", tmp_path)
        assert part in ended.mistake
    options = ("--dataset", steady_file, "--split", "tset", "--home", tmp_path)
    ended = command(capsys, "score", tmp_path / "two.npz", *options)
    assert "did you mean 'test'?" in ended.mistake
    for dataset, option, part in (
        ("darci", (), "did you mean 'darcy'?"),
        ("darcy", ("--model.k_s", "3"), "only --data.NAME"),
    ):
        ended = command(
            capsys, "score", tmp_path / "two.npz", "--dataset", dataset, "--home", tmp_path, *option
        )
        assert part in ended.mistake


def test_a_netcdf_of_other_frames_meshes_or_inputs_is_refused(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, fixed())
    task = replace(truth.task, t_in=0, t_out=2, times=truth.task.times[1:], starts=(0,))
    good = replace(truth, task=task, frames=true_frames(truth))
    moved = gb.Mesh(truth.meshes[0].points + 0.1, truth.meshes[0].cells, truth.meshes[0].tags)
    cases = {
        "": good,
        "2 frames of": replace(good, task=replace(task, times=truth.task.times[:2])),
        "the mesh of sample 0": replace(good, meshes=(moved,)),
        "the inputs of sample 0": replace(good, static=np.asarray(truth.static)[::-1]),
    }
    for part, samples in cases.items():
        write(tmp_path / "p.nc", {"test": samples}, provenance={})
        if not part:
            assert (
                score_predictions(read_predictions(tmp_path / "p.nc", truth), truth).scores()[
                    "headline"
                ]["rel_l2"]
                < 1e-6
            )
            continue
        with pytest.raises(gb.DataError) as caught:
            read_predictions(tmp_path / "p.nc", truth)
        one_line(caught, part)


def test_padding_is_ignored_whatever_stands_there(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, ragged())  # test meshes of 16 and 9 nodes, in a file padded to 25
    true = true_frames(truth)
    assert true.shape == (2, 2, 25, 2)
    wrong = 1.1 * true
    clean = score_predictions(wrong, truth).scores()
    for nodes in (25, 16):  # as the file is padded, or as the split alone would be
        dirty = wrong[:, :, :nodes].copy()
        dirty[0, :, 16:], dirty[1, :, 9:] = np.nan, np.nan
        np.save(tmp_path / "p.npy", dirty)
        assert (
            score_predictions(read_predictions(tmp_path / "p.npy", truth), truth).scores() == clean
        )


def test_nodes_where_a_field_does_not_live_do_not_count(tmp_path: Path) -> None:
    fields = (replace(TASK.fields[0], support="wall"), TASK.fields[1])
    truth = truth_of(tmp_path, fixed(task=replace(TASK, fields=fields)))
    values = 1.1 * true_frames(truth)
    clean = score_predictions(values, truth).scores()
    values[:, :, ~truth.meshes[0].tags["wall"], 0] = np.nan
    assert score_predictions(values, truth).scores() == clean
