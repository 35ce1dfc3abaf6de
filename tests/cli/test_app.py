"""The command line as a person meets it: quick help, one-line mistakes with exit code 2, one JSON
document on request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import netCDF4
import pytest
from command_line import call_here, the_mistake

HEAVY = ("numpy", "torch", "mlflow", "xarray", "optuna", "matplotlib", "scipy", "numba", "skfem")
HOMELY = ("run", "show", "predict")  # verbs that take --home
pytestmark = pytest.mark.usefixtures("untracked")


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


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["list", "models", "--json"], ["run", "--help"]]
)
def test_help_and_list_import_nothing_heavy_and_answer_at_once(arguments: list[str]) -> None:
    script = f"""
import json, resource, sys
sys.argv = ["gsnobench", *{arguments!r}]
from gsnobench.cli import main
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
used = resource.getrusage(resource.RUSAGE_SELF)
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([heavy, used.ru_utime + used.ru_stime]), file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy, _ = json.loads(ended.stderr.splitlines()[-1])
    assert heavy == []
    assert ended.stdout


def test_list_names_every_bundled_plugin() -> None:
    body = json.loads(call("list", "--json").stdout)
    names = {(one["kind"], one["name"]) for one in body["plugins"]}
    assert {
        ("dataset", "darcy"),
        ("dataset", "swe"),
        ("model", "gsno"),
        ("model", "modal"),
        ("observer", "mlflow"),
    } <= names
    assert {one["name"] for one in body["tracks"]} == {"smoke", "laptop", "workstation", "paper"}


def test_run_help_shows_the_knobs_of_the_model() -> None:
    text = call("run", "--model", "gsno", "--help").stdout
    for part in ("--model.k_s", "--model.k_t", "--train.lr", "presets: paper, plus", "4..256"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "--model", "gsnoo", "--dataset", "darcy"], "did you mean 'gsno'?"),
        (["run", "--model", "gsno", "--dataset", "darci"], "did you mean 'darcy'?"),
        (
            ["run", "--model", "gsno", "--dataset", "darcy_treshold"],
            "did you mean 'darcy_threshold'?",
        ),
        (
            ["run", "--model", "gsno", "--dataset", "darcy", "--track", "desktop"],
            "track: 'desktop' is unknown",
        ),
        (["run", "--model", "gsno", "--dataset", "darcy", "--preset", "best"], "no preset 'best'"),
        (["run", "--model", "gsno", "--dataset", "darcy", "--model.k_z", "3"], "did you mean 'k_"),
        (
            ["run", "--model", "gsno", "--dataset", "darcy", "--model.k_s", "many"],
            "not a whole number",
        ),
        (
            ["run", "--model", "gsno", "--dataset", "darcy", "--widht", "3"],
            "--widht: unknown option",
        ),
        (["run", "--model", "gsno", "--dataset", "darcy", "--model.k_s"], "needs a value"),
        (
            ["run", "--model", "gsno", "--dataset", "swe", "--t-in", "30", "--t-out", "30"],
            "51 frames",
        ),
        (["run", "--model", "gsno", "--dataset", "swe@30-30"], "51"),
        (
            ["run", "--model", "gsno", "--dataset", "darcy", "--data.resolution", "777"],
            "known: 298",
        ),
        (["run", "--model", "gsno", "--dataset", "darcy", "--device", "gpu9"], "is not a device"),
        (["run", "--model", "gsno", "--dataset", "nowhere.nc"], "no such file"),
        (["run", "--model", "gsno"], "needs --model and --dataset"),
        (["show", "gsnoo"], "did you mean 'gsno'?"),
        (["predict", "0000", "--mesh", "300"], "no such run"),
        (["predict", "0000"], "either --inputs"),
        (["lst"], "lst"),
        (["check", "nothing"], "nothing"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    arguments: list[str], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert part in the_mistake(
        call_here(capsys, *arguments, "--home", str(tmp_path))
        if arguments[0] in HOMELY
        else call_here(capsys, *arguments)
    )
    assert not list(tmp_path.rglob("*.json"))


def test_more_modes_than_nodes_is_one_line_and_leaves_no_run(
    steady_file: Path, tmp_path: Path
) -> None:
    ended = call(
        "run",
        "--model",
        "gsno",
        "--dataset",
        str(steady_file),
        "--track",
        "smoke",
        "--no-floors",
        "--model.k_s",
        "200",
        home=tmp_path,
    )
    assert "200" in the_mistake(ended)
    assert not list(tmp_path.glob("runs/*/spec.json"))


def test_an_unusable_home_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    ended = call(
        "run",
        "--model",
        "gsno",
        "--dataset",
        "darcy",
        "--track",
        "smoke",
        home=tmp_path / "file" / "home",
    )
    assert "cannot be used as home" in the_mistake(ended)


def test_truncated_and_foreign_files_are_one_line(steady_file: Path, tmp_path: Path) -> None:
    whole = steady_file.read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.nc").write_text("hello")
    with netCDF4.Dataset(tmp_path / "foreign.nc", "w") as file:
        file.createDimension("x", 3)
    for name in ("cut.nc", "text.nc", "foreign.nc"):
        ended = call(
            "run",
            "--model",
            "gsno",
            "--dataset",
            str(tmp_path / name),
            "--track",
            "smoke",
            home=tmp_path / "home",
        )
        assert name in the_mistake(ended)
        assert not list((tmp_path / "home").glob("runs/*"))


def test_json_is_one_document_and_nothing_else(steady_file: Path, tmp_path: Path) -> None:
    ended = call(
        "run",
        "--model",
        "mean",
        "--dataset",
        str(steady_file),
        "--track",
        "smoke",
        "--no-floors",
        "--json",
        home=tmp_path,
    )
    body = json.loads(ended.stdout)
    assert ended.returncode == 0
    assert ended.stderr == ""
    assert body["result"]["status"] == "done"
    shown = json.loads(call("show", body["result"]["key"][:10], "--json", home=tmp_path).stdout)
    assert shown["status"] == "done"


def test_a_dry_run_says_what_would_happen_and_writes_nothing(tmp_path: Path) -> None:
    ended = call(
        "run", "--model", "gsno", "--dataset", "darcy", "--dry-run", "--json", home=tmp_path
    )
    body = json.loads(ended.stdout)
    assert body["state"] == "new"
    assert body["disk_mb"] > 0
    assert body["memory_mb"] > 0
    assert not list(tmp_path.rglob("*.nc"))


def test_output_that_is_not_a_terminal_is_plain(steady_file: Path, tmp_path: Path) -> None:
    ended = call(
        "run",
        "--model",
        "mean",
        "--dataset",
        str(steady_file),
        "--track",
        "smoke",
        "--no-floors",
        home=tmp_path,
    )
    assert ended.stdout.isascii()
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "mean@default\t" in ended.stdout
