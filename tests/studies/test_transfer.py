"""Transfer is judged against interpolation, by the numbers that `predict` gives too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import command
from made_studies import made_run

from gsnobench.studies.base import Row
from gsnobench.studies.transfer import TRAINED, cases

pytestmark = pytest.mark.usefixtures("untracked")
WORDS = "study transfer --dataset darcy --models gsno@compact,ridge --track smoke --seeds 0"


def test_errors_on_another_mesh_are_those_of_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--train.steps", "2", "--home", tmp_path, "--executor", "local", "--json")
    ended = command(capsys, *WORDS.split(), "--test", "600", "--oracle", *options)
    assert ended.code == 0, ended.err
    (case,) = ended.json["numbers"]["cases"]
    run = next(run for run in ended.json["runs"] if run["point"]["role"] == TRAINED)
    words = ("predict", run["key"], "--mesh", "600", "--home", tmp_path, "--json")
    predicted = command(capsys, *words).json
    assert case["zero_shot"][0] == pytest.approx(predicted["rel_l2"], rel=1e-4)
    assert case["interpolated"][0] == pytest.approx(predicted["rel_l2_interpolated"], rel=1e-4)
    assert case["own"][0] == pytest.approx(predicted["rel_l2_own_mesh"], rel=1e-4)
    oracle = [run for run in ended.json["runs"] if run["nodes"] == 600]
    assert case["oracle"] == [oracle[0]["errors"]["test"]] and len(oracle) == 2
    assert "ridge works on its training mesh alone" in ended.json["sentence"]
    assert {entry["kind"] for entry in ended.json["numbers"]["modes"]["600"]} == {"gaussian", "fem"}
    assert Path(ended.json["folder"], "figures", "transfer.png").exists()
    there, moved = case["zero_shot"][0], case["interpolated"][0]
    assert f"(600 nodes: {there:.3g}, interpolated {moved:.3g})" in ended.json["sentence"]
    picture = run["extra"]["picture"]
    assert picture["nodes"] == 600 and len(picture["truth"]) == 600
    gap = np.array(picture["zero_shot"]) - picture["truth"]
    error = np.linalg.norm(gap) / np.linalg.norm(picture["truth"])
    assert error == pytest.approx(run["extra"]["meshes"]["600"]["zero_shot"][0], rel=0.2)


def row(*zero_shot: list[float]) -> Row:
    """Seeds with these errors per sample on another mesh; interpolated they all have 0.2."""
    point: dict[str, Any] = {"row": "toy", "role": TRAINED}
    runs = []
    for seed, errors in enumerate(zero_shot):
        table = {"zero_shot": errors, "interpolated": [0.2] * len(errors)}
        runs.append(made_run(point, seed=seed, extra={"meshes": {"600": table}}))
    return Row(point, tuple(runs))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.10, 0.15, "transfers"), (0.15, 0.25, "only interpolates"), (0.25, 0.4, "breaks")],
)
def test_the_verdict_follows_the_interval_over_samples(
    low: float, high: float, verdict: str
) -> None:
    errors = [low, high] * 8
    (case,) = cases([row(errors, errors)])
    assert case.verdict == verdict and case.gap.value == pytest.approx((low + high) / 2 - 0.2)


def test_a_missing_test_mesh_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = command(capsys, *WORDS.split(), "--home", tmp_path)
    assert ended.mistake.startswith("gsnobench: study transfer: needs --test")
