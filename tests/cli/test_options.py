"""Texts of options are read as documented, and a mistake in one is one line."""

from __future__ import annotations

import pytest

from gsnobench.cli.options import check_names, knobs_of
from gsnobench.errors import ParamError, PluginError
from gsnobench.params import numbers_of, words_of


def test_words_and_numbers_are_separated_by_commas() -> None:
    assert words_of("a, b,,c ") == ["a", "b", "c"]
    assert numbers_of("0, 12", "seeds") == [0, 12]
    with pytest.raises(ParamError, match="seeds: '-1' is not a whole number"):
        numbers_of("0,-1", "seeds")


def test_knobs_are_pairs_with_and_without_an_equals_sign() -> None:
    assert knobs_of(["--model.k_s", "16", "--train.lr=0.1"]) == {
        "knobs": {"model.k_s": "16", "train.lr": "0.1"}
    }


def test_seed_and_resolution_of_the_data_are_entries_of_the_request() -> None:
    keywords = knobs_of(["--data.seed", "1", "--data.resolution=450", "--data.psi", "2"])
    assert keywords == {"knobs": {"data.psi": "2"}, "data_seed": 1, "resolution": 450}
    with pytest.raises(ParamError, match="data.seed: 'x' is not a whole number"):
        knobs_of(["--data.seed", "x"])


@pytest.mark.parametrize("words", [["model.k_s", "3"], ["--widht", "3"], ["--model.k_s"]])
def test_what_is_no_pair_is_refused(words: list[str]) -> None:
    with pytest.raises(ParamError, match="unknown option|needs a value"):
        knobs_of(words)


def test_names_are_checked_like_those_of_a_run() -> None:
    check_names(models=["gsno"], datasets=["swe@5-46", "any.nc"], track="paper")
    with pytest.raises(PluginError, match="gsnoo: no such model; did you mean 'gsno'"):
        check_names(models=["gsno", "gsnoo"])
    with pytest.raises(PluginError, match="swee: no such dataset; did you mean 'swe'"):
        check_names(datasets=["swee"])
