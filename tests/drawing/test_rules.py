"""The rules of pictures: units as people write them, greys that can be read."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_rgb

from gsnobench.drawing.rules import (
    FAINT,
    FIRST,
    INK,
    SECOND,
    at_time,
    contrast,
    labelled,
    readable_on,
    spelled,
    symbols,
)

WHITE = (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        *(("m s-1", "m s⁻¹"), ("s-1", "s⁻¹"), ("kg m^-3", "kg m⁻³"), ("m2", "m²"), ("Pa", "Pa")),
        *(("1", "–"), ("", "–"), ("m/s", "m/s")),
    ],
)
def test_units_have_superscripts_and_a_pure_number_is_a_dash(unit: str, text: str) -> None:
    assert spelled(unit) == text


def test_labels_and_times_carry_their_unit() -> None:
    assert labelled("velocity_x", "m s-1") == "velocity x [m s⁻¹]"
    assert at_time(3.0, "s") == "t = 3 s"
    assert at_time(0.25, "1") == "t = 0.25"


def test_knobs_with_an_index_are_written_as_symbols() -> None:
    assert symbols("k_s, k_t = 4") == "$k_s$, $k_t$ = 4"
    assert symbols("weight_decay") == "weight_decay"


def test_contrast_is_that_of_wcag() -> None:
    """The published examples: black on white 21, #777777 on white 4.48, equal colours 1."""
    assert contrast((0, 0, 0), WHITE) == pytest.approx(21.0)
    assert contrast(to_rgb("#777777"), WHITE) == pytest.approx(4.48, abs=0.005)
    assert contrast(WHITE, WHITE) == 1.0


@pytest.mark.parametrize("ink", [INK, FAINT, FIRST, SECOND])
def test_every_ink_is_readable_on_white(ink: str) -> None:
    assert contrast(to_rgb(ink), WHITE) >= 4.5


@pytest.mark.parametrize("grey", [0.0, 0.3, 0.45, 0.47, 0.6, 1.0])
def test_black_or_white_is_readable_on_any_grey(grey: float) -> None:
    chosen = to_rgb(readable_on((grey,) * 3))
    assert contrast(chosen, (grey,) * 3) >= 4.5
