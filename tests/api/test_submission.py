"""`gsnobench submit`: checked results in their places, or nothing at all."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import command, run_folder
from fake_results import made_result

from gsnobench.boards.evidence import read_evidence
from gsnobench.records import RunResult, evidence_path

pytestmark = pytest.mark.usefixtures("untracked")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run(steady_file: Path, home: Path) -> Path:
    """The folder of a finished run with its picture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GSNOBENCH_PICTURES")
        return run_folder("gsno", steady_file, home, "--train.steps", "5")


def test_a_result_gets_its_place_and_the_commands_work(
    run: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaderboards" / "results").mkdir(parents=True)
    ended = command(capsys, "submit", run.name, "--home", home, "--json")
    assert ended.code == 0
    result = RunResult.load(run / "result.json")
    path = evidence_path(Path("leaderboards/results"), result.spec)
    assert ended.json["files"] == [str(path), str(path.with_suffix(".png"))]
    evidence = read_evidence([tmp_path / "leaderboards" / "results"])
    assert [entry.key for entry in evidence.entries] == [result.spec.key]
    assert not evidence.problems
    assert any("1 of 3 seeds" in note for note in ended.json["notes"])
    assert any("a variant" in note for note in ended.json["notes"])
    subprocess.run(["git", "init", "-q"], check=True)
    for line in ended.json["commands"]:
        if line.startswith(("git switch", "git add leaderboards/results")):
            subprocess.run(shlex.split(line), check=True)
    staged = subprocess.run(["git", "diff", "--cached", "--name-only"], capture_output=True)
    assert set(staged.stdout.decode().split()) == set(ended.json["files"])
    again = command(capsys, "submit", run.name, "--home", home)
    assert again.code == 0 and "To send them:" in again.out


def test_outside_a_clone_a_folder_is_needed(
    run: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = command(capsys, "submit", run.name, "--home", home)
    assert "name a folder with --to" in ended.mistake
    ended = command(capsys, "submit", run.name, "--home", home, "--to", "sent", "--json")
    assert ended.code == 0 and all(Path(file).is_file() for file in ended.json["files"])


def test_nothing_is_written_if_one_result_is_refused(
    run: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = RunResult.load(run / "result.json")
    body = json.loads(sound.to_json())
    body["scores"]["test"]["headline"]["rel_l2"] /= 2
    edited = tmp_path / f"{sound.spec.short}.json"
    edited.write_text(json.dumps(body))
    failed = made_result("gsno", task="own")
    failed = replace(failed, status="failed", reason="memory", scores={}, samples={})
    failed.save(tmp_path / f"{failed.spec.short}.json")
    for refused in (edited, tmp_path / f"{failed.spec.short}.json", tmp_path / "nothing.json"):
        words = ("submit", run.name, refused, "--home", home, "--to", tmp_path / "sent")
        assert str(refused) in command(capsys, *words).mistake
        assert not (tmp_path / "sent").exists()


def test_another_result_of_the_same_run_is_not_overwritten(
    run: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = RunResult.load(run / "result.json")
    other = replace(sound, costs={**sound.costs, "train_cpu_s": 0.5})
    path = evidence_path(tmp_path, sound.spec)
    other.save(path)
    ended = command(capsys, "submit", run.name, "--home", home, "--to", tmp_path)
    assert "holds another result of the same run" in ended.mistake
    assert RunResult.load(path).costs["train_cpu_s"] == 0.5
