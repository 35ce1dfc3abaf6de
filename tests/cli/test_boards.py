"""`gsnobench leaderboard`: what this installation knows beside the result files."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_results import made_result, save

from gsnobench.cli.boards import installation, show_boards
from gsnobench.home import Home
from gsnobench.plugins import listed
from gsnobench.runs.source import source_digest


def test_an_installation_knows_the_code_of_every_model_and_dataset(tmp_path: Path) -> None:
    here = installation(Home(tmp_path))
    names = {(entry.kind, entry.name) for kind in ("model", "dataset") for entry in listed(kind)}
    assert set(here.code) == names and here.results == tmp_path / "results"
    assert here.code["model", "gsno"] == source_digest("model", "gsno")


def test_code_is_digested_without_importing_it() -> None:
    """`leaderboard show` would else wait seconds for torch."""
    code = (
        "import sys; from gsnobench.runs.source import source_digest; "
        "print(source_digest('model', 'coral'), 'torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [source_digest("model", "coral"), "False"]


def test_a_row_of_an_edited_plugin_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    current = {"model": source_digest("model", "gsno")}
    save(tmp_path / "results", replace(made_result("gsno", task="own"), code=current))
    arguments = {"task": "own", "results": [tmp_path / "results"], "home": tmp_path}
    assert show_boards(**arguments) == 0 and "code changed" not in capsys.readouterr().out
    save(tmp_path / "results", replace(made_result("gsno", task="own"), code={"model": "older"}))
    assert show_boards(**arguments) == 0
    assert "gsno@compact: code changed\n" in capsys.readouterr().out
    assert show_boards(**arguments, wide=True) == 0
    words = "code changed: gsno since the results were computed"
    assert words in capsys.readouterr().out
