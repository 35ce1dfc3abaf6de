"""Plots of boards: right numbers, one look a model, text that is inert, the same bytes every time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from toy_boards import FLOOR, HOSTILE, toy_tracks

from gsnobench.boards.plots.style import COLOURS, INK, label, look, named_look, readable_on, spread
from gsnobench.boards.plots.task import band_norms, board_figures, frame_quantiles, pareto_front
from gsnobench.boards.plots.track import overview_png, track_figures

MODELS = ("gsno", "deeponet", FLOOR, "thin", "last")
TASKS = ("swe@5-46", "darcy", "pipe")


def test_the_pareto_front_holds_what_no_other_point_beats_in_both() -> None:
    costs, errors = [1.0, 2.0, 2.0, 3.0, 4.0, math.nan], [0.5, 0.3, 0.4, 0.3, 0.1, 0.0]
    # 2 costs as much as 1 but errs more, 3 costs more for the same, 5 is unknown
    assert pareto_front(costs, errors) == [0, 1, 4]
    assert pareto_front([], []) == []


def test_a_cheaper_and_better_point_is_the_whole_front() -> None:
    assert pareto_front([3.0, 1.0, 2.0], [0.3, 0.1, 0.2]) == [1]


def test_labels_move_apart_and_keep_their_order_and_their_bounds() -> None:
    places = spread([0.0, 0.01, 0.02, 0.9, 1.0, 1.0], 0.15, 0.0, 1.0)
    assert all(second - first > 0.1499 for first, second in pairwise(places))
    assert min(places) >= 0.0 and max(places) <= 1.0
    assert spread([0.2, 0.8], 0.1, 0.0, 1.0) == [0.2, 0.8], (
        "where there is room, a label stands at its height"
    )
    crowd = spread([0.5] * 30, 0.15, 0.0, 1.0)
    assert crowd[0] == pytest.approx(0.0) and crowd[-1] == pytest.approx(1.0)


def test_labels_stay_within_bounds_wherever_they_crowd() -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        heights = sorted(float(value) for value in draw.random(draw.integers(1, 20)) ** 3)
        for wanted in (heights, [1 - height for height in reversed(heights)]):
            places = spread(wanted, 0.08, 0.0, 1.0)
            gap = min(0.08, 1 / max(len(wanted) - 1, 1))
            assert min(places) >= -1e-9 and max(places) <= 1 + 1e-9
            assert all(second - first > gap - 1e-9 for first, second in pairwise(places))


def test_every_figure_has_a_caption_that_is_also_its_alternative_text() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    found = [figure for board in track.boards for figure in board_figures(board)] + track_figures(
        track
    )
    for figure in found:
        assert len(figure.caption) > 60 and figure.title
        element = ElementTree.fromstring(figure.svg)
        assert element.get("role") == "img" and figure.caption in (element.get("aria-label") or "")
    assert all(len(board_figures(board)) <= 5 for board in track.boards)
    assert {figure.title for figure in board_figures(_board(track, "swe@5-46"))} > {
        "Error per frame"
    }
    assert "Error per frame" not in {
        figure.title for figure in board_figures(_board(track, "darcy"))
    }


def test_text_and_axes_take_the_ink_of_the_page() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    for figure in board_figures(track.boards[0]):
        assert INK not in figure.svg and "currentColor" in figure.svg
        assert not re.search(r"(fill|stroke): #(000000|ffffff); stroke-linejoin", figure.svg), (
            "a background was drawn"
        )
        assert (
            "DejaVu" not in figure.svg
            and "<metadata" not in figure.svg
            and "<style" not in figure.svg
        )


def test_a_model_has_one_colour_on_all_boards_and_a_stranger_keeps_its_own() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    (other,) = toy_tracks(("stranger", *MODELS), TASKS[:1])
    looks = [
        {row.name: look(row) for row in board.rows} for board in (*track.boards, *other.boards)
    ]
    for name in {f"{model}@compact" for model in MODELS}:
        assert len({one[name] for one in looks}) == 1
    assert looks[0]["gsno@compact [model.k_s=16]"] == looks[0]["gsno@compact"], (
        "a variant is the same model"
    )
    models = ["gsno", "deeponet", "mgkn", "coral", "geofno", "amg", "sp2gno", "gnot", "transolver"]
    rows = [
        (model, f"{model}@{preset}")
        for model in models
        for preset in ("compact", "compact+features", "paper")
    ]
    drawn = [named_look(model, row, is_floor=False) for model, row in rows]
    assert len(set(drawn)) == len(rows), (
        "two rows of bundled models look alike: choose another salt"
    )
    assert {one.colour for one in drawn} == set(COLOURS)


def test_frame_quantiles_are_means_over_seeds() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    row = _board(track, "swe@5-46").compared[0]
    quantiles = frame_quantiles(row)
    assert quantiles is not None and quantiles.shape == (3, 46)
    assert quantiles[1].mean() == pytest.approx(row.error)
    assert frame_quantiles(_board(track, "darcy").compared[0]) is None


def test_errors_by_band_are_means_over_seeds_and_drawn_where_the_results_have_them() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    row = _board(track, "darcy").compared[0]
    norms = band_norms(row)
    assert norms is not None and norms.shape == (2, 8)
    assert norms[1].tolist() == pytest.approx(
        np.mean([one.bands["height"]["error"] for one in row.done], axis=0).tolist()
    )
    drawn = {figure.title: figure.svg for figure in board_figures(_board(track, "darcy"))}
    assert all(
        f">{name}<" in drawn["Error by Laplacian band"]
        for name in ("1", "2-3", "4-7", "64-127", "128+")
    )
    assert "Error by Laplacian band" not in {
        figure.title for figure in board_figures(_board(track, "pipe"))
    }


def test_seeds_without_bands_are_told_of() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    board = _board(track, "darcy")
    first, second = board.compared[:2]
    blank = [replace(one, bands={}) for one in first.entries]
    some = replace(first, entries=(first.entries[0], *blank[1:]))
    norms = band_norms(some)
    assert norms is not None and norms[1].tolist() == pytest.approx(
        first.entries[0].bands["height"]["error"]
    )
    none = replace(second, entries=tuple(replace(one, bands={}) for one in second.entries))
    changed = {first.name: some, second.name: none}
    fewer = replace(board, rows=tuple(changed.get(one.name, one) for one in board.rows))
    (figure,) = [one for one in board_figures(fewer) if one.name.endswith("-bands")]
    assert "some of their seeds only: 1." in figure.caption and "not shown: 1." in figure.caption
    assert second.name not in figure.svg


def test_bands_of_a_coarse_mesh_that_hold_no_truth_are_left_out() -> None:
    (track,) = toy_tracks(MODELS, TASKS[1:2])
    cut = {
        "height": {
            "truth": [1.0, 0.5, 0.1, 0, 0, 0, 0, 0],
            "error": [0.1, 0.05, 0.01, 0, 0, 0, 0, 0],
        }
    }
    rows = tuple(
        replace(row, entries=tuple(replace(one, bands=cut) for one in row.entries))
        for row in track.boards[0].rows
    )
    (figure,) = [
        one
        for one in board_figures(replace(track.boards[0], rows=rows))
        if one.name.endswith("-bands")
    ]
    assert ">4-7<" in figure.svg and ">8-15<" not in figure.svg


def test_hostile_names_are_text_in_a_plot_and_nothing_else() -> None:
    (track,) = toy_tracks((*HOSTILE, "gsno"), HOSTILE[:3], track=HOSTILE[0])
    for figure in [*board_figures(track.boards[0]), *track_figures(track)]:
        names = {
            element.tag.split("}")[-1] for element in ElementTree.fromstring(figure.svg).iter()
        }
        assert names <= {"svg", "g", "path", "text", "use", "defs", "clipPath", "rect", "tspan"}
    svg = board_figures(track.boards[0])[0].svg
    assert "$\\frac{1}{2}$ &amp; &amp;lt;hos" in svg, "dollars must not start a formula"


def test_plots_are_the_same_bytes_twice() -> None:
    (one,), (other,) = toy_tracks(MODELS, TASKS), toy_tracks(MODELS, TASKS)
    assert board_figures(one.boards[0]) == board_figures(other.boards[0])
    assert track_figures(one) == track_figures(other)
    assert overview_png(one) == overview_png(other)
    assert overview_png(one).startswith(b"\x89PNG")


def test_labels_are_short_and_on_one_line() -> None:
    assert label("a\nb\x00c") == "a b c"
    assert len(label("x" * 99)) == 28


def test_black_or_white_is_readable_on_every_colour() -> None:
    assert (readable_on((1.0, 1.0, 0.8)), readable_on((0.03, 0.1, 0.35))) == ("black", "white")


def _board(track, slug):  # type: ignore[no-untyped-def]
    return next(board for board in track.boards if board.slug == slug)
