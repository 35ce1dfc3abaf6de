"""Finished runs that tests of results share, and the command line called in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gsnobench.cli.app import main

SHORT = "--track smoke --no-floors --device cpu --jobs 1 --bundle"  # of a run


class Ended(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def mistake(self) -> str:
        """The one line of a user's mistake; lines of progress do not count."""
        lines = [line for line in self.err.splitlines() if not line.startswith(("- ", "  "))]
        assert self.code == 2 and len(lines) == 1 and self.out == "", self
        return lines[0]


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    """`gsnobench ARGUMENTS`, here, untracked."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSNOBENCH_TRACKING_URI", "none")
        patch.setattr(sys, "argv", ["gsnobench", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    printed = capsys.readouterr()
    return Ended(int(stop.value.code or 0), printed.out, printed.err)


def run_folder(model: str, dataset: Path | str, home: Path, *options: str) -> Path:
    """The folder of a short run with its bundle."""
    request = ["--model", model, "--dataset", str(dataset), "--home", str(home)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSNOBENCH_TRACKING_URI", "none")
        patch.setattr(sys, "argv", ["gsnobench", "run", *request, *SHORT.split(), *options])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    (bundle,) = [
        path
        for path in home.glob("runs/*/bundle.zip")
        if f'"model":"{model}"' in _result(path.parent)
    ]
    return bundle.parent


def _result(folder: Path) -> str:
    return (folder / "result.json").read_text()


def call(
    *arguments: str, home: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    variables = {**os.environ, **environment} | ({"GSNOBENCH_HOME": str(home)} if home else {})
    return subprocess.run(
        [sys.executable, "-m", "gsnobench", *arguments],
        capture_output=True,
        text=True,
        env=variables,
    )


def call_here(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: an import of torch less for each mistake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gsnobench", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
    printed = capsys.readouterr()
    return subprocess.CompletedProcess(
        list(arguments), int(stop.value.code or 0), printed.out, printed.err
    )


def the_mistake(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line a mistake must be."""
    lines = [line for line in ended.stderr.splitlines() if not line.startswith(("- ", "  "))]
    assert ended.returncode == 2, ended.stderr
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("gsnobench: ")
    assert "Traceback" not in ended.stderr
    return lines[0]
