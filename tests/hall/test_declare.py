"""Declarations: sizes in the order of splits, and the preset of a run that names none."""

from __future__ import annotations

import pytest
from torch import nn

import gsnobench as gb
from gsnobench.plugins import listed, load
from gsnobench.registry import Track, read_registry

STEPS, EPOCHS = Track("quick", default_steps=9), Track("long", epochs=9)


def model(**presets: gb.Preset) -> gb.Model:
    return gb.Model("m", gb.NoParams, lambda task, params: nn.Identity(), presets=presets)


def test_sizes_are_in_the_order_of_the_splits() -> None:
    assert tuple(gb.Sizes(4, 3, 2, test_ood=1).splits().items()) == tuple(
        zip(gb.SPLITS, (4, 3, 2, 1), strict=True)
    )


def test_the_marked_preset_is_the_default_else_the_first() -> None:
    plain, marked = gb.Preset(), gb.Preset(is_default=True)
    assert model(a=plain, b=plain).default_preset(STEPS) == "a"
    assert model(a=plain, b=marked).default_preset(STEPS) == "b"
    assert model(a=plain, b=marked).default_preset() == "b"


def test_a_track_that_counts_epochs_uses_the_preset_of_the_paper() -> None:
    plain, marked, paper = gb.Preset(), gb.Preset(is_default=True), gb.Preset(is_paper=True)
    assert model(a=plain, b=marked, c=paper).default_preset(EPOCHS) == "c"
    assert model(a=plain, b=marked, c=paper).default_preset(STEPS) == "b"
    assert model(a=plain, b=marked).default_preset(EPOCHS) == "b"
    assert model(a=plain).default_preset(EPOCHS) == "a"


def test_a_model_without_presets_has_one() -> None:
    bare = gb.Model("m", gb.NoParams, lambda task, params: nn.Identity())
    assert bare.default_preset(STEPS) == bare.default_preset(EPOCHS) == "default"


@pytest.mark.parametrize("entry", listed("model"), ids=lambda entry: entry.name)
def test_the_default_of_a_bundled_model_is_the_one_that_committed_results_have(entry) -> None:
    """Of the paper's protocol `paper`, else the first of `plus`, `compact`, `default`."""
    declared, tracks = load("model", entry.name), read_registry().tracks
    own = next(name for name in ("plus", "compact", "default") if name in declared.presets)
    protocol = "paper" if "paper" in declared.presets else own
    expected = {name: protocol if name == "paper" else own for name in tracks}
    assert {name: declared.default_preset(tracks[name]) for name in tracks} == expected


def test_presets_called_paper_are_marked_as_such_and_one_preset_is_ours() -> None:
    rows = {
        f"{entry.name}@{name}": preset
        for entry in listed("model")
        for name, preset in load("model", entry.name).presets.items()
    }
    papers = {row for row, preset in rows.items() if preset.is_paper}
    assert papers == {row for row in rows if row.endswith("@paper")}
    ours = tuple(row for row, preset in rows.items() if preset.is_ours)
    assert ours == read_registry().our_rows == (read_registry().reference_row,)
