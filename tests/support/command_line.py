"""The command line called in this process, and the folders of runs made with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gsnobench.cli.app import main
from gsnobench.home import Home
from gsnobench.records import RunResult


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
        lines = _without_progress(self.err)
        assert self.code == 2 and len(lines) == 1 and self.out == "", self
        return lines[0]


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    """`gsnobench ARGUMENTS` in this process, untracked."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSNOBENCH_TRACKING_URI", "none")
        code = _exit_code(*arguments)
    printed = capsys.readouterr()
    return Ended(code, printed.out, printed.err)


def run_folder(model: str, dataset: Path | str, home: Path, *options: str) -> Path:
    """The folder of a short run with its bundle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSNOBENCH_TRACKING_URI", "none")
        code = _exit_code(
            *("run", "--model", model, "--dataset", dataset, "--track", "smoke", "--no-floors"),
            *("--device", "cpu", "--home", home, "--jobs", "1", "--bundle", *options),
        )
    assert code == 0
    bundled = [folder for folder in Home(home).run_folders() if folder.bundle.exists()]
    (own,) = [folder for folder in bundled if RunResult.load(folder.result).spec.model == model]
    return own.path


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
    capsys: pytest.CaptureFixture[str], *arguments: str, home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: it saves the import of torch for each mistake."""
    with pytest.MonkeyPatch.context() as patch:
        if home is not None:
            patch.setenv("GSNOBENCH_HOME", str(home))
        code = _exit_code(*arguments)
    printed = capsys.readouterr()
    return subprocess.CompletedProcess(list(arguments), code, printed.out, printed.err)


def the_mistake(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line a mistake must be."""
    lines = _without_progress(ended.stderr)
    assert ended.returncode == 2, ended.stderr
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("gsnobench: ")
    assert "Traceback" not in ended.stderr
    return lines[0]


def _exit_code(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gsnobench", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0)


def _without_progress(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("- ", "  "))]
