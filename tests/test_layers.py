"""The import rule: core files import only files above them, the core knows no plugin, a plugin knows no other plugin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = """
    errors params sparse data cache home address
    task_json digests netcdf blocks structure npz store
    simplices graph modes records declare hookspecs plugins registry hints features
    normalize metrics loader checkpoint muon recipe train evaluate spectrum
    drawing figures generate prepare plan cases animate environment pipeline runner predict
    score bundle claim verify export worker execute calibrate bench
    spool tracking board ui console check accelerator doctor scaffold describe card grid
    search_space trials sweep sweep_record sweep_workers sweep_figures studies
    verbs verbs_bench verbs_sweep verbs_results verbs_board cli_options cli_bench cli_sweep cli_results cli_board cli __main__
"""
ORDER = LAYERS.split()
CORE = [path for path in sorted((ROOT / "gsnobench").rglob("*.py")) if path != ROOT / "gsnobench" / "__init__.py"]
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports, at any depth; `from a import b` counts as a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: a relative import hides the layer it reaches into"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(path: Path) -> str:
    return path.relative_to(ROOT / "gsnobench").parts[0].removesuffix(".py")


def test_every_core_file_has_a_place_in_the_order() -> None:
    assert {layer(path) for path in CORE} == set(ORDER), "put the new file into ORDER, below what it imports"


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_core_file_imports_only_files_above_it_and_no_plugin(path: Path) -> None:
    reached = {name.split(".")[1] for name in imports(path) if name.startswith("gsnobench.")} & set(ORDER)
    below = [name for name in reached if ORDER.index(name) > ORDER.index(layer(path))]
    assert not below, f"{layer(path)} imports {below} from below"
    assert not [name for name in imports(path) if name.split(".")[0] in ("gsnobench_plugins", "plugins")]


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_imports_no_other_plugin(path: Path) -> None:
    groups = [f"gsnobench.{kind}" for kind in ("datasets", "models", "metrics", "executors", "observers")]
    offered = {point.value for group in groups for point in metadata.entry_points(group=group)}
    offered |= {f"gsnobench_plugins.{other.parent.name}.{other.stem}" for other in PLUGINS if "hookimpl" in other.read_text()}
    own = f"gsnobench_plugins.{path.parent.name}.{path.stem}"
    foreign = [name for name in imports(path) for other in offered - {own} if f"{name}.".startswith(f"{other}.")]
    assert not foreign, f"{own} imports {foreign}"


def test_solvers_know_no_dataset_and_no_model() -> None:
    reached = [name for path in (ROOT / "plugins" / "solvers").glob("*.py") for name in imports(path)]
    assert not [name for name in reached if name.startswith(("gsnobench_plugins.datasets", "gsnobench_plugins.models"))]
