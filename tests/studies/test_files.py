"""A study takes a data file where it has a meaning, and says in one line where it has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import command
from study_engines import local_engine

import gsnobench as gb
from gsnobench.datasets.store import open_file
from gsnobench.runs.plan import make_plan, plan_of_spec
from gsnobench.runs.request import Request
from gsnobench.studies import ablation, readings, sensitivity
from gsnobench.studies.catalogue import STUDIES, Ablation, Readings, Sensitivity
from gsnobench.studies.planning import Planner

pytestmark = pytest.mark.usefixtures("untracked")

ENDING = ("--track", "smoke", "--executor", "local", "--json")


def test_error_over_the_training_samples_of_a_file(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("study", "data", "--dataset", steady_file, "--models", "ridge,mean")
    ended = command(capsys, *words, "--samples", "4,8", *ENDING, "--home", tmp_path)
    assert ended.code == 0, ended.err
    runs = ended.json["runs"]
    assert [run["samples"] for run in runs] == [4, 8, 4, 8]
    assert runs[0]["errors"] != runs[1]["errors"]  # other samples, not only another label
    assert runs[0]["changed"] == {"data.samples": 4}  # such a run is no row of a board


def test_error_over_the_window_of_a_file(
    unsteady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("study", "time", "--dataset", unsteady_file, "--models", "persistence")
    ended = command(capsys, *words, "--t-in", "1,2", *ENDING, "--home", tmp_path)
    assert ended.code == 0, ended.err
    tasks = [run["task"] for run in ended.json["runs"]]
    assert [task.partition("@")[2].partition("-")[0] for task in tasks] == ["1", "2"]
    common = ended.json["numbers"]["common"]["persistence@default"]
    assert common["1"] != common["2"]


def test_a_steady_file_has_no_window(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("study", "time", "--dataset", steady_file, "--models", "mean", "--t-in", "1,2")
    assert "has no open window" in command(capsys, *words, *ENDING, "--home", tmp_path).mistake


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (ablation, Ablation(track="smoke", seeds="0", base="compact")),
        (readings, Readings(track="smoke", seeds="0", base="compact")),
    ],
)
def test_changes_of_a_model_on_a_file_are_called_after_its_task(
    module: object, options: Ablation | Readings, steady_file: Path, tmp_path: Path
) -> None:
    chosen = type(options).make({**options.to_dict(), "datasets": str(steady_file)}, label="")
    template = Request("", "", track="smoke", knobs={"train.steps": "2"})
    study = module.study(chosen, template, local_engine(tmp_path))  # type: ignore[attr-defined]
    with open_file(steady_file) as opened:
        name, content = opened.task.id, opened.content_hash
    assert len(study.arms) > 2 and {arm.point["task"] for arm in study.arms} == {name}
    assert {plan.spec.source for _, plan in study.plans()} == {content}
    assert name in study.subject and "/" not in study.subject


def test_two_files_of_one_task_are_not_mixed(steady_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.nc"
    other.write_bytes(steady_file.read_bytes())
    template = Request("", "", track="smoke")
    planner = Planner("ablation", Ablation(), template, local_engine(tmp_path))
    with pytest.raises(gb.ParamError, match="two of them hold the task"):
        planner.datasets(f"{steady_file},{other}")
    assert planner.datasets(f"darcy,{other}") == ["darcy", str(other)]


def test_two_files_of_one_task_have_two_folders(tmp_path: Path) -> None:
    template = Request("", "", track="smoke")
    planner = Planner("data", STUDIES["data"](), template, local_engine(tmp_path))  # type: ignore[arg-type]
    assert planner.subject("mine", source="abc") != planner.subject("mine", source="def")
    assert planner.subject("mine") == "mine-laptop"


def test_the_two_central_knobs_on_a_file(unsteady_file: Path, tmp_path: Path) -> None:
    options = Sensitivity(track="smoke", seeds="0", dataset=str(unsteady_file))
    template = Request("", "", track="smoke", knobs={"train.steps": "2"})
    study = sensitivity.study(options, template, local_engine(tmp_path))
    assert len(study.arms) == 10


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("resolution --models ridge --meshes 100,200 --dataset", "a file has one"),
        ("transfer --models ridge --test 200 --dataset", "a file has one"),
        ("cost --datasets", "makes itself"),
        ("inverse --models ridge --dataset", "the prior and the solver"),
    ],
)
@pytest.mark.parametrize("data", ["mine.nc", "pipe_official"])
def test_what_needs_a_solver_refuses_files(
    words: str, reason: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake = command(capsys, "study", *words.split(), data, "--home", tmp_path).mistake
    assert f"{data} is a file" in mistake and reason in mistake


def test_fewer_samples_of_a_file_are_the_first_ones(steady_file: Path, tmp_path: Path) -> None:
    plan = make_plan(Request("mean", str(steady_file), track="smoke", samples=3))
    with open_file(steady_file) as whole, open_file(steady_file, plan.task) as opened:
        few, all_ = opened.read("train"), whole.read("train")
        assert len(few) == 3 < len(all_) and len(opened.read("test")) == len(whole.read("test"))
        assert (few.frames[:] == all_.frames[:3]).all()
        assert "train" not in opened.task.split_hashes and "test" in opened.task.split_hashes
    assert plan.spec.key != make_plan(Request("mean", str(steady_file), track="smoke")).spec.key


def test_another_process_takes_the_same_samples_of_a_file(
    steady_file: Path, tmp_path: Path
) -> None:
    from gsnobench.registry import read_registry, remember_file

    engine = local_engine(tmp_path)
    plan = make_plan(Request("mean", str(steady_file), track="smoke", samples=3))
    remember_file(plan.spec.source, steady_file, engine.home)
    again = plan_of_spec(plan.spec, read_registry(home=engine.home))
    assert again.task.sizes["train"] == 3


@pytest.mark.parametrize("wrong", [{"samples": 10**6}, {"samples": 0}, {"resolution": 7}])
def test_sizes_that_a_file_does_not_have_are_refused(
    steady_file: Path, wrong: dict[str, int]
) -> None:
    with pytest.raises(gb.ParamError, match="choose fewer|one mesh size"):
        make_plan(Request("mean", str(steady_file), track="smoke", **wrong))  # type: ignore[arg-type]
