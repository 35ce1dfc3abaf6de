"""The command line as a person meets it: quick help, mistakes of one line, one JSON document."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path

import netCDF4
import pytest
import typer
from command_line import call_here, the_mistake

import gsnobench
from gsnobench.cli.app import FILES, GROUPS, make_app

HEAVY = (
    *("numpy", "torch", "scipy", "numba", "xarray", "netCDF4"),
    *("mlflow", "optuna", "matplotlib", "skfem"),
)
HOMELY = ("run", "show", "predict")  # commands that take --home
TYPOS = (
    "run --model gsno",
    "run --model gsnoo --dataset swe",
    "run --model gsno --dataset swee",
    "run --model gsno --dataset swe --track desktop",
    "run --model gsno --dataset swe --widht 3",
    "sweep --model gsnoo --dataset swe",
    "study sensitivity",
    "bench --models gsno,gsnoo",
    "status --datasets swee",
    "data generate swee",
    "show gsnoo",
    "check gsnoo",
)
pytestmark = pytest.mark.usefixtures("untracked")


def test_every_file_offers_the_commands_that_the_table_names() -> None:
    for file, commands in FILES.items():
        app = import_module(f"gsnobench.cli.{file}").app
        assert tuple(typer.main.get_group(app).commands) == commands
    assert tuple(typer.main.get_group(make_app()).commands) == tuple(chain(*FILES.values()))


@pytest.mark.parametrize("words", ["--help", "bench --help", "study sensitivity --help"])
def test_help_is_the_same_whether_one_file_or_all_are_loaded(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = call_here(capsys, *words.split()).stdout
    assert text.startswith("Usage: gsnobench ")
    make_app()(words.split(), prog_name="gsnobench", standalone_mode=False)
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("words", [[], ["data"], ["leaderboard"]])
def test_a_group_without_a_command_shows_its_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bare, asked = call_here(capsys, *words), call_here(capsys, *words, "--help")
    assert (bare.returncode, asked.returncode) == (0, 0)
    assert bare.stdout == asked.stdout


def test_the_help_has_every_command_under_one_heading() -> None:
    assert sorted(chain(*GROUPS.values())) == sorted(chain(*FILES.values()))


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call_here(capsys, "--version")
    assert (ended.returncode, ended.stdout) == (0, f"gsnobench {gsnobench.__version__}\n")


LIGHT = ("--help", "list", "list models --json", "run --help", "bench --help", "doctor --help")
# one process imports the command line; each command then runs in a fork of it, alone
FORKS = """
import json, os, sys
from gsnobench.cli import main
lines, packages = map(json.loads, sys.argv[1:])
for line in lines:
    if os.fork():
        os.wait()
        continue
    sys.argv = ["gsnobench", *line.split()]
    sys.stdout = sys.stderr
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    heavy = [name for name in packages if name in sys.modules]
    print(json.dumps([line, code, heavy]), file=sys.__stdout__, flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, tuple[int, list[str]]]:
    """The exit code of each command and the heavy packages that it imports."""
    words = json.dumps([*LIGHT, *TYPOS])
    command = [sys.executable, "-c", FORKS, words, json.dumps(HEAVY)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return {words: (code, heavy) for words, code, heavy in lines}


@pytest.mark.parametrize("words", LIGHT)
def test_help_and_list_import_nothing_heavy(
    words: str, imported: dict[str, tuple[int, list[str]]]
) -> None:
    assert imported[words] == (0, [])


@pytest.mark.parametrize("words", TYPOS)
def test_a_typo_imports_nothing_heavy(
    words: str, imported: dict[str, tuple[int, list[str]]]
) -> None:
    assert imported[words] == (2, [])


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("run --model gsnoo --dataset darcy", "did you mean 'gsno'?"),
        ("run --model gsno --dataset darci", "did you mean 'darcy'?"),
        ("run --model gsno --dataset darcy_treshold", "did you mean 'darcy_threshold'?"),
        ("run --model gsno --dataset darcy --track desktop", "track: 'desktop' is unknown"),
        ("run --model gsno --dataset darcy --preset best", "no preset 'best'"),
        ("run --model gsno --dataset darcy --model.k_z 3", "did you mean 'k_"),
        ("run --model gsno --dataset darcy --model.k_s many", "not a whole number"),
        ("run --model gsno --dataset darcy --widht 3", "--widht: unknown option"),
        ("run --model gsno --dataset darcy --model.k_s", "needs a value"),
        ("run --model gsno --dataset swe --t-in 30 --t-out 30", "51 frames"),
        ("run --model gsno --dataset swe@30-30", "51"),
        ("run --model gsno --dataset darcy --data.resolution 777", "known: 298"),
        ("run --model gsno --dataset darcy --device gpu9", "is not a device"),
        ("run --model gsno --dataset nowhere.nc", "no such file"),
        ("run --model gsno", "needs --model and --dataset"),
        ("run --model gsno --dataset darcy --resume", "it has not been started"),
        ("show gsnoo", "did you mean 'gsno'?"),
        ("predict 0000 --mesh 300", "no such run"),
        ("predict 0000", "either --inputs"),
        ("predict 0000 --mesh 300 --split tset", "did you mean 'test'?"),
        ("study sensitivity", "needs --dataset"),
        ("bench --models gsnoo", "did you mean 'gsno'?"),
        ("bench --datasets darci", "did you mean 'darcy'?"),
        ("bench --seeds one", "seeds: 'one' is not a whole number"),
        ("data generate darci", "did you mean 'darcy'?"),
        ("data generate darcy --model.k_s 3", "data have only --data.NAME knobs"),
        ("lst", "lst"),
        ("check nothing", "nothing"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    words: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = words.split()
    home = ["--home", str(tmp_path)] if arguments[0] in HOMELY else []
    assert part in the_mistake(call_here(capsys, *arguments, *home))
    assert not list(tmp_path.rglob("*.json"))


def test_an_unusable_home_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    words = ["run", "--model", "gsno", "--dataset", "darcy", "--track", "smoke"]
    ended = call_here(capsys, *words, home=tmp_path / "file" / "home")
    assert "cannot be used as home" in the_mistake(ended)


def test_truncated_and_foreign_files_are_one_line(
    steady_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = steady_file.read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.nc").write_text("hello")
    with netCDF4.Dataset(tmp_path / "foreign.nc", "w") as file:
        file.createDimension("x", 3)
    for name in ("cut.nc", "text.nc", "foreign.nc"):
        words = ["run", "--model", "gsno", "--dataset", str(tmp_path / name), "--track", "smoke"]
        ended = call_here(capfd, *words, home=tmp_path / "home")  # HDF5 would print past Python
        assert name in the_mistake(ended)
        assert not list((tmp_path / "home").glob("runs/*"))
