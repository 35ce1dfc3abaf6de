"""The wheel that a user installs: complete, and usable where the source tree is not visible."""

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
    options = ("-q", "--no-deps", "--no-build-isolation", "-w", str(out))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True)
    return next(out.glob("*.whl"))


def test_every_module_and_data_file_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package, folder in (("gsnobench", "gsnobench"), ("gsnobench_plugins", "plugins")):
        files = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        shipped = (path for path in files if "__pycache__" not in path.parts)
        assert {f"{package}/{path.relative_to(ROOT / folder)}" for path in shipped} <= names
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
    # its own packages first, then the libraries of this environment without its editable installs
    (Path(inside.stdout.strip()) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    listed = subprocess.run(
        [python, "-m", "gsnobench", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    body = json.loads(listed.stdout)
    sound = {entry["name"] for entry in body["plugins"] if entry["problem"] is None}
    assert {"gsno", "darcy", "swe"} <= sound
    tracks = {track["name"] for track in body["tracks"]}
    assert tracks == {"smoke", "laptop", "workstation", "paper"}
    shown = subprocess.run(
        [python, "-m", "gsnobench", "show", "gsno", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert json.loads(shown.stdout)["kind"] == "model"
