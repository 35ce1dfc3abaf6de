"""Facts of tasks and models: read from docstrings, kept in a file, shown as formulas and units."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from gsnobench.boards.site.about import ABOUT, About, ModelAbout, make_about, read_about, sections
from gsnobench.boards.site.formula import formula, unit
from gsnobench.errors import DataError
from gsnobench.plugins import load

DOCSTRING = """A title.

Equation  du/dt = 0,
          u = 0 on the boundary
TeX       a = b
          c = d
Differs:  nothing

Words that belong to nothing.
"""


def test_sections_of_a_docstring_keep_their_lines() -> None:
    assert sections(DOCSTRING) == {
        "Equation": "du/dt = 0,\nu = 0 on the boundary",
        "TeX": "a = b\nc = d",
        "Differs": "nothing",
    }


def test_facts_of_the_bundled_plugins_agree_with_their_declarations(tmp_path: Path) -> None:
    about = make_about("gsnobench")
    swe, dataset = about.tasks["swe"], load("dataset", "swe")
    assert swe.title == dataset.title and swe.last_time == dataset.times[-1]
    assert [(f.name, f.unit, f.reference) for f in swe.outputs] == [("height", "m", 5.0)]
    assert all(task.equations and task.words["Domain"] for task in about.tasks.values())
    assert not about.tasks["darcy"].differs
    (psi,) = about.tasks["darcy_threshold"].differs
    assert psi.startswith("`psi` threshold, there exp (") and "12 where g >= 0 else 3" in psi
    trained = {name: model for name, model in about.models.items() if not model.is_floor}
    assert all(model.family and model.cites and model.formula for model in trained.values())
    assert all(model.means for model in trained.values())
    means = about.models["transolver"].means
    assert (means["attention"], means["spectral in time"]) == ("yes", "partly")
    assert len({word for model in trained.values() for word in model.means}) == 7  # of the paper
    (tmp_path / ABOUT).write_text(about.to_json(), encoding="utf-8")
    assert read_about(tmp_path) == about


def test_no_file_means_that_nothing_is_known_and_a_damaged_one_is_a_line(tmp_path: Path) -> None:
    assert read_about(tmp_path) == About()
    for damaged in ("{", "[]", '{"tasks": {"a": {}}, "models": {}}'):
        (tmp_path / ABOUT).write_text(damaged)
        with pytest.raises(DataError, match="leaderboard about"):
            read_about(tmp_path)


def test_a_formula_is_rebuilt_from_elements_that_are_harmless() -> None:
    for task in make_about("gsnobench").tasks.values():
        for mathml in task.equations:
            shown, made = ElementTree.fromstring(formula(mathml)), ElementTree.fromstring(mathml)
            assert "".join(shown.itertext()) == "".join(made.itertext())
    hostile = "<math><mi onclick='x()'>a</mi><script>x()</script></math>"
    assert formula(hostile) == '<math display="block"><mi>a</mi>x()</math>'
    assert formula("<math><mi>") == "<code>&lt;math&gt;&lt;mi&gt;</code>"


def test_units_have_superscripts() -> None:
    assert [unit(text) for text in ("m s-1", "kg m-3", "Pa", "1")] == [
        "m s⁻¹",
        "kg m⁻³",
        "Pa",
        "no unit",
    ]


def test_a_model_without_an_entry_is_unknown() -> None:
    assert isinstance(make_about("gsnobench").models["gsno"], ModelAbout)
    assert make_about("no-such-package") == About()
