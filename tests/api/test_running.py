"""`gb.run` and what it returns: short to read, drawn on request, a typo is one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import gsnobench as gb
from gsnobench.data import Mesh
from gsnobench.records import RunResult

pytestmark = pytest.mark.usefixtures("untracked")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def trained_run(steady_file: Path, home: Path, **options: object) -> gb.Result:
    return gb.run(
        "gsno",
        steady_file,
        track="smoke",
        knobs={"train.steps": 5},
        home=home,
        device="cpu",
        **options,
    )


def test_a_misspelt_option_is_one_line(steady_file: Path) -> None:
    with pytest.raises(gb.ParamError, match="run: no option 'trak'; did you mean 'track'"):
        gb.run("gsno", steady_file, trak="smoke")
    with pytest.raises(gb.ParamError, match="bench: no option 'seed'; did you mean 'seeds'"):
        gb.bench("gsno", "darcy", seed=1)
    with pytest.raises(gb.ParamError, match="sweep: no option 'trial'; did you mean 'trials'"):
        gb.sweep("gsno", "darcy", trial=3)
    with pytest.raises(gb.ParamError, match="leaderboard: no option 'tasks'; did you mean 'task'"):
        gb.leaderboard("laptop", tasks="swe")


def test_every_public_name_loads_and_no_room_hides_one() -> None:
    for name in dir(gb):
        assert getattr(gb, name) is not None
    assert callable(gb.bench) and callable(gb.sweep) and callable(gb.run)


def test_a_notebook_shows_a_mistake_as_one_line() -> None:
    error = gb.ParamError("run: no option 'trak'")
    assert error._render_traceback_() == ["ParamError: run: no option 'trak'"]


def test_every_option_is_explained() -> None:
    """In `help()`: a line that begins with the name of the option."""
    for function in (gb.run, gb.bench, gb.sweep, gb.leaderboard):
        lines = [line.split()[:1] for line in (function.__doc__ or "").splitlines()]
        names = set(function.__annotations__) - {"return", "unknown"}
        assert not [name for name in names if [name] not in lines], function.__name__


def test_a_result_is_short_and_finds_its_pictures(
    steady_file: Path, tmp_path: Path, drawn: None
) -> None:
    result = trained_run(steady_file, tmp_path, floors=True)
    assert len(repr(result)) < 160 and f"{result.headline:.4g}" in repr(result)
    floor = min(result.floors, key=lambda floor: floor.headline)
    assert result.best_floor is floor
    html = result._repr_html_()
    assert f"the best floor, {floor.spec.model} ({floor.headline:.4g})" in html
    cases, curve = result.plot(), result.plot("curve")
    assert cases.size != curve.size and cases._repr_png_()[:4] == b"\x89PNG"
    with pytest.raises(gb.ParamError, match="no picture 'curves'; did you mean 'curve'"):
        result.plot("curves")
    assert {point["step"] for point in result.curve} >= {5}


def test_a_result_is_the_stored_one(steady_file: Path, home: Path) -> None:
    result = trained_run(steady_file, home)
    stored = RunResult.load(result.folder.result)
    assert json.loads(result.to_json()) == json.loads(stored.to_json())
    assert result.spec == stored.spec


def test_a_floor_has_no_picture(steady_file: Path, home: Path, drawn: None) -> None:
    result = gb.run("mean", steady_file, track="smoke", home=home, device="cpu")
    with pytest.raises(gb.RunError, match="has no picture"):
        result.plot()


def test_a_trained_run_draws_any_of_its_samples(steady_file: Path, home: Path) -> None:
    trained = gb.load(trained_run(steady_file, home).spec.short, home=home, device="cpu")
    assert len(repr(trained)) < 160 and "parameters" in trained._repr_html_()
    first, last = (np.asarray(trained.plot(sample).convert("RGB")) for sample in (0, -1))
    assert first.shape == last.shape and (first != last).any()
    with pytest.raises(gb.ParamError, match="sample: 99 of 8 in test"):
        trained.plot(99)
    with pytest.raises(gb.ParamError, match="field: no quantity"):
        trained.plot(0, field="nothing")


def test_mesh_task_samples_and_batch_are_short(steady_file: Path, home: Path) -> None:
    trained = gb.load(trained_run(steady_file, home).spec.short, home=home, device="cpu")
    samples = trained.samples("test")
    batch, _ = trained.loader(samples).batch(torch.tensor([0, 1]), torch.tensor([0, 0]), 1)
    for shown in (samples, samples.task, samples.mesh(0), batch, trained.plan.spec):
        assert len(repr(shown)) < 200, repr(shown)
    assert f"{samples.mesh(0).size} nodes" in repr(samples.mesh(0))
    for shown in (samples.task, samples.mesh(0), batch):
        assert shown._repr_html_().startswith("<div><b>")
    assert "no cells" in repr(Mesh(np.zeros((3, 2))))
    assert str(tuple(batch.static.shape)) in batch._repr_html_()
