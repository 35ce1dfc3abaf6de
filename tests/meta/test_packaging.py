"""What pyproject.toml declares: every package is listed, every dependency is imported, and back."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
RESULTS = "gsnobench.boards.results"  # result files that a wheel takes along, no code
FOLDERS = {"gsnobench": ROOT / "gsnobench", "gsnobench_plugins": ROOT / "plugins"}
SCRIPTS = [
    path
    for folder in ("tests/support", "benchmarks", "docs/site")
    for path in (ROOT / folder).glob("*.py")
]
LOCAL = {*FOLDERS, *(path.stem for path in SCRIPTS), "gsnobench_pointmlp"}
# distribution -> what is imported
MODULES = {
    "arviz-stats": "arviz_stats",
    "netcdf4": "netCDF4",
    "scikit-fem": "skfem",
    "scikit-learn": "sklearn",
    "mkdocs-material": "mkdocs",
    "ipython": "IPython",
}
UNUSED = {  # declared and not imported where it is declared, with the reason
    "scikit-fem": "about to become the referee of our finite elements, in dev",
    "setuptools": "builds the example plugin in tests, without network",
    "ipykernel": "runs the cells of the tutorial notebook in a test",
    "pytest-timeout": "a pytest plugin",
    "pytest-xdist": "a pytest plugin",
    "ruff": "a command",
    "mypy": "a command",
    "pre-commit": "a command",
}
# what comes with another package
THROUGH = {"sqlalchemy": "optuna", "pyarrow": "mlflow", "pillow": "matplotlib"}
THROUGH |= {"markdown-it-py": "rich"}
IMPORTED_AS = {"PIL": "pillow", "markdown_it": "markdown-it-py"}


def names(requirements: Iterable[str]) -> set[str]:
    """Distribution names of requirement lines, in lower case."""
    return {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower() for line in requirements}


DEPENDENCIES = names(PROJECT["project"]["dependencies"])
EXTRAS = {name: names(lines) for name, lines in PROJECT["project"]["optional-dependencies"].items()}
DECLARED = DEPENDENCIES.union(*EXTRAS.values())


@cache
def imported(*folders: str) -> set[str]:
    """Top-level modules of others that the files below some folders import."""
    reached: set[str] = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                reached |= {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module:
                reached.add(node.module.split(".")[0])
    return reached - set(sys.stdlib_module_names) - LOCAL


def module_of(distribution: str) -> str:
    return MODULES.get(distribution, distribution)


def test_packages_are_the_folders_with_an_init_file() -> None:
    found = {
        ".".join((package, *path.parent.relative_to(folder).parts))
        for package, folder in FOLDERS.items()
        for path in folder.rglob("__init__.py")
    }
    assert set(SETUPTOOLS["packages"]) == found | {RESULTS}
    for folder in FOLDERS.values():
        bare = {path.parent for path in folder.rglob("*.py")}
        assert not [path for path in bare if not (path / "__init__.py").exists()]


def test_every_entry_point_is_a_file() -> None:
    for points in PROJECT["project"]["entry-points"].values():
        for module in points.values():
            package, *rest = module.split(".")
            assert FOLDERS[package].joinpath(*rest).with_suffix(".py").exists(), module


def test_every_data_file_of_a_package_exists() -> None:
    for package, files in SETUPTOOLS["package-data"].items():
        name, *rest = package.split(".")
        folder = ROOT / SETUPTOOLS["package-dir"].get(package, FOLDERS[name].joinpath(*rest))
        for file in files:
            assert any(folder.glob(file)), f"{package}: {file}"


def test_a_wheel_takes_every_committed_result_along() -> None:
    folder = ROOT / SETUPTOOLS["package-dir"][RESULTS]
    shipped = {path for glob in SETUPTOOLS["package-data"][RESULTS] for path in folder.glob(glob)}
    assert shipped == {path for path in folder.rglob("*") if path.suffix in (".json", ".png")}


@pytest.mark.parametrize("name", sorted(DEPENDENCIES - set(UNUSED)))
def test_a_dependency_is_imported(name: str) -> None:
    assert module_of(name) in imported("gsnobench", "plugins")


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_what_an_extra_brings_is_imported(extra: str) -> None:
    used = imported("gsnobench", "plugins", "tests", "benchmarks", "docs")
    assert not {name for name in EXTRAS[extra] - set(UNUSED) if module_of(name) not in used}


def test_what_is_imported_is_declared() -> None:
    """Or needed by something that is."""
    known = {module_of(name) for name in DECLARED}
    used = imported("gsnobench", "plugins", "tests", "benchmarks", "docs")
    rest = {IMPORTED_AS.get(name, name) for name in used - known}
    assert rest <= set(THROUGH)
    for name in rest:
        assert name in names(metadata.requires(THROUGH[name]) or []), (
            f"{THROUGH[name]} has no {name}"
        )


def test_pins_are_of_what_is_declared() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert names(line for line in lines if not line.startswith("#")) <= DECLARED
