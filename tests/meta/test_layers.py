"""The layout: rooms that import only what is left of them, small enough to be seen at a glance."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import metadata
from pathlib import Path
from typing import TypeGuard

import pytest

import gsnobench
from gsnobench.cli.app import FILES

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    ("meshes", "datasets", "tracking"),
    ("drawing",),
    ("training", "boards"),
    ("check", "runs"),
    ("matrix", "sweeps"),
    ("studies", "api"),
    ("cli",),
)
LAYER = {room: number for number, rooms in enumerate(ROOMS, 1) for room in rooms}
DOOR = "gsnobench.__main__"  # `python -m gsnobench`: the one file outside the rooms that opens one
PUBLIC = ("gsnobench.meshes.", "gsnobench.check.")  # what a plugin may import beside `gsnobench`
MOST_ENTRIES, MOST_FILES, LONGEST_CHAIN = 30, 20, 21
SOLVERS = ("shapes", "meshing", "methods", "equations")  # each imports those to its left
CORE = sorted((ROOT / "gsnobench").rglob("*.py"))
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path, *, with_types: bool = True) -> tuple[str, ...]:
    """Dotted names of everything a file imports, at any depth; `from a import b` counts as a.b."""
    return tuple(_imports(path, with_types=with_types))


def _imports(path: Path, *, with_types: bool) -> Iterator[str]:
    tree = parsed(path)
    types = {id(node) for block in ast.walk(tree) if is_for_types(block) for node in block.body}
    for node in ast.walk(tree):
        if id(node) in types and not with_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            label = f"{path.name}:{node.lineno}"
            assert node.level == 0, f"{label}: a relative import hides the room it reaches into"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    """Whether this is an `if TYPE_CHECKING:`; its imports load nothing when the program runs."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    """The room of a core module; the hall is everything directly in the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYER else ""


@cache
def import_graph(*, with_types: bool = True) -> dict[str, set[str]]:
    """Core module -> core modules it imports."""
    known = {module_of(path) for path in CORE}
    graph: dict[str, set[str]] = {}
    for path in CORE:
        names = imports(path, with_types=with_types)
        reached = {name if name in known else name.rpartition(".")[0] for name in names}
        graph[module_of(path)] = (reached & known) - {module_of(path), "gsnobench"}
    graph["gsnobench.cli.app"] |= {f"gsnobench.cli.{name}" for name in FILES}  # loaded by name
    del graph["gsnobench"]  # it names the public objects of every room, and loads them on first use
    del graph[DOOR]
    return graph


@cache
def longest_chain(module: str) -> tuple[str, ...]:
    """The longest chain of modules that load one another, from a module down."""
    below = [longest_chain(name) for name in sorted(import_graph(with_types=False)[module])]
    return (module, *max(below, key=len, default=()))


def entries(folder: Path) -> list[Path]:
    """What `ls` shows of a folder."""
    return sorted(path for path in folder.iterdir() if path.name != "__pycache__")


# ------------------------------------------------------------------------------------------- rooms


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in (ROOT / "gsnobench").iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(LAYER)


def test_the_package_can_be_seen_at_a_glance() -> None:
    names = [path.name for path in entries(ROOT / "gsnobench")]
    assert len(names) <= MOST_ENTRIES, names


@pytest.mark.parametrize("room", sorted(LAYER))
def test_no_room_is_overfull(room: str) -> None:
    names = [path.name for path in entries(ROOT / "gsnobench" / room)]
    assert len(names) <= MOST_FILES, names


@pytest.mark.parametrize("room", sorted(LAYER))
def test_a_room_says_what_it_holds_and_names_its_files(room: str) -> None:
    folder = ROOT / "gsnobench" / room
    text = ast.get_docstring(parsed(folder / "__init__.py")) or ""
    names = {path.stem for path in entries(folder) if path.suffix in ("", ".py")} - {"__init__"}
    named = {name for name in names if re.search(rf"`{name}(\.py)?`", text)}
    assert named == names, f"does not name {sorted(names - named)}"


@pytest.mark.parametrize("path", CORE + PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_says_what_it_holds(path: Path) -> None:
    assert not path.read_text().strip() or ast.get_docstring(parsed(path)), "it has no docstring"


# ----------------------------------------------------------------------------------------- imports


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_core_file_imports_the_hall_and_rooms_to_its_left(path: Path) -> None:
    module = module_of(path)
    room = room_of(module)  # empty: the hall, which imports no room
    others = {room_of(name) for name in import_graph().get(module, ())} - {"", room}
    wrong = sorted(other for other in others if LAYER[other] >= LAYER.get(room, 0))
    assert not wrong, f"{module} imports the rooms {wrong}, which are not to its left"


def test_no_import_is_a_cycle() -> None:
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_chains_of_imports_are_short() -> None:
    longest = max((longest_chain(module) for module in import_graph()), key=len)
    assert len(longest) <= LONGEST_CHAIN, " -> ".join(longest)


def test_boards_depend_on_result_files_alone() -> None:
    reached = {
        room_of(name)
        for module, names in import_graph().items()
        for name in names
        if room_of(module) == "boards"
    }
    assert reached <= {"", "boards", "drawing", "tracking"}


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_core_imports_no_plugin(path: Path) -> None:
    assert not [
        name for name in imports(path) if name.split(".")[0] in ("gsnobench_plugins", "plugins")
    ]


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_imports_the_public_surface_of_the_core(path: Path) -> None:
    """`gsnobench`, `gsnobench.meshes` and `gsnobench.check`: what a stranger may import."""
    allowed = {"gsnobench", *(f"gsnobench.{name}" for name in dir(gsnobench))}
    core = [name for name in imports(path) if name.partition(".")[0] == "gsnobench"]
    inside = [name for name in core if name not in allowed and not name.startswith(PUBLIC)]
    assert not inside, f"{path.name} imports {inside}; export it from gsnobench or do without"


@cache
def offered_plugins() -> frozenset[str]:
    """Modules of all plugins; each look at the entry points reads those of every package."""
    kinds = ("datasets", "importers", "models", "metrics", "executors", "observers")
    points = metadata.entry_points()
    return frozenset(
        point.value for kind in kinds for point in points.select(group=f"gsnobench.{kind}")
    )


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_imports_no_other_plugin(path: Path) -> None:
    own = ".".join(("gsnobench_plugins", *path.relative_to(ROOT / "plugins").with_suffix("").parts))
    own_package = own.rpartition(".")[0]
    foreign = [
        name
        for name in imports(path)
        for other in offered_plugins() - {own}
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
