"""The digest of a plugin's source: code and helpers count, words and layout do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsnobench.plugins import Listed, listed, load
from gsnobench.runs import source

MODEL = '''"""A model."""

from own_plugin.layers import width


def build():
    """Make it."""
    return width() + 1  # a comment
'''
LAYERS = "def width():\n    return 4\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A plugin package with one helper that the plugin imports, and one that it does not."""
    folder = tmp_path / "own_plugin"
    folder.mkdir()
    for name, text in (
        ("__init__", ""),
        ("model", MODEL),
        ("layers", LAYERS),
        ("unused", "x = 1\n"),
    ):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = Listed("own", "model", "own-plugin", "1", "own_plugin.model")
    monkeypatch.setattr(source, "find", lambda kind, name: entry)
    yield folder
    sys.modules.pop("own_plugin", None)


def digest_after(file: Path, text: str) -> str:
    file.write_text(text)
    return source.source_digest("model", "own")


def test_words_and_layout_change_nothing(package: Path) -> None:
    before = source.source_digest("model", "own")
    other_words = MODEL.replace("A model.", "The same.").replace("Make it.", "Made.")
    assert digest_after(package / "model.py", other_words.replace("# a comment", "")) == before
    assert digest_after(package / "unused.py", "x = 2\n") == before


def test_code_of_the_plugin_and_of_its_helpers_counts(package: Path) -> None:
    before = source.source_digest("model", "own")
    changed = digest_after(package / "model.py", MODEL.replace("+ 1", "+ 2"))
    helped = digest_after(package / "layers.py", LAYERS.replace("4", "5"))
    assert len({before, changed, helped}) == 3


def test_settings_and_words_of_a_model_are_no_code(package: Path) -> None:
    """A result holds its settings itself; what also serves the code counts."""
    model = (
        "from own_plugin.layers import width\nfrom own_plugin.presets import NAMES, TUNED\n"
        "RATE = 0.1\nWIDE = {'lr': RATE}\nDEPTH = 3\n"
        "def build():\n    return width() + DEPTH\n"
        "def model():\n    return gb.Model('own', build, presets={'wide': WIDE, 'deep': DEPTH},"
        " settings=TUNED, differs=('so',), revision=2)\n"
    )
    (package / "presets.py").write_text("NAMES = ('a',)\nTUNED = {'lr': 0.2}\n")
    before = digest_after(package / "model.py", model)
    for old, new in (("RATE = 0.1", "RATE = 0.3"), ("('so',)", "('so', 'and so')"), ("=2", "=3")):
        assert digest_after(package / "model.py", model.replace(old, new)) == before
    assert digest_after(package / "model.py", model.replace("DEPTH = 3", "DEPTH = 4")) != before
    (package / "model.py").write_text(model)
    assert digest_after(package / "presets.py", "NAMES = ('a',)\nTUNED = {'lr': 9}\n") != before


def test_no_helper_is_imported_for_its_digest(package: Path) -> None:
    (package / "layers.py").write_text("raise RuntimeError('imported')\n")
    assert source.source_digest("model", "own") and "own_plugin.layers" not in sys.modules


@pytest.mark.parametrize(
    ("call", "revision"),
    [
        ('gb.Model("own", revision=7)', 7),
        ('Model("own")', 1),
        ('gb.Model("own", revision=number())', 0),
        ("make()", 0),
    ],
)
def test_the_revision_is_read_where_it_is_spelt_out(
    package: Path, call: str, revision: int
) -> None:
    (package / "model.py").write_text(f"raise RuntimeError('imported')\n{call}\n")
    assert source.declared_revision("own") == revision


def test_bundled_models_declare_the_revision_that_is_read() -> None:
    names = [entry.name for entry in listed("model") if entry.package == "gsnobench"]
    declared = {name: load("model", name).revision for name in names}
    assert {name: source.declared_revision(name) for name in names} == declared


def test_bundled_plugins_have_digests_of_their_own() -> None:
    names = ("gsno", "deeponet", "ridge")
    assert len({source.source_digest("model", name) for name in names}) == len(names)
