"""Tutorials: their commands run one after the other, as a reader would type them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NEEDS = "# needs "  # first words of a block that needs a cluster


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks that run on any machine."""
    found = re.findall(r"```(sh|python)\n(.*?)```", page.read_text(), re.DOTALL)
    return [(language, text) for language, text in found if not text.startswith(NEEDS)]


def lines_of(language: str, text: str) -> list[list[str]]:
    """What is started: a line of a shell each, or a whole program."""
    if language == "python":
        return [[sys.executable, "-c", text]]
    whole = text.replace("\\\n", " ").splitlines()  # a backslash goes on with the next line
    commands = [shlex.split(line, comments=True) for line in whole]
    assert all(command[0] == "gsnobench" for command in commands), text
    return [[sys.executable, "-m", *command] for command in commands]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all tutorials, so that data are made once."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs_from_its_first_command_to_its_last(
    page: Path, home: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "GSNOBENCH_HOME": str(home), "COLUMNS": "100"}
    environment |= {"GSNOBENCH_TRACKING_URI": "none"}
    started = [line for block in blocks(page) for line in lines_of(*block)]
    assert started
    for line in started:
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(line[2:])}\n{done.stderr}"
        assert done.stdout.strip() or "--out" in line, f"{' '.join(line[2:])} printed nothing"


def test_the_tutorials_that_the_menu_promises_exist() -> None:
    assert {page.stem for page in PAGES} == {"cluster", "first-run", "reading-a-board", "sweep"}
