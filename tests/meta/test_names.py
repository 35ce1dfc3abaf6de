"""The core knows no model, dataset, preset or knob by name, but for examples in help texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gsnobench.plugins import listed, load

CORE = Path(__file__).resolve().parents[2] / "gsnobench"
FILES = sorted(path.relative_to(CORE).as_posix() for path in CORE.rglob("*.py"))
ORDINARY = {"mean", "default", "nearest"}  # plain words: only `model@preset` makes them names
WORDS = {"paper", "modal"}  # names where they are the whole string, else plain words

# file -> names that its strings may hold
EXAMPLES = {  # help texts and messages show a command that works
    "cli/app.py": {"gsno", "swe"},
    "cli/bench.py": {"gsno", "paper", "darcy", "swe"},
    "cli/boards.py": {"darcy"},
    "cli/data.py": {"darcy"},
    "cli/options.py": {"gsno", "paper", "darcy", "swe"},
    "cli/results.py": {"swe"},
    "cli/run.py": {"gsno", "swe"},
    "cli/scaffold.py": {"darcy"},
    "cli/sweep.py": {"gsno", "nse", "k_s"},
    "meshes/modes.py": {"k_s"},
    "runs/request.py": {"swe"},
    "studies/catalogue.py": {
        "gsno",
        "compact",
        "plus",
        "geofno",
        "ridge",
        "darcy",
        "nse",
        "burgers2d",
        "persistence",
        "paper",
    },
    "studies/cost/solver.py": {"darcy"},
    "sweeps/search.py": {"k_s"},
}
TRACKS = {  # the track of that name
    "boards/reproduction/commands.py": {"paper"},
    "boards/reproduction/counterparts.py": {"paper"},
    "boards/reproduction/ledger.py": {"paper"},
    "cli/card.py": {"paper"},
}
ALLOWED = {path: names for table in (EXAMPLES, TRACKS) for path, names in table.items()}


@cache
def bundled_names() -> frozenset[str]:
    """Names of the bundled models and datasets, of presets and of central knobs."""
    entries = [entry for entry in listed() if entry.package == "gsnobench"]
    models = [load("model", entry.name) for entry in entries if entry.kind == "model"]
    plugins = {entry.name for entry in entries if entry.kind in ("model", "dataset")}
    presets = {name for model in models for name in model.presets}
    knobs = {knob.name for model in models for knob in model.params.knobs() if knob.central}
    return frozenset(plugins | presets | knobs)


def strings(source: str) -> Iterator[str]:
    """All string constants of a file but docstrings."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(id(first.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield from [node.value] if isinstance(node.value, str) else ()


def names_in(text: str) -> set[str]:
    """Bundled names in a string: alone, in a task id (`darcy_threshold`), in a row (`a@paper`)."""
    words = set(re.findall(r"[a-z][a-z0-9_]*", text))
    names = {
        name for name in bundled_names() for word in words if f"{word}_".startswith(f"{name}_")
    }
    in_rows = set(re.findall(r"(?<=@)[a-z]+", text)) & bundled_names()
    prose = ORDINARY | (set() if text in WORDS else WORDS)
    return (names - prose) | in_rows


@pytest.mark.parametrize("path", FILES)
def test_a_core_file_names_nothing_that_is_bundled(path: str) -> None:
    found = set[str]().union(*(names_in(text) for text in strings((CORE / path).read_text())))
    allowed = ALLOWED.get(path, set())
    assert not found - allowed, "declare it: in registry.toml, a Preset or gb.knob(central=True)"
    assert not allowed - found, "the allowance is no longer needed; remove it"


def test_every_allowance_is_of_a_file() -> None:
    assert set(ALLOWED) <= set(FILES)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('MODEL = "gsno"', {"gsno"}),
        ('ROW = f"{model}@plus"', {"plus"}),
        ('KNOBS = ("model.k_s",)', {"k_s"}),
        ('TASK = "darcy_threshold"', {"darcy"}),
        ('is_paper = preset == "paper"', {"paper"}),
        ('LABEL = "mean over seeds of what the paper says"', set()),
        ('def f():\n    """Like gsno@plus."""  # or swe', set()),
    ],
)
def test_the_search_sees_names_and_no_plain_words(source: str, names: set[str]) -> None:
    assert set[str]().union(*map(names_in, strings(source))) == names
