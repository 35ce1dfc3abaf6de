"""Every open reading of the paper is a run of its own, on both presets of the printed operator."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import command
from study_engines import local_engine

from gsnobench.runs.request import Request
from gsnobench.studies.catalogue import Readings
from gsnobench.studies.readings import study

pytestmark = pytest.mark.usefixtures("untracked")


@pytest.mark.parametrize("base", ["compact", "paper"])
def test_every_reading_differs_from_the_preset_and_from_every_other(
    base: str, tmp_path: Path
) -> None:
    options = Readings(track="smoke", seeds="0", datasets="darcy,nse", base=base)
    asked = study(options, Request("", "", track="smoke"), local_engine(tmp_path))
    labels = {arm.point["change"] for arm in asked.arms}
    assert {"no GELU after the last layer", "R starts small", "two-layer lift"} <= labels
    assert {"step decay", "mean square as loss", "sigma of 2 edges"} <= labels
    keys = [arm.plans[0].spec.key for arm in asked.arms]
    assert len(set(keys)) == len(keys)
    assert ("6 padded steps" in labels) == (base == "compact")


@pytest.mark.slow
def test_the_readings_are_trained_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "study readings --datasets darcy --track smoke --seeds 0,1 --train.steps 2"
    ended = command(capsys, *words.split(), "--home", tmp_path, "--executor", "local", "--json")
    assert ended.code == 0, ended.err
    effects = ended.json["numbers"]["effects"]
    assert len(effects) >= 9 and all(entry["p_holm"] is not None for entry in effects[1:])
