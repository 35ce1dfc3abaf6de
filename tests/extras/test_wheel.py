"""The wheel a stranger installs: complete, and at work in an environment that does not see the
source tree.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SHIPPED = ("gsnobench", "plugins", "pyproject.toml", "README.md", "LICENSE", "registry.toml")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a left-over build folder would ship deleted plugins again."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SHIPPED:
        item = ROOT / name
        if item.is_dir():
            shutil.copytree(item, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(item, source / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(source),
    ]
    subprocess.run(command, check=True)
    return next(out.glob("*.whl"))


def test_every_module_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"gsnobench/{path.relative_to(ROOT / 'gsnobench')}"
        for path in (ROOT / "gsnobench").rglob("*.py")
    }
    expected |= {
        f"gsnobench_plugins/{path.relative_to(ROOT / 'plugins')}"
        for path in (ROOT / "plugins").rglob("*.py")
    }
    assert expected <= names
    assert any(name.endswith("share/gsnobench/registry.toml") for name in names)


def test_an_installed_wheel_lists_and_shows_its_plugins(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True
    )
    inside = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    # its own packages first, then the libraries of this environment, without the editable install
    # of the source tree
    (Path(inside.stdout.strip()) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    listed = subprocess.run(
        [python, "-m", "gsnobench", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    body = json.loads(listed.stdout)
    assert {"gsno", "darcy", "swe"} <= {
        one["name"] for one in body["plugins"] if one["problem"] is None
    }
    assert {one["name"] for one in body["tracks"]} == {"smoke", "laptop", "workstation", "paper"}
    shown = subprocess.run(
        [python, "-m", "gsnobench", "show", "gsno", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert json.loads(shown.stdout)["kind"] == "model"
