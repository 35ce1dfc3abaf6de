"""Budgets become steps that are counted once; closed forms are lines that rows have to cross."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import command
from made_studies import made_row

from gsnobench.studies.budget import conclude

pytestmark = pytest.mark.usefixtures("untracked")


def test_the_sentence_says_from_which_budget_on_all_seeds_beat_the_best_closed_form(
    tmp_path: Path,
) -> None:
    errors = {30: (0.04, 0.05), 60: (0.02, 0.031), 120: (0.010, 0.012)}
    rows = [made_row({"row": "net", "cpu_s": cpu_s}, own) for cpu_s, own in errors.items()]
    rows += [made_row({"row": "slow", "cpu_s": cpu_s}, (0.06, 0.07)) for cpu_s in errors]
    lucky = {30: (0.02, 0.02), 60: (0.02, 0.04), 120: (0.02, 0.02)}  # not from 30 s on
    rows += [made_row({"row": "lucky", "cpu_s": cpu_s}, own) for cpu_s, own in lucky.items()]
    rows += [made_row({"row": name}, [error], steps=0) for name, error in FLOORS.items()]
    findings = conclude("toy", rows)
    assert findings.sentence.endswith(
        "Better than ridge (0.03): net from 120 s on, slow never, lucky from 120 s on."
    )
    assert findings.numbers["closed_forms"] == FLOORS
    titles = [table.title.partition(": ")[2] for table in findings.tables]
    assert titles[0].startswith("test error") and titles[-1] == "closed forms"
    findings.draw(tmp_path / "budget.png")
    assert (tmp_path / "budget.png").read_bytes().startswith(b"\x89PNG")


FLOORS = {"ridge": 0.03, "mean": 0.2}


@pytest.mark.slow
def test_steps_are_counted_once_and_grow_with_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "study budget --dataset darcy --models deeponet,ridge --cpu 1,2 --track smoke --seeds 0"
    options = ("--home", tmp_path, "--executor", "local", "--json")
    first = command(capsys, *words.split(), *options)
    assert first.code == 0, first.err
    steps = [run["steps"] for run in first.json["runs"]]
    assert steps[1] == pytest.approx(2 * steps[0], abs=1) and steps[2] == 0
    again = command(capsys, *words.split(), *options)
    assert "counting" not in again.err and again.json["tables"] == first.json["tables"]
    counts = json.loads((tmp_path / "studies" / "counts.json").read_text())
    assert len(counts) == 1  # of the network; the closed form has no steps
