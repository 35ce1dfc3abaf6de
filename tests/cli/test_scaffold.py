"""A scaffolded package installs, loads and keeps the contract untouched; a bad name or folder
leaves nothing behind.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_environment import Environment

from gsnobench.cli.scaffold import Offer, create
from gsnobench.errors import DataError, ParamError, PluginError

KINDS: tuple[Offer, ...] = ("model", "dataset", "metric")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A fresh environment with one scaffolded package of each kind."""
    environment = Environment.create(tmp_path_factory.mktemp("scaffold"))
    packages = [create(f"my{kind}", kind, environment.folder / "packages") for kind in KINDS]
    environment.install(*packages)
    return environment


def test_the_command_writes_a_package(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path)
    done = environment.gsnobench(
        "plugin", "new", "wave7", "--kind", "model", "--folder", str(tmp_path / "new")
    )
    assert "gsnobench-wave7" in done.stdout
    assert "wave7" in (tmp_path / "new" / "gsnobench-wave7" / "gsnobench_wave7.py").read_text()
    refused = environment.gsnobench(
        "plugin", "new", "wave7", "--kind", "model", "--folder", str(tmp_path / "new"), expect=2
    )
    assert "already exists" in refused.stderr


def test_new_packages_are_listed_under_their_own_names(environment: Environment) -> None:
    entries = {
        entry["name"]: entry
        for entry in json.loads(environment.gsnobench("list", "--json").stdout)["plugins"]
    }
    for kind in KINDS:
        entry = entries[f"my{kind}"]
        assert (entry["kind"], entry["package"], entry["problem"]) == (
            kind,
            f"gsnobench-my{kind}",
            None,
        )


def test_new_packages_keep_the_contract_by_their_own_tests(environment: Environment) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    done = environment.python("-m", "pytest", *options, "packages", cwd=environment.folder)
    assert "3 passed" in done.stdout


def test_a_new_package_passes_the_command(environment: Environment) -> None:
    body = json.loads(environment.gsnobench("check", "mydataset", "--json").stdout)
    assert body["passed"] is True
    assert len(body["findings"]) > 5


def test_a_new_model_runs_on_a_new_dataset(environment: Environment) -> None:
    line = (
        "run",
        "--model",
        "mymodel",
        "--dataset",
        "mydataset",
        "--track",
        "smoke",
        "--no-floors",
        "--json",
    )
    result = json.loads(environment.gsnobench(*line).stdout)["result"]
    assert result["status"] == "done"


@pytest.mark.parametrize(
    "name",
    ["", "7up", "My", "my_model", "my-model", "my@model", "mein modell", "plugins", "../up", "é"],
)
def test_a_bad_name_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParamError, match="expected lower-case letters and digits") as caught:
        create(name, "model", tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="already a model of gsnobench 0"):
        create("gsno", "model", tmp_path)
    assert create("gsno", "metric", tmp_path).exists()


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gsnobench-mine").mkdir()
    (tmp_path / "gsnobench-mine" / "work.txt").write_text("a week of work")
    with pytest.raises(DataError, match="already exists"):
        create("mine", "model", tmp_path)
    assert [path.name for path in (tmp_path / "gsnobench-mine").iterdir()] == ["work.txt"]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written") as caught:
        create("mine", "model", tmp_path / "file" / "below")
    assert "\n" not in str(caught.value)


def test_a_failure_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, encoding: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DataError, match="No space left on device"):
        create("mine", "model", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_dataset_template_solves_its_equation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Error against -Laplace(sin sin) falls with the square of the mesh width."""
    import importlib

    import numpy as np

    monkeypatch.syspath_prepend(str(create("poissontest", "dataset", tmp_path)))
    module = importlib.import_module("gsnobench_poissontest")
    errors = []
    for side in (11, 21):
        shared = module.setup(module.Params(), side**2, None)
        exact = np.prod(np.sin(np.pi * shared.mesh.points), axis=1)
        found = shared.solver.solve((shared.mass * 2 * np.pi**2 * exact)[shared.free])
        errors.append(np.abs(found - exact[shared.free]).max())
    assert errors[0] < 0.02
    assert errors[0] / errors[1] > 3.5
