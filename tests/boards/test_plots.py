"""Plots of boards: right numbers, one style per model, inert text, the same bytes every time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from fake_results import made_result
from toy_boards import FLOOR, HOSTILE, REFERENCE, toy_tracks

from gsnobench.boards.board import Board, BoardTrack
from gsnobench.boards.evidence import Entry
from gsnobench.boards.plots.axes import spread
from gsnobench.boards.plots.standing import all_figures, all_track_figures, mean_curve
from gsnobench.boards.plots.style import (
    COLOURS,
    GREY,
    INK,
    Figure,
    label,
    named_style,
    row_style,
    theme_colours,
)
from gsnobench.boards.plots.task import band_norms, board_figures, frame_quantiles, pareto_front
from gsnobench.boards.plots.track import overview_png, track_figures
from gsnobench.boards.site.html import styles
from gsnobench.registry import read_registry

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
    moved = spread([0.0, 0.01, 0.02, 0.9, 1.0, 1.0], 0.15, 0.0, 1.0)
    assert all(second - first > 0.1499 for first, second in pairwise(moved))
    assert min(moved) >= 0.0 and max(moved) <= 1.0
    assert spread([0.2, 0.8], 0.1, 0.0, 1.0) == [0.2, 0.8], "there is room, so no label moves"
    crowd = spread([0.5] * 30, 0.15, 0.0, 1.0)
    assert crowd[0] == pytest.approx(0.0) and crowd[-1] == pytest.approx(1.0)


def test_labels_stay_within_bounds_wherever_they_crowd() -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        heights = sorted(float(value) for value in draw.random(draw.integers(1, 20)) ** 3)
        for true in (heights, [1 - height for height in reversed(heights)]):
            moved = spread(true, 0.08, 0.0, 1.0)
            gap = min(0.08, 1 / max(len(true) - 1, 1))
            assert min(moved) >= -1e-9 and max(moved) <= 1 + 1e-9
            assert all(second - first > gap - 1e-9 for first, second in pairwise(moved))


def test_every_figure_has_a_caption_that_is_also_its_alternative_text() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    figures = [figure for board in track.boards for figure in board_figures(board)]
    for figure in [*figures, *track_figures(track)]:
        assert len(figure.caption) > 60 and figure.title
        element = ElementTree.fromstring(figure.svg)
        assert element.get("role") == "img" and figure.caption in (element.get("aria-label") or "")
    assert all(len(board_figures(board)) <= 5 for board in track.boards)
    assert "Error per frame" in _titles(_board(track, "swe@5-46"))
    assert "Error per frame" not in _titles(_board(track, "darcy"))


def test_text_and_axes_take_the_ink_of_the_page() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    for figure in board_figures(track.boards[0]):
        assert INK not in figure.svg and "currentColor" in figure.svg
        background = r"(fill|stroke): #(000000|ffffff); stroke-linejoin"
        assert not re.search(background, figure.svg)
        assert not re.search("DejaVu|<metadata|<style", figure.svg)


def test_a_model_has_one_colour_on_all_boards_and_a_stranger_keeps_its_own() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    (other,) = toy_tracks(("stranger", *MODELS), TASKS[:1])
    boards = (*track.boards, *other.boards)
    styles = [{row.name: row_style(row) for row in board.rows} for board in boards]
    for name in {f"{model}@compact" for model in MODELS}:
        assert len({by_name[name] for by_name in styles}) == 1
    variant = styles[0]["gsno@compact [k_s=16]"]
    assert variant == styles[0]["gsno@compact"], "a variant is the same model"


def test_no_two_rows_of_bundled_models_look_alike() -> None:
    models = ["gsno", "deeponet", "mgkn", "coral", "geofno", "amg", "sp2gno", "gnot", "transolver"]
    rows = [
        (model, f"{model}@{preset}")
        for model in models
        for preset in ("compact", "compact+features", "paper")
    ]
    drawn = [named_style(model, row, is_floor=False) for model, row in rows]
    assert len(set(drawn)) == len(rows), "choose another salt"
    assert len({style.colour for style in drawn}) == len(models), "a colour per model"
    floors = [
        named_style(name, f"{name}@default", is_floor=True) for name in read_registry().floors
    ]
    assert len({style.marker for style in floors}) == len(floors)


def test_colours_have_the_contrast_of_text_on_the_white_and_on_the_dark_page() -> None:
    pages = {"light": _luminance("#ffffff"), "dark": _luminance("#14171c")}
    shown = {
        "light": re.findall("#[0-9a-f]{6}", theme_colours(is_dark=False)),
        "dark": re.findall("#[0-9a-f]{6}", theme_colours(is_dark=True)),
    }
    assert shown["light"] == [GREY, *COLOURS] and len(set(shown["dark"])) == len(shown["light"])
    for scheme, colours in shown.items():
        for colour in colours:
            darker, lighter = sorted((_luminance(colour), pages[scheme]))
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (scheme, colour)


def test_a_plot_takes_its_colours_from_the_page() -> None:
    """So that a dark page shows lighter ones; the white page's are there for a plot alone."""
    (track,) = toy_tracks(MODELS, TASKS)
    for figure in all_figures(track.boards[0]):
        named = set(re.findall(r"var\(--row\d+, (#[0-9a-f]{6})\)", figure.svg))
        outside = re.sub(r"var\([^)]*\)", "", figure.svg)
        assert named <= {GREY, *COLOURS} and not any(c in outside for c in (GREY, *COLOURS))
    style = styles()
    assert style.count("--row0: ") == 3 and "/* rows" not in style


def _luminance(colour: str) -> float:
    parts = [int(colour[first : first + 2], 16) / 255 for first in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_places_ranks_and_costs_of_toy_boards_are_drawn_with_their_captions() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    titles = [figure.title for figure in all_figures(track.boards[0])]
    assert titles[0] == "Places and ties" and "Training curves" not in titles, "no curve on record"
    figures = {figure.title: figure for figure in all_track_figures(track)}
    assert {"Accuracy and cost over all tasks", "Ranks over tasks"} <= set(figures)
    front = figures["Accuracy and cost over all tasks"].caption
    assert "gsno@compact" in front, "the best row is on every front"


def test_a_training_curve_is_the_geometric_mean_over_seeds() -> None:
    def entry(errors: tuple[float, float]) -> Entry:
        points = enumerate(errors, 1)
        curve = [{"phase": "fit", "epoch": n, "step": 50 * n, "valid": v} for n, v in points]
        return Entry.of(replace(made_result("gsno", errors=0.1, steps={"fit": 100}), curve=curve))

    (track,) = toy_tracks(MODELS, TASKS)
    row = replace(track.boards[0].compared[0], entries=(entry((4.0, 1.0)), entry((1.0, 0.25))))
    curve = mean_curve(row)
    assert curve is not None
    assert curve[0].tolist() == pytest.approx([0.5, 2.0])
    assert curve[-1].tolist() == pytest.approx([1.0, 0.5])


def test_run_times_are_relative_to_the_reference_row_and_else_to_the_best() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    (figure,) = [drawn for drawn in board_figures(track.boards[0]) if drawn.title == "Run time"]
    assert f"divided by that of {REFERENCE}." in figure.caption
    (other,) = toy_tracks(("gsno", "amg", "thin", "last"), TASKS)
    (figure,) = [drawn for drawn in board_figures(other.boards[0]) if drawn.title == "Run time"]
    assert "divided by that of gsno@compact." in figure.caption


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
    mean = np.mean([entry.bands["height"]["error"] for entry in row.done], axis=0)
    assert norms[1].tolist() == pytest.approx(mean.tolist())
    drawn = _bands(_board(track, "darcy"))
    for name in ("1", "2-3", "4-7", "64-127", "128+"):
        assert f">{name}<" in drawn.svg
    assert drawn.title not in _titles(_board(track, "pipe"))


def test_a_caption_counts_seeds_without_bands() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    board = _board(track, "darcy")
    first, second = board.compared[:2]
    blank = [replace(entry, bands={}) for entry in first.entries]
    some = replace(first, entries=(first.entries[0], *blank[1:]))
    norms = band_norms(some)
    expected = first.entries[0].bands["height"]["error"]
    assert norms is not None and norms[1].tolist() == pytest.approx(expected)
    none = replace(second, entries=tuple(replace(entry, bands={}) for entry in second.entries))
    changed = {first.name: some, second.name: none}
    figure = _bands(replace(board, rows=tuple(changed.get(row.name, row) for row in board.rows)))
    assert "some of their seeds only: 1." in figure.caption and "not shown: 1." in figure.caption
    assert second.name not in figure.svg


def test_bands_of_a_coarse_mesh_that_hold_no_truth_are_left_out() -> None:
    (track,) = toy_tracks(MODELS, TASKS[1:2])
    truth, error = [1.0, 0.5, 0.1, 0, 0, 0, 0, 0], [0.1, 0.05, 0.01, 0, 0, 0, 0, 0]
    cut = {"height": {"truth": truth, "error": error}}
    rows = tuple(
        replace(row, entries=tuple(replace(entry, bands=cut) for entry in row.entries))
        for row in track.boards[0].rows
    )
    figure = _bands(replace(track.boards[0], rows=rows))
    assert ">4-7<" in figure.svg and ">8-15<" not in figure.svg


def test_hostile_names_are_text_in_a_plot_and_nothing_else() -> None:
    (track,) = toy_tracks((*HOSTILE, "gsno"), HOSTILE[:3], track=HOSTILE[0])
    for figure in [*board_figures(track.boards[0]), *track_figures(track)]:
        elements = ElementTree.fromstring(figure.svg).iter()
        names = {element.tag.split("}")[-1] for element in elements}
        assert names <= {"svg", "g", "path", "text", "use", "defs", "clipPath", "rect", "tspan"}
    svg = board_figures(track.boards[0])[0].svg
    assert "$\\frac{1}{2}$ &amp; &amp;lt;hos" in svg, "dollars must not start a formula"


def test_plots_are_the_same_bytes_twice() -> None:
    (first,), (second,) = toy_tracks(MODELS, TASKS), toy_tracks(MODELS, TASKS)
    assert board_figures(first.boards[0]) == board_figures(second.boards[0])
    assert track_figures(first) == track_figures(second)
    assert overview_png(first) == overview_png(second)
    assert overview_png(first).startswith(b"\x89PNG")


def test_labels_are_short_and_on_one_line() -> None:
    assert label("a\nb\x00c") == "a b c"
    assert len(label("x" * 99)) == 28


def _board(track: BoardTrack, slug: str) -> Board:
    return next(board for board in track.boards if board.slug == slug)


def _titles(board: Board) -> set[str]:
    return {figure.title for figure in board_figures(board)}


def _bands(board: Board) -> Figure:
    """The plot of errors by Laplacian band."""
    (figure,) = [drawn for drawn in board_figures(board) if drawn.name.endswith("-bands")]
    return figure
