"""The wheel that a user installs: complete, and usable where the source tree is not visible."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import venv
import zipfile
from itertools import islice
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from gsnobench.api.boards import installation
from gsnobench.boards.build import read_tracks
from gsnobench.home import Home
from gsnobench.tracking.address import URI_VARIABLES

ROOT = Path(__file__).resolve().parents[2]

SHIPPED = ("gsnobench", "plugins", "pyproject.toml", "README.md", "LICENSE", "registry.toml")
RESULTS = Path("leaderboards") / "results"
CHROMIUM = os.environ.get("GSNOBENCH_CHROMIUM") or shutil.which("chromium")


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
    shutil.copytree(ROOT / RESULTS, source / RESULTS)
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
    results = {path.relative_to(ROOT / RESULTS) for path in (ROOT / RESULTS).rglob("*.json")}
    assert {f"gsnobench/boards/results/{path.as_posix()}" for path in results} <= names


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with the libraries of this one."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
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
    return python


def test_an_installed_wheel_shows_the_boards_from_any_folder(python: Path, tmp_path: Path) -> None:
    options = {"capture_output": True, "text": True, "cwd": tmp_path}
    words = ["leaderboard", "show", "--task", "darcy_threshold", "--home", "home"]
    shown = subprocess.run([python, "-m", "gsnobench", *words], **options)
    assert shown.returncode == 0, shown.stderr
    tracks, _ = read_tracks([ROOT / RESULTS], installation(Home(tmp_path / "home")))
    (track,) = [track for track in tracks if track.name == "laptop"]
    (board,) = [board for board in track.boards if board.slug == "darcy_threshold"]
    assert all(row.name in shown.stdout for row in board.compared)
    code = (
        "import gsnobench as gb, sys; print(gb.__file__);"
        "print(gb.leaderboard('laptop', task='swe', home='home')['error'].idxmin())"
    )
    table = subprocess.run([python, "-c", code], **options)
    assert table.returncode == 0, table.stderr
    file, best = table.stdout.split()
    assert not Path(file).is_relative_to(ROOT)
    (board,) = [board for board in track.main if board.task.startswith("swe@")]
    assert best == board.compared[0].name


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install it or set GSNOBENCH_CHROMIUM")
def test_ui_of_an_installed_wheel_leads_to_an_overview_with_errors(
    python: Path, tmp_path: Path
) -> None:
    """One click, the first printed address, on a fresh home and far from the source tree."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "gsnobench", "ui", "--port", str(port), "--home", "home"]
    environment = {name: value for name, value in os.environ.items() if name not in URI_VARIABLES}
    with (
        subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        ) as process,
        sync_playwright() as playwright,
    ):
        try:
            assert process.stdout is not None
            (address,) = islice((line for line in process.stdout if line.startswith("overview")), 1)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(address.split()[-1])
            frame = page.frame_locator("iframe")
            expect(frame.locator(".card").first).to_contain_text("leads", timeout=120_000)
            error = frame.locator("tr[data-name='gsno@plus'] td .lowest").first
            error.scroll_into_view_if_needed()
            expect(error).to_be_visible()
            assert float(error.inner_text()) > 0
            browser.close()
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0, "ended in the middle of writing boards"


def test_an_installed_wheel_lists_and_shows_its_plugins(python: Path, tmp_path: Path) -> None:
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
