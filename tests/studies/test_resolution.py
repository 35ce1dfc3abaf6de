"""Meshes are compared on their own truth and on the finest one, with the truth's own error."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import command

from gsnobench.records import RunResult

pytestmark = pytest.mark.usefixtures("untracked")
WORDS = "study resolution --dataset darcy --models gsno@compact,ridge --track smoke --seeds 0"


def test_errors_on_the_finest_mesh_are_above_the_floor_of_the_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--train.steps", "2", "--home", tmp_path, "--executor", "local", "--json")
    ended = command(capsys, *WORDS.split(), "--meshes", "298,600", *options)
    assert ended.code == 0, ended.err
    numbers = ended.json["numbers"]
    for row in ("gsno@compact", "ridge@default"):
        own, finest = numbers["errors"][row], numbers["on_finest"][row]
        assert finest["600"][0] == pytest.approx(own["600"]["0"], rel=1e-4)  # the same mesh
        assert finest["298"][0] != pytest.approx(own["298"]["0"], rel=1e-4)
    floor = numbers["truth_on_finest"]
    assert floor["600"] < 1e-6 < 1e-3 < floor["298"] < 0.2
    shown = ended.json["tables"][-1]["rows"][-1]
    assert shown == ["coarse truth, interpolated", f"{floor['298']:.3g}", "0"]
    assert Path(ended.json["folder"], "figures", "resolution.png").exists()
    results = [RunResult.load(path) for path in (tmp_path / "results").rglob("*.json")]
    changed = {result.spec.resolution: result.changed for result in results if result.changed}
    assert changed[600]["data.resolution"] == 600  # no row of the board of 298 nodes


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "study resolution: needs --meshes"),
        ("--meshes 298,299", "data.resolution: darcy has no mesh of 299 nodes"),
        ("--meshes 298", "meshes: '298' has fewer than two different numbers"),
        ("--meshes 298,600 --data.resolution 298", "data.resolution: the study varies the mesh"),
    ],
)
def test_a_wrong_option_is_one_line(
    words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = command(capsys, *WORDS.split(), *words.split(), "--home", tmp_path)
    assert ended.mistake.startswith(f"gsnobench: {line}"), ended.mistake
