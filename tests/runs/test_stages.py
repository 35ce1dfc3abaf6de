"""The stages of a run: usable alone, one loader per split, a search sees no test split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gsnobench.data import Samples, Split
from gsnobench.datasets.store import Opened
from gsnobench.errors import RunError
from gsnobench.home import Home
from gsnobench.runs.machine import PICTURES_VARIABLE, Machine, Report
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.stages import MOST_CURVE_POINTS, Run, thinned
from gsnobench.training.loader import Loader


def make_run(file: Path, home: Path, model: str = "gsno", report: Report | None = None) -> Run:
    knobs = {} if model == "ridge" else {"train.steps": "5"}
    plan = make_plan(Request(model, str(file), track="smoke", knobs=knobs))
    return Run.at_home(plan, Machine(Home(home), torch.device("cpu"), report=report or Report()))


@pytest.fixture
def loaders(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of all loaders that are made."""
    made: list[int] = []
    original = Loader.__init__

    def counting(self: Loader, samples: Samples, **about: object) -> None:
        made.append(len(samples))
        original(self, samples, **about)  # type: ignore[arg-type]

    monkeypatch.setattr(Loader, "__init__", counting)
    return made


@pytest.fixture
def opened_splits(monkeypatch: pytest.MonkeyPatch) -> list[Split]:
    opened: list[Split] = []
    original = Opened.split

    def counting(self: Opened, name: Split) -> Samples:
        opened.append(name)
        return original(self, name)

    monkeypatch.setattr(Opened, "split", counting)
    return opened


def test_a_whole_run_makes_one_loader_per_split(
    steady_file: Path, tmp_path: Path, loaders: list[int], drawn: None
) -> None:
    run = make_run(steady_file, tmp_path)
    with run.open_data() as data:
        sizes = data.task.sizes
        setup = run.set_up(data.split("train"))
        outcome = run.train(setup, data)
        result = run.score(setup, data, outcome, may_test=True)
    assert result.status == "done" and run.folder.picture.exists()
    assert sorted(loaders) == sorted(sizes[split] for split in ("train", "valid", "test"))


def test_a_kept_loader_gives_the_batches_of_a_new_one(steady_file: Path, tmp_path: Path) -> None:
    run = make_run(steady_file, tmp_path)
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        kept = run.loader(setup, data, "valid")
        assert run.loader(setup, data, "valid") is kept
        new = run.new_loader(setup, data.split("valid"))
        indices, starts = torch.tensor([1, 0]), torch.tensor([0, 0])
        batches = [loader.batch(indices, starts, 1) for loader in (kept, new)]
        assert torch.equal(batches[0][1], batches[1][1])
        assert torch.equal(batches[0][0].features, batches[1][0].features)
        other = run.set_up(data.split("train"))
        assert run.loader(other, data, "valid") is not kept


def test_scores_on_validation_open_no_other_split_and_draw_nothing(
    steady_file: Path, tmp_path: Path, opened_splits: list[Split], drawn: None
) -> None:
    run = make_run(steady_file, tmp_path)
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        result = run.score(setup, data, run.train(setup, data), may_test=False)
    assert set(result.scores) == {"valid"} and result.samples == {} and result.bands == {}
    assert set(opened_splits) == {"train", "valid"}
    assert not run.folder.figures.exists()


def test_stages_leave_their_files_in_the_folder_of_the_run(
    steady_file: Path, tmp_path: Path
) -> None:
    run = make_run(steady_file, tmp_path, "ridge")
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        outcome = run.train(setup, data)
        run.save_weights(setup)
    points = [json.loads(line) for line in run.folder.curve.read_text().splitlines()]
    assert points == outcome.progress.curve
    stored = load_file(run.folder.weights)
    assert set(stored) == set(setup.module.state_dict())
    saved = load_file(run.folder.summary)
    for name, value in setup.summary.items():
        np.testing.assert_array_equal(saved[f"reference.{name}"].numpy(), value)


def test_a_picture_that_fails_costs_a_warning_and_not_the_run(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: None
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no colours left")

    monkeypatch.setattr("gsnobench.runs.stages.draw_cases", refuse)
    warnings: list[str] = []
    run = make_run(steady_file, tmp_path, report=Report(warn=warnings.append))
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        result = run.score(setup, data, run.train(setup, data), may_test=True)
    assert result.status == "done"
    assert warnings == [
        "gsno@plus: no picture (ValueError: no colours left); the scores are not affected"
    ]


def test_a_run_draws_nothing_where_the_environment_says_so(
    steady_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PICTURES_VARIABLE, "none")
    stages: list[str] = []
    run = make_run(steady_file, tmp_path, report=Report(stage=stages.append))
    with run.open_data() as data:
        setup = run.set_up(data.split("train"))
        result = run.score(setup, data, run.train(setup, data), may_test=True)
    assert result.status == "done" and "drawing" not in stages
    assert not run.folder.figures.exists()
    monkeypatch.setenv(PICTURES_VARIABLE, "no")
    with pytest.raises(RunError, match="GSNOBENCH_PICTURES: 'no' is unknown; expected none"):
        make_run(steady_file, tmp_path)


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    curve = [{"step": step} for step in range(1000)]
    short = thinned(curve)
    assert len(short) == MOST_CURVE_POINTS
    assert (short[0], short[-1]) == (curve[0], curve[-1])
    assert thinned(curve[:7]) == curve[:7]


@pytest.mark.parametrize(
    ("row", "dataset", "printed"),
    [
        ("gsno@paper", "darcy", 0.0083),
        ("gsno@paper", "nse", 0.0164),
        ("gsno@compact", "darcy", None),  # the paper's error is of the paper's settings
        ("gsno@paper", "swe", None),  # of raw heights, ours are less 5 m
        ("ridge@default", "darcy", None),
    ],
)
def test_the_curve_of_a_printed_preset_has_the_printed_error(
    row: str, dataset: str, printed: float | None, tmp_path: Path
) -> None:
    model, preset = row.split("@")
    plan = make_plan(Request(model, dataset, preset=preset, track="smoke"))
    run = Run.at_home(plan, Machine(Home(tmp_path), torch.device("cpu"), report=Report()))
    assert run._printed == printed
