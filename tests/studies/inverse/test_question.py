"""The study end to end: judged, refused where chains have not mixed, resumed to the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Ended, command

from gsnobench.studies.inverse.inversion import RECIPE

pytestmark = pytest.mark.usefixtures("untracked")
WORDS = "study inverse --dataset darcy --models ridge --track smoke --sensors 20 --noise 0.05"
SHORT = "--chains 4 --burn 8 --draws 12 --problems 2 --references 1 --executor local --json"


def study(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> Ended:
    return command(capsys, *WORDS.split(), *SHORT.split(), "--home", home, *words)


def without_times(document: Any) -> Any:
    """A document without CPU-seconds and what is divided by them."""
    if isinstance(document, dict):
        timed = ("cpu_s", "per_s", "costs", "tables", "folder")
        return {key: without_times(v) for key, v in document.items() if key not in timed}
    return [without_times(v) for v in document] if isinstance(document, list) else document


def test_a_study_judges_every_sampler_and_resumes_to_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = study(capsys, tmp_path, "--samplers", "pcn,hmc", "--sbc", "2")
    assert ended.code == 0, ended.err
    verdicts = {own["sampler"]: own for own in ended.json["numbers"]["verdicts"]}
    assert list(verdicts) == ["solver", "pcn", "hmc", "hmc, repaired"]
    assert verdicts["pcn"]["problems"] == 2 and verdicts["solver"]["problems"] == 1
    assert verdicts["hmc"]["verdict"] == "refused, 0 of 2 mixed"  # 48 draws are not enough
    assert "did not, so nothing follows from them" in ended.json["sentence"]
    for label in ("pcn", "hmc"):
        assert verdicts[label]["judged"] == 40 and verdicts[label]["error"] < 0.4
        assert verdicts[label]["offset"] > 0 and verdicts[label]["spread"] > 0
    calibration = ended.json["numbers"]["calibration"]
    assert [own["judged"] for own in calibration.values()] == [40, 40]
    assert Path(ended.json["folder"], "figures", "inverse.png").stat().st_size > 20_000
    pieces = sorted((tmp_path / "cache" / RECIPE).glob("*.safetensors"))
    assert len(pieces) == 1 + 2 * 3 + 2 * 2
    for piece in pieces[::2]:  # as if it had been killed before these
        piece.unlink()
    again = study(capsys, tmp_path, "--samplers", "pcn,hmc", "--sbc", "2")
    assert without_times(again.json) == without_times(ended.json)
    assert len(list((tmp_path / "cache" / RECIPE).glob("*.safetensors"))) == len(pieces)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--samplers nuts", "samplers: 'nuts' is unknown"),
        ("--samplers printed", "samplers: expected at least one of rwm, pcn"),
        ("--sensors 9999", "sensors: 9999 is out of range"),
        ("--noise 0", "noise: 0.0 is out of range"),
        ("--chains 1", "chains: 1 is out of range"),
        ("--dataset darcy_threshold", "darcy_threshold: its input jumps, so there is no gradient"),
        ("--dataset pipe", "pipe: its dataset declares no inverse problem"),
    ],
)
def test_a_wrong_option_is_one_line(
    words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = study(capsys, tmp_path, *words.split())
    assert ended.mistake.startswith(f"gsnobench: {line}"), ended.mistake
    assert not list(tmp_path.rglob("*.nc"))


def test_a_field_with_jumps_is_sampled_without_gradients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--dataset darcy_threshold --law prior --samplers rwm,pcn --problems 1 --references 0"
    ended = study(capsys, tmp_path, *words.split())
    assert ended.code == 0, ended.err
    samplers = [own["sampler"] for own in ended.json["numbers"]["verdicts"]]
    assert samplers == ["rwm", "pcn", "pcn, repaired"]
