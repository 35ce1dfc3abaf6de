"""The tutorial notebook runs from its first cell to its last, and is kept without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first-run.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untracked: None, drawn: None
) -> None:
    monkeypatch.setenv("GSNOBENCH_HOME", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=500).execute()  # an unexpected exception ends it
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}) for output in outputs]
    assert sum("image/png" in data for data in shown) == 2
    html = "".join(str(data.get("text/html", "")) for data in shown)
    assert "gsno@plus" in html and "beside floors" in html  # a board, and a result
    assert "training gsno@plus on darcy" in html  # the progress that stays
    (mistake,) = [output for output in outputs if output.output_type == "error"]
    (line,) = mistake.traceback
    assert line.startswith("ParamError: run: no option 'trak'; did you mean 'track'")
