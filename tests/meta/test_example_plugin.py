"""The example plugin, a foreign package, installed in a fresh environment and used end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from foreign_environment import Environment

EXAMPLE = Path(__file__).parents[1] / "example_plugin"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the example installed from a copy: building must not touch the source."""
    folder = tmp_path_factory.mktemp("foreign")
    environment = Environment.create(folder)
    shutil.copytree(EXAMPLE, folder / "package")
    environment.install(folder / "package")
    return environment


def test_it_is_listed_with_its_package(environment: Environment) -> None:
    body = json.loads(environment.gsnobench("list", "--json").stdout)
    (entry,) = [entry for entry in body["plugins"] if entry["name"] == "pointmlp"]
    package = ("model", "gsnobench-pointmlp", "0.3.1")
    assert (entry["kind"], entry["package"], entry["version"]) == package
    assert entry["problem"] is None
    assert any(entry["name"] == "gsno" for entry in body["plugins"])


def test_it_keeps_the_contract(environment: Environment) -> None:
    body = json.loads(environment.gsnobench("check", "pointmlp", "--json").stdout)
    assert body["passed"] is True
    assert {"M004", "M006", "M013"} <= {
        finding["code"]
        for finding in body["findings"]
        if finding["passed"] and not finding["skipped"]
    }


def test_its_own_tests_pass(environment: Environment) -> None:
    package = environment.folder / "package"
    done = environment.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package), cwd=package
    )
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("preset", ["default", "default+features"])
def test_it_runs_on_a_bundled_dataset(environment: Environment, preset: str) -> None:
    line = "run --model pointmlp --dataset darcy --track smoke --no-floors --json --preset"
    done = environment.gsnobench(*line.split(), preset)
    result = json.loads(done.stdout)["result"]
    assert result["status"] == "done"
    assert 0 < result["scores"]["test"]["headline"]["rel_l2"] < 10
    assert result["spec"]["model_params"] == {"width": 64}


def test_a_knob_of_the_plugin_is_a_flag(environment: Environment) -> None:
    line = "run --model pointmlp --dataset darcy --track smoke --dry-run --model.width 1000"
    done = environment.gsnobench(*line.split(), expect=2)
    assert "width: 1000 is out of range; expected 16..256" in done.stderr


def test_it_can_leave(environment: Environment, tmp_path: Path) -> None:
    alone = Environment.create(tmp_path)
    alone.install(environment.folder / "package")
    alone.python("-m", "pip", "uninstall", "--yes", "--quiet", "gsnobench-pointmlp")
    entries = json.loads(alone.gsnobench("list", "--json").stdout)["plugins"]
    names = {entry["name"] for entry in entries}
    assert "pointmlp" not in names and "gsno" in names
    assert "no such plugin" in alone.gsnobench("check", "pointmlp", expect=2).stderr


def test_the_first_commands_of_the_tutorial_work_in_their_order(tmp_path: Path) -> None:
    """Word for word in an empty folder, except that pip must not look for packages elsewhere."""
    page = (EXAMPLE.parents[1] / "docs" / "tutorial-plugin.md").read_text()
    section = page.partition("## A model in five minutes")[2]
    lines = section.partition("```sh\n")[2].partition("```")[0].splitlines()
    environment = Environment.create(tmp_path)
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    for line in lines:
        program, *words = line.split()
        extra = offline if program == "pip" else ()
        environment.python("-m", program, *words, *extra)
    assert len(lines) == 4
