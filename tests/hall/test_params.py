"""Knobs: one declaration checks values, spells its range and refuses nonsense in one line."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Literal

import pytest

import gsnobench as gb


class Example(gb.Params):
    k_s: int = gb.knob(default=8, low=4, high=64, log=True, help="modes", geometry=True)
    rate: float = gb.knob(default=0.1, low=0.0, high=1.0)
    kind: Literal["a", "b"] = gb.knob(default="a")
    on: bool = gb.knob(default=False, search=False)
    path: str = gb.knob(default="")


def test_later_layers_win_over_earlier_ones_and_the_defaults() -> None:
    made = Example.make({"k_s": 16, "kind": "b"}, {"k_s": "32"})
    assert made.to_dict() == {"k_s": 32, "rate": 0.1, "kind": "b", "on": False, "path": ""}


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("k_s", 3, "out of range; expected 4..64"),
        ("k_s", 8.5, "not a whole number"),
        ("k_s", "many", "not a whole number"),
        ("k_s", True, "not a whole number"),
        ("rate", "nan", "not a finite number"),
        ("rate", 2, "out of range"),
        ("kind", "c", "expected a | b"),
        ("on", "maybe", "not true or false"),
        ("path", 3, "not a text"),
        ("k_z", 8, "did you mean 'k_s'"),
    ],
)
def test_a_bad_value_is_one_line_that_says_what_is_allowed(
    name: str, value: object, part: str
) -> None:
    with pytest.raises(gb.ParamError) as caught:
        Example.make({name: value}, label="model")
    message = str(caught.value)
    assert message.startswith(f"model.{name}: ")
    assert part in message
    assert "\n" not in message


def test_the_word_false_is_false() -> None:
    assert Example.make({"on": "False"}).on is False
    assert Example.make({"on": "true"}).on is True


def test_values_cannot_be_changed_and_are_checked_when_made_directly() -> None:
    with pytest.raises(FrozenInstanceError):
        Example().k_s = 9  # type: ignore[misc]
    with pytest.raises(gb.ParamError):
        Example(k_s=1000)


def test_only_knobs_with_a_range_are_searched() -> None:
    assert {knob.name for knob in Example.knobs() if knob.is_searched} == {"k_s", "rate", "kind"}


def test_only_geometry_knobs_enter_the_cache_key() -> None:
    assert Example().geometry_dict() == {"k_s": 8}


def test_central_knobs_are_marked_and_enter_no_value() -> None:
    class Central(gb.Params):
        width: int = gb.knob(8, low=4, high=64, central=True)
        depth: int = gb.knob(2, low=1, high=9)

    assert [knob.name for knob in Central.knobs() if knob.central] == ["width"]
    assert Central().to_dict() == {"width": 8, "depth": 2} and Central().geometry_dict() == {}


def test_a_knob_that_depends_on_another_is_active_with_its_values_alone() -> None:
    class Dependent(gb.Params):
        kind: Literal["a", "b"] = gb.knob(default="a")
        size: int = gb.knob(3, low=1, high=9, when={"kind": "b"})

    size = Dependent.knobs()[1]
    assert not size.is_active({"kind": "a"}) and size.is_active({"kind": "b"})


def test_a_declaration_that_cannot_work_is_refused() -> None:
    with pytest.raises(gb.ParamError, match="above high"):
        gb.knob(default=1, low=2, high=1)
    with pytest.raises(gb.ParamError, match="low > 0"):
        gb.knob(default=1, low=0, high=1, log=True)

    class Backwards(gb.Params):
        size: int = gb.knob(3, low=1, high=9, when={"kind": "b"})
        kind: Literal["a", "b"] = gb.knob(default="a")

    with pytest.raises(gb.ParamError, match="size: depends on 'kind', which is no knob above it"):
        Backwards.knobs()


def test_a_sweep_looks_in_the_usual_range_of_a_knob() -> None:
    class Rates(gb.Params):
        lr: float = gb.knob(1e-3, low=1e-6, high=1.0, log=True, usual=(1e-4, 1e-2))
        width: int = gb.knob(8, low=4, high=64)

    lr, width = Rates.knobs()
    assert lr.searched_range == (1e-4, 1e-2) and width.searched_range == (4, 64)
    assert lr.check(0.5) == 0.5, "the limits stay what is allowed"
    with pytest.raises(gb.ParamError, match="usual .* is no range within"):
        gb.knob(1e-3, low=1e-6, high=1.0, usual=(1e-4, 10.0))
