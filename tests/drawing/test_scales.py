"""Scales: white at a reference, no hiding behind outliers, one scale per frame if needed."""

from __future__ import annotations

import numpy as np

from gsnobench.data import Field, Task
from gsnobench.drawing.quantities import quantities
from gsnobench.drawing.rules import FIELD_COLOURS, SIGNED_COLOURS
from gsnobench.drawing.scales import Scale, decays, is_signed, is_uniform

FLOW = Task(
    id="flow",
    dataset="flow",
    fields=(
        Field("u", "m s-1", vector="velocity"),
        Field("v", "m s-1", vector="velocity"),
        Field("height", "m", reference=5.0),
    ),
    dim=2,
)


def test_error_colours_are_symmetric_about_zero_and_outliers_do_not_hide_the_rest() -> None:
    values = np.concatenate([np.linspace(-1, 2, 2000), [1e6]])
    scale = Scale.symmetric(values, "error")
    assert scale.low == -scale.high and 1.9 < scale.high < 2.1
    assert scale.cut_above and not scale.cut_below
    assert Scale.rising(np.abs(values), "error").low == 0


def test_a_constant_field_has_a_scale_of_some_width() -> None:
    scale = Scale.spanning(np.full(10, 5.0), "h")
    assert scale.low < 5.0 < scale.high
    assert Scale.spanning(np.zeros(3), "h").low < 0


def test_a_scale_spans_its_values_unless_a_few_are_far_out() -> None:
    even = np.linspace(3.0, 7.0, 500)
    assert (Scale.spanning(even, "h").low, Scale.spanning(even, "h").high) == (3.0, 7.0)
    scale = Scale.spanning(np.append(even, 1e3), "h")
    assert scale.high < 8 and scale.cut_above and not scale.cut_below


def test_a_signed_quantity_is_white_at_its_reference() -> None:
    height, velocity = quantities(FLOW)
    waves = 5.0 + 0.4 * np.sin(np.linspace(0, 9, 200))
    assert height.is_signed(waves) and not height.is_signed(waves + 3)
    scale = height.scale(waves, signed=True)
    assert scale.colours == SIGNED_COLOURS and scale.centre == 5.0
    assert height.scale(waves + 3, signed=False).colours == FIELD_COLOURS
    assert not velocity.is_signed(np.linspace(-1, 1, 9))  # a length has no sign


def test_a_vector_is_drawn_by_its_length_and_its_error_by_that_of_the_difference() -> None:
    _, velocity = quantities(FLOW)
    truth, guess = np.array([[3.0, 4.0, 0.0]]), np.array([[0.0, 4.0, 0.0]])
    assert velocity.of(truth).tolist() == [5.0]
    assert velocity.error(truth, guess).tolist() == [3.0]
    assert velocity.label == "|velocity| [m s⁻¹]"


def test_uniform_signed_and_decaying_are_told_apart() -> None:
    assert is_uniform(np.full(5, 0.7142857)) and not is_uniform(np.array([1.0, 1.01]))
    assert is_signed(np.array([-1.0, 2.0])) and not is_signed(np.array([-0.01, 2.0]))
    frames = [np.array([0.0, size]) for size in (1.0, 0.5, 0.1)]
    assert decays(frames) and not decays(frames[:2])


def test_frames_of_a_decaying_quantity_have_scales_of_their_own() -> None:
    height, _ = quantities(FLOW)
    swinging = [5.0 + size * np.array([-1.0, 1.0]) for size in (1.0, 0.8)]
    fading = [5.0 + size * np.array([-1.0, 1.0]) for size in (1.0, 0.01)]
    assert len(set(height.scales(swinging, signed=True))) == 1
    assert [scale.high for scale in height.scales(fading, signed=True)] == [6.0, 5.01]
