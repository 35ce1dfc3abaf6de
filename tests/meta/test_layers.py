"""The import rule: a room imports the hall and the rooms to its left; the core knows no plugin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    ("meshes", "datasets", "tracking"),
    ("training", "boards"),
    ("check", "runs"),
    ("bench", "sweep"),
    ("studies",),
    ("cli",),
)
LAYER = {room: number for number, rooms in enumerate(ROOMS, 1) for room in rooms}
SOLVERS = ("shapes", "meshing", "methods", "equations")  # each imports those to its left
CORE = sorted((ROOT / "gsnobench").rglob("*.py"))
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports, at any depth; `from a import b` counts as a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            where = f"{path.name}:{node.lineno}"
            assert node.level == 0, f"{where}: a relative import hides the room it reaches into"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    """The room of a core module; the hall is everything directly in the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYER else ""


@cache
def import_graph() -> dict[str, set[str]]:
    """Core module -> core modules it imports."""
    known = {module_of(path) for path in CORE}
    graph: dict[str, set[str]] = {}
    for path in CORE:
        reached = {name if name in known else name.rpartition(".")[0] for name in imports(path)}
        graph[module_of(path)] = (reached & known) - {module_of(path), "gsnobench"}
    # they open the rooms: the names of the public surface, and the command line
    del graph["gsnobench"], graph["gsnobench.__main__"]
    return graph


def longest_chain(module: str, seen: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The longest chain of imports below a module."""
    assert module not in seen, f"import cycle: {' -> '.join((*seen, module))}"
    below = [longest_chain_of(name, (*seen, module)) for name in sorted(import_graph()[module])]
    return (module, *max(below, key=len, default=()))


_chains: dict[str, tuple[str, ...]] = {}


def longest_chain_of(module: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    if module not in _chains or module in seen:
        _chains[module] = longest_chain(module, seen)
    return _chains[module]


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in (ROOT / "gsnobench").iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(LAYER)


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_core_file_imports_the_hall_and_rooms_to_its_left(path: Path) -> None:
    module = module_of(path)
    room = room_of(module)
    others = {room_of(name) for name in import_graph().get(module, ())} - {"", room}
    wrong = sorted(other for other in others if LAYER[other] >= LAYER.get(room, 0))
    assert not wrong, f"{module} imports the rooms {wrong}, which are not to its left"


def test_no_import_is_a_cycle_and_chains_are_short() -> None:
    longest = max((longest_chain_of(module, ()) for module in import_graph()), key=len)
    assert len(longest) <= 18, " -> ".join(longest)


def test_boards_depend_on_result_files_alone() -> None:
    reached = {
        room_of(name)
        for module, names in import_graph().items()
        for name in names
        if room_of(module) == "boards"
    }
    assert reached <= {"", "boards", "tracking"}


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_core_imports_no_plugin(path: Path) -> None:
    assert not [
        name for name in imports(path) if name.split(".")[0] in ("gsnobench_plugins", "plugins")
    ]


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_imports_no_other_plugin(path: Path) -> None:
    kinds = ("datasets", "models", "metrics", "executors", "observers")
    offered = {
        point.value for kind in kinds for point in metadata.entry_points(group=f"gsnobench.{kind}")
    }
    own = ".".join(("gsnobench_plugins", *path.relative_to(ROOT / "plugins").with_suffix("").parts))
    own_package = own.rpartition(".")[0]
    foreign = [
        name
        for name in imports(path)
        for other in offered - {own}
        if f"{name}.".startswith(f"{other}.") and other.rpartition(".")[0] != own_package
    ]
    assert not foreign, f"{own} imports {foreign}"


def test_solvers_know_no_dataset_and_no_model() -> None:
    reached = [
        name for path in (ROOT / "plugins" / "solvers").rglob("*.py") for name in imports(path)
    ]
    known = ("gsnobench_plugins.datasets", "gsnobench_plugins.models")
    assert not [name for name in reached if name.startswith(known)]


@pytest.mark.parametrize("folder", SOLVERS)
def test_solvers_import_folders_to_their_left(folder: str) -> None:
    allowed = SOLVERS[: SOLVERS.index(folder) + 1]
    for path in (ROOT / "plugins" / "solvers" / folder).glob("*.py"):
        reached = {
            name.split(".")[2]
            for name in imports(path)
            if name.startswith("gsnobench_plugins.solvers.")
        }
        assert reached <= set(allowed), f"{path.name} imports {sorted(reached - set(allowed))}"
