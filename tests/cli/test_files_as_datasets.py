"""Every command takes a data file, or an imported public task, where it takes a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import official_files as official
import pytest
from command_line import command

import gsnobench as gb
from gsnobench.datasets.store import open_file
from gsnobench.home import Home
from gsnobench.registry import read_registry, registry_path
from gsnobench.runs import calibrate
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request

SMOKE = ["--track", "smoke", "--device", "cpu"]


def test_a_matrix_holds_files(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "--models", "mean,ridge", "--datasets", steady_file, "--seeds", "0"]
    ended = command(capsys, *words, *SMOKE, "--home", tmp_path, "--json")
    assert ended.code == 0, ended.err
    assert {cell["state"] for cell in ended.json["cells"]} == {"done"}
    assert len(Home(tmp_path).run_folders()) == 2


def test_files_that_call_their_task_alike_are_columns_of_their_own(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.nc"
    with gb.open_file(steady_file) as data:
        gb.write_file(other, data.isel(sample=slice(1, None)))
    words = ["bench", "--models", "mean", "--datasets", f"{steady_file},{other}", "--seeds", "0"]
    ended = command(capsys, *words, *SMOKE, "--home", tmp_path)
    header = next(line for line in ended.out.splitlines() if line.startswith("model "))
    assert ended.code == 0 and header.count(" #") == 2, ended


def test_counted_steps_of_a_file_stay_in_the_home(
    steady_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The benchmark's registry is about the benchmark's data."""
    monkeypatch.setattr(calibrate, "MEASURED_S", calibrate.MEASURED_S / 30)
    monkeypatch.setattr(calibrate, "MEASUREMENTS", 1)
    words = ["bench", "--calibrate", "--models", "deeponet@compact", "--datasets", steady_file]
    words += ["--track", "laptop", "--home", tmp_path]
    kept = registry_path().read_bytes()
    assert str(tmp_path / "steps.toml") in command(capsys, *words, "--dry-run").out
    assert not (tmp_path / "steps.toml").exists()
    assert command(capsys, *words).code == 0
    assert registry_path().read_bytes() == kept
    request = Request("deeponet", str(steady_file), preset="compact", track="laptop")
    plan = make_plan(request, read_registry(home=Home(tmp_path)))
    assert plan.steps_from == "home" and not plan.is_uncounted


def test_a_run_remembers_its_file(
    steady_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine.nc"
    own.write_bytes(steady_file.read_bytes())
    home = ["--home", tmp_path / "home"]
    words = ["run", "--model", "mean", "--dataset", own, "--no-floors", "--json"]
    folder = Path(command(capsys, *words, *SMOKE, *home).json["folder"])
    export = ["export", folder, "--format", "vtu", "--out", tmp_path / "out", *home]
    assert command(capsys, *export).code == 0
    assert list((tmp_path / "out").glob("*.vtu"))
    own.unlink()
    assert "is not known here; it was" in command(capsys, *export).mistake


def test_an_imported_task_is_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", tmp_path / "home"]
    words = ["run", "--model", "mean", "--dataset", "airfoil_official", "--no-floors", "--json"]
    mistake = command(capsys, *words, *SMOKE, *home).mistake
    assert "first `gsnobench data import airfoil_official --from FOLDER`" in mistake
    official.write_airfoil(tmp_path / "in")
    source = ["--from", tmp_path / "in", "--data.frames", 4]
    facts = command(capsys, "data", "import", "airfoil_official", *source, *home, "--json").json
    assert facts["distinct meshes"] == 1 and facts["suspicious"] == "none"
    result = command(capsys, *words, *SMOKE, *home).json["result"]
    assert result["spec"]["task"] == "airfoil_official@1-1"
    assert result["spec"]["source"] == facts["content hash"]
    with open_file(Path(facts["file"])) as opened:
        pairs = opened.read("test").frames[:, 1:]  # (S, T - 1, N, C): what is asked
        np.save(tmp_path / "guess.npy", 1.1 * pairs)
    words = ["score", tmp_path / "guess.npy", "--dataset", "airfoil_official"]
    scored = command(capsys, *words, *home, "--json").json
    assert scored["truth"] == facts["content hash"]
    assert scored["scores"]["headline"]["rel_l2"] == pytest.approx(0.1, rel=1e-4)
    for option in ("--data.seed", "--data.every", "--samples"):
        assert "a file has no data knobs" in command(capsys, *words, option, 1, *home).mistake
    again = ["data", "import", "airfoil_official", *source, "--data.seed", 1, *home]
    assert "seed" in command(capsys, *again).mistake


def test_show_says_what_is_in_a_file(steady_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = command(capsys, "show", steady_file, "--json").json
    assert facts["dimension"] == "2" and facts["meshes"] == "one for all samples"
    assert int(facts["nodes"]) > 0 and facts["cells"].endswith("of 3 nodes")
    assert facts["inputs"] and facts["tags"]
